package rdma

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"net/netip"
	"sync"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// words returns a message of 32-bit words.
func words(w ...uint32) []byte {
	var b []byte
	for _, v := range w {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return b
}

// A message describes a Send that a test makes.
type message struct {
	xid, version, credits uint32
	proc                  wire.Proc
	reads                 []wire.ReadSegment
	writes                [][]wire.Segment
	reply                 []wire.Segment
	payload               []byte
	answer                bool // it is a reply, which version 2 has to know
}

func (m message) bytes() []byte {
	if speaking2 && m.version == 0 {
		return m.bytes2()
	}
	if m.version == 0 {
		m.version = wire.Version1
	}
	if m.credits == 0 {
		m.credits = 32
	}
	l := wire.Lists{Reads: m.reads, Writes: m.writes, Reply: m.reply}
	b := make([]byte, wire.PrefixSize+l.Size())
	wire.Prefix{XID: m.xid, Version: m.version, Credits: m.credits, Proc: m.proc}.Put(b)
	l.Put(b[wire.PrefixSize:])
	return append(b, m.payload...)
}

// segmentOf returns the segment of n bytes at offset off of a region.
func segmentOf(r rdmacm.Region, off, n int) wire.Segment {
	at := rdmatest.At(r, off)
	return seg(at.STag, uint32(n), at.Offset)
}

// seg returns a segment of memory that need not exist.
func seg(handle, length uint32, offset uint64) wire.Segment {
	return wire.Segment{Handle: handle, Length: length, Offset: offset}
}

// cut returns a region's first bytes as segments of these lengths.
func cut(r rdmacm.Region, lengths ...int) []wire.Segment {
	var all []wire.Segment
	off := 0
	for _, n := range lengths {
		all = append(all, segmentOf(r, off, n))
		off += n
	}
	return all
}

func segmentsOf(c wire.WriteChunk) []wire.Segment {
	s := []wire.Segment{}
	for i := range c.Len() {
		s = append(s, c.At(i))
	}
	return s
}

// at makes a Read chunk of segments.
func at(position int, segments ...wire.Segment) []wire.ReadSegment {
	var all []wire.ReadSegment
	for _, s := range segments {
		all = append(all, wire.ReadSegment{Position: uint32(position), Segment: s})
	}
	return all
}

type peer = *rdmatest.Peer

// A bench is a server with the toy program (rpctest.Program), by default on a device in memory.
type bench struct {
	t        testing.TB
	provider *rdmatest.Provider // nil on another device
	device   rdmacm.Provider
	rpc      *rpc.Server
	program  *rpctest.Program
	pool     *mem.Pool
	server   *Server
	addr     netip.AddrPort
	served   chan error

	mu     sync.Mutex
	events []Event
}

// benchConfig is a test's configuration of its bench.
type benchConfig struct {
	device   rdmacm.Provider // nil: in memory, by provider
	address  netip.Addr      // of the server; zero: one that suits the device
	provider rdmatest.Config
	pool     mem.Config
	server   Config
	rpc      rpc.Config
}

func newBench(t testing.TB, cfg benchConfig) *bench {
	t.Helper()
	b := &bench{t: t, program: rpctest.NewProgram(), served: make(chan error, 1)}
	listen := netip.MustParseAddrPort("127.0.0.1:0")
	if cfg.device == nil && elsewhere != nil {
		cfg.device = elsewhere(t)
	}
	if b.device = cfg.device; b.device == nil {
		b.provider = rdmatest.NewConfig(cfg.provider)
		b.device, listen = b.provider, netip.MustParseAddrPort("192.0.2.1:20049")
	}
	if cfg.address.IsValid() {
		listen = netip.AddrPortFrom(cfg.address, 0)
	}
	b.rpc = rpc.NewServer(cfg.rpc)
	b.rpc.Register(b.program)
	if cfg.pool.Ceiling == 0 {
		cfg.pool.Ceiling = 64 << 20
	}
	var err error
	if b.pool, err = mem.NewPool(cfg.pool); err != nil {
		t.Fatal(err)
	}
	cfg.server.RPC, cfg.server.Pool = b.rpc, b.pool
	cfg.server.Version2 = cfg.server.Version2 || speaking2
	if cfg.server.StrangerCredits == 0 {
		// Peers that are not known get as many credits as known ones.
		cfg.server.StrangerCredits = cmp.Or(cfg.server.Credits, DefaultCredits)
	}
	cfg.server.Event = func(e Event) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.events = append(b.events, e)
	}
	if b.server, err = NewServer(cfg.server); err != nil {
		t.Fatal(err)
	}
	l, err := b.device.Listen(listen)
	if err != nil {
		t.Fatal(err)
	}
	b.addr = l.Addr()
	go func() { b.served <- b.server.Serve(l) }()
	t.Cleanup(b.close)
	return b
}

