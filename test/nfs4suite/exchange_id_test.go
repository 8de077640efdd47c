package nfs4suite

import (
	"bytes"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// Each EXCHANGE_ID of an unconfirmed client creates a new client ID (RFC 8881 §18.35.4, cases 1
// and 4).
func TestExchangeIDOfUnconfirmedClients(t *testing.T) {
	p := newSite(t, nil, state.Config{}).Peer(1)
	first := exchanged(p, "client", 1)
	if first.Flags&wire.Exchgid4FlagConfirmedR != 0 {
		t.Error("a new client is said to be confirmed")
	}
	if n := first.Flags & wire.Exchgid4FlagMaskPNFS; n != wire.Exchgid4FlagUseNonPNFS {
		t.Errorf("role of the server: %#x", n)
	}
	for _, again := range []struct {
		what     string
		verifier byte
		uid      uint32
	}{{"the same", 1, 0}, {"another verifier", 2, 0}, {"another principal", 2, 7}} {
		p.UID = again.uid
		next := exchanged(p, "client", again.verifier)
		if next.Clientid == first.Clientid || next.Flags&wire.Exchgid4FlagConfirmedR != 0 {
			t.Errorf("%s: %+v after %+v", again.what, next, first)
		}
		is(t, again.what+": CREATE_SESSION of the client that was replaced",
			createSession(p, createArgs(first.Clientid, first.Sequenceid)).Status, wire.NFS4ErrStaleClientID)
		first = next
	}
	is(t, "CREATE_SESSION", createSession(p, createArgs(first.Clientid, first.Sequenceid)).Status, ok)
}

// A confirmed client that sends EXCHANGE_ID again gets the same client ID (case 2).
func TestExchangeIDAgain(t *testing.T) {
	s := newSession(t, newSite(t, nil, state.Config{}), 1, "client")
	res := exchanged(s.Peer, "client", 1)
	if res.Clientid != s.client || res.Flags&wire.Exchgid4FlagConfirmedR == 0 {
		t.Errorf("%+v, not client %x confirmed", res, s.client)
	}
	s.want("SEQUENCE", ok)
	// The reply has the sequence number for the client's next session.
	for range 2 {
		more := createSession(s.Peer, createArgs(s.client, res.Sequenceid))
		if more.Status != ok || more.ResOK.Sessionid == s.id {
			t.Errorf("CREATE_SESSION %d: %+v beside session %x", res.Sequenceid, more, s.id)
		}
		res = exchanged(s.Peer, "client", 1)
	}
}

// An EXCHANGE_ID of another principal replaces a client only if the client has no state (case 3).
func TestExchangeIDOfAnotherPrincipal(t *testing.T) {
	s := newSession(t, newSite(t, nil, state.Config{}), 1, "client")
	s.UID = 7
	is(t, "with a session", exchange(s.Peer, exchangeArgs("client", 1)).Status, wire.NFS4ErrClIDInUse)
	is(t, "with a session, another verifier", exchange(s.Peer, exchangeArgs("client", 2)).Status, wire.NFS4ErrClIDInUse)
	s.UID = 0
	s.want("SEQUENCE", ok)
	is(t, "DESTROY_SESSION", alone(s.Peer, op(wire.OpDestroySession, &wire.DestroySession4Args{Sessionid: s.id}), nil), ok)
	s.UID = 7
	res := exchanged(s.Peer, "client", 1)
	if res.Clientid == s.client || res.Flags&wire.Exchgid4FlagConfirmedR != 0 {
		t.Errorf("without a session: %+v", res)
	}
	s.UID = 0
	is(t, "CREATE_SESSION of the client before", createSession(s.Peer, createArgs(s.client, 2)).Status, wire.NFS4ErrStaleClientID)
}

// A client that has restarted gets a new client ID. The state of the old one exists until the new
// one is confirmed (case 5).
func TestExchangeIDOfARestartedClient(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 1, "client")
		s.makeFile("file")
		s.open(openArgs("file", "owner", read, both))
		other := newSession(t, site, 1, "other")
		other.refused("OPEN beside the first life", wire.NFS4ErrShareDenied, openArgs("file", "owner", read, 0))
		res := exchanged(s.Peer, "client", 2)
		if res.Clientid == s.client || res.Flags&wire.Exchgid4FlagConfirmedR != 0 {
			t.Errorf("%+v", res)
		}
		s.want("SEQUENCE before the second life is confirmed", ok)
		other.refused("OPEN before the second life is confirmed", wire.NFS4ErrShareDenied, openArgs("file", "owner", read, 0))
		next := sessionOf(s.Peer, createArgs(res.Clientid, res.Sequenceid))
		is(t, "SEQUENCE of the first life", s.do().Status, wire.NFS4ErrBadSession)
		is(t, "CREATE_SESSION of the first life", createSession(s.Peer, createArgs(s.client, 2)).Status, wire.NFS4ErrStaleClientID)
		other.open(openArgs("file", "owner", read, 0))
		next.want("SEQUENCE of the second life", ok)
	})
}

