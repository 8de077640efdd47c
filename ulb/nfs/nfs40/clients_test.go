package nfs40_test

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// The following tests are the cases of SETCLIENTID and SETCLIENTID_CONFIRM (RFC 7530 §16.33.5,
// §16.34.5). The RFC calls the verifier, name, client ID, callback and confirmation of a record v,
// x, c, k and s.

func TestNewClient(t *testing.T) {
	p := newPeer(t)
	c, s := p.set(t, "x", 1)
	p.run(t, ok, confirmClientID(c, s))
	p.run(t, ok, renew(c))
	// A repeated confirmation means that the first answer was lost.
	p.run(t, ok, confirmClientID(c, s))
}

// The RPC layer denies every compound to a peer that no export serves, also one with the handle of the directory above
// all exports.
func TestStrangersAreNoClients(t *testing.T) {
	p := newPeer(t)
	p.Export.Clients = []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")}
	for _, first := range []op{
		{Number: wire.OpSetClientID, Args: &wire.SetClientID4Args{}},
		{Number: wire.OpPutRootFH},
		{Number: wire.OpPutFH, Args: &wire.PutFH4Args{Object: p.Exports.Seal(nil, p.Exports.Root(), p.Exports.Root().FS.Root())}},
	} {
		c := p.End(p.Begin(p.Message("", first, op{Number: wire.OpGetattr, Args: &wire.Getattr4Args{}})))
		var denied *rpc.ReplyError
		if _, err := c.Results(); !errors.As(err, &denied) || denied.Auth != rpc.AuthBadCred {
			t.Errorf("%v: %v", first.Number, err)
		}
		if p.Conn.Known() {
			t.Errorf("%v makes a stranger known", first.Number)
		}
	}
}

// On a secure export, the RPC layer denies SETCLIENTID from an unprivileged port without Kerberos.
// A caller with Kerberos on the same connection does not change that.
func TestPortsOfClientsWithKerberos(t *testing.T) {
	p := newPeer(t)
	p.Export.Secure = true
	p.Conn = p.Site.RPC.NewConn(netip.MustParseAddrPort("10.1.2.3:40000"), netip.AddrPort{}, "tcp", false)
	for range 2 {
		p.Principal = ""
		c := p.End(p.Begin(p.Message("", op{Number: wire.OpSetClientID, Args: &wire.SetClientID4Args{Client: wire.NFSClientID4{ID: []byte("sys")}}})))
		var denied *rpc.ReplyError
		if _, err := c.Results(); !errors.As(err, &denied) || denied.Auth != rpc.AuthBadCred {
			t.Errorf("without Kerberos: %v", err)
		}
		p.Principal = "host/client@TEST"
		id, confirm := p.set(t, "proven", 1)
		p.run(t, ok, confirmClientID(id, confirm))
		p.Conn.MarkKnown() // as the first file handle does
	}
}

// If a name has no confirmed record, a SETCLIENTID replaces its unconfirmed record.
func TestUnconfirmedClientIsReplaced(t *testing.T) {
	for _, verifier := range []byte{1, 2} {
		p := newPeer(t)
		c, s := p.set(t, "x", 1)
		d, u := p.set(t, "x", verifier)
		if c == d || s == u {
			t.Fatalf("%d %d, %x %x", c, d, s, u)
		}
		p.run(t, wire.NFS4ErrStaleClientID, confirmClientID(c, s))
		p.run(t, wire.NFS4ErrStaleClientID, confirmClientID(c, u))
		p.run(t, wire.NFS4ErrStaleClientID, confirmClientID(d, s))
		p.run(t, ok, confirmClientID(d, u))
	}
}

