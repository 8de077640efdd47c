package rpc_test

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
)

// from returns a connection from the given port of 192.0.2.7.
func from(s *rpc.Server, port uint16) *rpc.Conn {
	return s.NewConn(netip.AddrPortFrom(peer.Addr(), port), local, "tcp", true)
}

// A copy on another connection is answered from the cache if both connections must belong to the
// same client.
func TestConnectionsThatMayClaimAReply(t *testing.T) {
	for name, c := range map[string]struct {
		port uint16
		left func(old *rpc.Conn, left *atomic.Bool)
	}{
		"the former one has ended":          {701, func(old *rpc.Conn, _ *atomic.Bool) { old.Close() }},
		"the former one's peer has left it": {701, func(_ *rpc.Conn, left *atomic.Bool) { left.Store(true) }},
		"the port is the same":              {700, func(*rpc.Conn, *atomic.Bool) {}},
	} {
		t.Run(name, func(t *testing.T) {
			s, p, _ := newServer(t, rpc.Config{})
			var left atomic.Bool
			old := from(s, 700)
			old.Left = left.Load
			done, running := rpctest.Message(1, rpctest.BUMP, bump("")), rpctest.Message(2, rpctest.HOLD, u32(9))
			n := counter(t, rpctest.NewCall(old, done).Run(s))
			first := rpctest.NewCall(old, running).Go(s)
			ended(t, p.Arrived(9))
			c.left(old, &left)
			now := from(s, c.port)
			if again := counter(t, rpctest.NewCall(now, done).Run(s)); again != n {
				t.Errorf("%d, then %d: executed again", n, again)
			}
			second := rpctest.NewCall(now, running).Go(s)
			p.Release(9)
			ended(t, first.Done)
			ended(t, second.Done)
			if a, b := counter(t, first), counter(t, second); a != b {
				t.Errorf("%d and %d: a running call was executed again", a, b)
			}
			// A call that the server now reads from the old connection is older than the calls on
			// the new one, so it is not executed.
			late := rpctest.NewCall(old, rpctest.Message(3, rpctest.BUMP, bump(""))).Run(s)
			if late.End != rpctest.DroppedAndClosed || s.Stats().ReplyCache.Lagging != 1 {
				t.Errorf("a call of a connection that another one succeeds ended with %v", late.End)
			}
			// A copy on the old connection is not executed, and the reply still belongs to the new
			// connection.
			executed := p.Served[rpctest.BUMP].Load()
			rpctest.NewCall(old, done).Run(s)
			if p.Served[rpctest.BUMP].Load() != executed {
				t.Error("a copy on the former connection was executed")
			}
			if again := counter(t, rpctest.NewCall(now, done).Run(s)); again != n {
				t.Error("a copy on the former connection took the reply back")
			}
		})
	}
}

// Two connected clients behind one address that use the same XIDs do not get each other's replies.
func TestClientsBehindOneAddressShareNoReplies(t *testing.T) {
	s, p, _ := newServer(t, rpc.Config{})
	a, b := from(s, 700), from(s, 701)
	m := rpctest.Message(1, rpctest.BUMP, bump("MKDIR lock"))
	first, second := counter(t, rpctest.NewCall(a, m).Run(s)), counter(t, rpctest.NewCall(b, m).Run(s))
	if first == second {
		t.Errorf("two clients, each on its own living connection: both are told %d", first)
	}
	if x, y := counter(t, rpctest.NewCall(a, m).Run(s)), counter(t, rpctest.NewCall(b, m).Run(s)); x != first || y != second {
		t.Errorf("asked again: %d and %d, before %d and %d", x, y, first, second)
	}
	// The second call begins only after the first has ended, because both may come from the same
	// client.
	held := rpctest.Message(2, rpctest.HOLD, u32(9))
	one := rpctest.NewCall(a, held).Go(s)
	ended(t, p.Arrived(9))
	two := rpctest.NewCall(b, held).Go(s)
	select {
	case <-p.Arrived(9):
		t.Error("two calls that may be copies run beside each other")
	case <-two.Done:
		t.Error("the second has an answer before the first")
	default:
	}
	p.Release(9)
	ended(t, one.Done)
	ended(t, two.Done)
	if x, y := counter(t, one), counter(t, two); x == y {
		t.Errorf("both are told %d", x)
	}
}

