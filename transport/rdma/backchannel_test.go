package rdma

import (
	"bytes"
	"encoding/binary"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// noted is a Calls that records the connection of each call, so that tests can call back over the
// connections.
type noted struct {
	Calls
	mu    sync.Mutex
	conns []*rpc.Conn
}

func (n *noted) Admit(c *rpc.Call) (rpc.Plan, bool) {
	n.mu.Lock()
	n.conns = append(n.conns, c.Conn)
	n.mu.Unlock()
	return n.Calls.Admit(c)
}

func (n *noted) last() *rpc.Conn {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.conns[len(n.conns)-1]
}

// withBackchannel returns a bench that records its connections.
func withBackchannel(t testing.TB, cfg benchConfig) (*bench, *noted) {
	b := newBench(t, cfg)
	n := &noted{Calls: b.rpc}
	b.server.config.RPC = n
	return b, n
}

// callbacks returns an RPC server for a client's end.
func callbacks(t testing.TB) (*rpc.Server, *rpctest.Program) {
	s, p := rpc.NewServer(rpc.Config{}), rpctest.NewProgram()
	s.Register(p)
	t.Cleanup(func() {
		s.Close()
		p.Wait()
	})
	return s, p
}

// Both ends make calls on one connection, possibly with equal XIDs, and each direction has credits
// of its own (RFC 8167). Row P-6 of docs/conformance.md.
func TestBothDirections(t *testing.T) {
	for i := range 4 {
		device, version2 := []rdmacm.Provider{nil, newIwarp(t)}[i%2], i >= 2
		b, n := withBackchannel(t, benchConfig{device: device, server: Config{callbackCredits: 3, Version2: version2}})
		back, program := callbacks(t)
		c := b.dial(DialConfig{Callbacks: back, callbackCredits: 5, Version2: version2})
		if err := put(t, c, pattern(5000)); err != nil {
			t.Fatal(err)
		}
		caller := n.last().Caller()
		var all sync.WaitGroup
		for i := range 60 {
			all.Go(func() {
				if i%2 == 0 {
					if err := get(t, c, 2000+i, make([]byte, 2000+i)); err != nil {
						t.Error(err)
					}
					return
				}
				x := exchangeFor(rpctest.ECHO, func(w *xdr.Writer) { w.Opaque(pattern(i)) })
				if err := do(t, caller, x, func(d *xdr.Decoder) {
					if !bytes.Equal(d.Opaque(rpctest.MaxEcho), pattern(i)) {
						t.Error("the callback's result differs")
					}
				}); err != nil {
					t.Error(err)
				}
			})
		}
		await.Workload(t, "all calls end", all.Wait)
		if n := program.Served[rpctest.ECHO].Load(); n != 30 {
			t.Errorf("%d callbacks", n)
		}
		// The end of the connection ends the other direction's calls, too.
		c.Close()
		x := exchangeFor(rpctest.NULL, nil)
		if err := do(t, caller, x, nil); !errors.Is(err, rpc.ErrCallLost) {
			t.Errorf("a callback after the end: %v", err)
		}
	}
}

// A client refuses callbacks with chunks (RFC 8167 §5.3). Its replies to callbacks grant credits of
// the reverse direction (RFC 8167 §4.1). The end that dialed drops a garbled message (row A-16 of
// docs/conformance.md).
func TestCallbacksWithChunks(t *testing.T) {
	back, program := callbacks(t)
	s := newScript(t, DialConfig{Callbacks: back, callbackCredits: 5}, nil)
	r := s.p.Expose(pattern(3000), rdmacm.RemoteRead)
	m, pos := putCall(7, "name", 3000)
	s.p.Send(message{xid: 7, reads: at(pos, cut(r, 3000)...), payload: m}.bytes())
	wantError(t, s.p.Receive(), 7, 1, wire.ErrChunk)
	// A call without chunks is served.
	s.p.Send(message{xid: 8, payload: rpctest.Message(8, rpctest.NULL, nil)}.bytes())
	h, payload := answered(t, s.p.Receive())
	results(t, 8, payload)
	if h.Credits != 5 {
		t.Errorf("grants %d", h.Credits)
	}
	// A garbled message may be a reply, so the client sends nothing back (V1-82).
	s.p.Send(words(9, 1, 1, 0, 2, 0, 0))
	s.p.Send(words(9, 2, 1, 0, 0, 0, 0))
	// Nor does it answer a late Long Reply.
	s.p.Send(message{xid: 9, proc: wire.ProcNoMsg, reply: []wire.Segment{seg(1, 28, 0)}}.bytes())
	s.p.Send(message{xid: 10, payload: rpctest.Message(10, rpctest.NULL, nil)}.bytes())
	_, payload = answered(t, s.p.Receive())
	results(t, 10, payload)
	s.ping()
	if n := end(s.p).Promised(); n != spareReceives+5 {
		t.Errorf("%d receives are promised", n)
	}
	if n := program.Served[rpctest.NULL].Load(); n != 2 {
		t.Errorf("%d NULLs", n)
	}
	s.client.Close()
}

// The RPC message type tells a call from a reply, even if both sides have a call with the same XID
// in flight (RFC 8167 §4). An RDMA_ERROR ends a call of the side that receives it. The end that
// accepted the connection takes a garbled message for a call, unless it waits for a reply with that
// XID (row A-16 of docs/conformance.md).
func TestDirectionsAreToldApart(t *testing.T) {
	b, n := withBackchannel(t, benchConfig{})
	p := b.peer()
	b.alive(p)
	done := make(chan error, 2)
	caller := n.last().Caller()
	start := func() uint32 {
		x := exchangeFor(rpctest.NULL, nil)
		x.Done = func(x *rpc.Exchange) { done <- x.Err }
		caller.Start(x)
		m := p.Receive()
		h, _ := wire.ParsePrefix(m.Bytes)
		if h.Credits != defaultCallbackCredits || len(m.Bytes) != 68 {
			t.Errorf("callback % x", m.Bytes)
		}
		return h.XID
	}
	xid := start()
	_, payload := answered(t, b.call(p, message{xid: xid, payload: rpctest.Message(xid, rpctest.NULL, nil)}))
	results(t, xid, payload)
	// The server drops a garbled reply to a callback (V1-82), and answers a garbled call.
	p.Send(words(xid, 1, 1, 0, 2, 0, 0))
	p.Send(words(xid+1, 1, 1, 0, 2, 0, 0))
	wantError(t, p.Receive(), xid+1, 1, wire.ErrChunk)
	p.Send(message{xid: xid, credits: 2, payload: success(xid)}.bytes())
	if err := ended(t, done); err != nil {
		t.Error(err)
	}
	xid = start()
	p.Send(words(xid, 1, 1, uint32(wire.ProcError), uint32(wire.ErrChunk)))
	var refused *RefusedError
	if err := ended(t, done); !errors.As(err, &refused) {
		t.Error(err)
	}
	b.alive(p)
	// The server has promised receives for its credits and the spare ones, and none is used up.
	receivesKept(t, p, DefaultCredits)
}

// A callback that does not fit a Send fails, and the server sends nothing.
func TestCallbacksAreShort(t *testing.T) {
	b, n := withBackchannel(t, benchConfig{})
	p := b.peer()
	b.alive(p)
	x := exchangeFor(rpctest.ECHO, func(w *xdr.Writer) { w.Opaque(make([]byte, 3000)) })
	x.MaxArgs = 4000
	if err := do(t, n.last().Caller(), x, nil); !errors.Is(err, errNoLong) {
		t.Errorf("%v", err)
	}
	b.alive(p)
	if len(p.Seen()) != 2 {
		t.Errorf("something was sent: %v", p.Seen())
	}
	_ = rdmatest.KindPost
}

// A call that is held because memory is short and four chains of its connection are incomplete, all
// of them callbacks, goes on when the chains complete. It waits for no other event of its
// connection.
func TestHeldCallGoesOnWhenCallbacksComeBack(t *testing.T) {
	b, n := withBackchannel(t, benchConfig{server: Config{callbackCredits: 8}})
	defer func(usual time.Duration) { lookInterval = usual }(lookInterval)
	lookInterval = time.Hour
	p := b.peer()
	b.alive(p)
	caller := n.last().Caller()
	callback := func() { // callback does not wait for the end of its call
		caller.Start(&rpc.Exchange{Program: rpctest.Number, Version: 1, Done: func(*rpc.Exchange) {}})
	}
	callback()
	xid := binary.BigEndian.Uint32(p.Receive().Bytes)
	p.Send(message{xid: xid, credits: 8, payload: success(xid)}.bytes())
	await.Until(t, "the grant is taken", func() bool { return b.server.Stats().Answers.Load() == 1 })

	faults := serverEnd(p).Faults()
	chains, _ := faults.Posted()
	release := faults.DelayDone(chains)
	for range pressedChains {
		callback()
	}
	var kept mem.Ledger
	kept.Open(b.pool.NewShare())
	kept.Add(65 << 20) // memory is short
	defer kept.Add(-65 << 20)
	if !b.pool.Pressed() {
		t.Fatal("memory is not short")
	}
	p.Send(message{xid: 0xbeef01, payload: rpctest.Message(0xbeef01, rpctest.NULL, nil)}.bytes())
	await.Until(t, "the call is held", func() bool { return b.server.Stats().Held.Load() == 1 })
	release() // the peer has received the callbacks, so their chains complete
	for m := p.Receive(); binary.BigEndian.Uint32(m.Bytes) != 0xbeef01; m = p.Receive() {
	}
}

// RFC 8167 §2.4.1: both directions choose their XIDs independently. A call with a faulty header
// is answered while a callback with its XID is under way, if the message cannot be the callback's
// reply: a reply has the version of its call, and no Read list.
func TestFaultyCallWithTheXIDOfACallback(t *testing.T) {
	b, n := withBackchannel(t, benchConfig{server: Config{callbackCredits: 2}})
	p := b.peer()
	b.alive(p)
	n.last().Caller().Start(&rpc.Exchange{Program: rpctest.Number, Version: 1, Done: func(*rpc.Exchange) {}})
	xid := binary.BigEndian.Uint32(p.Receive().Bytes)
	for _, x := range []uint32{xid + 1, xid} {
		m := message{xid: x, version: 2, payload: rpctest.Message(x, rpctest.NULL, nil)}
		wantError(t, b.call(p, m), x, 2, wire.ErrVers)
		put, position := putCall(x, "name", 100)
		cutOff := message{xid: x, reads: at(position, seg(1, 100, 0)), payload: put}.bytes()[:wire.MinHeader+8]
		p.Send(cutOff)
		wantError(t, p.Receive(), x, 1, wire.ErrChunk)
	}
	// A message that may be the reply is not answered.
	unknown := message{xid: xid, proc: 9, payload: rpctest.Message(xid, rpctest.NULL, nil)}
	p.Send(unknown.bytes())
	b.alive(p)
}
