package nfs40_test

import (
	"net/netip"
	"testing"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// from returns a new connection from an address and port, with the caller of p.
func (p *peer) from(at string, privileged bool) *peer {
	other := *p.Peer
	other.Conn = p.Site.RPC.NewConn(netip.MustParseAddrPort(at), netip.AddrPort{}, "tcp", privileged)
	return &peer{&other}
}

// proven returns p with a caller that proves its principal.
func (p *peer) proven(principal string) *peer {
	other := *p.Peer
	other.Principal = principal
	return &peer{&other}
}

// elsewhere are the sources that a client may call from, after the one of newPeer: another address, a port that
// is not privileged (the mount option noresvport, or an address translator), and both.
var elsewhere = []struct {
	at         string
	privileged bool
}{{"10.9.9.9:700", true}, {"10.1.2.3:40000", false}, {"10.9.9.9:40000", false}}

// A denied lock does not tell the holder's client ID, so no other client can act as the holder.
func TestClientIDOfAnotherClient(t *testing.T) {
	s := newLocks(t)
	s.first(t, ok, wire.WriteLt, 10, 10)
	d := s.tested(t, wire.NFS4ErrDenied, wire.WriteLt, 10, 10)
	told := d.Owner.Clientid
	if told == s.client.id || told == 0 {
		t.Fatalf("the denied lock tells the client ID %#x", told)
	}
	var own wire.Lockt4Res
	last(t, s.run(t, wire.NFS4ErrDenied, join(at("file"), s.client.locker("second").test(wire.WriteLt, 10, 10))...), &own)
	if own.Denied.Owner.Clientid != s.client.id {
		t.Errorf("the client's own lock has the client ID %#x", own.Denied.Owner.Clientid)
	}
	thief := &client{peer: s.peer.as(1000), id: told}
	refused := []status{wire.NFS4ErrStaleClientID, wire.NFS4ErrExpired}
	thief.oneOf(t, refused, renew(told))
	thief.oneOf(t, refused, join(at("file"), thief.locker("l").test(wire.WriteLt, 10, 10))...)
	thief.oneOf(t, refused, putRootFH, thief.owner("o").open("file", bothMode, denyNone))
}

// A client whose address or port changes goes on, whatever it sends first, and keeps its lock.
func TestClientThatMoves(t *testing.T) {
	for _, to := range elsewhere {
		for first, send := range map[string]func(s *lockSite){
			"RENEW": func(s *lockSite) { s.run(t, ok, renew(s.client.id)) },
			"OPEN":  func(s *lockSite) { s.owner("new").opens(t, "file", readMode, denyNone) },
			"LOCKT": func(s *lockSite) {
				s.run(t, ok, join(at("file"), s.client.locker("new").test(wire.WriteLt, 50, 10))...)
			},
			"READ": func(s *lockSite) { s.run(t, ok, join(at("file"), read(s.id, 0, 1))...) },
			"SETCLIENTID": func(s *lockSite) {
				id, confirm := s.set(t, "client", 1)
				if id != s.client.id {
					t.Errorf("client ID %#x after %#x", id, s.client.id)
				}
				s.run(t, ok, confirmClientID(id, confirm))
			},
		} {
			t.Run(first+" from "+to.at, func(t *testing.T) {
				s := newLocks(t)
				s.first(t, ok, wire.WriteLt, 10, 10)
				s.client.peer = s.client.from(to.at, to.privileged)
				send(s)
				s.tested(t, wire.NFS4ErrDenied, wire.WriteLt, 10, 10)
				s.run(t, ok, renew(s.client.id))
				s.run(t, ok, join(at("file"), s.l.unlock(s.lock, 10, 10))...)
				s.tested(t, ok, wire.WriteLt, 10, 10)
			})
		}
	}
}

// A name is kept from no machine: under AUTH_SYS a client with another address or port that uses it is another
// client.
func TestNameAtAnotherAddress(t *testing.T) {
	for _, to := range elsewhere {
		p := newPeer(t)
		from := p.from(to.at, to.privileged)
		taken, confirm := from.set(t, "machine", 8)
		from.run(t, ok, confirmClientID(taken, confirm))
		squatter := &client{peer: from, id: taken}
		squatter.owner("o").opens(t, "file", readMode, denyNone)
		c := p.client(t, "machine")
		id := c.owner("o").opens(t, "file", readMode, denyNone)
		squatter.run(t, ok, renew(squatter.id))
		again, confirm := squatter.set(t, "machine", 9) // as after a restart
		squatter.run(t, ok, confirmClientID(again, confirm))
		c.run(t, ok, renew(c.id))
		c.run(t, ok, join(at("file"), read(id, 0, 1))...)
	}
}

// Two clients behind one address translator are two clients, and the restart of one is not one of the other.
func TestTwoClientsAtOneAddress(t *testing.T) {
	p := newPeer(t)
	a, b := p.client(t, "a"), p.from("10.1.2.3:40000", false).client(t, "b")
	id := a.owner("o").opens(t, "file", bothMode, denyNone)
	o := b.owner("o")
	other := o.opens(t, "file", bothMode, denyNone)
	b.run(t, ok, join(at("file"), b.locker("l").first(o, other, wire.WriteLt, 0, 10))...)
	a.run(t, wire.NFS4ErrDenied, join(at("file"), a.locker("l").test(wire.WriteLt, 0, 10))...)
	again, confirm := b.set(t, "b", 2)
	b.run(t, ok, confirmClientID(again, confirm))
	a.run(t, ok, join(at("file"), a.locker("l").test(wire.WriteLt, 0, 10))...)
	a.run(t, ok, join(at("file"), read(id, 0, 1))...)
	a.run(t, ok, renew(a.id))
}

// A proven principal is its client at every address (RFC 7530 §9.1.1). With Kerberos its
// users open files from everywhere, before it has called itself: they would take a refusal for a restart of the
// server. Users of AUTH_SYS do so only where it has called from.
func TestMachineThatMoves(t *testing.T) {
	for _, to := range elsewhere {
		p := newPeer(t)
		c := p.proven("host/client@TEST").client(t, "client")
		sys := func(p *peer) *client { return &client{peer: p.proven(""), id: c.id} }
		alice := func(p *peer) *client { return &client{peer: p.proven("alice@TEST"), id: c.id} }
		alice(p).owner("alice").opens(t, "file", readMode, denyNone)
		sys(p).owner("sys").opens(t, "file", readMode, denyNone)
		moved := p.from(to.at, to.privileged)
		alice(moved).owner("early").opens(t, "file", readMode, denyNone)
		bob := moved.proven("bob@TEST")
		bob.run(t, wire.NFS4ErrAccess, renew(c.id))
		bob.run(t, ok, join(at("file"), (&client{peer: bob, id: c.id}).locker("bob").test(wire.ReadLt, 0, 1))...)
		sys(moved).run(t, wire.NFS4ErrStaleClientID, putRootFH, sys(moved).owner("early").open("file", readMode, denyNone))
		moved.proven("host/client@TEST").run(t, ok, renew(c.id)) // what Linux does then
		alice(moved).owner("alice's").opens(t, "file", readMode, denyNone)
		sys(moved).owner("of sys").opens(t, "file", readMode, denyNone)
		id, confirm := moved.proven("host/client@TEST").set(t, "client", 1)
		if id != c.id {
			t.Errorf("client ID %#x after %#x", id, c.id)
		}
		moved.proven("host/client@TEST").run(t, ok, confirmClientID(id, confirm))
	}
}

// Another principal is told that the name is in use, and does not become another client (RFC 7530 §16.33.5,
// §16.34.5). Callers that prove nothing are other clients.
func TestNameOfAPrincipal(t *testing.T) {
	p := newPeer(t)
	machine := p.proven("host/client@TEST")
	id, confirm := machine.set(t, "client", 1)
	p.proven("bob@TEST").run(t, wire.NFS4ErrClIDInUse, confirmClientID(id, confirm))
	machine.run(t, ok, confirmClientID(id, confirm))
	c := &client{peer: machine, id: id}
	state := c.owner("o").opens(t, "file", readMode, denyNone)
	for _, at := range []*peer{p, p.from("10.9.9.9:700", true), p.from("10.1.2.3:40000", false)} {
		for _, verifier := range []byte{1, 2} {
			at.proven("bob@TEST").run(t, wire.NFS4ErrClIDInUse, setClientID("client", verifier))
			if other, _ := at.proven("").set(t, "client", verifier); other == id {
				t.Error("a caller that proves nothing is the principal's client")
			}
		}
		at.proven("bob@TEST").run(t, wire.NFS4ErrAccess, renew(id))
	}
	c.run(t, ok, join(at("file"), read(state, 0, 1))...)
	// The machine restarts at another address.
	restarted := p.from("10.9.9.9:700", true).proven("host/client@TEST")
	again, confirm := restarted.set(t, "client", 3)
	restarted.run(t, ok, confirmClientID(again, confirm))
	c.run(t, wire.NFS4ErrExpired, renew(id))
}

// A file that a client has open, and denies to others, is not removed by another client behind the same
// address. Alone at its address, the client itself may remove it.
func TestDeniedFileIsRemovedByItsClientAlone(t *testing.T) {
	p := newPeer(t)
	c := p.client(t, "client")
	c.owner("o").opens(t, "file", bothMode, denyWrite)
	other := c.other(t, "behind the same address")
	other.run(t, wire.NFS4ErrFileOpen, putRootFH, remove("file"))
	q := newPeer(t)
	alone := q.client(t, "client")
	alone.owner("o").opens(t, "file", bothMode, denyWrite)
	alone.run(t, ok, putRootFH, remove("file"))
}
