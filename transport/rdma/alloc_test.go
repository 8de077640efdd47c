package rdma

import (
	"net/netip"
	"sync"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/internal/census"
	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/test/footprint"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// An instant device executes nothing and reports all work done at once, so that only the cost of
// this package remains.
type instant struct {
	sends, writes, reads int
	sent                 []byte // the last Send
	provided             int
	short                bool // SendShort accepts Sends
	aborted              error
	private              []byte // private data of the peer
}

func (d *instant) Peer() netip.AddrPort    { return netip.MustParseAddrPort("192.0.2.9:1000") }
func (d *instant) Local() netip.AddrPort   { return netip.MustParseAddrPort("192.0.2.1:20049") }
func (d *instant) Carrier() rdmacm.Carrier { return rdmacm.Carrier{} }
func (d *instant) Limits() rdmacm.Limits {
	return rdmacm.Limits{MaxSend: 1 << 20, MaxLocal: 16, RemoteInvalidation: true}
}
func (d *instant) PeerPrivateData() []byte { return d.private }
func (d *instant) ReadDepth() int          { return 16 }
func (d *instant) Provide(count, _ int)    { d.provided += count }
func (d *instant) Flush()                  {}
func (d *instant) Unsent() int             { return 0 }
func (d *instant) Progress() uint64        { return 0 }
func (d *instant) Disconnect()             {}
func (d *instant) Abort(err error)         { d.aborted = err }
func (d *instant) Done() <-chan struct{}   { return nil }
func (d *instant) Register([]byte, rdmacm.Access) (rdmacm.Region, error) {
	return nil, rdmacm.ErrClosed
}

func (d *instant) SendShort(local [][]byte, _ uint32) bool {
	if d.short {
		d.send(local)
	}
	return d.short
}

func (d *instant) send(local [][]byte) {
	d.sends++
	d.sent = d.sent[:0]
	for _, b := range local {
		d.sent = append(d.sent, b...)
	}
}

func (d *instant) Post(c *rdmacm.Chain) {
	for i := range c.Work {
		switch w := &c.Work[i]; w.Op {
		case rdmacm.OpWrite:
			d.writes++
		case rdmacm.OpRead:
			d.reads++
			for _, b := range w.Local {
				clear(b)
			}
		default:
			d.send(w.Local)
		}
	}
	c.Done(c, nil, -1)
}

// newInstant returns a responder on an instant device. feed passes a message to it.
func newInstant(t testing.TB) (k *connection, d *instant, feed func(message []byte)) {
	s := rpc.NewServer(rpc.Config{})
	s.Register(rpctest.NewProgram())
	pool, err := mem.NewPool(mem.Config{Ceiling: 32 << 20})
	if err != nil {
		t.Fatal(err)
	}
	d = &instant{sent: make([]byte, 0, 1<<20)}
	own := wire.PrivateData{RemoteInvalidation: true, SendSize: 4096, ReceiveSize: 4096}
	k = newConnection(own, new(Stats), nil)
	d.private = k.param(0, 0).PrivateData
	k.agree(d)
	newResponder(k, s, 128, newFailedXIDs()).share = pool.NewShare()
	k.start()
	t.Cleanup(func() {
		s.Close()
		if n := pool.Stats().InUse; n != 0 {
			t.Errorf("%d bytes in use", n)
		}
		pool.Close()
	})
	r := &rdmacm.Recv{Free: func(*rdmacm.Recv) {}}
	return k, d, func(m []byte) {
		r.Bytes = m
		k.Received(r)
	}
}

// In steady state the responder serves calls without an allocation: inline, with a Write chunk,
// with a Read chunk.
func TestCallsAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes sync.Pool forget")
	}
	_, d, feed := newInstant(t)
	put, pos := putCall(3, "name", 5000)
	for name, m := range map[string]message{
		"inline":      {xid: 1, payload: rpctest.Message(1, rpctest.NULL, nil)},
		"Write chunk": {xid: 2, writes: [][]wire.Segment{{seg(1, 4096, 0), seg(2, 904, 0)}}, payload: rpctest.Message(2, rpctest.GET, count(5000))},
	} {
		b := m.bytes()
		if n := testing.AllocsPerRun(1000, func() { feed(b) }); n > 0 {
			t.Errorf("%s: %v allocations a call", name, n)
		}
	}
	// The duplicate cache keeps the reply of PUT, so each repetition is a retransmission that
	// gets the reply from the cache.
	b := message{xid: 3, reads: at(pos, seg(1, 4096, 0), seg(2, 904, 0)), payload: put}.bytes()
	if n := testing.AllocsPerRun(1000, func() { feed(b) }); n > 0 {
		t.Errorf("Read chunk: %v allocations a call", n)
	}
	if d.aborted != nil || d.reads == 0 || d.writes == 0 {
		t.Fatalf("%d reads, %d writes, %v", d.reads, d.writes, d.aborted)
	}
}

// In steady state the requester makes calls without an allocation, whatever the binding says about
// the reply.
func TestRequestsAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes sync.Pool forget")
	}
	b := newBench(t, benchConfig{device: newIwarp(t)})
	c := b.dial(DialConfig{})
	for name, x := range map[string]*rpc.Exchange{"NULL": null(), "GET": getTo(100)} {
		over := make(chan error, 1)
		x.Done = func(x *rpc.Exchange) { over <- x.Err }
		n := testing.AllocsPerRun(1000, func() {
			c.Start(x)
			if err := <-over; err != nil {
				t.Fatal(err)
			}
		})
		if n > 0 {
			t.Errorf("%s: %v allocations a call", name, n)
		}
	}
}

func BenchmarkResponderNull(b *testing.B) {
	_, _, feed := newInstant(b)
	m := message{xid: 1, payload: rpctest.Message(1, rpctest.NULL, nil)}.bytes()
	b.ReportAllocs()
	for b.Loop() {
		feed(m)
	}
}

// A connection that is idle after work occupies little memory, because it has buffers only for
// messages under way. This holds for either end, on the software RNIC, with 128 credits granted.
func TestIdleConnectionsAreSmall(t *testing.T) {
	if raceEnabled {
		t.Skip("what a connection keeps is looked at beside its goroutines")
	}
	b := newBench(t, benchConfig{device: newIwarp(t)})
	use := func(c *Client) {
		var all sync.WaitGroup
		for range 128 {
			x := null()
			all.Add(1)
			x.Done = func(*rpc.Exchange) { all.Done() }
			c.Start(x)
		}
		await.Workload(t, "all calls end", all.Wait)
	}
	c := b.dial(DialConfig{})
	use(c)
	for name, k := range map[string]*connection{"client": c.link, "server": b.connection()} {
		await.Until(t, "the "+name+"'s end keeps no more than 16 KiB", func() bool {
			n := footprint.Of(k, (*Client)(nil), (*iwarp.Provider)(nil), (*rpc.Server)(nil), (*mem.Pool)(nil), (*failedPart)(nil), (*census.Seat)(nil))
			t.Logf("%s: %d bytes", name, n)
			return n <= 16<<10
		})
	}
}
