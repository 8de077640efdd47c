package rpc_test

import (
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
)

func stall(conn *rpc.Conn, lane uint32) *rpctest.Call {
	return rpctest.NewCall(conn, rpctest.Message(lane<<16, rpctest.STALL, u32(lane)))
}

// Calls that stall in one lane use only the workers of that lane. Calls in other lanes are
// executed.
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

// When the last call of a lane ends, the other lanes get all the workers that they may have from then on.
func TestWorkersOfALaneThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, conn := newServer(t, rpc.Config{Workers: 24, LaneWorkers: 24})
		defer s.Close()
		var all []*rpctest.Call
		for _, in := range []struct{ lane, calls, running uint32 }{{1, 16, 16}, {2, 1, 17}, {3, 20, 23}} {
			for range in.calls {
				all = append(all, stall(conn, in.lane).Go(s))
			}
			synctest.Wait()
			if st := s.Stats(); st.Running != int(in.running) {
				t.Fatalf("after the calls of lane %d: %+v", in.lane, st)
			}
		}
		p.Release(2)
		synctest.Wait()
		// Two lanes and the next one have a third of the workers each.
		if st := s.Stats(); st.Running != 16+8 {
			t.Errorf("%d calls run", st.Running)
		}
		p.Release(1)
		p.Release(3)
		for _, c := range all {
			ended(t, c.Done)
		}
	})
}

// Config.Workers bounds the workers of all lanes together. Each lane has at least one, even if all other
// lanes stall.
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
		// The first lane gets three quarters of the workers, the second one the rest, each other lane one.
		if st := s.Stats(); st.Running != 12+4+62 || st.Workers != st.Running {
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

// Lanes that have their equal parts of the workers leave another lane its part, and one for the next lane.
func TestLanesHaveEqualParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, conn := newServer(t, rpc.Config{Workers: 20, LaneWorkers: 16})
		defer s.Close()
		var all []*rpctest.Call
		for lane := range uint32(4) {
			for range []int{4, 4, 4, 20}[lane] {
				all = append(all, stall(conn, lane).Go(s))
			}
		}
		synctest.Wait()
		// Of the 8 workers that the first three lanes leave, the fourth lane may have 6.
		if st := s.Stats(); st.Running != 3*4+6 {
			t.Errorf("%+v", st)
		}
		for range 20 {
			all = append(all, stall(conn, 4).Go(s))
		}
		synctest.Wait()
		// A fifth lane may have 20/6 workers, and 2 are free.
		if st := s.Stats(); st.Running != 20 {
			t.Errorf("%+v", st)
		}
		for lane := range uint32(5) {
			p.Release(lane)
		}
		for _, c := range all {
			ended(t, c.Done)
		}
	})
}

// The executor takes calls from the connections of a lane in turn: a connection with a hundred
// waiting calls does not delay another connection's first call.
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
		// The first call ran before the others came. After it, the connections alternate.
		if order[1] != busy.ID || order[2] != quiet.ID || order[3] != busy.ID || order[4] != quiet.ID {
			t.Errorf("order %v, quiet is %d", order, quiet.ID)
		}
	})
}

// The executor takes calls from client addresses in turn, and for each address from its connections
// in turn. So a call waits for at most one call of each other address, however many connections
// that address has.
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

// An address whose calls stall does not use all workers of a lane, nor do the addresses of a site: calls of another
// address are executed, and of a later site, for which the addresses of a site leave a quarter.
func TestAddressLeavesGoroutinesOfALane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, busy := newServer(t, rpc.Config{LaneWorkers: 4})
		defer s.Close()
		conns := []*rpc.Conn{busy}
		for i := range byte(4) { // the last one is of another site
			conns = append(conns, s.NewConn(netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2 + i/3, 100 + i}), 1), local, "tcp", true))
		}
		var all []*rpctest.Call
		for i, running := range []int{4, 6, 6, 6, 8} {
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
		// The calls of lane 1 now run, two at a time. A worker that ends one call begins another.
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

// A lane with calls keeps a worker, although stalled lanes wait for a worker.
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
		p.Release(healthy) // calls in this lane no longer wait
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
