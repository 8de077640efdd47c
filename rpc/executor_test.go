package rpc_test

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

func stall(conn *rpc.Conn, lane uint32) *rpctest.Call {
	return rpctest.NewCall(conn, rpctest.Message(lane<<16, rpctest.STALL, u32(lane)))
}

// A stalled lane holds only its own goroutines. The other lanes continue.
func TestStalledLane(t *testing.T) {
	s, p, conn := newServer(t, rpc.Config{Workers: 8, LaneWorkers: 3})
	var stalled []*rpctest.Call
	for range 100 {
		stalled = append(stalled, stall(conn, 1).Go(s))
	}
	for range 3 {
		ended(t, p.Arrived(1))
	}
	if st := s.Stats(); st.Running != 3 || st.Queued != 97 || st.Handed != 100 {
		t.Fatalf("%+v", st)
	}
	p.Release(2)
	for range 20 {
		if _, err := stall(conn, 2).Run(s).Results(); err != nil {
			t.Fatal(err)
		}
	}
	if len(p.Arrived(1)) != 0 {
		t.Error("more calls of the lane run than may")
	}
	p.Release(1)
	for _, c := range stalled {
		ended(t, c.Done)
		if _, err := c.Results(); err != nil {
			t.Fatal(err)
		}
	}
}

// All lanes together have a bound, too. A lane takes at most half of the remaining goroutines.
// Each lane has at least one, even if all other lanes stall.
func TestWorkersBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, conn := newServer(t, rpc.Config{Workers: 16, LaneWorkers: 12})
		defer s.Close()
		var all []*rpctest.Call
		for lane := range uint32(64) {
			for range 20 {
				all = append(all, stall(conn, lane).Go(s))
			}
		}
		synctest.Wait()
		// The first lanes get 8, 4 and 2, each other lane gets one.
		if st := s.Stats(); st.Running != 8+4+2+61 || st.Workers != st.Running {
			t.Fatalf("%+v", st)
		}
		p.Release(100)
		for range 20 {
			if _, err := stall(conn, 100).Run(s).Results(); err != nil {
				t.Fatal(err)
			}
		}
		for lane := range uint32(64) {
			p.Release(lane)
		}
		for _, c := range all {
			ended(t, c.Done)
		}
	})
}

// Connections take turns: a connection with a hundred waiting calls does not delay another one's
// first call.
func TestFairByConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var order []uint64
		s, p, busy := newServer(t, rpc.Config{Workers: 1, LaneWorkers: 1, Observe: func(e *rpc.Event) {
			mu.Lock()
			order = append(order, e.Conn.ID)
			mu.Unlock()
		}})
		defer s.Close()
		quiet := s.NewConn(peer, local, "tcp", true)
		all := []*rpctest.Call{stall(busy, 1).Go(s)}
		synctest.Wait()
		for range 10 {
			all = append(all, stall(busy, 1).Go(s))
		}
		for range 2 {
			all = append(all, stall(quiet, 1).Go(s))
		}
		p.Release(1)
		for _, c := range all {
			ended(t, c.Done)
		}
		synctest.Wait()
		// The first call ran already. After it the connections alternate.
		if order[1] != busy.ID || order[2] != quiet.ID || order[3] != busy.ID || order[4] != quiet.ID {
			t.Errorf("order %v, quiet is %d", order, quiet.ID)
		}
	})
}

// Client addresses take turns before connections do: a call waits for at most one call of each
// other address, however many connections those have.
func TestFairByAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var order []netip.Addr
		s, p, _ := newServer(t, rpc.Config{Workers: 1, LaneWorkers: 1, Observe: func(e *rpc.Event) {
			mu.Lock()
			order = append(order, e.Conn.Peer.Addr())
			mu.Unlock()
		}})
		defer s.Close()
		conn := func(address string, port uint16) *rpc.Conn {
			return s.NewConn(netip.AddrPortFrom(netip.MustParseAddr(address), port), local, "tcp", true)
		}
		const many, one = "2001:db8::1", "192.0.2.9"
		all := []*rpctest.Call{stall(conn(many, 1), 1).Go(s)}
		synctest.Wait()
		for port := range uint16(10) {
			// All addresses of one /64 prefix count as one client.
			all = append(all, stall(conn(fmt.Sprint("2001:db8::1:", port), 2), 1).Go(s))
		}
		quiet := conn(one, 1)
		for range 3 {
			all = append(all, stall(quiet, 1).Go(s))
		}
		p.Release(1)
		for _, c := range all {
			ended(t, c.Done)
		}
		synctest.Wait()
		for i, a := range order[1:7] {
			if a == quiet.Peer.Addr() != (i%2 == 1) {
				t.Fatalf("order %v", order)
			}
		}
	})
}

