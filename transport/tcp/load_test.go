package tcp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
)

// newPool returns a pool for a fixture, which closes it.
func newPool(t *testing.T, ceiling int64) *mem.Pool {
	t.Helper()
	p, err := mem.NewPool(mem.Config{Ceiling: ceiling, Share: ceiling})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// While 100 connections have 128 calls each in a program that stalls, another lane of the program
// goes on answering, on other connections and, within the limit of calls under way, on the same
// ones. When the stall ends, all calls are answered.
func TestStalledProgram(t *testing.T) {
	f := start(t, Config{MaxInFlight: 128, Pool: newPool(t, 512<<20)})
	const conns, calls = 100, 128
	var batch []byte
	for i := range uint32(calls) {
		batch = append(batch, fragments(rpctest.Message(i, rpctest.STALL, u32(1)))...)
	}
	var stalled []net.Conn
	for range conns {
		c := f.raw()
		if _, err := c.Write(batch); err != nil {
			t.Fatal(err)
		}
		stalled = append(stalled, c)
	}
	await.Until(t, "all calls are under way", func() bool { return f.Stats().InFlight == conns*calls })
	before := runtime.NumGoroutine()
	if before > 2*conns+100 {
		t.Errorf("%d goroutines for %d stalled calls", before, conns*calls)
	}
	// The server does not read from a connection that has as many calls as it may.
	full := stalled[0]
	if _, err := full.Write(fragments(rpctest.Message(999, rpctest.NULL, nil))); err != nil {
		t.Fatal(err)
	}
	f.program.Release(2)
	c := f.dial(DialConfig{})
	for range 200 {
		if err := rpc.Do(context.Background(), c, exchange(rpctest.STALL, u32(2)), nil); err != nil {
			t.Fatal(err)
		}
		if err := rpc.Do(context.Background(), c, exchange(rpctest.NULL, nil), nil); err != nil {
			t.Fatal(err)
		}
	}
	if n := f.program.Served[rpctest.NULL].Load(); n != 200 {
		t.Errorf("%d calls of NULL were served", n)
	}
	f.program.Release(1)
	for i, c := range stalled {
		seen := make(map[uint32]bool)
		want := calls
		if i == 0 {
			want++
		}
		for range want {
			b := make([]byte, 4+24)
			if _, err := io.ReadFull(c, b); err != nil {
				t.Fatal(err)
			}
			n, _ := mark(b)
			if _, err := io.ReadFull(c, make([]byte, n-24)); err != nil {
				t.Fatal(err)
			}
			seen[binary.BigEndian.Uint32(b[4:])] = true
		}
		if len(seen) != want {
			t.Fatalf("connection %d: %d different replies", i, len(seen))
		}
	}
}

// The calls of one client address that wait for the executor occupy at most half of the account for
// charges, which is a quarter of the ceiling. Then the server does not read from this client's connections, but reads from those of another
// address. When the calls end, all are answered.
func TestCallsThatWaitAreBoundedByClient(t *testing.T) {
	const conns, calls, ceiling = 64, 128, 32 << 20
	pool := newPool(t, ceiling)
	f := start(t, Config{MaxInFlight: calls, Pool: pool})
	batch := func(n int) (b []byte) {
		for i := range uint32(n) {
			b = append(b, fragments(rpctest.Message(i, rpctest.STALL, u32(1)))...)
		}
		return b
	}
	var all []net.Conn
	for range conns {
		c := f.from("127.0.0.2")
		if _, err := c.Write(batch(calls + 1)); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	await.Until(t, "no connection is read from any more", func() bool { return f.Stats().Gated >= conns })
	// slack covers the memory that a connection has not charged yet, and the calls that each
	// connection may always have under way.
	const slack = conns * (32 << 10)
	if n, most := f.Stats().InFlight, int64((ceiling/8+slack)/(callCost*3/2)); n > most {
		t.Errorf("%d calls wait, want %d at most", n, most)
	}
	if n := pool.Stats().Charged; n > ceiling/8+slack {
		t.Errorf("%d bytes are kept", n)
	}
	before := f.Stats().InFlight
	other := f.from("127.0.0.3")
	if _, err := other.Write(batch(100)); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the calls of another address are under way", func() bool { return f.Stats().InFlight == before+100 })
	f.program.Release(1)
	for i, c := range append(all, other) {
		want := calls + 1
		if c == other {
			want = 100
		}
		for k := range want {
			b := make([]byte, 4+24+4)
			if _, err := io.ReadFull(c, b); err != nil {
				t.Fatalf("connection %d, reply %d: %v", i, k, err)
			}
		}
	}
}

// If the server has stopped reading from a connection because other connections of its client hold
// much memory, it reads again when these release it, although none of the connection's own calls
// has ended.
func TestConnectionIsReadAgainWhenOthersGaveBack(t *testing.T) {
	const ceiling = 4 << 20
	pool := newPool(t, ceiling)
	f := start(t, Config{Pool: pool, Stall: 100 * time.Millisecond})
	c := f.from("127.0.0.2")
	call := func(xid uint32, proc uint32, args func(*xdr.Writer)) {
		if _, err := c.Write(fragments(rpctest.Message(xid, proc, args))); err != nil {
			t.Fatal(err)
		}
	}
	call(1, rpctest.STALL, u32(1))
	call(2, rpctest.STALL, u32(1))
	await.Until(t, "two calls are under way", func() bool { return f.Stats().InFlight == 2 })
	others := pool.OpenShare(clientaddr.Of(netip.MustParseAddr("127.0.0.2")), nil)
	var kept mem.Ledger
	kept.Open(others)
	kept.Add(ceiling)
	call(3, rpctest.NULL, nil)
	await.Until(t, "the connection is not read from", func() bool { return f.Stats().Gated > 0 })
	kept.Add(-ceiling)
	others.Close()
	c.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.ReadFull(c, make([]byte, 4+24)); err != nil {
		t.Error("it is not read from though nothing is kept for others:", err)
	}
	f.program.Release(1)
}

// A call that waits for a goroutine keeps its message, whatever the server reads after it.
func TestWaitingCallsKeepTheirMessages(t *testing.T) {
	f := startWith(t, Config{}, rpc.Config{Workers: 1})
	c := f.raw()
	const calls = 20
	for i := range uint32(calls) {
		if _, err := c.Write(fragments(rpctest.Message(i, rpctest.STALL, u32(i)))); err != nil {
			t.Fatal(err)
		}
	}
	ended(t, f.program.Arrived(0)) // the others wait for its goroutine
	await.Until(t, "all calls are under way", func() bool { return f.Stats().InFlight == calls })
	over := bytes.Repeat(fragments(rpctest.Message(99, rpctest.ECHO, func(w *xdr.Writer) {
		w.Opaque(bytes.Repeat([]byte{0xee}, rpctest.MaxEcho))
	})), 8)
	go c.Write(over)
	if _, err := io.CopyN(io.Discard, c, int64(8*(4+24+4+rpctest.MaxEcho))); err != nil {
		t.Fatal(err)
	}
	for i := range uint32(calls) {
		f.program.Release(i)
	}
	for range calls {
		b := make([]byte, 4+24+4)
		if _, err := io.ReadFull(c, b); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b[4:8], b[28:]) {
			t.Errorf("call %x was answered as %x", b[4:8], b[28:])
		}
	}
}

// If many connections make calls of all sizes at once, in a pool that is much too small, all calls
// are answered correctly, and the ceiling holds.
func TestManyCallersLittleMemory(t *testing.T) {
	pool, err := mem.NewPool(mem.Config{Ceiling: 8 << 20, Share: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	f := start(t, Config{Pool: pool})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			c := f.dial(DialConfig{})
			var calls sync.WaitGroup
			for j := range 4 {
				calls.Go(func() {
					for k := range 8 {
						n := 1 << ((i*7 + j*5 + k*3) % 21)
						data := rpctest.Pattern(make([]byte, n))
						err := rpc.Do(context.Background(), c, exchange(rpctest.PUT, func(w *xdr.Writer) {
							w.String("x")
							w.Payload(data, true, nil)
						}), func(d *xdr.Decoder) error {
							if d.Uint32() != uint32(n) {
								return errors.New("lost bytes")
							}
							return nil
						})
						if err == nil {
							err = rpc.Do(context.Background(), c, exchange(rpctest.GET, u32(uint32(n))), func(d *xdr.Decoder) error {
								if string(d.EligibleOpaque(xdr.NoLimit)) != string(data) {
									return errors.New("other bytes")
								}
								return d.Finish()
							})
						}
						if err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			calls.Wait()
		})
	}
	wg.Wait()
	if st := pool.Stats(); st.Peak > st.Ceiling {
		t.Errorf("%+v", st)
	}
}

// Shutdown reads no more calls, answers those under way, flushes, and closes so that the peer
// gets all replies.
func TestShutdown(t *testing.T) {
	f := start(t, Config{})
	const calls = 50
	conns := []net.Conn{f.raw(), f.raw(), f.raw()}
	for _, c := range conns {
		var batch []byte
		for i := range uint32(calls) {
			batch = append(batch, fragments(rpctest.Message(i, rpctest.STALL, u32(1)))...)
		}
		if _, err := c.Write(batch); err != nil {
			t.Fatal(err)
		}
	}
	idle := f.raw()
	await.Until(t, "all calls of all connections are under way", func() bool {
		return f.Stats().InFlight == calls*int64(len(conns)) && f.Stats().Connections == 4
	})
	done := make(chan error)
	go func() { done <- f.Shutdown(context.Background()) }()
	if n, err := idle.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("an idle connection: %d, %v", n, err)
	}
	idle.Close()
	// The server does not read this late call. It must not cost the replies to the others.
	for _, c := range conns {
		c.Write(fragments(rpctest.Message(7777, rpctest.NULL, nil)))
	}
	if _, err := net.Dial("tcp", f.addr); err == nil {
		t.Error("a connection was accepted")
	}
	f.program.Release(1)
	for _, c := range conns {
		all, err := io.ReadAll(c)
		if err != nil || len(all) != calls*(4+24+4) {
			t.Errorf("%d bytes of replies, %v", len(all), err)
		}
		c.Close()
	}
	if err := ended(t, done); err != nil {
		t.Fatal(err)
	}
	if n := f.program.Served[rpctest.NULL].Load(); n != 0 {
		t.Errorf("%d calls were served after Shutdown", n)
	}
}

// If the context of Shutdown ends, Shutdown closes the remaining connections.
func TestShutdownGivenUp(t *testing.T) {
	f := start(t, Config{})
	c := f.raw()
	if _, err := c.Write(fragments(rpctest.Message(1, rpctest.STALL, u32(1)))); err != nil {
		t.Fatal(err)
	}
	ended(t, f.program.Arrived(1))
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("enough")
	cancel(why)
	if err := f.Shutdown(ctx); err != why {
		t.Errorf("%v", err)
	}
	if n, err := c.Read(make([]byte, 1)); err == nil {
		t.Errorf("read %d bytes", n)
	}
	f.program.Release(1)
}

// A peer that closes its sending side still gets its answers.
func TestHalfClosed(t *testing.T) {
	f := start(t, Config{})
	c := f.raw().(*net.TCPConn)
	if _, err := c.Write(fragments(rpctest.Message(1, rpctest.STALL, u32(1)))); err != nil {
		t.Fatal(err)
	}
	c.CloseWrite()
	ended(t, f.program.Arrived(1))
	f.program.Release(1)
	if all, err := io.ReadAll(c); err != nil || len(all) != 4+24+4 {
		t.Errorf("%d bytes, %v", len(all), err)
	}
}

// A connection that ends does not end its calls; their replies are dropped.
func TestConnectionLostUnderCalls(t *testing.T) {
	f := start(t, Config{})
	c := f.raw()
	for i := range uint32(10) {
		if _, err := c.Write(fragments(rpctest.Message(i, rpctest.HOLD, u32(1)))); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		ended(t, f.program.Arrived(1))
	}
	c.(*net.TCPConn).SetLinger(0)
	c.Close()
	await.Until(t, "the connection is gone", func() bool { return f.Stats().Connections == 0 })
	f.program.Release(1)
	// The calls are sent again on a new connection, and answered from the cache.
	again := f.raw()
	for i := range uint32(10) {
		if _, err := again.Write(fragments(rpctest.Message(i, rpctest.HOLD, u32(1)))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.ReadFull(again, make([]byte, 10*(4+24+8))); err != nil {
		t.Fatal(err)
	}
	if n := f.program.Served[rpctest.HOLD].Load(); n != 10 {
		t.Errorf("executed %d times", n)
	}
}

// A call that the receiving goroutine answers itself allocates no memory, and a batch of such calls
// takes two system calls.
func TestCostOfSmallCalls(t *testing.T) {
	b := newBench(t, Config{})
	var in []byte
	const calls = 3000
	for i := range uint32(calls) {
		in = append(in, fragments(rpctest.Message(i, rpctest.ECHO, func(w *xdr.Writer) { w.Opaque(make([]byte, 88)) }))...)
	}
	s, _ := toyServer(t)
	defer s.Close()
	cfg := Config{RPC: s, Pool: b.pool}.withDefaults()
	st := &script{cut: each(16<<10, true)}
	st.out = make([]byte, 0, 4<<20)
	c := testConn(&cfg, b.pool, st)
	run := func() {
		st.in, st.out = in, st.out[:0]
		st.reads, st.writes, st.budget = 0, 0, 0
		st.receive(func() bool { return c.ready() && len(st.in) > 0 })
	}
	run()
	// The garbage collector empties pools now and then, so there are a few allocations.
	if n := testing.AllocsPerRun(20, run); n > calls/100 {
		t.Errorf("%v allocations for %d calls", n, calls)
	}
	if len(st.out) != calls*(4+24+4+88) {
		t.Fatalf("%d bytes of replies", len(st.out))
	}
	if batches := (len(in) + 16<<10 - 1) / (16 << 10); st.reads > batches || st.writes > batches {
		t.Errorf("%d reads and %d writes for %d batches", st.reads, st.writes, batches)
	}
	c.kill(nil)
	c.out.shut()
	c.drop()
}

// A large result is sent by one write, from its own memory.
func TestLargeResultIsNotCopied(t *testing.T) {
	b := newBench(t, Config{})
	s, _ := toyServer(t)
	defer s.Close()
	cfg := Config{RPC: s, Pool: b.pool}.withDefaults()
	st := &script{in: fragments(rpctest.Message(1, rpctest.SAME, u32(1<<20))), cut: whole}
	c := testConn(&cfg, b.pool, st)
	c.run()
	if st.writes != 1 || len(st.out) != 4+24+4+1<<20 || !st.same(rpctest.Same()) {
		t.Errorf("%d writes of %d bytes", st.writes, len(st.out))
	}
}
