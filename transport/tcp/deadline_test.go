package tcp

import (
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/census"
	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
)

// bubble runs a server under testing/synctest, on connections without sockets.
func bubble(t *testing.T, cfg Config, test func(t *testing.T, f *fixture, connect func() net.Conn)) {
	t.Helper()
	bubbleWithin(t, cfg, nil, test)
}

// bubbleWith is bubble with a Census.
func bubbleWith(t *testing.T, limits census.Config, test func(t *testing.T, f *fixture, connect func() net.Conn)) {
	t.Helper()
	bubbleWithin(t, Config{}, &limits, test)
}

func bubbleWithin(t *testing.T, cfg Config, limits *census.Config, test func(t *testing.T, f *fixture, connect func() net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		pool, err := mem.NewPool(mem.Config{Ceiling: 8 << 20, Share: 2 << 20})
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		f := &fixture{TB: t, program: rpctest.NewProgram(), pool: pool, rpc: rpc.NewServer(rpc.Config{})}
		defer f.rpc.Close()
		f.program.Judging = knownByAnyCall
		f.rpc.Register(f.program)
		cfg.RPC, cfg.Pool = f.rpc, pool
		if limits != nil {
			cfg.Census = census.New(*limits)
			defer cfg.Census.Close()
		}
		f.Server = NewServer(cfg)
		defer f.Server.Close()
		test(t, f, func() net.Conn {
			near, far := net.Pipe()
			f.serve(far)
			t.Cleanup(func() { near.Close() })
			return near
		})
	})
}

// gone reports whether the other side closed c.
func gone(c net.Conn) bool {
	c.SetReadDeadline(time.Now().Add(time.Nanosecond))
	_, err := io.Copy(io.Discard, c)
	var ne net.Error
	return !(errors.As(err, &ne) && ne.Timeout())
}

// A peer that stops in the middle of a record loses its connection after the deadline, and the
// server releases the memory that it reserved for the record. A peer that stops between records
// keeps its connection.
func TestStalledRecord(t *testing.T) {
	put := fragments(rpctest.Message(1, rpctest.PUT, func(w *xdr.Writer) {
		w.String("x")
		w.Payload(make([]byte, 1<<20), true, nil)
	}))
	null := fragments(rpctest.Message(1, rpctest.NULL, nil))
	for _, c := range []struct {
		name string
		part []byte
	}{
		{"inside the mark", put[:3]},
		{"behind the mark", put[:4]},
		{"inside the header", null[:30]},
		{"inside the payload", put[:300<<10]},
		{"between fragments", fragments(put[4:], 5000)[:5004]},
		{"inside a record that is not wanted", fragments(make([]byte, 200000), 100000)[:100000]},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, Config{}, func(t *testing.T, f *fixture, connect func() net.Conn) {
				stuck, idle := connect(), connect()
				if _, err := idle.Write(null); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(idle, make([]byte, 28)); err != nil {
					t.Fatal(err)
				}
				go io.Copy(io.Discard, stuck)
				if _, err := stuck.Write(c.part); err != nil {
					t.Fatal(err)
				}
				time.Sleep(29 * time.Second)
				if n := f.Stats().Connections; n != 2 {
					t.Fatalf("%d connections before the deadline", n)
				}
				time.Sleep(10 * time.Second)
				if st := f.Stats(); st.Connections != 1 || st.Stalled != 1 {
					t.Fatalf("%+v", st)
				}
				if n := f.pool.Stats().InUse; n != 0 {
					t.Errorf("%d bytes are still reserved", n)
				}
				if gone(idle) {
					t.Error("the idle connection is gone")
				}
			})
		})
	}
}

// A peer that sends a record byte by byte loses its connection as well, so that it does not hold
// memory for ever.
func TestSlowRecord(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, f *fixture, connect func() net.Conn) {
		c := connect()
		if _, err := c.Write([]byte{0x80, 0, 4, 0}); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			time.Sleep(10 * time.Second)
			if _, err := c.Write([]byte{0}); err != nil {
				if st := f.Stats(); st.Stalled != 1 || st.Received < 25 {
					t.Fatalf("%+v", st)
				}
				return
			}
		}
		t.Fatal("the connection goes on")
	})
}