// connection returns the connection of the server, or one of several. The peer may be connected earlier than the server.
func (b *bench) connection() *connection {
	b.t.Helper()
	var all []*connection
	await.Until(b.t, "the server has a connection", func() bool {
		all = b.server.connections()
		return len(all) > 0
	})
	return all[0]
}

// close ends the bench and fails the test if memory or receives were not given back.
func (b *bench) close() {
	await.Return(b.t, "Close of the server returns", func() { b.server.Close() })
	if err := await.Receive(b.t, "Serve returns", b.served); err != ErrServerClosed {
		b.t.Errorf("Serve returned %v", err)
	}
	await.Return(b.t, "Close of RPC returns", b.rpc.Close)
	await.Return(b.t, "the program's calls end", b.program.Wait)
	if s := b.pool.Stats(); s.InUse != 0 || s.Waiting != 0 {
		b.t.Errorf("%d bytes of memory were not given back, %d requests wait", s.InUse, s.Waiting)
	}
	b.pool.Close()
}

// wantFault fails the test unless the last fault was f, was reported with this answer and XID,
// and was counted.
func (b *bench) wantFault(f Fault, a Answer, xid uint32) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.events) == 0 {
		b.t.Fatalf("no fault was told of, want %v", f)
	}
	e := b.events[len(b.events)-1]
	if speaking2 && a == answerChunk {
		a = answerError
	}
	if e.Fault != f || e.Answer != a || e.XID != xid || !e.Peer.IsValid() {
		b.t.Errorf("the fault is %v with %v for XID %#x of %v, want %v with %v for %#x", e.Fault, e.Answer, e.XID, e.Peer, f, a, xid)
	}
	if b.server.Stats().Count(f) == 0 {
		b.t.Errorf("%v is not counted", f)
	}
}

// peer connects a scripted requester without private data.
func (b *bench) peer() *rdmatest.Peer { return b.peerWith(nil, 64) }

// peerWith connects a scripted requester that promises n receives.
func (b *bench) peerWith(private []byte, receives int) *rdmatest.Peer {
	b.t.Helper()
	p := rdmatest.DialPeer(b.t, b.device, b.addr, rdmatest.PeerParam{ConnParam: rdmacm.ConnParam{
		PrivateData: private, Receives: receives, MaxReceives: max(receives, 1), ReceiveSize: wire.MaxInline, InboundReads: 16, OutboundReads: 16,
	}})
	b.settled(p)
	return p
}

// private returns a peer's private data.
func private(r bool, send, receive int) []byte {
	b := make([]byte, wire.PrivateDataSize)
	wire.PrivateData{RemoteInvalidation: r, SendSize: send, ReceiveSize: receive}.Put(b)
	return b
}

// call sends m and waits for the answer.
func (b *bench) call(p *rdmatest.Peer, m message) rdmatest.Message {
	b.t.Helper()
	if err := p.Send(m.bytes()); err != nil {
		b.t.Fatalf("send: %v", err)
	}
	return p.Receive()
}

// answered parses a reply: it returns the header and the bytes that follow it.
func answered(t testing.TB, m rdmatest.Message) (wire.Header, []byte) {
	t.Helper()
	if speaking2 {
		return answered2(t, m)
	}
	var h wire.Header
	if err := h.Parse(m.Bytes); err != nil {
		t.Fatalf("the reply's header: %v\n%x", err, m.Bytes)
	}
	if h.Version != 1 || h.Credits == 0 || h.Reads.Len() != 0 { // rows V1-71, V1-14 and V1-47 of docs/conformance.md
		t.Fatalf("reply with version %d, %d credits, %d read segments", h.Version, h.Credits, h.Reads.Len())
	}
	return h, m.Bytes[h.Size:]
}

// results reads the header of a successful RPC reply.
func results(t testing.TB, xid uint32, payload []byte) *xdr.Decoder {
	t.Helper()
	d := xdr.NewDecoder(payload)
	if got := d.Uint32(); got != xid { // row V1-70 of docs/conformance.md
		t.Fatalf("reply to XID %#x, want %#x", got, xid)
	}
	want := []uint32{1, 0, 0, 0, 0} // REPLY, MSG_ACCEPTED, verifier, SUCCESS
	for i, w := range want {
		if got := d.Uint32(); got != w {
			t.Fatalf("word %d of the reply is %d, want %d", i+1, got, w)
		}
	}
	return d
}

