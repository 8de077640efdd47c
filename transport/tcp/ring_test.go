package tcp

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/turns"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
)

// A served is a program that notes the peers whose calls it serves.
type served struct {
	*rpctest.Program
	peers chan netip.AddrPort
}

func (s *served) Serve(c *rpc.Call, w *xdr.Writer) rpc.Outcome {
	s.peers <- c.Conn.Peer
	return s.Program.Serve(c, w)
}

// holdRing replaces the rings by a single one, and borrows it. The returned function gives it back.
// The caller starts its server afterwards, so that the server ends before the rings come back.
func holdRing(t *testing.T) (giveBack func()) {
	all := rings
	rings = &turns.Pool[*ring]{Most: 1, New: func() *ring { return new(ring) }}
	t.Cleanup(func() { rings = all })
	held, _ := rings.Borrow(new(turns.Borrower[*ring]))
	return func() { rings.GiveBack(held) }
}

// Among connections that wait for a ring, client addresses take turns. So the calls of a client
// wait for one connection of each other client, not for all of them.
func TestRingsGoFromAddressToAddress(t *testing.T) {
	giveBack := holdRing(t)
	var s *served
	f := startProgram(t, Config{}, rpc.Config{}, func(p *rpctest.Program) rpc.Program {
		s = &served{p, make(chan netip.AddrPort, 4)}
		return s
	})
	var from []netip.AddrPort
	for i, address := range []string{"127.0.0.2", "127.0.0.2", "127.0.0.2", "127.0.0.3"} {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
		c, err := d.Dial("tcp", f.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write(fragments(rpctest.Message(uint32(i), rpctest.NULL, nil))); err != nil {
			t.Fatal(err)
		}
		from = append(from, c.LocalAddr().(*net.TCPAddr).AddrPort())
		await.Until(t, fmt.Sprintf("connection %d waits for a ring", i), func() bool { return borrowers(f) == i+1 })
	}
	giveBack()
	for _, want := range []int{0, 3, 1, 2} {
		if got := <-s.peers; got != from[want] {
			t.Errorf("connection %d is served, want %d", slices.Index(from, got), want)
		}
	}
}

// borrowers returns how many connections of the server wait for a ring.
func borrowers(f *fixture) (n int) {
	f.Server.mu.Lock()
	defer f.Server.mu.Unlock()
	for c := range f.Server.conns {
		if rings.Waits(&c.lent) {
			n++
		}
	}
	return n
}

// A connection that has many calls lets another connection use its ring when that connection has
// waited for turnTime. The calls that the ring already had are served afterwards.
func TestRingIsHandedOn(t *testing.T) {
	giveBack := holdRing(t)
	var s *served
	f := startProgram(t, Config{}, rpc.Config{}, func(p *rpctest.Program) rpc.Program {
		s = &served{p, make(chan netip.AddrPort)} // each call waits until the test takes its peer
		return s
	})
	giveBack()
	const calls = 100
	busy, other := f.raw(), f.raw()
	var batch []byte
	for i := range uint32(calls) {
		batch = append(batch, fragments(rpctest.Message(i, rpctest.NULL, nil))...)
	}
	if _, err := busy.Write(batch); err != nil {
		t.Fatal(err)
	}
	<-s.peers
	if _, err := other.Write(fragments(rpctest.Message(0, rpctest.NULL, nil))); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the other connection waits for a ring", func() bool { return borrowers(f) == 1 })
	after := 1 // calls of the busy connection that are served before the call of the other one
	for <-s.peers != other.LocalAddr().(*net.TCPAddr).AddrPort() {
		if after++; after == calls {
			t.Fatal("the other connection is served last")
		}
		time.Sleep(turnTime)
	}
	for range calls - after {
		<-s.peers
	}
}

// While another connection waits for a ring, a connection reads at most turnInput bytes into its own at a time,
// and otherwise as many as have room.
func TestInputIsShortWhileOthersWaitForARing(t *testing.T) {
	all := rings
	rings = &turns.Pool[*ring]{Most: 1, New: func() *ring { return new(ring) }}
	defer func() { rings = all }()
	s, _ := toyServer(t)
	defer s.Close()
	cfg := Config{RPC: s}.withDefaults()
	c := testConn(&cfg, nil, new(script))
	if b, direct := c.space(); len(b) != ringSize || direct {
		t.Errorf("room for %d bytes, direct %v; nobody waits", len(b), direct)
	}
	other, done := new(turns.Borrower[*ring]), make(chan struct{})
	go func() {
		defer close(done)
		r, _ := rings.Borrow(other)
		rings.GiveBack(r)
	}()
	await.Until(t, "another waits", func() bool { return rings.Waits(other) })
	if b, _ := c.space(); len(b) != turnInput {
		t.Errorf("room for %d bytes while another waits, want %d", len(b), turnInput)
	}
	c.giveBack()
	<-done
}