// An EXCHANGE_ID with the first verifier removes an unconfirmed client with the second verifier.
func TestExchangeIDTakesARestartBack(t *testing.T) {
	s := newSession(t, newSite(t, nil, state.Config{}), 1, "client")
	second := exchanged(s.Peer, "client", 2)
	first := exchanged(s.Peer, "client", 1)
	if first.Clientid != s.client {
		t.Errorf("client %x, not %x", first.Clientid, s.client)
	}
	is(t, "CREATE_SESSION of the second life", createSession(s.Peer, createArgs(second.Clientid, second.Sequenceid)).Status, wire.NFS4ErrStaleClientID)
	s.want("SEQUENCE", ok)
}

// EXCHGID4_FLAG_UPD_CONFIRMED_REC_A is valid for confirmed clients only (cases 6 to 9).
func TestExchangeIDUpdate(t *testing.T) {
	s := newSession(t, newSite(t, nil, state.Config{}), 1, "client")
	exchanged(s.Peer, "unconfirmed", 1)
	for _, c := range []struct {
		what, name string
		verifier   byte
		uid        uint32
		want       wire.NFSStat4
	}{
		{"of the client", "client", 1, 0, ok},
		{"of nobody", "nobody", 1, 0, wire.NFS4ErrNoEnt},
		{"of an unconfirmed client", "unconfirmed", 1, 0, wire.NFS4ErrNoEnt},
		{"with another verifier", "client", 2, 0, wire.NFS4ErrNotSame},
		{"with another principal", "client", 1, 7, wire.NFS4ErrPerm},
	} {
		s.UID = c.uid
		args := exchangeArgs(c.name, c.verifier)
		args.Flags = wire.Exchgid4FlagUpdConfirmedRecA
		res := exchange(s.Peer, args)
		is(t, c.what, res.Status, c.want)
		if c.want == ok && (res.ResOK.Clientid != s.client || res.ResOK.Flags&wire.Exchgid4FlagConfirmedR == 0) {
			t.Errorf("%s: %+v", c.what, res.ResOK)
		}
	}
	s.UID = 0
	s.want("SEQUENCE", ok)
}

func TestExchangeIDFlags(t *testing.T) {
	p := newSite(t, nil, state.Config{}).Peer(1)
	for _, c := range []struct {
		flags uint32
		want  wire.NFSStat4
	}{
		{wire.Exchgid4FlagSuppMovedRefer | wire.Exchgid4FlagSuppMovedMigr | wire.Exchgid4FlagBindPrincStateid, ok},
		{wire.Exchgid4FlagUseNonPNFS | wire.Exchgid4FlagUsePNFSMds | wire.Exchgid4FlagUsePNFSDs, ok},
		{wire.Exchgid4FlagConfirmedR, wire.NFS4ErrInvalid},
		{0x08, wire.NFS4ErrInvalid},
		{0x00100000, wire.NFS4ErrInvalid},
		{0x20000000, wire.NFS4ErrInvalid},
	} {
		args := exchangeArgs("client", 1)
		args.Flags = c.flags
		res := exchange(p, args)
		if res.Status != c.want {
			t.Errorf("flags %#x: %v, not %v", c.flags, res.Status, c.want)
		}
	}
}

