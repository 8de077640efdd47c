package rdma

import (
	"bytes"
	"errors"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// The requester drops a reply that does not match its call or cannot be decoded: it sends nothing
// back, no credit moves, and the call stays pending (V1-82, V1-73). Such messages are an RDMA_MSGP
// (V1-77), an RDMA_DONE (V1-79), an error that cannot be decoded (V1-86), a reply with a Read list
// (L-6), and a reply that is too short (V1-80). The numbers are rows of docs/conformance.md.
func TestBadRepliesAreDropped(t *testing.T) {
	s := newScript(t, DialConfig{}, nil)
	s.ramp(2)
	sink := make([]byte, 300)
	x := getTo(300, sink, nil, make([]byte, 5))
	x.MaxResults = 3000
	done := s.start(x)
	h, _ := s.next()
	o := offered(&h)
	good := func() message {
		return message{xid: h.XID, credits: 77, payload: success(h.XID, 0), reply: used(o.reply, 0),
			writes: [][]wire.Segment{used(o.writes[0], 0), {}, used(o.writes[2], 0)}}
	}
	change := func(f func(m *message)) []byte {
		m := good()
		f(&m)
		return m.bytes()
	}
	segment := func(f func(s *wire.Segment)) []byte {
		return change(func(m *message) { f(&m.writes[0][0]) })
	}
	stray := h.XID + 1000
	for name, m := range map[string][]byte{
		"RDMA_MSGP (V1-77)":                   change(func(m *message) { m.proc = wire.ProcMsgP }),
		"RDMA_DONE (V1-79)":                   change(func(m *message) { m.proc = wire.ProcDone }),
		"rdma_proc 5":                         change(func(m *message) { m.proc = 5 }),
		"version 2":                           change(func(m *message) { m.version = 2 }),
		"27 bytes (V1-80)":                    good().bytes()[:27],
		"16 bytes of RDMA_ERROR":              words(h.XID, 1, 1, uint32(wire.ProcError)),
		"error code 7 (V1-86)":                words(h.XID, 1, 1, uint32(wire.ProcError), 7, 0, 0),
		"ERR_VERS cut short (V1-86)":          words(h.XID, 1, 1, uint32(wire.ProcError), uint32(wire.ErrVers), 1),
		"an error for nobody":                 words(stray, 1, 1, uint32(wire.ProcError), uint32(wire.ErrChunk)),
		"a reply for nobody":                  message{xid: stray, payload: success(stray)}.bytes(),
		"header cut off":                      good().bytes()[:40],
		"header discriminator 2":              append(good().bytes()[:16], words(2, 0, 0)...),
		"a Read list (L-6)":                   change(func(m *message) { m.reads = at(4, seg(1, 4, 0)) }),
		"no Write list":                       change(func(m *message) { m.writes = nil }),
		"a Write chunk too few":               change(func(m *message) { m.writes = m.writes[:2] }),
		"a Write chunk too many":              change(func(m *message) { m.writes = append(m.writes, nil) }),
		"a segment too many":                  change(func(m *message) { m.writes[0] = append(m.writes[0], wire.Segment{}) }),
		"segments where none were offered":    change(func(m *message) { m.writes[1] = []wire.Segment{{}} }),
		"another handle":                      segment(func(s *wire.Segment) { s.Handle++ }),
		"another offset":                      segment(func(s *wire.Segment) { s.Offset++ }),
		"a longer segment":                    segment(func(s *wire.Segment) { s.Length = 304 }),
		"a much longer segment":               segment(func(s *wire.Segment) { s.Length = 1<<32 - 1 }),
		"another Reply chunk":                 change(func(m *message) { m.reply[0].Handle++ }),
		"RDMA_MSG with a used Reply chunk":    change(func(m *message) { m.reply[0].Length = 28 }),
		"NOMSG with an unused Reply chunk":    change(func(m *message) { m.proc = wire.ProcNoMsg }),
		"NOMSG without a Reply chunk":         change(func(m *message) { m.proc, m.reply = wire.ProcNoMsg, nil }),
		"NOMSG, nothing at all":               message{xid: h.XID, proc: wire.ProcNoMsg}.bytes(),
		"NOMSG beyond the Reply chunk":        change(func(m *message) { m.proc, m.reply[0].Length = wire.ProcNoMsg, o.reply[0].Length+4 }),
		"NOMSG, the Reply chunk has no reply": change(func(m *message) { m.proc, m.reply[0].Length = wire.ProcNoMsg, 28 }),
		"another XID inside":                  change(func(m *message) { m.payload = success(h.XID+1, 0) }),
		"a call":                              change(func(m *message) { m.payload = rpctest.Message(h.XID, rpctest.NULL, nil) }),
		"no Payload":                          change(func(m *message) { m.payload = nil }),
		"four bytes of Payload":               change(func(m *message) { m.payload = m.payload[:4] }),
		"a Payload of odd length":             change(func(m *message) { m.payload = append(m.payload, 0) }),
	} {
		if err := s.p.Send(m); err != nil {
			t.Fatal(err)
		}
		s.ping()
		select {
		case r := <-done:
			t.Fatalf("%s: the call ended with %v", name, r.err)
		default:
		}
		if n := end(s.p).Promised(); n != spareReceives+1 {
			t.Fatalf("%s: %d receives are promised, want %d", name, n, spareReceives+1)
		}
	}
	s.client.mu.Lock()
	if c := s.client.link.requester.credits; c.granted != 2 || c.inFlight != 1 {
		t.Errorf("granted %d, in flight %d", c.granted, c.inFlight)
	}
	s.client.mu.Unlock()
	if n := len(s.p.Messages()); n != 2 {
		t.Errorf("%d messages came back", n-2)
	}
	// The correct reply ends the call.
	s.p.Send(good().bytes())
	if r := ended(t, done); r.err != nil || len(r.data) != 0 {
		t.Errorf("%v", r.err)
	}
}

// A reply with a Reply chunk is valid only if its call offered one.
func TestReplyChunkOutOfNowhere(t *testing.T) {
	s := newScript(t, DialConfig{}, nil)
	done := s.start(getTo(10, make([]byte, 10)))
	h, _ := s.next()
	back := [][]wire.Segment{used(offered(&h).writes[0], 0)}
	for _, m := range []message{
		{writes: back, reply: []wire.Segment{}, payload: success(h.XID, 0)},
		{writes: back, reply: []wire.Segment{{}}, payload: success(h.XID, 0)},
		{writes: back, reply: []wire.Segment{seg(1, 28, 0)}, proc: wire.ProcNoMsg},
	} {
		m.xid = h.XID
		s.reply(m)
	}
	s.ping()
	if n := s.client.stats.Count(faultReplyLists); n != 3 {
		t.Errorf("%d replies were dropped for their lists", n)
	}
	s.reply(message{xid: h.XID, writes: back, payload: success(h.XID, 0)})
	if r := ended(t, done); r.err != nil {
		t.Error(r.err)
	}
}

// An RDMA_ERROR is permanent: the call ends and is not sent again, and its memory is fenced first
// (V1-85). ERR_CHUNK has 20 bytes. An RDMA_ERROR may have any version (A-3, L-10). An
// ERR_VERS ends its call as well. The numbers are rows of docs/conformance.md.
func TestRDMAErrorsEndTheirCalls(t *testing.T) {
	for name, c := range map[string]struct {
		m    []byte
		want wire.ErrorBody
	}{
		"ERR_CHUNK":                      {words(0, 1, 8, 4, 2), wire.ErrorBody{Code: wire.ErrChunk}},
		"ERR_CHUNK of another version":   {words(0, 3, 8, 4, 2), wire.ErrorBody{Code: wire.ErrChunk}},
		"ERR_CHUNK with spare words":     {words(0, 1, 8, 4, 2, 0, 0, 0, 0, 0, 0, 0, 0), wire.ErrorBody{Code: wire.ErrChunk}},
		"ERR_VERS":                       {words(0, 1, 8, 4, 1, 2, 3), wire.ErrorBody{Code: wire.ErrVers, Low: 2, High: 3}},
		"ERR_VERS that echoes a version": {words(0, 2, 8, 4, 1, 1, 1), wire.ErrorBody{Code: wire.ErrVers, Low: 1, High: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, DialConfig{Reconnect: true}, nil)
			done := s.start(getTo(100, make([]byte, 100)))
			h, _ := s.next()
			wire.Prefix{XID: h.XID, Version: uint32(c.m[7]), Credits: 8, Proc: wire.ProcError}.Put(c.m)
			s.p.Send(c.m)
			r := ended(t, done)
			var refused *RefusedError
			if !errors.As(r.err, &refused) || refused.ErrorBody != c.want {
				t.Fatalf("%v, want %+v", r.err, c.want)
			}
			s.provider.Log().Order(t, rdmatest.Is(rdmatest.KindDeregister, end(s.p).ID()), rdmatest.IsMark("done"))
			s.ramp(8)
			if n := len(s.p.Messages()); n != 2 {
				t.Errorf("%d calls", n)
			}
		})
	}
}

