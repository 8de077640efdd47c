package rdma

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// Every answer grants the configured credits, whatever the peer asked for, and the server promises
// receives for them before the first answer. Rows V1-14, V1-16, A-10, P-1 and P-2 of
// docs/conformance.md.
func TestCreditsAreGranted(t *testing.T) {
	for _, credits := range []int{1, 3, 128} {
		for _, short := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d credits, ShortSends=%v", credits, short), func(t *testing.T) { creditsAreGranted(t, credits, short) })
		}
	}
}

func creditsAreGranted(t *testing.T, credits int, short bool) {
	b := newBench(t, benchConfig{provider: rdmatest.Config{ShortSends: short}, server: Config{Credits: credits}})
	p := b.peer()
	if n := serverEnd(p).Promised(); n != credits+spareReceives {
		t.Errorf("%d receives are promised for %d credits", n, credits)
	}
	for i, asked := range []uint32{0, 1, 32, 128, 1<<32 - 1} {
		m := message{xid: uint32(i), payload: rpctest.Message(uint32(i), rpctest.NULL, nil)}.bytes()
		wire.Prefix{XID: uint32(i), Version: 1, Credits: asked}.Put(m)
		p.Send(m)
		h, _ := answered(t, p.Receive())
		if h.Credits != uint32(credits) {
			t.Errorf("asked for %d, granted %d, want %d", asked, h.Credits, credits)
		}
	}
	// Errors grant credits as well.
	p.Send(words(9, 2, 0, 0, 0, 0, 0))
	p.Send(words(9, 1, 0, 77, 0, 0, 0))
	for range 2 {
		if q, _ := wire.ParsePrefix(p.Receive().Bytes); q.Credits != uint32(credits) {
			t.Errorf("an error grants %d", q.Credits)
		}
	}
	// The server promises the receive of an answered call again before the answer goes out.
	server, provided := serverEnd(p).ID(), 0
	for _, e := range b.provider.Log().Events() {
		switch {
		case rdmatest.Is(rdmatest.KindProvide, server)(e):
			provided += e.Count
		case rdmatest.Is(rdmatest.KindReceived, server)(e):
			provided--
		case rdmatest.IsPost(rdmacm.OpSend, server)(e):
			if provided < credits+spareReceives {
				t.Errorf("an answer is posted with %d receives promised", provided)
			}
		}
	}
}

// A peer that becomes known is granted more credits, and the server promises receives for them
// before the answer that grants them. Rows V1-16 and P-2 of docs/conformance.md.
func TestGrantThatGrows(t *testing.T) {
	const few, all = 3, 20
	b := newBench(t, benchConfig{server: Config{StrangerCredits: few, Credits: all}})
	p := b.peer()
	known := false
	b.program.Judging = func(_ *rpc.Arrived, j *rpc.Judgement) rpc.Outcome {
		j.Known = known
		return rpc.Done
	}
	for i, want := range []uint32{few, few, all, all} {
		known = want == all
		h, _ := answered(t, b.call(p, message{xid: uint32(i), payload: rpctest.Message(uint32(i), rpctest.BUMP, func(w *xdr.Writer) { w.String("x") })}))
		if h.Credits != want {
			t.Errorf("call %d: %d credits, want %d", i, h.Credits, want)
		}
	}
	server, promised, posted := serverEnd(p).ID(), 0, 0
	for _, e := range b.provider.Log().Events() {
		switch {
		case rdmatest.Is(rdmatest.KindProvide, server)(e):
			promised += e.Count
		case rdmatest.Is(rdmatest.KindReceived, server)(e):
			promised--
		case rdmatest.IsPost(rdmacm.OpSend, server)(e):
			want := few + spareReceives
			if posted++; posted > 2 {
				want = all + spareReceives
			}
			if promised != want {
				t.Errorf("answer %d is posted with %d receives promised, want %d", posted, promised, want)
			}
		}
	}
}

