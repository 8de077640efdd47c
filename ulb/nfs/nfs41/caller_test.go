package nfs41

import (
	"net/netip"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// elsewhere are the sources that a client may call from, after the one of Site.Peer: another address, a port
// that is not privileged (the mount option noresvport, or an address translator), and both.
var elsewhere = []struct {
	at         string
	privileged bool
}{{"10.9.9.9:700", true}, {"10.1.2.3:40000", false}, {"10.9.9.9:40000", false}}

// proving returns p with a caller that proves its principal, or, if it is empty, with user 0 of AUTH_SYS.
func proving(p *nfs4test.Peer, principal string) *nfs4test.Peer {
	other := *p
	other.Principal = principal
	return &other
}

// connect returns a new connection from an address and port.
func connect(s *nfs4test.Site, at string, privileged bool) *nfs4test.Peer {
	p := s.Peer(1)
	p.Conn = s.RPC.NewConn(netip.MustParseAddrPort(at), netip.AddrPort{}, "tcp", privileged)
	return p
}

// held has a session open a file and lock it, and returns a function that says whether the lock is still held.
func held(t *testing.T, s *session) func(in *session) {
	t.Helper()
	want(t, "RECLAIM_COMPLETE", s.run(op(wire.OpReclaimComplete, &wire.ReclaimComplete4Args{})), wire.NFS4OK, 2)
	r := s.run(putExport(s), op(wire.OpOpen, &wire.Open4Args{
		ShareAccess: wire.Open4ShareAccessBoth, Owner: wire.StateOwner4{Clientid: s.client, Owner: []byte("o")},
		Openhow: wire.Openflag4{Opentype: wire.Open4Create}, Claim: wire.OpenClaim4{File: wire.UTF8String("file")},
	}))
	var opened wire.Open4Res
	r.Ops[2].Into(t, &opened)
	r = s.run(putExport(s), op(wire.OpLookup, &wire.Lookup4Args{Objname: []byte("file")}), op(wire.OpLock, &wire.Lock4Args{
		Locktype: wire.WriteLt, Length: 10, Locker: wire.Locker4{NewLockOwner: true, OpenOwner: wire.OpenToLockOwner4{
			OpenStateid: opened.ResOK.Stateid, LockOwner: wire.StateOwner4{Clientid: s.client, Owner: []byte("l")}}},
	}))
	var locked wire.Lock4Res
	r.Ops[3].Into(t, &locked)
	return func(in *session) {
		t.Helper()
		want(t, "LOCKU", in.run(putExport(in), op(wire.OpLookup, &wire.Lookup4Args{Objname: []byte("file")}),
			op(wire.OpLocku, &wire.Locku4Args{Locktype: wire.WriteLt, LockStateid: locked.ResOK.LockStateid, Length: 10})), wire.NFS4OK, 4)
	}
}

// A client whose address or port changes goes on with its session, and gets callbacks there. If it has lost the
// session, it makes another one after EXCHANGE_ID, as the same client.
func TestClientThatMoves(t *testing.T) {
	for _, to := range elsewhere {
		k := &client41{}
		_, s := backSession(t, k, nil)
		unlock := held(t, s)
		moved := connect(s.Site, to.at, to.privileged)
		back := &client41{}
		moved.Conn.SetCaller(back)
		s.Conn.Close()
		s.Peer = moved
		want(t, "SEQUENCE", s.run(rootOp), wire.NFS4OK, 2)
		is(t, "BIND_CONN_TO_SESSION", bind(moved, s.id, wire.Cdfc4BackOrBoth).Status, wire.NFS4ErrInvalid) // fore alone
		second := connect(s.Site, to.at, to.privileged)
		second.Conn.SetCaller(back)
		is(t, "BIND_CONN_TO_SESSION", bind(second, s.id, wire.Cdfc4BackOrBoth).Status, wire.NFS4OK)
		done := make(chan outcome, 1)
		Call(s.State.Client(s.client), recallSlot(done))
		if o := <-done; o != (outcome{}) || len(back.seen()) == 0 {
			t.Errorf("the callback: %+v", o)
		}
		is(t, "DESTROY_SESSION", single(moved, op(wire.OpDestroySession, &wire.DestroySession4Args{Sessionid: s.id}), nil), wire.NFS4OK)
		is(t, "CREATE_SESSION", create(moved, createArgs(s.client, 2)).Status, wire.NFS4ErrStaleClientID)
		res := exchange(moved, exchangeArgs("client", 1))
		if res.Status != wire.NFS4OK || res.ResOK.Clientid != s.client || res.ResOK.Flags&wire.Exchgid4FlagConfirmedR == 0 {
			t.Fatalf("EXCHANGE_ID from %s: %+v", to.at, res)
		}
		unlock(newSession(moved, s.client, 2))
	}
}

// A client may use one session over several connections, also from a second address: session trunking and
// client ID trunking (RFC 8881 §2.10.5), and Linux's nconnect.
func TestClientWithSeveralConnections(t *testing.T) {
	for _, to := range elsewhere {
		site, _ := site(t, Config{}, state.Config{})
		s := newClientSession(site.Peer(1), "client")
		unlock := held(t, s)
		first, second := s.Peer, connect(site, to.at, to.privileged)
		update := exchangeArgs("client", 1)
		update.Flags = wire.Exchgid4FlagUpdConfirmedRecA
		for _, args := range []*wire.ExchangeID4Args{exchangeArgs("client", 1), update} {
			if res := exchange(second, args); res.Status != wire.NFS4OK || res.ResOK.Clientid != s.client {
				t.Errorf("EXCHANGE_ID from %s: %+v", to.at, res)
			}
		}
		is(t, "BIND_CONN_TO_SESSION", bind(second, s.id, wire.Cdfc4ForeOrBoth).Status, wire.NFS4OK)
		newSession(second, s.client, 2)
		for range 2 {
			s.Peer = second
			want(t, "over the second", s.run(rootOp), wire.NFS4OK, 2)
			s.Peer = first
			want(t, "over the first", s.run(rootOp), wire.NFS4OK, 2)
		}
		unlock(s)
	}
}

// A name is kept from no machine, and taken from none: under AUTH_SYS a client with another address or port that
// uses it is another client, also after it has restarted.
func TestNameOfAnotherMachine(t *testing.T) {
	for _, to := range elsewhere {
		site, _ := site(t, Config{}, state.Config{})
		squatter := newClientSession(connect(site, to.at, to.privileged), "machine")
		s := newSession(site.Peer(1), newClient(site.Peer(1), "machine", 7), 1)
		unlock := held(t, s)
		want(t, "the squatter", squatter.run(rootOp), wire.NFS4OK, 2)
		again := newSession(squatter.Peer, newClient(squatter.Peer, "machine", 2), 1)
		want(t, "the squatter before", squatter.run(rootOp), wire.NFS4ErrBadSession, 1)
		want(t, "the squatter again", again.run(rootOp), wire.NFS4OK, 2)
		for _, o := range []nfs4test.Op{op(wire.OpCreateSession, createArgs(s.client, 2)), op(wire.OpDestroyClientID, &wire.DestroyClientID4Args{Clientid: s.client})} {
			is(t, "the machine's client ID", single(squatter.Peer, o, nil), wire.NFS4ErrStaleClientID)
		}
		unlock(s)
	}
}

// Two clients behind one address translator are two clients, and the restart of one is not one of the other.
func TestTwoClientsAtOneAddress(t *testing.T) {
	site, _ := site(t, Config{}, state.Config{})
	a := newClientSession(site.Peer(1), "a")
	unlock := held(t, a)
	b := newClientSession(connect(site, "10.1.2.3:40000", false), "b")
	newSession(b.Peer, newClient(b.Peer, "b", 2), 1)
	want(t, "b before its restart", b.run(rootOp), wire.NFS4ErrBadSession, 1)
	unlock(a)
}

// A proven principal is its client at every address and port, and another one is told that it is not (RFC 8881
// §18.35.4, §18.36.4, §2.10.8.3). A caller that proves nothing is another client.
func TestClientOfAPrincipal(t *testing.T) {
	const machine, bob = "host/client@TEST", "bob@TEST"
	for _, how := range []wire.StateProtectHow4{wire.Sp4None, wire.Sp4MachCred} {
		site, _ := site(t, Config{}, state.Config{})
		args := func(verifier byte, flags uint32) *wire.ExchangeID4Args {
			a := exchangeArgs("client", verifier)
			a.StateProtect.How, a.Flags = how, flags
			return a
		}
		p := site.Peer(1)
		id := exchange(proving(p, machine), args(1, 0)).ResOK.Clientid
		managed := wire.NFSStat4(wire.NFS4ErrStaleClientID)
		confirmed := wire.NFSStat4(wire.NFS4ErrClIDInUse)
		if how == wire.Sp4MachCred {
			managed, confirmed = wire.NFS4ErrWrongCred, wire.NFS4ErrWrongCred
		}
		is(t, "another's CREATE_SESSION", create(proving(p, bob), createArgs(id, 1)).Status, confirmed)
		s := newSession(proving(p, machine), id, 1)
		want(t, "the client", s.run(rootOp), wire.NFS4OK, 2)
		for _, to := range elsewhere {
			q := connect(site, to.at, to.privileged)
			for _, verifier := range []byte{1, 2} {
				is(t, "another's EXCHANGE_ID", exchange(proving(q, bob), args(verifier, 0)).Status, wire.NFS4ErrClIDInUse)
			}
			is(t, "another's update", exchange(proving(q, bob), args(1, wire.Exchgid4FlagUpdConfirmedRecA)).Status, wire.NFS4ErrPerm)
			is(t, "an update of another incarnation", exchange(proving(q, bob), args(2, wire.Exchgid4FlagUpdConfirmedRecA)).Status, wire.NFS4ErrNotSame)
			update := exchangeArgs("client", 1)
			update.Flags = wire.Exchgid4FlagUpdConfirmedRecA
			is(t, "an update that proves nothing", exchange(proving(q, ""), update).Status, wire.NFS4ErrPerm)
			if other := exchange(proving(q, ""), exchangeArgs("client", 1)); other.Status != wire.NFS4OK || other.ResOK.Clientid == id {
				t.Errorf("EXCHANGE_ID that proves nothing: %+v", other)
			}
			destroy := op(wire.OpDestroyClientID, &wire.DestroyClientID4Args{Clientid: id})
			is(t, "another's DESTROY_CLIENTID", single(proving(q, bob), destroy, nil), managed)
			is(t, "DESTROY_CLIENTID that proves nothing", single(proving(q, ""), destroy, nil), managed)
			if again := exchange(proving(q, machine), args(1, wire.Exchgid4FlagUpdConfirmedRecA)); again.Status != wire.NFS4OK || again.ResOK.Clientid != id {
				t.Errorf("the principal's update: %+v", again)
			}
		}
		want(t, "the client, after all that", s.run(rootOp), wire.NFS4OK, 2)
		q := connect(site, "10.9.9.9:40000", false)
		restarted := exchange(proving(q, machine), args(2, 0))
		newSession(proving(q, machine), restarted.ResOK.Clientid, 1)
		want(t, "the client before its restart", s.run(rootOp), wire.NFS4ErrBadSession, 1)
	}
}