// A client whose credential has a machine name gets its stored reply even if its earlier connection
// may still be alive. Two such clients do not get each other's replies.
func TestClientsThatNameTheirMachine(t *testing.T) {
	s, _, _ := newServer(t, rpc.Config{})
	as := func(machine string) []byte {
		a, err := rpc.AuthSysCred(9, machine, 0, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		return rpctest.CallMessage(rpc.CallHeader{XID: 1, Program: rpctest.Number, Version: 1, Procedure: rpctest.BUMP, Cred: a}, bump("tag"))
	}
	old, now, other := from(s, 700), from(s, 701), from(s, 702)
	first := counter(t, rpctest.NewCall(old, as("one")).Run(s))
	if n := counter(t, rpctest.NewCall(now, as("one")).Run(s)); n != first {
		t.Errorf("executed again as number %d", n)
	}
	if n := counter(t, rpctest.NewCall(other, as("two")).Run(s)); n == first {
		t.Error("another machine is told of the first one's success")
	}
	if n := counter(t, rpctest.NewCall(old, as("one")).Run(s)); n != first {
		t.Error("a copy on the older connection was executed")
	}
}

// If the same call was already made on a newer connection, a call on an older connection is not
// executed, and the older connection is closed. If it belongs to another client after all, that
// client repeats the call over a new connection.
func TestLaggingConnectionEnds(t *testing.T) {
	s, p, _ := newServer(t, rpc.Config{})
	old, now := from(s, 700), from(s, 701)
	m := rpctest.Message(1, rpctest.BUMP, bump(""))
	n := counter(t, rpctest.NewCall(now, m).Run(s))
	for range 2 {
		if c := rpctest.NewCall(old, m).Run(s); c.End != rpctest.DroppedAndClosed {
			t.Fatalf("ended with %v", c.End)
		}
	}
	if executed := p.Served[rpctest.BUMP].Load(); executed != 1 {
		t.Errorf("executed %d times", executed)
	}
	old.Close()
	if counter(t, rpctest.NewCall(from(s, 700), m).Run(s)) == n {
		t.Error("another client is told of the first one's success")
	}
}

// A client that repeats a call every minute gets the stored reply each time.
func TestClientThatKeepsAskingIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, conn := newServer(t, rpc.Config{})
		defer s.Close()
		m := rpctest.Message(1, rpctest.BUMP, bump("REMOVE f"))
		for at := 0; at <= 240; at += 60 {
			if n := counter(t, rpctest.NewCall(conn, m).Run(s)); n != 1 {
				t.Errorf("asked again after %d s, every 60 s before: executed as number %d", at, n)
			}
			time.Sleep(60 * time.Second)
		}
	})
}