// The server sends nothing unsolicited, so a peer without receives keeps its connection. Row V1-18
// of docs/conformance.md.
func TestNothingUnsolicited(t *testing.T) {
	b := newBench(t, benchConfig{})
	p := b.peerWith(nil, 0)
	p.Send(words(5, 1, 32, uint32(wire.ProcDone)))
	p.Send(words(5, 1, 32, uint32(wire.ProcError), 2))
	p.Promise(1)
	b.alive(p)
	if n := len(p.Seen()); n != 1 {
		t.Errorf("%d messages", n)
	}
}

// A peer that exceeds its grant loses its connection; other peers keep theirs. Row V1-21 of
// docs/conformance.md.
func TestBeyondTheGrant(t *testing.T) {
	b := newBench(t, benchConfig{server: Config{Credits: 2}})
	other, p := b.peer(), b.peerWith(nil, 64)
	for i := range uint32(2 + spareReceives + 1) {
		p.Send(message{xid: i, payload: rpctest.Message(i, rpctest.STALL, count(1))}.bytes())
	}
	if err := p.End(); err == nil {
		t.Error("the connection ended in order")
	}
	b.alive(other)
	b.program.Release(1)
}

// With the smallest configuration the server accepts messages of 1024 bytes and sends replies of
// 1024 bytes (V1-22, V1-27). Without private data no Send is longer (V1-23, L-1). The numbers
// are rows of docs/conformance.md.
func TestDefaultThreshold(t *testing.T) {
	b := newBench(t, benchConfig{server: Config{InlineSend: 1024, InlineReceive: 1024}})
	p := b.peer()
	n := 1024 - 28 - 40 - 4 // header, RPC header, count
	call := message{xid: 1, payload: rpctest.Message(1, rpctest.ECHO, func(w *xdr.Writer) { w.Opaque(pattern(n)) })}
	if len(call.bytes()) != 1024 {
		t.Fatalf("%d bytes", len(call.bytes()))
	}
	_, payload := answered(t, b.call(p, call))
	results(t, 1, payload)
	// The largest reply that fits: 12 bytes more than the call had.
	call.payload = rpctest.Message(1, rpctest.GET, count(1024-28-24-4))
	if m := b.call(p, call); len(m.Bytes) != 1024 {
		t.Errorf("a reply of %d bytes", len(m.Bytes))
	}
}

// The threshold for replies is the smaller of this side's send size and the peer's receive size
// (V1-122, V1-25). Without private data it is 1024, whatever this side may send, and replies
// invalidate nothing (V1-123, L-1, P-14). The numbers are rows of docs/conformance.md.
func TestThresholdMatrix(t *testing.T) {
	sizes := []int{1024, 4096, 8192, 65536}
	for _, own := range sizes {
		b := newBench(t, benchConfig{server: Config{InlineSend: own, RemoteInvalidation: true}})
		for _, theirs := range append([]int{-1, 0}, sizes...) {
			data := private(false, 4096, theirs)
			switch theirs {
			case -1:
				data = nil
			case 0:
				data = []byte("not for this protocol")
			}
			p := b.peerWith(data, 8)
			limit := min(own, max(theirs, 1024))
			// The length of the peer's Sends says nothing about the size of its receives.
			p.Send(append(words(5, 1, 32, uint32(wire.ProcDone)), make([]byte, 4000)...))
			for n, fits := range map[int]bool{limit - 28 - 24 - 4: true, limit - 28 - 24 - 4 + 1: false} {
				m := b.call(p, message{xid: 1, payload: rpctest.Message(1, rpctest.GET, count(n))})
				if fits {
					_, payload := answered(t, m)
					results(t, 1, payload)
				} else {
					wantError(t, m, 1, 1, wire.ErrChunk)
				}
			}
			r := p.Expose(make([]byte, 100), rdmacm.RemoteWrite)
			m := b.call(p, message{xid: 1, writes: [][]wire.Segment{cut(r, 100)}, payload: rpctest.Message(1, rpctest.GET, count(100))})
			if answered(t, m); m.Invalidated != 0 {
				t.Errorf("the reply invalidates %#x", m.Invalidated)
			}
			if got := p.Conn().PeerPrivateData(); !bytes.Equal(got, private(true, own, 4096)) {
				t.Errorf("private data % x", got)
			}
		}
	}
}