// A reply may place results in these forms. A reduced result that is not eligible (V1-96), and an
// eligible result inline although its chunk was free (V1-97), are permanent errors. Padding may
// count in a chunk's length (L-7). Memory that comes back unused is not trusted (V1-59, P-11). An
// unused chunk may come back without segments (A-9, RFC 8267 §6.4.1). The numbers are rows of
// docs/conformance.md.
func TestPlacedResults(t *testing.T) {
	for name, c := range map[string]struct {
		n       int // size of the sink
		placed  int // length of the chunk that the reply returns
		empty   bool
		payload []uint32
		want    []byte
		err     error
	}{
		"all of it":                       {n: 300, placed: 300, payload: []uint32{300}, want: pattern(300)},
		"less":                            {n: 300, placed: 41, payload: []uint32{41}, want: pattern(41)},
		"nothing":                         {n: 300, payload: []uint32{0}},
		"with padding counted (L-7)":      {n: 301, placed: 304, payload: []uint32{301}, want: pattern(301)},
		"less, with padding (L-7)":        {n: 301, placed: 44, payload: []uint32{41}, want: pattern(41)},
		"inline (V1-97)":                  {n: 300, payload: []uint32{4, 0x01020304}, err: xdr.ErrNotPlaced},
		"inline, chunk empty (V1-97)":     {n: 300, empty: true, payload: []uint32{4, 0x01020304}, err: xdr.ErrNotPlaced},
		"nothing, chunk empty (RFC 8267)": {n: 300, empty: true, payload: []uint32{0}},
		"another length than the count":   {n: 300, placed: 299, payload: []uint32{200}, err: xdr.ErrExcised},
		"a count beyond":                  {n: 300, placed: 300, payload: []uint32{400}, err: xdr.ErrExcised},
		"the count reduced too (V1-96)":   {n: 300, placed: 300, payload: nil, err: xdr.ErrShort},
		"words too many":                  {n: 300, placed: 300, payload: []uint32{300, 1}, err: xdr.ErrTrailing},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, DialConfig{}, nil)
			done := s.start(getTo(c.n, make([]byte, c.n)))
			h, _ := s.next()
			o := offered(&h)
			s.write(o.writes[0], pattern(c.n)) // even if the chunk comes back unused
			back := append([]wire.Segment{}, o.writes[0]...)
			back[0].Length = uint32(c.placed)
			if c.empty {
				back = nil
			}
			s.reply(message{xid: h.XID, writes: [][]wire.Segment{back}, payload: success(h.XID, c.payload...)})
			if r := ended(t, done); !errors.Is(r.err, c.err) || c.err == nil && !bytes.Equal(r.data, c.want) {
				t.Errorf("%d bytes, %v, want %v", len(r.data), r.err, c.err)
			}
		})
	}
}