// 1,000 clients have 64 outstanding calls each, and repeat all of them, as after the restart of a
// switch. The cache has memory for all replies, if the results are as long as those of CREATE.
func TestRoomForRepliesOfManyClients(t *testing.T) {
	const clients = 1000
	s, p, _ := newServer(t, rpc.Config{}) // the default of Config.ReplyCacheBytes
	all := func(port uint16) {
		conns := make([]*rpc.Conn, clients)
		for i := range conns {
			conns[i] = s.NewConn(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i / 250), byte(i % 250), 1}), port), local, "tcp", true)
			defer conns[i].Close()
		}
		for xid := range uint32(64) {
			m := rpctest.Message(xid, rpctest.FETCH, u32(268))
			for _, c := range conns {
				if _, err := rpctest.NewCall(c, m).Run(s).Results(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	all(700)
	first := p.Served[rpctest.FETCH].Load()
	all(701)
	if again := p.Served[rpctest.FETCH].Load() - first; first != 64*clients || again > 0 {
		t.Errorf("%d calls, %d of them executed again", first, again)
	}
	if st := s.Stats().ReplyCache; st.Young+st.Surplus > 0 {
		t.Errorf("%+v", st)
	} else {
		t.Logf("%d entries, %d MiB", st.Entries, st.Bytes>>20)
	}
}

// A host that opens many connections from several addresses of one /64 prefix does not displace the
// safe replies of other clients.
func TestManyConnectionsOfOneClientTakeNoRoom(t *testing.T) {
	s, p, _ := newServer(t, rpc.Config{ReplyCacheBytes: 256 << 10})
	honest := s.NewConn(netip.MustParseAddrPort("[2001:db8:1::1]:700"), local, "tcp", true)
	do := func(conn *rpc.Conn, xid uint32) uint64 {
		return counter(t, rpctest.NewCall(conn, rpctest.Message(xid, rpctest.BUMP, bump(""))).Run(s))
	}
	var want [64]uint64
	for xid := range want {
		want[xid] = do(honest, uint32(xid))
	}
	network := netip.MustParseAddr("2001:db8:2::").As16()
	for i := range uint32(5000) {
		binary.BigEndian.PutUint32(network[12:], i)
		do(s.NewConn(netip.AddrPortFrom(netip.AddrFrom16(network), 700), local, "tcp", true), i)
	}
	before := p.Served[rpctest.BUMP].Load()
	for xid := range want {
		if n := do(honest, uint32(xid)); n != want[xid] {
			t.Fatalf("call %d was executed again", xid)
		}
	}
	st := s.Stats().ReplyCache
	if p.Served[rpctest.BUMP].Load() != before || st.Young == 0 || st.Bytes > 256<<10 {
		t.Errorf("%+v", st)
	}
	// A client that makes many calls does not displace them either: it first loses its own surplus.
	busy := s.NewConn(netip.MustParseAddrPort("192.0.2.9:700"), local, "tcp", true)
	young := st.Young
	for i := range uint32(5000) {
		do(busy, i)
	}
	if n := do(honest, 0); n != want[0] {
		t.Error("a busy client took another one's reply")
	}
	if st := s.Stats().ReplyCache; st.Surplus == 0 {
		t.Errorf("%+v, %d young before", st, young)
	}
}

// A site that makes calls from more addresses than another client has replies displaces no safe reply
// of that client: neither from thousands of /64s of one /48, nor from the addresses of one IPv4 /24.
func TestManyAddressesOfOneSiteTakeNoRoom(t *testing.T) {
	for name, network := range map[string]struct {
		addresses int
		at        func(i int) netip.Addr
	}{
		"IPv6": {2200, func(i int) netip.Addr {
			b := netip.MustParseAddr("2001:db8:2::1").As16()
			binary.BigEndian.PutUint16(b[6:], uint16(i))
			return netip.AddrFrom16(b)
		}},
		"IPv4": {250, func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}) }},
	} {
		t.Run(name, func(t *testing.T) {
			s, p, _ := newServer(t, rpc.Config{ReplyCacheBytes: 256 << 10})
			honest := s.NewConn(netip.MustParseAddrPort("[2001:db8:ffff::1]:700"), local, "tcp", true)
			do := func(conn *rpc.Conn, xid uint32) uint64 {
				return counter(t, rpctest.NewCall(conn, rpctest.Message(xid, rpctest.BUMP, bump(""))).Run(s))
			}
			var want [100]uint64
			for xid := range want {
				want[xid] = do(honest, uint32(xid))
			}
			for i := range network.addresses {
				conn := s.NewConn(netip.AddrPortFrom(network.at(i), 700), local, "tcp", true)
				for xid := range uint32(10) {
					do(conn, xid)
				}
			}
			before := p.Served[rpctest.BUMP].Load()
			honest.Close()
			again := s.NewConn(netip.MustParseAddrPort("[2001:db8:ffff::1]:701"), local, "tcp", true)
			for xid := range want {
				if n := do(again, uint32(xid)); n != want[xid] {
					t.Fatalf("call %d was executed again", xid)
				}
			}
			if err := s.CheckReplies(); err != nil || p.Served[rpctest.BUMP].Load() != before || s.Stats().ReplyCache.Young == 0 {
				t.Errorf("%v, %+v", err, s.Stats().ReplyCache)
			}
		})
	}
}