// An address whose calls stall leaves goroutines of the lane to later addresses.
func TestAddressLeavesGoroutinesOfALane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, busy := newServer(t, rpc.Config{LaneWorkers: 4})
		defer s.Close()
		conns := []*rpc.Conn{busy}
		for i := range byte(3) {
			conns = append(conns, s.NewConn(netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, 100 + i}), 1), local, "tcp", true))
		}
		var all []*rpctest.Call
		for i, running := range []int{4, 6, 7, 8} {
			for range 20 {
				all = append(all, stall(conns[i], 1).Go(s))
			}
			synctest.Wait()
			if st := s.Stats(); st.Running != running {
				t.Errorf("%d addresses: %+v, want %d running", i+1, st, running)
			}
		}
		p.Release(1)
		for _, c := range all {
			ended(t, c.Done)
		}
	})
}

// When a connection ends, the executor drops its waiting calls and their entries in the
// duplicate-request cache. The same call over another connection is then executed. Calls that
// run, or have run in part, continue to their end.
func TestQueuedCallsOfEndedConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, conn := newServer(t, rpc.Config{LaneWorkers: 1})
		defer s.Close()
		other := s.NewConn(netip.AddrPortFrom(conn.Peer.Addr(), conn.Peer.Port()+1), local, "tcp", true)
		running := stall(conn, 1).Go(s)
		synctest.Wait()
		compound := func(c *rpc.Conn, xid uint32, lane uint32) *rpctest.Call {
			k := rpctest.NewCall(c, rpctest.Message(xid, rpctest.COMPOUND, func(w *xdr.Writer) {
				rpctest.PutCompound(w, []rpctest.Op{{Code: rpctest.OpCount}, {Code: rpctest.OpStall, N: lane}})
			})).Go(s)
			synctest.Wait()
			return k
		}
		begun := compound(conn, 77, 1)
		var waiting []*rpctest.Call
		hold := rpctest.Message(99, rpctest.HOLD, u32(1))
		for xid := range uint32(10) {
			waiting = append(waiting, rpctest.NewCall(conn, rpctest.Message(100+xid, rpctest.HOLD, u32(1))).Go(s))
		}
		waiting = append(waiting, rpctest.NewCall(conn, hold).Go(s))
		synctest.Wait()
		theirs := rpctest.NewCall(other, hold).Go(s) // a call that may be another client's
		synctest.Wait()
		if n := s.Stats().ReplyCache.Entries; n != 11 {
			t.Errorf("%d entries", n)
		}
		conn.Close()
		synctest.Wait()
		for _, c := range waiting {
			select {
			case <-c.Done:
			default:
				t.Fatal("a call of an ended connection waits on")
			}
			if c.End != rpctest.Dropped {
				t.Errorf("it ended with %v", c.End)
			}
		}
		if st := s.Stats(); st.InProgress != 3 || st.Queued != 2 || st.ReplyCache.Entries != 1 {
			t.Errorf("%+v", st)
		}
		late := stall(conn, 1).Go(s)
		ended(t, late.Done)
		if late.End != rpctest.Dropped {
			t.Errorf("a call that came behind the end of its connection ended with %v", late.End)
		}
		p.Release(1)
		for _, c := range []*rpctest.Call{running, begun, theirs} {
			ended(t, c.Done)
			if c.End == rpctest.Dropped {
				t.Error("a call was dropped that had begun, or is another connection's")
			}
		}
	})
}

