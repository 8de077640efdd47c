package rpc_test

import (
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// Server.Uses adds up what all connections of a client address have used, those that have ended included.
func TestUseOfClients(t *testing.T) {
	s, _, _ := newServer(t, rpc.Config{})
	dial := func(peer string) *rpc.Conn {
		return s.NewConn(netip.MustParseAddrPort(peer), local, "tcp", true)
	}
	a, b, other := dial("192.0.2.1:700"), dial("192.0.2.1:701"), dial("192.0.2.2:700")
	for _, c := range []*rpc.Conn{a, b, other} {
		ended(t, rpctest.NewCall(c, rpctest.Message(7, rpctest.ECHO, func(w *xdr.Writer) { w.String("hello") })).Go(s).Done)
	}
	a.DidRead(100)
	b.DidRead(20)
	b.DidWrite(3)
	want := func(address string, use rpc.Use) {
		t.Helper()
		clients, _ := s.Uses()
		if got := clients[netip.MustParseAddr(address)]; got != use {
			t.Errorf("%s: %+v, want %+v", address, got, use)
		}
	}
	want("192.0.2.1", rpc.Use{Calls: 2, Read: 120, Written: 3, Connections: 2})
	a.Close()
	a.Close()
	want("192.0.2.1", rpc.Use{Calls: 2, Read: 120, Written: 3, Connections: 1})
	b.Close()
	dial("192.0.2.3:700").Close()
	want("192.0.2.1", rpc.Use{Calls: 2, Read: 120, Written: 3})
	want("192.0.2.2", rpc.Use{Calls: 1, Connections: 1})
	if clients, _ := s.Uses(); len(clients) != 3 { // one is the connection of newServer
		t.Errorf("a client that has used nothing is remembered: %v", clients)
	}
}

// With Config.Observe, the server adds up the time that the calls of a client take. With several connections that is
// more than the time that has passed.
func TestTimeOfCallsIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, a := newServer(t, rpc.Config{Workers: 8, LaneWorkers: 4, Observe: func(*rpc.Event) {}})
		defer s.Close()
		b := s.NewConn(peer, local, "tcp", true)
		calls := []*rpctest.Call{stall(a, 1).Go(s), stall(b, 2).Go(s)}
		time.Sleep(3 * time.Second)
		p.Release(1)
		p.Release(2)
		for _, c := range calls {
			ended(t, c.Done)
		}
		a.Close()
		clients, _ := s.Uses()
		if use := clients[peer.Addr()]; use.Took != 6*time.Second || use.Calls != 2 || use.Connections != 1 {
			t.Errorf("%+v", use)
		}
	})
}

// SetObserve makes the server tell of each call that ends, and of the duration of those that begin after it. A call that was
// in progress has none.
func TestObserveIsSetWhileCallsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, conn := newServer(t, rpc.Config{Workers: 8, LaneWorkers: 4})
		defer s.Close()
		var took []int64
		early := stall(conn, 1).Go(s)
		synctest.Wait()
		s.SetObserve(func(e *rpc.Event) { took = append(took, e.Nanoseconds) })
		time.Sleep(time.Second)
		p.Release(1)
		ended(t, early.Done)
		late := stall(conn, 2).Go(s)
		time.Sleep(3 * time.Second)
		p.Release(2)
		ended(t, late.Done)
		synctest.Wait()
		if want := []int64{0, int64(3 * time.Second)}; !slices.Equal(took, want) {
			t.Errorf("the calls took %v, want %v", took, want)
		}
	})
}

// Of clients without connections the server remembers a bounded number, and nothing that they have used is lost.
func TestForgottenClientsCount(t *testing.T) {
	s, _, _ := newServer(t, rpc.Config{})
	const n = 5000
	for i := range n {
		c := s.NewConn(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 700), local, "tcp", true)
		c.DidRead(1)
		c.Close()
	}
	clients, forgotten := s.Uses()
	if len(clients) > 1025 {
		t.Errorf("%d clients are remembered", len(clients))
	}
	for _, use := range clients {
		forgotten.Read += use.Read
	}
	if forgotten.Read != n {
		t.Errorf("of %d bytes %d are counted", n, forgotten.Read)
	}
}
