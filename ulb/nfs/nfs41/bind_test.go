package nfs41

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

func bind(p *nfs4test.Peer, id wire.SessionID4, dir wire.ChannelDirFromClient4) wire.BindConnToSession4Res {
	p.T.Helper()
	var res wire.BindConnToSession4Res
	single(p, op(wire.OpBindConnToSession, &wire.BindConnToSession4Args{Sessid: id, Dir: dir, UseConnInRDMAMode: true}), &res)
	return res
}

// The result of BIND_CONN_TO_SESSION depends on three things: whether the connection can carry
// calls to the client, its present binding, and the client's request.
func TestBindConnToSession(t *testing.T) {
	const fore, back, foreOr, backOr = wire.Cdfc4Fore, wire.Cdfc4Back, wire.Cdfc4ForeOrBoth, wire.Cdfc4BackOrBoth
	const isFore, isBack, isBoth = wire.Cdfs4Fore, wire.Cdfs4Back, wire.Cdfs4Both
	for _, c := range []struct {
		name     string
		callable bool
		before   wire.ChannelDirFromClient4 // the binding before; 0 for none
		ask      wire.ChannelDirFromClient4
		want     wire.ChannelDirFromServer4 // the expected result; 0 for NFS4ERR_INVAL
	}{
		{"fore", true, 0, fore, isFore},
		{"back", true, 0, back, isBack},
		{"fore or both", true, 0, foreOr, isBoth},
		{"back or both", true, 0, backOr, isBoth},
		{"back, and it cannot", false, 0, back, 0},
		{"fore or both, and it cannot", false, 0, foreOr, isFore},
		{"back or both, and it cannot", false, 0, backOr, 0},
		{"fore again", true, fore, fore, isFore},
		{"back again", true, back, back, isBack},
		{"both again", true, foreOr, foreOr, isBoth},
		{"both again, the other way", true, foreOr, backOr, isBoth},
		{"back as well, where it may be", true, fore, foreOr, isBoth},
		{"back as well, where it must be", true, fore, backOr, 0},
		{"back instead of fore", true, fore, back, 0},
		{"fore instead of back", true, back, fore, 0},
		{"fore instead of both", true, foreOr, fore, 0},
		{"back instead of both", true, foreOr, back, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			site, _ := site(t, Config{}, state.Config{})
			s := newClientSession(site.Peer(1), "client")
			p := site.Peer(1)
			if c.callable {
				p.Conn.SetCaller(&client41{})
			}
			if c.before != 0 {
				is(t, "the first", bind(p, s.id, c.before).Status, wire.NFS4OK)
			}
			res := bind(p, s.id, c.ask)
			if c.want == 0 {
				is(t, "BIND_CONN_TO_SESSION", res.Status, wire.NFS4ErrInvalid)
				return
			}
			is(t, "BIND_CONN_TO_SESSION", res.Status, wire.NFS4OK)
			if r := res.ResOK; r.Dir != c.want || r.Sessid != s.id || r.UseConnInRDMAMode {
				t.Errorf("%+v", r)
			}
		})
	}
	p := peer(t)
	is(t, "no session", bind(p, wire.SessionID4{1}, fore).Status, wire.NFS4ErrBadSession)
}

// A connection is bound to each session that uses it, until it is closed.
func TestConnectionsOfASession(t *testing.T) {
	site, m := site(t, Config{}, state.Config{})
	p := site.Peer(1)
	s := newClientSession(p, "client")
	sess := m.sessions.find(&s.id)
	count := func() int { return len(*sess.conns.Load()) }
	other := site.Peer(1)
	destroy := op(wire.OpDestroySession, &wire.DestroySession4Args{Sessionid: s.id})
	is(t, "DESTROY_SESSION over a stranger's connection", single(other, destroy, nil), wire.NFS4ErrConnNotBoundToSession)
	want(t, "SEQUENCE binds", other.Compound(op(wire.OpSequence, s.sequenceOp(3))), wire.NFS4OK, 1)
	if count() != 2 {
		t.Errorf("%d connections", count())
	}
	p.Conn.Close()
	if count() != 1 {
		t.Errorf("%d connections after one was closed", count())
	}
	s.Peer = site.Peer(1)
	want(t, "work over a new connection", s.run(rootOp), wire.NFS4OK, 2)
	for range 2 * maxConns {
		s.Peer = site.Peer(1)
		want(t, "work over many connections", s.run(rootOp), wire.NFS4OK, 2)
	}
	if count() != maxConns {
		t.Errorf("%d connections", count())
	}
	is(t, "DESTROY_SESSION", single(other, destroy, nil), wire.NFS4OK)
	if count() != 0 {
		t.Errorf("%d connections of a session that is no more", count())
	}
	other.Conn.Close()
}