// A reply that uses a Write chunk although no result of the procedure is eligible is an error. Row
// V1-96 of docs/conformance.md.
func TestNothingEligibleWasPlaced(t *testing.T) {
	s := newScript(t, DialConfig{}, nil)
	x := getTo(8, make([]byte, 8))
	done := make(chan error, 1)
	x.Done = func(x *rpc.Exchange) {
		x.Results.Opaque(8) // not EligibleOpaque
		done <- x.Results.Finish()
	}
	s.client.Start(x)
	h, _ := s.next()
	s.reply(message{xid: h.XID, writes: [][]wire.Segment{used(offered(&h).writes[0], 8)}, payload: success(h.XID, 8)})
	if err := ended(t, done); err == nil {
		t.Error("no error")
	}
}

// A reply fills several segments of a Reply chunk and of a Write chunk without gaps; a reply with
// a gap is dropped.
func TestSegmentsAreFilledInOrder(t *testing.T) {
	s := newScript(t, DialConfig{maxSegment: 100}, nil)
	done := s.start(getTo(250, make([]byte, 250)))
	h, _ := s.next()
	o := offered(&h)
	if len(o.writes[0]) != 3 {
		t.Fatalf("%d segments", len(o.writes[0]))
	}
	s.write(o.writes[0], pattern(250))
	for _, lengths := range [][]uint32{{99, 1, 0}, {100, 0, 50}, {0, 100, 0}, {101, 0, 0}, {100, 100, 54}} {
		bad := append([]wire.Segment{}, o.writes[0]...)
		for i := range bad {
			bad[i].Length = lengths[i]
		}
		s.reply(message{xid: h.XID, writes: [][]wire.Segment{bad}, payload: success(h.XID, 100)})
	}
	s.reply(message{xid: h.XID, writes: [][]wire.Segment{used(o.writes[0], 170)}, payload: success(h.XID, 170)})
	if r := ended(t, done); r.err != nil || !bytes.Equal(r.data, pattern(170)) {
		t.Errorf("%d bytes, %v", len(r.data), r.err)
	}
	if n := s.client.stats.Count(faultReplyLists); n != 5 {
		t.Errorf("%d replies were dropped for their lists", n)
	}
}