// Strangers in any number of sites displace no safe reply of a known client.
func TestStrangersTakeNoRoomOfKnownClients(t *testing.T) {
	s, p, _ := newServer(t, rpc.Config{ReplyCacheBytes: 256 << 10})
	known := from(s, 700)
	known.MarkKnown()
	do := func(conn *rpc.Conn, xid uint32) uint64 {
		return counter(t, rpctest.NewCall(conn, rpctest.Message(xid, rpctest.BUMP, bump(""))).Run(s))
	}
	var want [100]uint64
	for xid := range want {
		want[xid] = do(known, uint32(xid))
	}
	for i := range 5000 {
		do(s.NewConn(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 1}), 700), local, "tcp", true), uint32(i))
	}
	before := p.Served[rpctest.BUMP].Load()
	for xid := range want {
		if n := do(known, uint32(xid)); n != want[xid] {
			t.Fatalf("call %d was executed again", xid)
		}
	}
	if p.Served[rpctest.BUMP].Load() != before || s.Stats().ReplyCache.Young == 0 {
		t.Errorf("%+v", s.Stats().ReplyCache)
	}
}

// If a connection's window is larger than the largest surplus, the cache stores the replies of the
// whole window.
func TestWindowOfManyCallsIsSafe(t *testing.T) {
	const window = 5000
	s, p, conn := newServer(t, rpc.Config{})
	conn.Window = window
	m := rpctest.Message(0, rpctest.BUMP, bump(""))
	c := rpctest.NewCall(conn, m)
	for range 2 {
		for xid := range uint32(window) {
			binary.BigEndian.PutUint32(m, xid)
			c.Again(conn, m)
			c.Run(s)
		}
	}
	if n := p.Served[rpctest.BUMP].Load(); n != window {
		t.Errorf("%d calls, each made twice: %d were executed", window, n)
	}
}

// If the cache has a reply for the call's own connection, it does not call Conn.Left of other
// connections, because that is a system call under the lock of the cache.
func TestCopyOnItsOwnConnectionAsksNoOther(t *testing.T) {
	s, _, _ := newServer(t, rpc.Config{})
	m := rpctest.Message(1, rpctest.BUMP, bump(""))
	asked, told := 0, make([]uint64, 3)
	conns := make([]*rpc.Conn, len(told))
	for i := range conns {
		conns[i] = from(s, uint16(700+i))
		conns[i].Left = func() bool { asked++; return false }
		told[i] = counter(t, rpctest.NewCall(conns[i], m).Run(s))
	}
	asked = 0
	for i, c := range conns {
		if n := counter(t, rpctest.NewCall(c, m).Run(s)); n != told[i] {
			t.Errorf("connection %d is told %d, and %d before", i, n, told[i])
		}
	}
	if asked != 0 {
		t.Errorf("the cache asked %d times", asked)
	}
}

// If too many connections have entries with the same key, the oldest entry is deleted.
func TestTwinsAreFew(t *testing.T) {
	s, _, _ := newServer(t, rpc.Config{})
	m := rpctest.Message(1, rpctest.BUMP, bump(""))
	told := make(map[uint64]string)
	var conns []*rpc.Conn
	for i := range 20 {
		conns = append(conns, from(s, uint16(700+i)))
		n := counter(t, rpctest.NewCall(conns[i], m).Run(s))
		if other := told[n]; other != "" {
			t.Fatalf("connection %d and %s are both told %d", i, other, n)
		}
		told[n] = fmt.Sprint("connection ", i)
	}
	if n := s.Stats().ReplyCache.Entries; n != 4 {
		t.Errorf("%d entries", n)
	}
}
