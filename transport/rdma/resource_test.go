package rdma

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// nothingLeft fails the test if a goroutine outlives it. Call it first, so that its check runs
// last.
func nothingLeft(t *testing.T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}

// anyCall makes one call of any kind and size up to most.
func anyCall(t testing.TB, k rpc.Caller, r *rand.Rand, most int) error {
	n := r.IntN(most)
	switch r.IntN(5) {
	case 0:
		return get(t, k, n, make([]byte, n))
	case 1:
		return get(t, k, n, nil)
	case 2:
		return put(t, k, pattern(n))
	case 3:
		n = min(n, rpctest.MaxEcho)
		x := exchangeFor(rpctest.ECHO, func(w *xdr.Writer) { w.Opaque(pattern(n)) })
		x.MaxArgs = n + 8
		return do(t, k, x, func(d *xdr.Decoder) {
			if got := d.Opaque(rpctest.MaxEcho); d.Err() == nil && !bytes.Equal(got, pattern(n)) {
				t.Errorf("ECHO of %d bytes differs", n)
			}
		})
	}
	return do(t, k, null(), nil)
}

// One server serves 1,000 idle connections, 100 busy ones, and others that come and go, within its
// ceiling. Afterwards the idle connections are still served, and the ended ones leave nothing
// behind.
func TestManyConnections(t *testing.T) {
	for _, on := range []struct {
		name       string
		device     func(t testing.TB) rdmacm.Provider
		idle, busy int
	}{
		{"memory", func(testing.TB) rdmacm.Provider { return nil }, 1000 / slower, 100 / slower},
		{"iwarp", newIwarp, 200 / slower, 20 / slower}, // each connection takes two descriptors
	} {
		t.Run(on.name, func(t *testing.T) {
			nothingLeft(t)
			b := newBench(t, benchConfig{
				device: on.device(t), provider: rdmatest.Config{Quiet: true}, pool: mem.Config{Ceiling: 16 << 20, Share: 4 << 20},
			})
			idle := make([]*Client, on.idle)
			for i := range idle {
				idle[i] = b.dial(DialConfig{})
				if err := do(t, idle[i], null(), nil); err != nil {
					t.Fatal(err)
				}
			}
			if n := b.server.Stats().Connections.Load(); n != int64(on.idle) {
				t.Errorf("%d connections, want %d", n, on.idle)
			}
			if s := b.pool.Stats(); s.InUse != 0 {
				t.Errorf("idle connections hold %d bytes of payload memory", s.InUse)
			}
			var all sync.WaitGroup
			for i := range on.busy {
				all.Go(func() {
					r := rand.New(rand.NewPCG(31, uint64(i)))
					// Each client leaves and comes back; half of them leave with a call under
					// way.
					for range 3 {
						c, err := Dial(t.Context(), b.device, b.addr, DialConfig{})
						if err != nil {
							t.Error(err)
							return
						}
						for range 6 {
							if err := anyCall(t, c, r, 1<<(4+r.IntN(14))); err != nil {
								t.Error(err)
							}
						}
						left := make(chan struct{})
						x := getTo(100_000, make([]byte, 100_000))
						x.Done = func(*rpc.Exchange) { close(left) }
						if c.Start(x); i%2 == 0 {
							ended(t, left)
						}
						c.Close()
						ended(t, left)
					}
				})
			}
			await.Workload(t, "all calls end", all.Wait)
			for _, c := range idle {
				if err := do(t, c, null(), nil); err != nil {
					t.Errorf("a connection that was idle: %v", err)
				}
				c.Close()
			}
			await.Until(t, "all connections are gone", func() bool { return b.server.Stats().Connections.Load() == 0 })
			await.Until(t, "all memory is back", func() bool { s := b.pool.Stats(); return s.InUse == 0 && s.Waiting == 0 })
			if s := b.pool.Stats(); s.Peak > s.Ceiling || s.Refused > 0 {
				t.Errorf("%d bytes at most of %d, %d refused", s.Peak, s.Ceiling, s.Refused)
			}
		})
	}
}