func TestExchangeIDArguments(t *testing.T) {
	site := newSite(t, nil, state.Config{})
	p := site.Peer(1)
	is(t, "no owner", exchange(p, exchangeArgs("", 1)).Status, ok)
	long := exchangeArgs(string(bytes.Repeat([]byte{'x'}, 1024)), 1)
	is(t, "the longest owner", exchange(p, long).Status, ok)
	longer := encoded(long)
	longer[10], longer[11] = 4, 4 // 1028 bytes, of which the last four are the flags
	is(t, "an owner beyond the longest", alone(p, op(wire.OpExchangeID, append(longer, 0, 0, 0, 0)), nil), wire.NFS4ErrBadXDR)
	is(t, "bytes that are no UTF-8", exchange(p, exchangeArgs("\xff\xfe\x00", 1)).Status, ok)
	is(t, "an implementation", exchange(p, func() *wire.ExchangeID4Args {
		args := exchangeArgs("implemented", 1)
		args.ClientImplID = wire.OptNFSImplID4{Present: true, Value: wire.NFSImplID4{Domain: wire.UTF8String("example.org"), Name: wire.UTF8String("x")}}
		return args
	}()).Status, ok)
	is(t, "an implementation of no time", exchange(p, func() *wire.ExchangeID4Args {
		args := exchangeArgs("timeless", 1)
		args.ClientImplID = wire.OptNFSImplID4{Present: true, Value: wire.NFSImplID4{Date: wire.NFSTime4{Nseconds: 1e9}}}
		return args
	}()).Status, wire.NFS4ErrInvalid)

	head := encoded(exchangeArgs("client", 1))
	two := append(bytes.Clone(head[:len(head)-4]), words(2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)...)
	is(t, "two implementations", alone(p, op(wire.OpExchangeID, raw(two)), nil), wire.NFS4ErrBadXDR)
	is(t, "a protection that there is not", alone(p, op(wire.OpExchangeID, raw(append(bytes.Clone(head[:len(head)-8]), words(3, 0)...))), nil), wire.NFS4ErrBadXDR)
	is(t, "nothing", alone(p, op(wire.OpExchangeID), nil), wire.NFS4ErrBadXDR)
}

// SP4_MACH_CRED and SP4_SSV need RPCSEC_GSS (RFC 8881 §18.35.3).
func TestExchangeIDProtection(t *testing.T) {
	p := newSite(t, nil, state.Config{}).Peer(1)
	args := exchangeArgs("client", 1)
	args.StateProtect.How = wire.Sp4MachCred
	is(t, "SP4_MACH_CRED under AUTH_SYS", exchange(p, args).Status, wire.NFS4ErrInvalid)
	args.StateProtect.How = wire.Sp4Ssv
	is(t, "SP4_SSV without algorithms", exchange(p, args).Status, wire.NFS4ErrInvalid)
	for _, c := range []struct {
		what               string
		hash, encr, window uint32
		want               wire.NFSStat4
	}{
		{"SP4_SSV without a hash", 0, 1, 1, wire.NFS4ErrInvalid},
		{"SP4_SSV without a cipher", 1, 0, 1, wire.NFS4ErrInvalid},
		{"SP4_SSV without a window", 1, 1, 0, wire.NFS4ErrInvalid},
		{"SP4_SSV", 1, 1, 1, wire.NFS4ErrEncrAlgUnsupp},
	} {
		head := encoded(exchangeArgs("client", 1))
		ssv := append(bytes.Clone(head[:len(head)-8]), words(uint32(wire.Sp4Ssv), 0, 0)...)
		for _, n := range []uint32{c.hash, c.encr} {
			ssv = append(ssv, words(n)...)
			for range n {
				ssv = append(ssv, words(3, 0x2a030400)...)
			}
		}
		ssv = append(ssv, words(c.window, 1, 0)...)
		is(t, c.what, alone(p, op(wire.OpExchangeID, raw(ssv)), nil), c.want)
	}
	// A list that is shorter than its count gets NFS4ERR_BADXDR.
	head := encoded(exchangeArgs("client", 1))
	bad := append(bytes.Clone(head[:len(head)-8]), words(uint32(wire.Sp4Ssv), 0, 0, 1<<30)...)
	is(t, "SP4_SSV with a list that is not there", alone(p, op(wire.OpExchangeID, raw(bad)), nil), wire.NFS4ErrBadXDR)
}

