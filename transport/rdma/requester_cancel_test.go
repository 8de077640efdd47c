package rdma

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// Memory is exposed after the call was encoded and just before it goes out (V1-8), for this call
// only (V1-7). It is out of the peer's reach before the caller resumes (V1-9). The advertised
// handle is useless afterwards (V1-2). The numbers are rows of docs/conformance.md.
func TestExposureIsShort(t *testing.T) {
	s := newScript(t, DialConfig{}, nil)
	log, sink := s.provider.Log(), make([]byte, 6000)
	x := getTo(6000, sink)
	x.Args = func(w *xdr.Writer) {
		log.Mark("encoded")
		w.Uint32(6000)
	}
	x.MaxResults = 40000
	done := s.start(x)
	h, _ := s.next()
	o := offered(&h)
	s.write(o.writes[0], pattern(6000))
	s.reply(message{xid: h.XID, writes: [][]wire.Segment{used(o.writes[0], 6000)}, reply: used(o.reply, 0), payload: success(h.XID, 6000)})
	if r := ended(t, done); r.err != nil || !bytes.Equal(r.data, pattern(6000)) {
		t.Fatal(r.err)
	}
	id := end(s.p).ID()
	log.Order(t, rdmatest.IsMark("encoded"), rdmatest.Is(rdmatest.KindRegister, id), rdmatest.Is(rdmatest.KindRegister, id),
		rdmatest.IsPost(rdmacm.OpSend, id), rdmatest.Is(rdmatest.KindReceived, id),
		rdmatest.Is(rdmatest.KindDeregister, id), rdmatest.Is(rdmatest.KindDeregister, id), rdmatest.IsMark("done"))
	if _, regions := end(s.p).Held(); regions != 0 {
		t.Errorf("%d regions are exposed", regions)
	}
	if err := s.p.Write(remote(o.writes[0][0], 0), canary(10)); err == nil {
		t.Error("the peer could write after the call (V1-2)")
	}
	if !bytes.Equal(sink, pattern(6000)) {
		t.Error("the sink changed")
	}
}

// A cancelled call's memory is out of the peer's reach before the caller resumes. A late Write
// fails and changes nothing. Rows V1-10, V1-11 and P-12 of docs/conformance.md.
func TestCancelFences(t *testing.T) {
	s := newScript(t, DialConfig{}, nil)
	sink := canary(100)
	x := getTo(100, sink)
	done := s.start(x)
	h, _ := s.next()
	o := offered(&h)
	cause := errors.New("gave up")
	s.client.Cancel(x, cause)
	if r := ended(t, done); r.err != cause {
		t.Errorf("%v", r.err)
	}
	s.provider.Log().Order(t, rdmatest.Is(rdmatest.KindDeregister, end(s.p).ID()), rdmatest.IsMark("done"))
	if err := s.p.Write(remote(o.writes[0][0], 0), pattern(100)); err == nil {
		t.Error("a late Write succeeded")
	}
	if !bytes.Equal(sink, canary(100)) {
		t.Error("the sink changed")
	}
}

// If one of a call's regions cannot be fenced, the connection ends before the call does: whichever
// region it is, and however the call ends. Row V1-92 of docs/conformance.md.
func TestUnfencedMemoryEndsTheConnection(t *testing.T) {
	const regions = 3 // two sinks and a Reply chunk
	cause := errors.New("gave up")
	for name, finish := range map[string]func(s *script, x *rpc.Exchange){
		"answered": func(s *script, _ *rpc.Exchange) {
			h, _ := s.next()
			o := offered(&h)
			s.write(o.writes[0], pattern(100))
			s.reply(message{xid: h.XID, writes: [][]wire.Segment{used(o.writes[0], 100), used(o.writes[1], 0)},
				reply: used(o.reply, 0), payload: success(h.XID, 100)})
		},
		"refused": func(s *script, _ *rpc.Exchange) {
			h, _ := s.next()
			s.refuse(&h)
		},
		"cancelled": func(s *script, x *rpc.Exchange) {
			s.next()
			s.client.Cancel(x, cause)
		},
		"not posted": nil,
	} {
		for unfenced := range regions {
			t.Run(fmt.Sprintf("%s, region %d", name, unfenced), func(t *testing.T) {
				s := newScript(t, DialConfig{}, nil)
				client := end(s.p)
				client.Faults().FailDeregister(unfenced, nil)
				if finish == nil {
					chains, _ := client.Faults().Posted()
					client.Faults().FailPost(chains, nil)
				}
				x := getTo(100, make([]byte, 100), make([]byte, 100))
				x.MaxResults = 50_000
				done := s.start(x)
				if finish != nil {
					finish(s, x)
				}
				r := ended(t, done)
				if name == "answered" && (r.err != nil || !bytes.Equal(r.data, pattern(100))) {
					t.Errorf("%v", r.err)
				}
				if n := len(s.provider.Log().Find(rdmatest.Is(rdmatest.KindRegister, client.ID()))); n != regions {
					t.Errorf("the call exposed %d regions, want %d", n, regions)
				}
				s.provider.Log().Order(t, rdmatest.Is(rdmatest.KindDeregister, client.ID()),
					rdmatest.Is(rdmatest.KindAbort, client.ID()), rdmatest.Is(rdmatest.KindClosed, client.ID()), rdmatest.IsMark("done"))
			})
		}
	}
}