// longPut returns a PUT with two Read chunks: the message, cut into segments, in a Position-Zero
// chunk, and the data, cut as well, at its own position.
func longPut(p peer, xid uint32, data []byte, segments int) message {
	m, position := putCall(xid, "long", len(data))
	words := p.Expose(m, rdmacm.RemoteRead)
	r := p.Expose(data, rdmacm.RemoteRead)
	cutUp := func(r rdmacm.Region, n int) []wire.Segment {
		var lengths []int
		for left := segments; left > 0; left-- {
			lengths = append(lengths, n/left)
			n -= n / left
		}
		return cut(r, lengths...)
	}
	reads := append(at(0, cutUp(words, len(m))...), at(position, cutUp(r, len(data))...)...)
	return message{xid: xid, proc: wire.ProcNoMsg, reads: reads}
}

// Long calls, calls with several Read chunks, Reply chunks and Write chunks share a ceiling that
// holds a few of them, beside peers that stall while they hold memory. Other calls are answered
// meanwhile, and the stalled calls are answered once their peers go on.
func TestCeilingUnderMixtures(t *testing.T) {
	nothingLeft(t)
	b := newBench(t, benchConfig{pool: mem.Config{Ceiling: 32 << 20, Share: 4 << 20}})
	const stalled, others, calls = 2, 6, 12
	var release []func()
	var silent []peer
	for range stalled {
		p := b.peer()
		release = append(release, serverEnd(p).Faults().HoldReads())
		for xid := range uint32(3) {
			p.Send(longPut(p, xid, pattern(1<<20), 3).bytes())
		}
		silent = append(silent, p)
	}
	var peers []peer
	for i := range others {
		p := b.peer()
		peers = append(peers, p)
		r := rand.New(rand.NewPCG(5, uint64(i)))
		sink := p.Expose(make([]byte, 1<<20), rdmacm.RemoteWrite)
		for xid := range uint32(calls) {
			n := 1 + r.IntN(1<<20)
			switch m := (message{xid: xid}); xid % 4 {
			case 0:
				p.Send(longPut(p, xid, pattern(n), 1+r.IntN(5)).bytes())
			case 1:
				m.payload, m.writes = rpctest.Message(xid, rpctest.GET, count(n)), [][]wire.Segment{cut(sink, n)}
				p.Send(m.bytes())
			case 2:
				n = min(n, 1<<20-64)
				m.payload, m.reply = rpctest.Message(xid, rpctest.GET, count(n)), cut(sink, 1<<20)
				p.Send(m.bytes())
			case 3:
				data := p.Expose(pattern(n), rdmacm.RemoteRead)
				var position int
				m.payload, position = putCall(xid, "data", n)
				m.reads = at(position, cut(data, n/2, n-n/2)...)
				p.Send(m.bytes())
			}
		}
	}
	// Answers come in any order, one for each call.
	for i, p := range peers {
		seen := map[uint32]bool{}
		for range calls {
			h, _ := answered(t, p.Receive())
			if h.Proc == wire.ProcError || seen[h.XID] {
				t.Fatalf("peer %d, call %d: %v, seen before: %v", i, h.XID, h.Proc, seen[h.XID])
			}
			seen[h.XID] = true
		}
	}
	for i, p := range silent {
		release[i]()
		for range 3 {
			if h, _ := answered(t, p.Receive()); h.Proc != wire.ProcMsg {
				t.Errorf("a stalled call is answered by %v", h.Proc)
			}
		}
	}
	await.Until(t, "all memory is back", func() bool { return b.pool.Stats().InUse == 0 })
	if s := b.pool.Stats(); s.Peak > s.Ceiling || s.Refused > 0 {
		t.Errorf("%d bytes at most of %d, %d refused", s.Peak, s.Ceiling, s.Refused)
	}
}

