package rdma

import (
	"net/netip"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// A script is a Client with a scripted responder.
type script struct {
	t        testing.TB
	provider *rdmatest.Provider // nil on another device
	device   rdmacm.Provider
	listener rdmacm.Listener
	client   *Client
	p        peer
	pings    uint32
}

// newScript connects a Client to a scripted responder with this private data.
func newScript(t testing.TB, cfg DialConfig, private []byte) *script {
	return newScriptOn(t, rdmatest.Config{}, cfg, private)
}

func newScriptOn(t testing.TB, provider rdmatest.Config, cfg DialConfig, private []byte) *script {
	t.Helper()
	cfg.Version2 = cfg.Version2 || speaking2
	s := listening(t, provider)
	done := make(chan error, 1)
	go func() {
		var err error
		s.client, err = Dial(t.Context(), s.device, s.listener.Addr(), cfg)
		done <- err
	}()
	s.p = s.accept(private)
	if speaking2 {
		s.settle2()
	}
	if err := ended(t, done); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.auditSums()
		s.listener.Close()
		s.client.Close()
	})
	return s
}

// listening returns a script that listens and has no client yet.
func listening(t testing.TB, provider rdmatest.Config) *script {
	t.Helper()
	s := &script{t: t}
	listen := netip.MustParseAddrPort("127.0.0.1:0")
	if elsewhere != nil {
		s.device = elsewhere(t)
	} else {
		s.provider = rdmatest.NewConfig(provider)
		s.device, listen = s.provider, netip.MustParseAddrPort("192.0.2.1:20049")
	}
	var err error
	if s.listener, err = s.device.Listen(listen); err != nil {
		t.Fatal(err)
	}
	return s
}

// auditSums compares the sums of the client's requester with its pending calls, at the end of a test.
func (s *script) auditSums() {
	s.client.mu.Lock()
	k := s.client.link
	s.client.mu.Unlock()
	if k == nil {
		return
	}
	q := k.requester
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended {
		return
	}
	gaveUp := uint32(0)
	for e := range q.pending.all {
		if e.gaveUp {
			gaveUp++
		}
	}
	if q.givenUp != gaveUp {
		s.t.Errorf("%d pending calls are given up, counted %d", gaveUp, q.givenUp)
	}
	if q.pending.n == 0 && q.credits.inFlight != 0 {
		s.t.Errorf("no call is pending, and %d credits are in use", q.credits.inFlight)
	}
}

// accept returns the scripted end of the next connection.
func (s *script) accept(private []byte) peer {
	s.t.Helper()
	return rdmatest.AcceptPeer(s.t, s.listener, rdmatest.PeerParam{ConnParam: rdmacm.ConnParam{
		PrivateData: private, Receives: 256, ReceiveSize: wire.MaxInline, InboundReads: 16, OutboundReads: 16,
	}})
}

// end returns the client's end of p's connection.
func end(p peer) *rdmatest.Conn { return p.Conn().(*rdmatest.Conn).Other() }

// wantPromised checks that the other end of p's connection is ready for n messages. Only the device in memory tells
// that number. Each device panics if it is greater than the connection may promise (ConnParam.MaxReceives).
func wantPromised(t testing.TB, p peer, n int) {
	t.Helper()
	if elsewhere != nil {
		return
	}
	if got := end(p).Promised(); got != n {
		t.Errorf("%d receives are promised, want %d", got, n)
	}
}

// A result is the end of an exchange.
type result struct {
	err  error
	data []byte // a copy of the result, an eligible opaque
}

// start makes a call that has one opaque as its results, without waiting.
func (s *script) start(x *rpc.Exchange) <-chan result {
	c := make(chan result, 1)
	x.Done = func(x *rpc.Exchange) {
		if s.provider != nil {
			s.provider.Log().Mark("done")
		}
		r := result{err: x.Err}
		if r.err == nil {
			r.data = append(r.data, x.Results.EligibleOpaque(rpctest.MaxData)...)
			r.err = x.Results.Finish()
		}
		c <- r
	}
	s.client.Start(x)
	return c
}

// null returns a call without arguments or results, which any successful answer ends.
func null() *rpc.Exchange { return exchangeFor(rpctest.NULL, nil) }

// getTo returns a GET into a sink, or without one.
func getTo(n int, sinks ...[]byte) *rpc.Exchange {
	x := exchangeFor(rpctest.GET, count(n))
	x.Sinks = sinks
	return x
}

// next returns the header and the Payload of the next call that arrives.
func (s *script) next() (wire.Header, []byte) { return s.nextOn(s.p) }

func (s *script) nextOn(p peer) (wire.Header, []byte) {
	s.t.Helper()
	m := p.Receive()
	if speaking2 {
		return called2(s.t, m)
	}
	var h wire.Header
	if err := h.Parse(m.Bytes); err != nil {
		s.t.Fatalf("the call's header: %v\n% x", err, m.Bytes)
	}
	return h, m.Bytes[h.Size:]
}

// success returns the message of a successful reply with these words as results.
func success(xid uint32, results ...uint32) []byte {
	return append(words(xid, 1, 0, 0, 0, 0), words(results...)...)
}

// opaqueReply returns the message of a successful reply with an opaque as results.
func opaqueReply(xid uint32, data []byte) []byte {
	w := xdr.NewWriter(make([]byte, 0, len(data)+64))
	rpc.PutAccepted(w, xid, rpc.Success)
	w.Opaque(data)
	return w.Bytes()
}

// reply sends m as an answer, with its lists as they are; with 8 credits if m has none.
func (s *script) reply(m message) {
	s.t.Helper()
	if m.credits == 0 {
		m.credits = 8
	}
	m.answer = true
	if err := s.p.Send(m.bytes()); err != nil {
		s.t.Fatal(err)
	}
}

// used returns a copy of c with lengths that cover its first n bytes.
func used(c []wire.Segment, n int) []wire.Segment {
	out := append([]wire.Segment{}, c...)
	for i := range out {
		l := min(int(out[i].Length), n)
		out[i].Length = uint32(l)
		n -= l
	}
	return out
}

// offered returns the chunks that a call's header offers.
func offered(h *wire.Header) message {
	m := message{xid: h.XID}
	for i := range h.Reads.Len() {
		m.reads = append(m.reads, h.Reads.At(i))
	}
	for l := h.Writes; l.Len() > 0; {
		m.writes = append(m.writes, segmentsOf(l.Next()))
	}
	if h.Reply.Present {
		m.reply = segmentsOf(h.Reply.WriteChunk)
	}
	return m
}

// write writes data to a chunk of the client.
func (s *script) write(c []wire.Segment, data []byte) {
	s.t.Helper()
	for _, seg := range c {
		n := min(int(seg.Length), len(data))
		if err := s.p.Write(remote(seg, 0), data[:n]); err != nil {
			s.t.Fatal(err)
		}
		data = data[n:]
	}
}

// ramp makes one call, whose reply brings the client this grant.
func (s *script) ramp(credits uint32) {
	s.t.Helper()
	done := s.start(null())
	h, _ := s.next()
	s.reply(message{xid: h.XID, credits: credits, payload: success(h.XID)})
	ended(s.t, done)
}