// A reply invalidates a tag only if the private data of both sides and the device allow it, and
// only the one tag that its call names (V1-114, V1-115, V1-120). The test covers the four
// combinations, and a device that cannot invalidate. The tag may be that of a Position-Zero chunk
// . Errors never invalidate (wantError checks that). The numbers are rows of
// docs/conformance.md.
func TestRemoteInvalidation(t *testing.T) {
	for _, c := range []struct{ own, theirs, incapable, late bool }{
		{false, false, false, false}, {false, true, false, false}, {true, false, false, false}, {true, true, false, false},
		{true, true, true, false}, {true, true, true, true},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			cfg := benchConfig{server: Config{RemoteInvalidation: c.own}, provider: rdmatest.Config{NoRemoteInvalidation: c.incapable}}
			if c.late { // only the connection's limits say that the device cannot invalidate
				device := limited{rdmatest.NewConfig(cfg.provider), rdmacm.Limits{RemoteInvalidation: true}}
				cfg.device = device
			}
			b := newBench(t, cfg)
			p := b.peerWith(private(c.theirs, 4096, 4096), 64)
			all := c.own && c.theirs && !c.incapable
			memory := make([]byte, 5000)
			for i, use := range []struct {
				regions int
				build   func(r []rdmacm.Region, m *message)
			}{
				{1, func(r []rdmacm.Region, m *message) { // a Write chunk
					m.payload = rpctest.Message(m.xid, rpctest.GET, count(100))
					m.writes = [][]wire.Segment{cut(r[0], 10, 200)}
				}},
				{1, func(r []rdmacm.Region, m *message) { // an unused Write chunk
					m.payload = rpctest.Message(m.xid, rpctest.NULL, nil)
					m.writes = [][]wire.Segment{cut(r[0], 10, 200)}
				}},
				{1, func(r []rdmacm.Region, m *message) { // a Read chunk
					m.payload, _ = putCall(m.xid, "name", 3)
					m.reads = at(len(m.payload), cut(r[0], 3)...)
				}},
				{1, func(r []rdmacm.Region, m *message) { // a Position-Zero chunk alone
					copy(memory, rpctest.Message(m.xid, rpctest.NULL, nil))
					m.proc, m.reads = wire.ProcNoMsg, at(0, cut(r[0], 40)...)
				}},
				{1, func(r []rdmacm.Region, m *message) { // a Reply chunk
					m.payload = rpctest.Message(m.xid, rpctest.GET, count(4500))
					m.reply = cut(r[0], 5000)
				}},
				{2, func(r []rdmacm.Region, m *message) { // an odd READ with a pad segment
					m.payload = rpctest.Message(m.xid, rpctest.GET, count(97))
					m.writes = [][]wire.Segment{{segmentOf(r[0], 0, 97), segmentOf(r[1], 0, 3)}}
				}},
				{0, func(r []rdmacm.Region, m *message) { // no chunk: nothing may be invalidated
					m.payload = rpctest.Message(m.xid, rpctest.NULL, nil)
				}},
			} {
				var r []rdmacm.Region
				for range use.regions {
					r = append(r, p.Expose(memory, rdmacm.RemoteRead|rdmacm.RemoteWrite))
				}
				m := message{xid: uint32(i)}
				use.build(r, &m)
				got := b.call(p, m)
				answered(t, got)
				want := uint32(0)
				if all && use.regions == 1 {
					want = r[0].STag()
				}
				if got.Invalidated != want {
					t.Errorf("case %d: %#x was invalidated, want %#x", i, got.Invalidated, want)
				}
			}
			if all {
				// Errors of headers, and errors that the server finds while it serves the call.
				wantError(t, b.call(p, message{xid: 8, writes: [][]wire.Segment{cut(p.Expose(memory, rdmacm.RemoteWrite), 9)}, payload: rpctest.Message(8, rpctest.GET, count(10))}), 8, 1, wire.ErrChunk)
				wantError(t, b.call(p, message{xid: 9, proc: wire.ProcNoMsg, writes: [][]wire.Segment{cut(p.Expose(memory, rdmacm.RemoteWrite), 9)}}), 9, 1, wire.ErrChunk)
			}
		})
	}
}