// Different clients get different client IDs. A client gets the same ID over two connections, and
// both connections show the same server.
func TestExchangeIDOverTwoConnections(t *testing.T) {
	site := newSite(t, nil, state.Config{})
	s := newSession(t, site, 1, "client")
	q := site.Peer(1)
	res := exchanged(q, "client", 1)
	if res.Clientid != s.client || res.Flags&wire.Exchgid4FlagConfirmedR == 0 {
		t.Errorf("%+v, not client %x confirmed", res, s.client)
	}
	first, second := exchanged(s.Peer, "other", 1), exchanged(q, "third", 1)
	if first.Clientid == second.Clientid || first.Clientid == s.client {
		t.Error("two clients are one")
	}
	if !bytes.Equal(first.ServerOwner.MajorID, second.ServerOwner.MajorID) || first.ServerOwner.MinorID != second.ServerOwner.MinorID ||
		!bytes.Equal(first.ServerScope, second.ServerScope) {
		t.Errorf("two servers: %+v and %+v", first.ServerOwner, second.ServerOwner)
	}
	s.over(q).want("SEQUENCE over a connection that was not bound", ok)
	s.want("SEQUENCE over the first", ok)
}

// EXCHANGE_ID may follow a SEQUENCE of any client, or be alone in its compound.
func TestExchangeIDInASession(t *testing.T) {
	site := newSite(t, nil, state.Config{})
	s := newSession(t, site, 1, "client")
	s.want("for another client", ok, op(wire.OpExchangeID, exchangeArgs("other", 1)))
	s.want("for the same", ok, op(wire.OpExchangeID, exchangeArgs("client", 1)), putRoot)
	r := s.Compound(op(wire.OpExchangeID, exchangeArgs("third", 1)), putRoot)
	is(t, "before another operation", r.Status, wire.NFS4ErrNotOnlyOp)
	r = s.Compound(putRoot, op(wire.OpExchangeID, exchangeArgs("third", 1)))
	is(t, "behind an operation that needs a session", r.Status, wire.NFS4ErrOpNotInSession)
}

// The server copies the owner name and the other variable-length arguments: a client keeps its
// name when the memory of its message is used again.
func TestExchangeIDKeepsNothingOfTheMessage(t *testing.T) {
	site := newSite(t, nil, state.Config{})
	p := site.Peer(1)
	message := p.Message("", op(wire.OpExchangeID, exchangeArgs("name", 1)))
	r := p.Parse(p.End(p.Begin(message)))
	var res wire.ExchangeID4Res
	r.Ops[0].Into(t, &res)
	clear(message)
	s := sessionOf(p, createArgs(res.ResOK.Clientid, res.ResOK.Sequenceid))
	if again := exchanged(p, "name", 1); again.Clientid != s.client {
		t.Errorf("client %x, not %x", again.Clientid, s.client)
	}
}