// Calls that no program has judged yet wait for memory in the order of their arrival, over all
// connections, and delay no call that was judged.
func TestUnjudgedCallsWaitForEachOther(t *testing.T) {
	nothingLeft(t)
	// Each Long call reserves room for its reply as words and as payload, more than half of the
	// pool: one runs at a time.
	const room = 1200 << 10
	b := newBench(t, benchConfig{pool: mem.Config{Ceiling: 8 << 20, Share: 8 << 20}, server: Config{maxReply: room}})
	b.program.Judging = func(_ *rpc.Arrived, j *rpc.Judgement) rpc.Outcome {
		j.Known = true
		return rpc.Done
	}
	var peers []peer
	var release func()
	const last = 6
	for i := range last + 1 {
		p := b.peer()
		// The server does not fetch the start of a Long call first if the program knows the peer.
		if err := p.Send(message{xid: 100, payload: rpctest.Message(100, rpctest.NULL, nil)}.bytes()); err != nil {
			t.Fatal(err)
		}
		answered(t, p.Receive())
		if i == 0 {
			release = serverEnd(p).Faults().HoldReads()
		}
		const n = 30_000
		m := rpctest.Message(uint32(i), rpctest.ECHO, func(w *xdr.Writer) { w.Opaque(pattern(n)) })
		words := p.Expose(m, rdmacm.RemoteRead)
		sink := p.Expose(make([]byte, room), rdmacm.RemoteWrite)
		call := message{xid: uint32(i), proc: wire.ProcNoMsg, reads: at(0, cut(words, len(m))...), reply: cut(sink, room)}
		if i == last {
			m, position := putCall(last, "small", 5000)
			call = message{xid: last, reads: at(position, cut(words, 5000)...), payload: m}
		}
		if err := p.Send(call.bytes()); err != nil {
			t.Fatal(err)
		}
		switch i {
		case 0:
			await.Until(t, "the first holds memory", func() bool { return b.pool.Stats().InUse > 0 })
		case last:
			answered(t, p.Receive())
		default:
			await.Until(t, fmt.Sprint(i, " wait"), func() bool { return b.pool.Stats().Waiting == i })
		}
		if i < last {
			peers = append(peers, p)
		}
	}
	release()
	var wanted, got []int
	for _, p := range peers {
		answered(t, p.Receive())
		wanted = append(wanted, serverEnd(p).ID())
	}
	for _, e := range b.provider.Log().Events() {
		if e.Kind == rdmatest.KindPost && e.Op == rdmacm.OpRead && !slices.Contains(got, e.Conn) && slices.Contains(wanted, e.Conn) {
			got = append(got, e.Conn)
		}
	}
	if !slices.Equal(got, wanted) {
		t.Errorf("calls were pulled on connections %v, having come on %v", got, wanted)
	}
}

// A connection whose Reads are not answered holds memory only for the calls whose Reads can be
// under way; the waiting calls go on when the Reads complete.
func TestCallsWaitForReadsWithoutMemory(t *testing.T) {
	for name, c := range map[string]struct {
		depth, size, calls int
		most               int64 // bytes held
	}{
		"by the peer's depth": {4, 10_000, 20, 4 * 12 << 10},
		"by bytes":            {128, 1 << 20, 40, 17 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			nothingLeft(t)
			b := newBench(t, benchConfig{
				provider: rdmatest.Config{MaxReads: c.depth},
				pool:     mem.Config{Ceiling: 128 << 20},
			})
			p := b.peer()
			release := serverEnd(p).Faults().HoldReads()
			data := p.Expose(make([]byte, c.size), rdmacm.RemoteRead)
			for i := range c.calls {
				m, position := putCall(uint32(i), "file", c.size)
				if err := p.Send(message{xid: uint32(i), reads: at(position, cut(data, c.size)...), payload: m}.bytes()); err != nil {
					t.Fatal(err)
				}
			}
			await.Until(t, "all calls have arrived", func() bool { return b.server.Stats().Calls.Load() == int64(c.calls) })
			await.Until(t, "the others wait", func() bool { return b.server.Stats().ReadsDeferred.Load() > 0 })
			if held := b.pool.Stats().InUse; held == 0 || held > c.most {
				t.Errorf("%d bytes are held, want at most %d", held, c.most)
			}
			release()
			for range c.calls {
				answered(t, p.Receive())
			}
		})
	}
}