// If a device says beforehand that it cannot invalidate, the server does not advertise remote
// invalidation. Rows V1-120 and V1-121 of docs/conformance.md.
func TestIncapableDevicesAreNotAdvertised(t *testing.T) {
	for _, can := range []bool{false, true} {
		device := limited{rdmatest.New(), rdmacm.Limits{RemoteInvalidation: can}}
		b := newBench(t, benchConfig{device: device, server: Config{RemoteInvalidation: true}})
		p := rdmatest.DialPeer(t, device, b.addr, rdmatest.PeerParam{})
		if got := p.Conn().PeerPrivateData(); !bytes.Equal(got, private(can, 4096, 4096)) {
			t.Errorf("the server says % x", got)
		}
		l, err := device.Provider.Listen(rdmaAddr)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			if c, err := Dial(t.Context(), device, l.Addr(), DialConfig{RemoteInvalidation: true}); err == nil {
				c.Close()
			}
		}()
		q := rdmatest.AcceptPeer(t, l, rdmatest.PeerParam{})
		if got := q.Conn().PeerPrivateData(); !bytes.Equal(got, private(can, 4096, 4096)) {
			t.Errorf("the client says % x", got)
		}
		q.End()
		l.Close()
	}
}

var rdmaAddr = netip.MustParseAddrPort("127.0.0.1:0")

// limited is a device that states its limits beforehand.
type limited struct {
	rdmacm.Provider
	limits rdmacm.Limits
}

func (l limited) Limits() rdmacm.Limits { return l.limits }

func (l limited) Listen(addr netip.AddrPort) (rdmacm.Listener, error) {
	listener, err := l.Provider.Listen(addr)
	return limitedListener{listener, l.limits}, err
}

type limitedListener struct {
	rdmacm.Listener
	limits rdmacm.Limits
}

func (l limitedListener) Limits() rdmacm.Limits { return l.limits }

// If two calls are under way at a time, each reply invalidates its own call's tag. Row V1-114 of
// docs/conformance.md.
func TestInvalidationBelongsToItsCall(t *testing.T) {
	b := newBench(t, benchConfig{server: Config{RemoteInvalidation: true}})
	p := b.peerWith(private(true, 4096, 4096), 64)
	tags := map[uint32]uint32{}
	release := serverEnd(p).Faults().HoldReads()
	for xid := range uint32(20) {
		r := p.Expose(pattern(100), rdmacm.RemoteRead)
		tags[xid] = r.STag()
		m, pos := putCall(xid, "name", 100)
		p.Send(message{xid: xid, reads: at(pos, cut(r, 100)...), payload: m}.bytes())
	}
	release()
	for range tags {
		m := p.Receive()
		if h, _ := answered(t, m); m.Invalidated != tags[h.XID] {
			t.Errorf("XID %d invalidated %#x, want %#x", h.XID, m.Invalidated, tags[h.XID])
		}
	}
}