// A SETCLIENTID with the verifier of the confirmed record updates the callback. The client keeps
// its state.
func TestCallbackUpdate(t *testing.T) {
	p := newPeer(t)
	c, s := p.set(t, "x", 1)
	p.run(t, ok, confirmClientID(c, s))
	o := (&client{peer: p, id: c}).owner("owner")
	id := o.opens(t, "file", bothMode, denyNone)
	again, u := p.set(t, "x", 1)
	if again != c || u == s {
		t.Fatalf("%d %d, %x %x", c, again, s, u)
	}
	p.run(t, ok, join(at("file"), read(id, 0, 1))...)
	p.run(t, ok, confirmClientID(c, u))
	p.run(t, ok, join(at("file"), read(id, 0, 1))...)
	p.run(t, ok, join(at("file"), o.close(id))...)
}

// A SETCLIENTID with another verifier means that the client has restarted. The server removes the
// old state when the client confirms the new record, and not before.
func TestClientThatHasRestarted(t *testing.T) {
	p := newPeer(t)
	c, s := p.set(t, "x", 1)
	p.run(t, ok, confirmClientID(c, s))
	o := (&client{peer: p, id: c}).owner("owner")
	id := o.opens(t, "file", bothMode, denyBoth)
	d, u := p.set(t, "x", 2)
	if c == d || s == u {
		t.Fatalf("%d %d, %x %x", c, d, s, u)
	}
	p.run(t, ok, renew(c))
	p.run(t, ok, join(at("file"), read(id, 0, 1))...)
	// A third SETCLIENTID replaces the unconfirmed record.
	e, r := p.set(t, "x", 3)
	if e == d || e == c || r == u || r == s {
		t.Fatalf("%d %d %d", c, d, e)
	}
	p.run(t, wire.NFS4ErrStaleClientID, confirmClientID(d, u))
	p.run(t, ok, join(at("file"), read(id, 0, 1))...)
	p.run(t, ok, confirmClientID(e, r))
	p.oneOf(t, []status{wire.NFS4ErrExpired, wire.NFS4ErrBadStateID, wire.NFS4ErrStaleStateID}, join(at("file"), read(id, 0, 1))...)
	p.oneOf(t, []status{wire.NFS4ErrExpired, wire.NFS4ErrStaleClientID}, renew(c))
	(&client{peer: p, id: e}).owner("owner").opens(t, "file", bothMode, denyBoth)
}

func TestConfirmationOfUnknownClientIsRefused(t *testing.T) {
	p := newPeer(t)
	c, s := p.set(t, "x", 1)
	other := s
	other[0]++
	p.run(t, wire.NFS4ErrStaleClientID, confirmClientID(c+1, s))
	p.run(t, wire.NFS4ErrStaleClientID, confirmClientID(c, other))
	p.run(t, wire.NFS4ErrStaleClientID, confirmClientID(0, wire.Verifier4{}))
	p.run(t, ok, confirmClientID(c, s))
	p.run(t, wire.NFS4ErrStaleClientID, confirmClientID(c, other))
}

// as returns a new connection with the credential of another user.
func (p *peer) as(uid uint32) *peer {
	other := p.Site.Peer(0)
	other.UID = uid
	return &peer{other}
}

// While a client has state, another principal cannot use its name (RFC 7530 §9.1.1).
func TestNameInUse(t *testing.T) {
	p := newPeer(t)
	cb := wire.CBClient4{CBProgram: 7, CBLocation: wire.NetAddr4{RNetid: []byte("tcp"), RAddr: []byte("10.1.2.3.4.5")}}
	var res wire.SetClientID4Res
	last(t, p.run(t, ok, setCallback("x", 1, cb, 0)), &res)
	c, s := res.ResOK.Clientid, res.ResOK.SetclientidConfirm
	// Another principal cannot confirm the client.
	p.as(1).run(t, wire.NFS4ErrClIDInUse, confirmClientID(c, s))
	p.run(t, ok, confirmClientID(c, s))
	p.as(1).run(t, wire.NFS4ErrClIDInUse, confirmClientID(c, s))
	o := (&client{peer: p, id: c}).owner("owner")
	id := o.opens(t, "file", readMode, denyNone)
	for _, verifier := range []byte{1, 2} {
		last(t, p.as(1).run(t, wire.NFS4ErrClIDInUse, setClientID("x", verifier)), &res)
		if u := res.ClientUsing; string(u.RNetid) != "tcp" || string(u.RAddr) != "10.1.2.3.4.5" {
			t.Errorf("in use at %q %q", u.RNetid, u.RAddr)
		}
	}
	p.run(t, ok, join(at("file"), read(id, 0, 1))...)
	p.run(t, ok, join(at("file"), o.close(id))...)
}