// A copy that waits for the end of the first call is dropped when its connection ends, because no
// peer is left to answer. So a peer that reconnects repeatedly while a call stalls causes no pile
// of copies.
func TestCopiesOfEndedConnectionsAreDropped(t *testing.T) {
	s, p, conn := newServer(t, rpc.Config{})
	const xid = 5
	hold := rpctest.Message(xid, rpctest.HOLD, u32(1))
	first := rpctest.NewCall(conn, hold).Go(s)
	ended(t, p.Arrived(1))
	var copies []*rpctest.Call
	for i := range uint16(5) {
		// A copy from the same port comes from the same client. A copy from another port only
		// looks the same.
		again := s.NewConn(netip.AddrPortFrom(conn.Peer.Addr(), conn.Peer.Port()+i%2), local, "tcp", true)
		c := rpctest.NewCall(again, hold).Go(s)
		again.Close()
		copies = append(copies, c)
	}
	for i, c := range copies {
		select {
		case <-c.Done:
			if c.End != rpctest.Dropped {
				t.Errorf("copy %d ended with %v", i, c.End)
			}
		default:
			t.Errorf("copy %d is kept for a connection that has ended", i)
		}
	}
	if n := s.Stats().InProgress; n != 1 {
		t.Errorf("%d calls are in progress", n)
	}
	last := rpctest.NewCall(s.NewConn(conn.Peer, local, "tcp", true), hold).Go(s)
	p.Release(1)
	for _, c := range []*rpctest.Call{first, last} {
		ended(t, c.Done)
		if c.End == rpctest.Dropped {
			t.Error("the call itself, or a copy whose connection lives, was not answered")
		}
	}
	if err := s.Drain(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestIdleWorkersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, conn := newServer(t, rpc.Config{IdleWorker: time.Minute})
		defer s.Close()
		var all []*rpctest.Call
		for range 20 {
			all = append(all, stall(conn, 1).Go(s))
		}
		p.Release(1)
		for _, c := range all {
			ended(t, c.Done)
		}
		synctest.Wait()
		if st := s.Stats(); st.Workers == 0 {
			t.Fatalf("%+v", st)
		}
		time.Sleep(59 * time.Second)
		stall(conn, 1).Run(s) // leaves one idle worker
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if st := s.Stats(); st.Workers != 1 {
			t.Fatalf("%+v", st)
		}
		time.Sleep(time.Hour)
		if st := s.Stats(); st.Workers != 0 {
			t.Fatalf("%+v", st)
		}
	})
}

// Close drops the waiting calls and returns when the running calls have ended.
func TestCloseOfServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, conn := newServer(t, rpc.Config{LaneWorkers: 2})
		var all []*rpctest.Call
		for range 10 {
			all = append(all, stall(conn, 1).Go(s))
		}
		synctest.Wait()
		closed := make(chan struct{})
		go func() { s.Close(); close(closed) }()
		synctest.Wait()
		dropped := 0
		for _, c := range all {
			select {
			case <-c.Done:
				dropped++
			default:
			}
		}
		if dropped != 8 {
			t.Errorf("%d calls were dropped", dropped)
		}
		select {
		case <-closed:
			t.Error("Close did not wait for what runs")
		default:
		}
		p.Release(1)
		ended(t, closed)
		if c := rpctest.NewCall(conn, rpctest.Message(1, rpctest.NULL, nil)).Run(s); c.End != rpctest.Dropped {
			t.Errorf("a call after Close ended with %v", c.End)
		}
		if err := s.Drain(context.Background()); err != nil || s.Stats().InProgress != 0 {
			t.Error(err)
		}
	})
}

// CloseWithin drops the waiting calls, and leaves behind the calls that do not end in time.
func TestCloseWithinLeavesBehindWhatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, conn := newServer(t, rpc.Config{LaneWorkers: 2})
		var all []*rpctest.Call
		for range 10 {
			all = append(all, stall(conn, 1).Go(s))
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		if err := s.CloseWithin(ctx); err != context.DeadlineExceeded {
			t.Errorf("with two calls that do not end: %v", err)
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("it took %v", took)
		}
		if st := s.Stats(); st.Running != 2 || st.Queued != 0 || st.InProgress != 2 {
			t.Errorf("%+v", st)
		}
		p.Release(1)
		for _, c := range all {
			ended(t, c.Done)
		}
		if err := s.CloseWithin(t.Context()); err != nil {
			t.Errorf("when they have ended: %v", err)
		}
	})
}