// If an RDMA operation of a call breaks the connection, the retry of the call on the next
// connection is answered with ERR_CHUNK, once (V1-90). A call with the same XID, but from another
// address or without chunks, is served. Failing work closes the connection (V1-93). The
// numbers are rows of docs/conformance.md.
func TestRetryOfCallThatBrokeTheConnection(t *testing.T) {
	for name, c := range map[string]struct {
		write, reply bool
		device       rdmacm.Provider
	}{
		"a Read of a bad tag":                 {},
		"a Write to a bad tag":                {write: true},
		"a Reply chunk that the peer refuses": {reply: true},
		// An iWARP provider completes a Write before the peer has seen it.
		"a Read of a bad tag, over iWARP":                 {device: newIwarp(t)},
		"a Write to a bad tag, over iWARP":                {write: true, device: newIwarp(t)},
		"a Reply chunk that the peer refuses, over iWARP": {reply: true, device: newIwarp(t)},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, benchConfig{device: c.device})
			build := func(p peer) message {
				bad := []wire.Segment{{Handle: 0xbad, Length: 9000}}
				switch {
				case c.write:
					return message{xid: 7, writes: [][]wire.Segment{bad}, payload: rpctest.Message(7, rpctest.GET, count(100))}
				case c.reply:
					return message{xid: 7, reply: bad, payload: rpctest.Message(7, rpctest.GET, count(8000))}
				}
				m, pos := putCall(7, "name", 100)
				return message{xid: 7, reads: at(pos, wire.Segment{Handle: 0xbad, Length: 100}), payload: m}
			}
			p := b.peer()
			p.Send(build(p).bytes())
			if err := p.End(); err == nil {
				t.Error("the connection ended in order")
			}
			await.Until(t, "what failed is noted", func() bool { return b.server.Stats().FailedWork() > 0 })
			q := b.peer()
			b.alive(q)
			_, payload := answered(t, b.call(q, message{xid: 7, payload: rpctest.Message(7, rpctest.NULL, nil)}))
			results(t, 7, payload)
			wantError(t, b.call(q, build(q)), 7, 1, wire.ErrChunk)
			// The server has forgotten the failed call, so a further retry breaks its
			// connection again.
			q.Send(build(q).bytes())
			if err := q.End(); err == nil {
				t.Error("the connection ended in order")
			}
		})
	}
}

// If the retry of a call is answered before the connection that the call broke has closed, the
// close does not remember the call a second time. So the next retry is served.
func TestFailedCallIsBlamedOnce(t *testing.T) {
	k, _, _ := newInstant(t)
	s := k.responder
	refused := &rdmacm.RefusedError{Op: rdmacm.OpWrite, STag: 0xbad}
	s.written.store(7, refused.STag)
	s.operationFailed(7, refused, true)
	if !s.failed.take(s.peer, 7) {
		t.Error("the failed call is not remembered")
	}
	s.blame(refused)
	if s.failed.take(s.peer, 7) {
		t.Error("the failed call is remembered again")
	}
	if n := k.stats.FailedWork(); n != 1 {
		t.Errorf("failed work is counted %d times", n)
	}
}

// The server remembers a failed XID for one retry, by its peer's address, for two minutes at most.
// The number of remembered XIDs is bounded. Row A-12 of docs/conformance.md.
func TestFailedXIDsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f failedPart
		one, two := rpcPeer(1), rpcPeer(2)
		f.add(one, 7)
		if f.take(two, 7) || f.take(one, 8) || !f.take(one, 7) || f.take(one, 7) {
			t.Error("not what was added")
		}
		f.add(one, 7)
		time.Sleep(failedXIDsLife)
		f.add(one, 8)
		time.Sleep(time.Nanosecond)
		if f.take(one, 7) || !f.take(one, 8) {
			t.Error("remembered for too long, or not long enough")
		}
		for i := range uint32(failedXIDsMost + 10) {
			f.add(one, i)
		}
		if len(f.entries) > failedXIDsMost || f.take(one, 9) || !f.take(one, 10) {
			t.Error("the bound does not hold")
		}
		time.Sleep(failedXIDsLife + 1)
		if f.take(one, 11) || f.count.Load() != 0 {
			t.Error("calls go on to look for what is forgotten")
		}
	})
}