// An RPC error in place of ERR_CHUNK is an ordinary error reply (L-14). A reply may be Short
// although the call offered a Reply chunk, and may return that chunk or not (P-9). The numbers are
// rows of docs/conformance.md.
func TestShortReplies(t *testing.T) {
	s := newScript(t, DialConfig{}, nil)
	for _, echo := range []bool{true, false} {
		x := getTo(50)
		x.MaxResults = 5000
		done := s.start(x)
		h, _ := s.next()
		o := offered(&h)
		m := message{xid: h.XID, payload: opaqueReply(h.XID, pattern(50))}
		if echo {
			m.reply = used(o.reply, 0)
		}
		s.reply(m)
		if r := ended(t, done); r.err != nil || !bytes.Equal(r.data, pattern(50)) {
			t.Errorf("%v", r.err)
		}
	}
	done := s.start(null())
	h, _ := s.next()
	s.reply(message{xid: h.XID, payload: words(h.XID, 1, 0, 0, 0, 4)})
	var re *rpc.ReplyError
	if r := ended(t, done); !errors.As(r.err, &re) || re.Stat != rpc.AcceptGarbageArgs {
		t.Errorf("%v", r.err)
	}
}

// A peer may invalidate a tag of the call that it answers. The requester then does not revoke this
// tag again, but revokes all other tags of the call before the caller resumes. A peer may also
// invalidate nothing (P-14). The invalidation of another call's tag ends the connection (V1-114).
// The numbers are rows of docs/conformance.md.
func TestRemoteInvalidationByThePeer(t *testing.T) {
	s := newScript(t, DialConfig{RemoteInvalidation: true}, private(true, 4096, 4096))
	if got := s.p.Conn().PeerPrivateData(); !bytes.Equal(got, private(true, 4096, 4096)) { // V1-121
		t.Errorf("private data % x", got)
	}
	x := getTo(100, make([]byte, 100))
	x.MaxResults = 5000
	done := s.start(x)
	h, _ := s.next()
	o := offered(&h)
	m := message{xid: h.XID, credits: 8, writes: [][]wire.Segment{used(o.writes[0], 0)}, reply: used(o.reply, 0), payload: success(h.XID, 0)}
	s.p.SendInvalidate(m.bytes(), o.reply[0].Handle)
	if r := ended(t, done); r.err != nil {
		t.Fatal(r.err)
	}
	if _, regions := end(s.p).Held(); regions != 0 {
		t.Errorf("%d regions are exposed", regions)
	}

	done = s.start(getTo(100, make([]byte, 100)))
	h, _ = s.next()
	o = offered(&h)
	s.reply(message{xid: h.XID, credits: 8, writes: [][]wire.Segment{used(o.writes[0], 0)}, payload: success(h.XID, 0)})
	if r := ended(t, done); r.err != nil {
		t.Fatal(r.err)
	}
	if _, regions := end(s.p).Held(); regions != 0 {
		t.Errorf("%d regions are exposed after a plain reply", regions)
	}

	one, two := getTo(100, make([]byte, 100)), getTo(100, make([]byte, 100))
	first, second := s.start(one), s.start(two)
	h1, _ := s.next()
	h2, _ := s.next()
	o1, o2 := offered(&h1), offered(&h2)
	m = message{xid: h1.XID, writes: [][]wire.Segment{used(o1.writes[0], 0)}, payload: success(h1.XID, 0)}
	s.p.SendInvalidate(m.bytes(), o2.writes[0][0].Handle)
	for _, done := range []<-chan result{first, second} {
		if r := ended(t, done); !errors.Is(r.err, rpc.ErrCallLost) {
			t.Errorf("%v", r.err)
		}
	}
	if err := s.p.End(); err == nil {
		t.Error("the connection ended in order")
	}
}

// The client sends R in its private data only if the configuration asks for remote invalidation. It
// works with a peer that sends no private data. Rows V1-121, V1-112 and V1-123 of
// docs/conformance.md.
func TestPrivateDataOfTheClient(t *testing.T) {
	for _, c := range []DialConfig{{}, {RemoteInvalidation: true}, {InlineSend: 1024, InlineReceive: 262144}} {
		s := newScript(t, c, nil)
		d, _ := c.withDefaults()
		if got := s.p.Conn().PeerPrivateData(); !bytes.Equal(got, private(c.RemoteInvalidation, d.InlineSend, d.InlineReceive)) {
			t.Errorf("private data % x", got)
		}
		i, ok := s.client.Info()
		if !ok || i.SendLimit != 1024 || i.ReceiveLimit != 1024 || i.Found || i.RemoteInvalidation {
			t.Errorf("%+v (V1-23)", i)
		}
		done := s.start(getTo(10))
		h, _ := s.next()
		s.reply(message{xid: h.XID, payload: opaqueReply(h.XID, pattern(10))})
		if r := ended(t, done); r.err != nil || !bytes.Equal(r.data, pattern(10)) {
			t.Errorf("%d bytes, %v", len(r.data), r.err)
		}
	}
}