// Lanes returns the running calls of each lane and their durations.
func TestLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, conn := newServer(t, rpc.Config{LaneWorkers: 2})
		defer s.Close()
		if lanes := s.Lanes(); len(lanes) != 0 {
			t.Errorf("before any call: %+v", lanes)
		}
		var all []*rpctest.Call
		begin := func(lane uint32, calls int) {
			for range calls {
				all = append(all, stall(conn, lane).Go(s))
			}
			synctest.Wait()
		}
		begin(1, 1)
		time.Sleep(10 * time.Second)
		begin(1, 4)
		time.Sleep(5 * time.Second)
		begin(2, 1)
		time.Sleep(time.Second)
		want := map[any]rpc.LaneStats{
			uint32(1): {Lane: uint32(1), Running: 2, Queued: 3, Oldest: 16 * time.Second},
			uint32(2): {Lane: uint32(2), Running: 1, Oldest: time.Second},
		}
		check := func() {
			t.Helper()
			got := s.Lanes()
			for _, l := range got {
				if want[l.Lane] != l {
					t.Errorf("%+v, want %+v", l, want[l.Lane])
				}
			}
			if len(got) != len(want) {
				t.Errorf("%d lanes, want %d", len(got), len(want))
			}
		}
		check()
		// The calls of lane 1 run, two at a time, and a goroutine passes from one call to the
		// next.
		p.Release(1)
		synctest.Wait()
		time.Sleep(time.Second)
		delete(want, uint32(1))
		want[uint32(2)] = rpc.LaneStats{Lane: uint32(2), Running: 1, Oldest: 2 * time.Second}
		check()
		p.Release(2)
		for _, c := range all {
			ended(t, c.Done)
		}
		synctest.Wait()
		if lanes := s.Lanes(); len(lanes) != 0 {
			t.Errorf("after the last call: %+v", lanes)
		}
	})
}

// In steady state, calls that are answered in place allocate nothing, even if their replies are
// kept for replays.
func TestNoAllocationPerCall(t *testing.T) {
	s, _, conn := newServer(t, rpc.Config{ReplyCacheBytes: 32 << 10})
	cred, err := rpc.AuthSysCred(1, "box", 1000, 100, []uint32{1, 2, 3})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		proc uint32
		args []byte
	}{
		{"null", rpctest.NULL, nil},
		{"in place", rpctest.SAME, []byte{0, 0, 1, 0}},
		{"once", rpctest.BUMP, []byte{0, 0, 0, 4, 1, 2, 3, 4}},
		{"refused", 77, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := rpc.CallHeader{Program: rpctest.Number, Version: 1, Procedure: c.proc}
			if c.proc != rpctest.NULL {
				h.Cred = cred
			}
			m := append(rpctest.CallMessage(h, nil), c.args...)
			call := rpctest.NewCall(conn, m)
			xid := uint16(0)
			run := func() {
				xid++
				m[0], m[1] = byte(xid>>8), byte(xid)
				call.Again(conn, m)
				call.Run(s)
			}
			for range 200 {
				run()
			}
			if n := testing.AllocsPerRun(500, run); n != 0 {
				t.Errorf("%v allocations", n)
			}
		})
	}
}

func BenchmarkCallInPlace(b *testing.B) {
	for _, proc := range []uint32{rpctest.NULL, rpctest.BUMP} {
		b.Run(rpctest.Binding.Procedures[proc].Name, func(b *testing.B) {
			s, _, conn := newServer(b, rpc.Config{})
			m := rpctest.CallMessage(rpc.CallHeader{Program: rpctest.Number, Version: 1, Procedure: proc}, nil)
			if proc == rpctest.BUMP {
				m = append(m, 0, 0, 0, 0)
			}
			call := rpctest.NewCall(conn, m)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				m[0], m[1], m[2], m[3] = byte(i>>24), byte(i>>16), byte(i>>8), byte(i)
				call.Again(conn, m)
				call.Run(s)
			}
		})
	}
}

// A lane with calls keeps its last goroutine, although stalled lanes wait for one.
func TestLaneKeepsItsLastGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, conn := newServer(t, rpc.Config{Workers: 5})
		const healthy, b, c = 1, 2, 3
		n := uint32(0)
		call := func(lane uint32) *rpctest.Call {
			n++
			k := rpctest.NewCall(conn, rpctest.Message(lane<<16+n, rpctest.STALL, u32(lane))).Go(s)
			synctest.Wait()
			return k
		}
		first := call(healthy)
		call(c)
		call(c)
		call(b)
		call(b)
		second := call(healthy)
		p.Release(healthy) // calls of this lane no longer stall
		synctest.Wait()
		ended(t, first.Done)
		select {
		case <-second.Done:
		default:
			t.Errorf("a call of the healthy lane has no goroutine: %+v", s.Lanes())
		}
		p.Release(b)
		p.Release(c)
		synctest.Wait()
		s.Close()
	})
}