// A connection that is already closed is not bound.
func TestConnectionThatIsClosed(t *testing.T) {
	site, m := site(t, Config{}, state.Config{})
	s := newClientSession(site.Peer(1), "client")
	sess := m.sessions.find(&s.id)
	p := site.Peer(1)
	p.Conn.Close()
	sess.bind(p.Conn, true, false)
	if sess.binding(p.Conn) != nil {
		t.Error("a closed connection is bound")
	}
}

// Only the machine credential of a client with SP4_MACH_CRED can bind connections to its sessions,
// and only that credential can end them. Another connection cannot carry requests of the session.
func TestProtectedClient(t *testing.T) {
	site, m := site(t, Config{}, state.Config{})
	p := site.Peer(1)
	id := newClient(p, "client", 1)
	s := newSession(p, id, 1)
	protect := &clientOf(m.state.Client(id)).protect
	*protect, _ = protectionOf(&machine, &wire.StateProtect4A{How: wire.Sp4MachCred, MachOps: wire.StateProtectOps4{MustEnforce: maintenance}})

	want(t, "work over the connection of CREATE_SESSION", s.run(rootOp), wire.NFS4OK, 2)
	other := site.Peer(1)
	want(t, "work over another", other.Compound(op(wire.OpSequence, s.sequenceOp(0)), rootOp), wire.NFS4ErrConnNotBoundToSession, 1)
	const wrong = wire.NFS4ErrWrongCred
	is(t, "BIND_CONN_TO_SESSION", bind(other, s.id, wire.Cdfc4Fore).Status, wrong)
	is(t, "CREATE_SESSION", create(p, createArgs(id, 2)).Status, wrong)
	is(t, "DESTROY_SESSION", single(p, op(wire.OpDestroySession, &wire.DestroySession4Args{Sessionid: s.id}), nil), wrong)
	is(t, "DESTROY_CLIENTID", single(p, op(wire.OpDestroyClientID, &wire.DestroyClientID4Args{Clientid: id}), nil), wrong)
	want(t, "BACKCHANNEL_CTL", s.run(op(wire.OpBackchannelCtl, &wire.BackchannelCtl4Args{})), wrong, 2)
	want(t, "work", s.run(rootOp), wire.NFS4OK, 2)
}

// The number of connections of a session is limited, even if the client binds them by
// BIND_CONN_TO_SESSION. A bound connection may still change its channels.
func TestBindsBeyondTheBound(t *testing.T) {
	site, m := site(t, Config{}, state.Config{})
	p := site.Peer(1)
	s := newClientSession(p, "client")
	sess := m.sessions.find(&s.id)
	for range maxConns - 1 {
		is(t, "BIND_CONN_TO_SESSION", bind(site.Peer(1), s.id, wire.Cdfc4Fore).Status, wire.NFS4OK)
	}
	is(t, "one more", bind(site.Peer(1), s.id, wire.Cdfc4Fore).Status, wire.NFS4ErrDelay)
	if n := len(*sess.conns.Load()); n != maxConns {
		t.Errorf("%d connections", n)
	}
	is(t, "the first one again", bind(p, s.id, wire.Cdfc4Fore).Status, wire.NFS4OK)
	p.Conn.Close()
	is(t, "one in the place of one that ended", bind(site.Peer(1), s.id, wire.Cdfc4Fore).Status, wire.NFS4OK)
}