// A call that is cancelled while it is built, here by its own encoder, does not go out. Its memory
// is fenced. Rows V1-10 and V1-11 of docs/conformance.md.
func TestCancelWhileBuilding(t *testing.T) {
	s := newScript(t, DialConfig{}, nil)
	cause := errors.New("gave up")
	x := getTo(100, make([]byte, 100))
	x.Args = func(w *xdr.Writer) {
		w.Uint32(100)
		s.client.Cancel(x, cause)
	}
	if r := ended(t, s.start(x)); r.err != cause {
		t.Errorf("%v", r.err)
	}
	if _, regions := end(s.p).Held(); regions != 0 {
		t.Errorf("%d regions are exposed", regions)
	}
	s.ramp(8)
}

// A late answer to a cancelled call harms neither the connection nor its other calls, however many
// were made since. The answer comes by a Send with Invalidate of the one STag that the call
// offered, as RFC 8797 §4.1 requires.
func TestLateInvalidationIsHarmless(t *testing.T) {
	for name, device := range map[string]rdmacm.Provider{"memory": rdmatest.New(), "iWARP": newIwarp(t)} {
		t.Run(name, func(t *testing.T) {
			l, err := device.Listen(netip.MustParseAddrPort("127.0.0.1:0"))
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			var c *Client
			dialed := make(chan error, 1)
			go func() {
				var err error
				c, err = Dial(t.Context(), device, l.Addr(), DialConfig{RemoteInvalidation: true})
				dialed <- err
			}()
			p := rdmatest.AcceptPeer(t, l, rdmatest.PeerParam{ConnParam: rdmacm.ConnParam{
				PrivateData: private(true, 4096, 4096), Receives: 1000, ReceiveSize: 4096, InboundReads: 16, OutboundReads: 16,
			}})
			if err := ended(t, dialed); err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			start := func() (x *rpc.Exchange, done chan error) {
				x, done = getTo(100, make([]byte, 100)), make(chan error, 1)
				x.Done = func(x *rpc.Exchange) {
					err := x.Err
					if err == nil {
						x.Results.EligibleOpaque(rpctest.MaxData)
						err = x.Results.Finish()
					}
					done <- err
				}
				c.Start(x)
				return x, done
			}
			next := func() wire.Header {
				var h wire.Header
				if err := h.Parse(p.Receive().Bytes); err != nil {
					t.Fatal(err)
				}
				return h
			}
			answer := func(h wire.Header, invalidate bool) {
				m := message{xid: h.XID, credits: 8, payload: success(h.XID, 0)}
				o := offered(&h)
				for _, w := range o.writes {
					m.writes = append(m.writes, used(w, 0))
				}
				if !invalidate {
					err = p.Send(m.bytes())
				} else {
					err = p.SendInvalidate(m.bytes(), o.writes[0][0].Handle)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			_, first := start() // its reply brings the grant
			answer(next(), false)
			if err := ended(t, first); err != nil {
				t.Fatal(err)
			}
			x, gone := start()
			late, cancelled := next(), errors.New("given up")
			c.Cancel(x, cancelled)
			if err := ended(t, gone); err != cancelled {
				t.Fatal(err)
			}
			for range 140 {
				_, done := start()
				answer(next(), false)
				if err := ended(t, done); err != nil {
					t.Fatal(err)
				}
			}
			_, other := start()
			h := next()
			answer(late, true)
			answer(h, false)
			if err := ended(t, other); err != nil {
				t.Errorf("a late answer ends another call with %v", err)
			}
		})
	}
}