// A byte that arrives at the moment of a sweep does not restart the time of its record.
func TestSlowRecordMeetsEachSweep(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, f *fixture, connect func() net.Conn) {
		peer := connect()
		if _, err := peer.Write([]byte{0x80, 0, 4, 0}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		var c *conn
		for c = range f.Server.conns {
		}
		now := time.Now()
		for range 2 * 2 * recordDeadlines {
			if c.dead() {
				return
			}
			now = now.Add(c.cfg.Stall / 2)
			c.received.Add(1)
			c.doing.Store(atWork)
			c.sweep(now)
			now = now.Add(c.cfg.Stall / 2)
			c.received.Add(1)
			c.doing.Store(insideRec)
			c.sweep(now)
		}
		t.Error("the connection goes on")
	})
}

// A peer that does not read loses its connection after the deadline. Until then the server stops
// reading from it once its queue is full, and no other connection waits.
func TestPeerThatDoesNotRead(t *testing.T) {
	bubble(t, Config{MaxQueue: 1 << 20}, func(t *testing.T, f *fixture, connect func() net.Conn) {
		deaf, other := connect(), connect()
		get := fragments(rpctest.Message(1, rpctest.GET, u32(400<<10)))
		go func() {
			for {
				if _, err := deaf.Write(get); err != nil {
					return
				}
			}
		}()
		synctest.Wait()
		st := f.Stats()
		if st.Queued < 1<<20 || st.Queued > 2<<20 || st.Gated != 1 {
			t.Fatalf("%+v", st)
		}
		if _, err := other.Write(fragments(rpctest.Message(1, rpctest.NULL, nil))); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(other, make([]byte, 28)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(25 * time.Second)
		if n := f.Stats().Connections; n != 2 {
			t.Fatalf("%d connections before the deadline", n)
		}
		time.Sleep(10 * time.Second)
		if st := f.Stats(); st.Connections != 1 || st.Stalled != 1 || st.Queued != 0 {
			t.Fatalf("%+v", st)
		}
		if n := f.pool.Stats().InUse; n != 0 {
			t.Errorf("%d bytes are still in use", n)
		}
	})
}

// A peer that reads slowly keeps its connection.
func TestPeerThatReadsSlowly(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, f *fixture, connect func() net.Conn) {
		c := connect()
		if _, err := c.Write(fragments(rpctest.Message(1, rpctest.WIDE, u32(4096)))); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			time.Sleep(20 * time.Second)
			// A pipe passes a write on in parts, and the server counts the bytes only at the end of
			// a write. So the test reads whole writes.
			if _, err := io.ReadFull(c, make([]byte, 4096+32)); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Write(fragments(rpctest.Message(1, rpctest.WIDE, u32(4096)))); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestIdleConnection(t *testing.T) {
	bubble(t, Config{Idle: time.Minute}, func(t *testing.T, f *fixture, connect func() net.Conn) {
		idle, waiting := connect(), connect()
		if _, err := waiting.Write(fragments(rpctest.Message(1, rpctest.STALL, u32(1)))); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		if !gone(idle) || gone(waiting) {
			t.Fatalf("idle gone: %v, waiting gone: %v", gone(idle), gone(waiting))
		}
		f.program.Release(1)
		waiting.SetReadDeadline(time.Time{})
		if _, err := io.ReadFull(waiting, make([]byte, 4+24+4)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		if !gone(waiting) || f.Stats().Stalled != 0 {
			t.Error("not gone, or counted as stalled")
		}
	})
}

// Shutdown does not wait for ever for a peer that does not close its side, nor for one that does
// not read its replies.
func TestShutdownAndSilentPeers(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, f *fixture, connect func() net.Conn) {
		silent, deaf := connect(), connect()
		if _, err := deaf.Write(fragments(rpctest.Message(1, rpctest.GET, u32(5000)))); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		began := time.Now()
		if err := f.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(began); d < 30*time.Second || d > time.Minute {
			t.Errorf("took %v", d)
		}
		if !gone(silent) || f.Stats().Connections != 0 {
			t.Error("a connection is left")
		}
	})
}

// A connection that waits for memory delays no other, and goes on when memory is free. The server
// does not wait for memory for a peer that has left.
func TestWaitingForMemory(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, f *fixture, connect func() net.Conn) {
		var held []*mem.Buffer
		// The test takes all memory except the reserve for small requests.
		for size := 2 << 20; size >= 1<<20; {
			if b, ok := f.pool.NewShare().TryGet(size); ok {
				held = append(held, b)
			} else {
				size /= 2
			}
		}
		put := fragments(rpctest.Message(1, rpctest.PUT, func(w *xdr.Writer) {
			w.String("x")
			w.Payload(make([]byte, 1<<20), true, nil)
		}))
		waits, leaves, small := connect(), connect(), connect()
		go waits.Write(put)
		go leaves.Write(put)
		synctest.Wait()
		if n := f.pool.Stats().Waiting; n != 2 {
			t.Fatalf("%d requests wait", n)
		}
		if _, err := small.Write(fragments(rpctest.Message(1, rpctest.NULL, nil))); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(small, make([]byte, 28)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour) // the peers' deadlines do not advance
		if n := f.Stats().Connections; n != 3 {
			t.Fatalf("%d connections", n)
		}
		leaves.Close()
		f.end(2)
		synctest.Wait()
		if n := f.pool.Stats().Waiting; n != 1 {
			t.Fatalf("%d requests wait", n)
		}
		held[0].Release()
		if _, err := io.ReadFull(waits, make([]byte, 4+24+8)); err != nil {
			t.Fatal(err)
		}
		for _, b := range held[1:] {
			b.Release()
		}
	})
}