// wantError checks an RDMA_ERROR.
func wantError(t testing.TB, m rdmatest.Message, xid, version uint32, code wire.ErrorCode) {
	t.Helper()
	if speaking2 {
		wantError2(t, m, xid)
		return
	}
	p, ok := wire.ParsePrefix(m.Bytes)
	e, good := wire.ParseErrorBody(m.Bytes)
	if !ok || !good || p.Proc != wire.ProcError || p.XID != xid || p.Version != version || p.Credits == 0 || e.Code != code {
		t.Fatalf("want %v for XID %#x version %d, got % x", code, xid, version, m.Bytes)
	}
	size := 20 // RFC 8166 §4.1.2
	if code == wire.ErrVers {
		size = 28
		if e.Low != 1 || e.High != 1 {
			t.Fatalf("versions %d to %d", e.Low, e.High)
		}
	}
	if len(m.Bytes) != size || m.Invalidated != 0 {
		t.Fatalf("RDMA_ERROR of %d bytes, invalidates %#x", len(m.Bytes), m.Invalidated)
	}
}

// alive fails the test unless the connection still serves a NULL.
func (b *bench) alive(p *rdmatest.Peer) {
	b.t.Helper()
	m := b.call(p, message{xid: 0xa11fe, payload: rpctest.Message(0xa11fe, rpctest.NULL, nil)})
	h, payload := answered(b.t, m)
	if h.Proc != wire.ProcMsg {
		b.t.Fatalf("NULL is answered by %v", h.Proc)
	}
	results(b.t, 0xa11fe, payload)
}

// pattern returns n bytes of the toy program's pattern.
func pattern(n int) []byte { return rpctest.Pattern(make([]byte, n)) }

// putCall returns a PUT without its data: the message, and the position of the data.
func putCall(xid uint32, name string, count int) (m []byte, position int) {
	m = rpctest.Message(xid, rpctest.PUT, func(w *xdr.Writer) {
		w.String(name)
		w.Uint32(uint32(count))
	})
	return m, len(m)
}

func count(n int) func(*xdr.Writer) { return func(w *xdr.Writer) { w.Uint32(uint32(n)) } }

// dial connects a Client to the bench; it ends with the test.
func (b *bench) dial(cfg DialConfig) *Client {
	b.t.Helper()
	c, err := Dial(b.t.Context(), b.device, b.addr, cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { c.Close() })
	return c
}

// exchangeFor returns a call of the toy program.
func exchangeFor(procedure int, args func(w *xdr.Writer)) *rpc.Exchange {
	return &rpc.Exchange{
		Program: rpctest.Number, Version: 1, Procedure: uint32(procedure),
		Binding: &rpctest.Binding.Procedures[procedure], MaxArgs: 300, Args: args,
	}
}

// do makes a call and waits for it.
func do(t testing.TB, k rpc.Caller, x *rpc.Exchange, decode func(d *xdr.Decoder)) error {
	t.Helper()
	return rpc.Do(t.Context(), k, x, func(d *xdr.Decoder) error {
		if decode != nil {
			decode(d)
		}
		return d.Finish()
	})
}

// get reads n bytes, into sink if it is not nil.
func get(t testing.TB, k rpc.Caller, n int, sink []byte) error {
	t.Helper()
	x := exchangeFor(rpctest.GET, count(n))
	if sink != nil {
		x.Sinks = [][]byte{sink}
	}
	return do(t, k, x, func(d *xdr.Decoder) {
		if got := d.EligibleOpaque(rpctest.MaxData); d.Err() == nil && !bytes.Equal(got, pattern(n)) {
			t.Errorf("GET of %d bytes brought something else", n)
		}
	})
}

// put sends data.
func put(t testing.TB, k rpc.Caller, data []byte) error {
	t.Helper()
	x := exchangeFor(rpctest.PUT, func(w *xdr.Writer) {
		w.String("name")
		w.Payload(data, true, nil)
	})
	return do(t, k, x, func(d *xdr.Decoder) {
		if n, sum := d.Uint32(), d.Uint32(); d.Err() == nil && (int(n) != len(data) || sum != crc32.ChecksumIEEE(data)) {
			t.Errorf("PUT of %d bytes arrived as %d, checksum %#x", len(data), n, sum)
		}
	})
}

// rpcPeer returns the address 192.0.2.n.
func rpcPeer(n byte) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, n}) }

// ended waits for a value on ch: the end of a call, or of any other activity of a test.
func ended[T any](t testing.TB, ch <-chan T) T {
	t.Helper()
	return await.Receive(t, "what the test began ends", ch)
}