// If a client has no state, another principal may take its name (RFC 7530 §9.1.2).
func TestNameOfAClientWithoutState(t *testing.T) {
	p := newPeer(t)
	c, s := p.set(t, "x", 1)
	p.run(t, ok, confirmClientID(c, s))
	q := p.as(1)
	d, u := q.set(t, "x", 2)
	q.run(t, ok, confirmClientID(d, u))
	q.run(t, ok, renew(d))
	p.oneOf(t, []status{wire.NFS4ErrExpired, wire.NFS4ErrStaleClientID}, renew(c))
}

func TestRenewOfUnknownClientIsRefused(t *testing.T) {
	p := newPeer(t)
	p.run(t, wire.NFS4ErrStaleClientID, renew(0))
	p.run(t, wire.NFS4ErrStaleClientID, renew(1<<64-1))
	c, s := p.set(t, "x", 1)
	p.run(t, wire.NFS4ErrStaleClientID, renew(c)) // not confirmed
	p.run(t, ok, confirmClientID(c, s))
	p.run(t, ok, renew(c))
}

// Only two kinds of principals may RENEW a client's lease: the principal that created the client,
// and a principal that has opened a file for it (RFC 7530 §16.28.5).
func TestRenewByOtherPrincipalNeedsAnOpenFile(t *testing.T) {
	c := newClient(t)
	c.as(1).run(t, wire.NFS4ErrAccess, renew(c.id))
	mine := (&client{peer: c.as(1), id: c.id}).owner("owner")
	mine.run(t, wire.NFS4ErrNoEnt, putRootFH, mine.open("none", readMode, denyNone))
	c.as(1).run(t, wire.NFS4ErrAccess, renew(c.id)) // the failed OPEN opened no file
	mine.opens(t, "file", readMode, denyNone)
	c.as(1).run(t, ok, renew(c.id))
	c.as(2).run(t, wire.NFS4ErrAccess, renew(c.id))
}

func TestOperationsOfUnknownClients(t *testing.T) {
	p := newPeer(t)
	known, _ := p.set(t, "x", 1)
	for _, id := range []uint64{0, 12345, 1<<64 - 1, known} {
		c := &client{peer: p, id: id}
		p.run(t, wire.NFS4ErrStaleClientID, putRootFH, c.owner("o").open("file", readMode, denyNone))
		p.run(t, wire.NFS4ErrStaleClientID, join(at("file"), c.locker("l").test(wire.ReadLt, 0, 1))...)
		p.run(t, wire.NFS4ErrStaleClientID, c.locker("l").release())
	}
}

// Names of clients are bytes of any length up to NFS4_OPAQUE_LIMIT.
func TestNamesOfClients(t *testing.T) {
	p := newPeer(t)
	for _, name := range []string{"", "\x00", "\xff\xfe", string(make([]byte, wire.NFS4OpaqueLimit))} {
		p.client(t, name)
	}
}

// The server accepts a client with a callback address that cannot be used.
func TestCallbacksThatCannotBe(t *testing.T) {
	p := newPeer(t)
	for i, a := range []wire.NetAddr4{{}, {RNetid: []byte("tcp")}, {RNetid: []byte("x"), RAddr: []byte("y")},
		{RNetid: make([]byte, 5000), RAddr: make([]byte, 5000)}, {RNetid: []byte("tcp"), RAddr: []byte("192.0.2.1.0.111")}} {
		var res wire.SetClientID4Res
		last(t, p.run(t, ok, setCallback(string(rune('a'+i)), 1, wire.CBClient4{CBLocation: a}, 1)), &res)
		p.run(t, ok, confirmClientID(res.ResOK.Clientid, res.ResOK.SetclientidConfirm))
	}
}