// On sockets, too, bytes that the socket does not take wait, and the peer loses its connection at
// the deadline.
func TestDeadlinesOnSockets(t *testing.T) {
	f := start(t, Config{MaxQueue: 1 << 20, Stall: time.Hour})
	deaf, stuck := f.raw(), f.raw()
	get := fragments(rpctest.Message(1, rpctest.GET, u32(1<<20)))
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for {
			if _, err := deaf.Write(get); err != nil {
				return
			}
		}
	}()
	if _, err := stuck.Write(get[:20]); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the connection that is not read from is not read", func() bool {
		st := f.Stats()
		return st.Gated > 0 && st.Queued >= 1<<20
	})
	if st := f.Stats(); st.Queued > 3<<20 {
		t.Errorf("%+v", st)
	}
	now := time.Now()
	var written uint64
	await.Until(t, "the socket has taken what it will", func() bool {
		st := f.Stats()
		f.sweep(now)
		took := st.Sent != written
		written = st.Sent
		return !took && st.Queued > 1<<20
	})
	f.sweep(now.Add(59 * time.Minute))
	await.Until(t, "the other one is within a record", func() bool { return f.inside() == 1 })
	f.sweep(now.Add(59 * time.Minute))
	at := now.Add(3 * time.Hour)
	await.Until(t, "both connections are gone", func() bool {
		f.sweep(at) // a write may have been under way at the last sweep
		at = at.Add(2 * time.Hour)
		return f.Stats().Connections == 0
	})
	if st := f.Stats(); st.Stalled != 2 {
		t.Errorf("%+v", st)
	}
	ended(t, sent)
}

// end ends the connection whose rpc.Conn has that ID.
func (f *fixture) end(id uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		if c.peer.ID == id {
			c.kill(errClosing)
		}
	}
}

// inside returns the number of connections that wait for the rest of a record.
func (f *fixture) inside() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		if c.doing.Load() == insideRec && c.received.Load() > 0 {
			n++
		}
	}
	return n
}

// If a peer closes its side while calls are under way, the connection waits for their answers for
// the time Unanswered. If Unanswered is 0, it waits without a limit.
func TestUnansweredCallsOfAPeerThatLeft(t *testing.T) {
	const lane = 4
	for limit, ends := range map[time.Duration]bool{0: false, time.Minute: true} {
		var why error
		bubble(t, Config{Unanswered: limit, Event: func(e Event) {
			if e.Conn == nil {
				t.Errorf("%v without its connection", e.Kind)
			}
			if e.Kind == EventClosed {
				why = e.Err
			}
		}}, func(t *testing.T, f *fixture, connect func() net.Conn) {
			c := connect()
			c.Write(fragments(rpctest.Message(1, rpctest.STALL, u32(lane))))
			<-f.program.Arrived(lane)
			time.Sleep(time.Hour) // a peer that has not closed its side may wait
			c.Close()
			time.Sleep(50 * time.Second)
			if n := f.Stats().Connections; n != 1 {
				t.Errorf("limit %v: %d connections before its end", limit, n)
			}
			time.Sleep(time.Hour)
			if n := f.Stats().Connections; (n == 0) != ends {
				t.Errorf("limit %v: %d connections after its end", limit, n)
			}
			f.program.Release(lane)
			synctest.Wait()
			if ends != (why == errUnanswered) {
				t.Errorf("limit %v: ended with %v", limit, why)
			}
		})
	}
}
