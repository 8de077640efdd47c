package nfs4suite

import (
	"bytes"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

func destroySession(id wire.SessionID4) nfs4test.Op {
	return op(wire.OpDestroySession, &wire.DestroySession4Args{Sessionid: id})
}

func destroyClient(id uint64) nfs4test.Op {
	return op(wire.OpDestroyClientID, &wire.DestroyClientID4Args{Clientid: id})
}

// The server caches the reply to the last CREATE_SESSION of each client (RFC 8881 §18.36.4).
func TestCreateSessionIsReplayed(t *testing.T) {
	p := newSite(t, nil, state.Config{}).Peer(1)
	id := exchanged(p, "client", 1)
	first := createSession(p, createArgs(id.Clientid, id.Sequenceid))
	is(t, "CREATE_SESSION", first.Status, ok)
	if first.ResOK.Sequence != id.Sequenceid {
		t.Errorf("csr_sequence is %d, not %d", first.ResOK.Sequence, id.Sequenceid)
	}
	again := createSession(p, createArgs(id.Clientid, id.Sequenceid))
	if again != first {
		t.Errorf("replayed: %+v, not %+v", again, first)
	}
	for _, wrong := range []uint32{id.Sequenceid - 1, id.Sequenceid + 2, id.Sequenceid + 1<<31} {
		is(t, "another sequence", createSession(p, createArgs(id.Clientid, wrong)).Status, wire.NFS4ErrSeqMisordered)
	}
	second := createSession(p, createArgs(id.Clientid, id.Sequenceid+1))
	if second.Status != ok || second.ResOK.Sessionid == first.ResOK.Sessionid {
		t.Errorf("the second session: %+v", second)
	}
	is(t, "the first sequence behind the second", createSession(p, createArgs(id.Clientid, id.Sequenceid)).Status, wire.NFS4ErrSeqMisordered)

	is(t, "DESTROY_SESSION", alone(p, destroySession(second.ResOK.Sessionid), nil), ok)
	again = createSession(p, createArgs(id.Clientid, id.Sequenceid+1))
	if again != second {
		t.Errorf("replayed after the session's end: %+v, not %+v", again, second)
	}
	s := &session{Peer: p, t: t, id: second.ResOK.Sessionid}
	is(t, "SEQUENCE of a session that was only replayed", s.with(s.next(0)).Status, wire.NFS4ErrBadSession)
}

// A CREATE_SESSION that fails does not use up its sequence number.
func TestCreateSessionThatFails(t *testing.T) {
	p := newSite(t, nil, state.Config{}).Peer(1)
	id := exchanged(p, "client", 1)
	args := createArgs(id.Clientid, id.Sequenceid)
	args.ForeChanAttrs.Maxrequestsize = 20
	for range 3 {
		is(t, "too small", createSession(p, args).Status, wire.NFS4ErrTooSmall)
	}
	is(t, "CREATE_SESSION", createSession(p, createArgs(id.Clientid, id.Sequenceid)).Status, ok)
	is(t, "too small, next", createSession(p, func() *wire.CreateSession4Args {
		a := *args
		a.Sequence++
		return &a
	}()).Status, wire.NFS4ErrTooSmall)
	is(t, "the next", createSession(p, createArgs(id.Clientid, id.Sequenceid+1)).Status, ok)
}

func TestCreateSessionOfUnknownClientIsRefused(t *testing.T) {
	p := newSite(t, nil, state.Config{}).Peer(1)
	id := exchanged(p, "client", 1)
	for _, wrong := range []uint64{0, 1, id.Clientid + 1, id.Clientid ^ 1<<63, ^uint64(0)} {
		is(t, "CREATE_SESSION", createSession(p, createArgs(wrong, 1)).Status, wire.NFS4ErrStaleClientID)
	}
}

// Another principal may not confirm a client (RFC 8881 §18.36.4, the third phase).
func TestCreateSessionOfAnotherPrincipal(t *testing.T) {
	p := newSite(t, nil, state.Config{}).Peer(1)
	id := exchanged(p, "client", 1)
	p.UID = 7
	is(t, "to confirm", createSession(p, createArgs(id.Clientid, id.Sequenceid)).Status, wire.NFS4ErrClIDInUse)
	p.UID = 0
	is(t, "its own", createSession(p, createArgs(id.Clientid, id.Sequenceid)).Status, ok)
}

func TestCreateSessionLimits(t *testing.T) {
	type attrs = wire.ChannelAttrs4
	const most = 1<<32 - 1
	huge := attrs{
		Headerpadsize: most, Maxrequestsize: most, Maxresponsesize: most, MaxresponsesizeCached: most,
		Maxoperations: most, Maxrequests: most,
	}
	p := newSite(t, nil, state.Config{}).Peer(1)
	for _, c := range []struct {
		what   string
		change func(fore, back *attrs)
		want   wire.NFSStat4
	}{
		{"usual", func(fore, back *attrs) {}, ok},
		{"no request fits", func(fore, _ *attrs) { fore.Maxrequestsize = 0 }, wire.NFS4ErrTooSmall},
		{"only a small request fits", func(fore, _ *attrs) { fore.Maxrequestsize = 20 }, wire.NFS4ErrTooSmall},
		{"no reply fits", func(fore, _ *attrs) { fore.Maxresponsesize = 0 }, wire.NFS4ErrTooSmall},
		{"no callback fits", func(_, back *attrs) { back.Maxrequestsize = 10 }, wire.NFS4ErrTooSmall},
		{"callbacks of one operation", func(_, back *attrs) { back.Maxoperations = 1 }, wire.NFS4ErrTooSmall},
		{"nothing is cached", func(fore, _ *attrs) { fore.MaxresponsesizeCached = 0 }, ok},
		{"all is huge", func(fore, _ *attrs) { *fore = huge }, ok},
		{"the backchannel is huge", func(_, back *attrs) { *back = huge }, ok},
		{"RDMA reads", func(fore, back *attrs) { fore.RDMAIrd = wire.OptUint32{Present: true, Value: 57} }, ok},
	} {
		id := exchanged(p, c.what, 1)
		args := createArgs(id.Clientid, id.Sequenceid)
		c.change(&args.ForeChanAttrs, &args.BackChanAttrs)
		res := createSession(p, args)
		is(t, c.what, res.Status, c.want)
		if res.Status != ok {
			continue
		}
		asked, got := &args.ForeChanAttrs, &res.ResOK.ForeChanAttrs
		if got.Maxrequestsize > asked.Maxrequestsize || got.Maxresponsesize > asked.Maxresponsesize ||
			got.MaxresponsesizeCached > asked.MaxresponsesizeCached || got.Maxoperations > asked.Maxoperations ||
			got.Maxrequests > asked.Maxrequests || got.Headerpadsize > asked.Headerpadsize ||
			got.MaxresponsesizeCached > got.Maxresponsesize {
			t.Errorf("%s: asked %+v, got %+v", c.what, *asked, *got)
		}
		if got.Maxrequests == most || got.Maxoperations == most || got.Maxrequestsize == most || got.Maxresponsesize == most {
			t.Errorf("%s: the server bounds nothing: %+v", c.what, *got)
		}
	}
}

// CREATE_SESSION accepts at most one RDMA read limit, and refuses unknown flags.
func TestCreateSessionArguments(t *testing.T) {
	p := newSite(t, nil, state.Config{}).Peer(1)
	id := exchanged(p, "client", 1)
	whole := encoded(createArgs(id.Clientid, id.Sequenceid))
	const rdma = 8 + 4 + 4 + 6*4 // offset of the fore channel's count of RDMA limits
	two := append(append(bytes.Clone(whole[:rdma]), words(2, 13, 57)...), whole[rdma+4:]...)
	is(t, "two limits", alone(p, op(wire.OpCreateSession, raw(two)), nil), wire.NFS4ErrBadXDR)
	is(t, "a part", alone(p, op(wire.OpCreateSession, raw(whole[:rdma])), nil), wire.NFS4ErrBadXDR)
	for _, flags := range []uint32{8, 1 << 31, 0xf} {
		args := createArgs(id.Clientid, id.Sequenceid)
		args.Flags = flags
		is(t, "unknown flags", createSession(p, args).Status, wire.NFS4ErrInvalid)
	}
	args := createArgs(id.Clientid, id.Sequenceid)
	args.Flags = wire.CreateSession4FlagPersist | wire.CreateSession4FlagConnRDMA | wire.CreateSession4FlagConnBackChan
	res := createSession(p, args)
	is(t, "all flags", res.Status, ok)
	if res.ResOK.Flags&^args.Flags != 0 || res.ResOK.Flags&wire.CreateSession4FlagPersist != 0 {
		t.Errorf("flags %#x", res.ResOK.Flags)
	}
}

// CREATE_SESSION accepts AUTH_NONE, AUTH_SYS and RPCSEC_GSS for callbacks.
func TestCreateSessionSecurity(t *testing.T) {
	p := newSite(t, nil, state.Config{}).Peer(1)
	sys := words(uint32(wire.AuthSys), 5, 3, 0x61626300, 0, 0, 1, 7)
	gss := words(uint32(wire.RPCSECGSS), 1, 4, 0x61626364, 4, 0x65666768)
	for _, c := range []struct {
		what string
		list raw
		want wire.NFSStat4
	}{
		{"nothing", words(0), ok},
		{"AUTH_NONE", words(1, uint32(wire.AuthNone)), ok},
		{"AUTH_SYS", append(words(1), sys...), ok},
		{"AUTH_SYS twice", append(append(words(2), sys...), sys...), ok},
		{"both", append(words(2, uint32(wire.AuthNone)), sys...), ok},
		{"a context that there is not", append(words(1), gss...), wire.NFS4ErrNoEnt},
		{"a context that there is not, or AUTH_SYS", append(append(words(2), gss...), sys...), wire.NFS4ErrNoEnt},
		{"a flavour that there is not", words(1, 99), wire.NFS4ErrBadXDR},
		{"fewer than are counted", words(2, uint32(wire.AuthNone)), wire.NFS4ErrBadXDR},
		{"many that are not there", words(1 << 31), wire.NFS4ErrBadXDR},
	} {
		id := exchanged(p, c.what, 1)
		whole := encoded(createArgs(id.Clientid, id.Sequenceid))
		args := append(bytes.Clone(whole[:len(whole)-4]), c.list...)
		is(t, c.what, alone(p, op(wire.OpCreateSession, raw(args)), nil), c.want)
	}
}

// DESTROY_SESSION must arrive over a connection of the session: alone, in a compound of another
// session, or as the last operation of a compound of the session itself (RFC 8881 §18.37).
func TestDestroySession(t *testing.T) {
	site := newSite(t, nil, state.Config{})
	s := newSession(t, site, 1, "client")
	other := newSession(t, site, 1, "other")
	is(t, "none", alone(s.Peer, destroySession(wire.SessionID4{}), nil), wire.NFS4ErrBadSession)
	is(t, "another client's, over a connection that it does not know", alone(other.Peer, destroySession(s.id), nil), wire.NFS4ErrConnNotBoundToSession)
	if r := s.do(destroySession(s.id), putRoot); r.Status != wire.NFS4ErrNotOnlyOp || len(r.Ops) != 2 {
		t.Errorf("its own, before another operation: %v after %d operations", r.Status, len(r.Ops))
	}
	s.want("SEQUENCE", ok)
	second := sessionOf(s.Peer, createArgs(s.client, 2))
	second.want("of the same client's other session, before another operation", ok, destroySession(s.id), putRoot)
	is(t, "SEQUENCE in it", s.do().Status, wire.NFS4ErrBadSession)
	is(t, "again", alone(s.Peer, destroySession(s.id), nil), wire.NFS4ErrBadSession)
	second.want("its own", ok, putRoot, destroySession(second.id))
	is(t, "SEQUENCE in that", second.do().Status, wire.NFS4ErrBadSession)
	r := other.Compound(destroySession(other.id), putRoot)
	is(t, "alone with another operation", r.Status, wire.NFS4ErrNotOnlyOp)
	other.want("SEQUENCE", ok)
}

// DESTROY_CLIENTID does not remove a client that has state or a session (RFC 8881 §18.50).
func TestDestroyClientID(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 1, "client")
		other := newSession(t, site, 1, "other")
		is(t, "nobody", alone(s.Peer, destroyClient(0), nil), wire.NFS4ErrStaleClientID)
		is(t, "with a session", alone(s.Peer, destroyClient(s.client), nil), wire.NFS4ErrClientIDBusy)
		s.want("in its own session", wire.NFS4ErrClientIDBusy, destroyClient(s.client))
		s.makeFile("file")
		s.open(openArgs("file", "owner", read, 0))
		is(t, "DESTROY_SESSION", alone(s.Peer, destroySession(s.id), nil), ok)
		other.want("with an open file", wire.NFS4ErrClientIDBusy, destroyClient(s.client))
		again := sessionOf(s.Peer, createArgs(s.client, 2))
		// The client has sent RECLAIM_COMPLETE in its first session.
		again.want("RECLAIM_COMPLETE", wire.NFS4ErrCompleteAlready, op(wire.OpReclaimComplete, &wire.ReclaimComplete4Args{}))
		o := again.open(openArgs("file", "owner2", write, 0))
		again.close(&o)
		is(t, "with a session again", alone(s.Peer, destroyClient(s.client), nil), wire.NFS4ErrClientIDBusy)

		empty := exchanged(s.Peer, "empty", 1)
		r := s.Compound(destroyClient(empty.Clientid), putRoot)
		is(t, "before another operation", r.Status, wire.NFS4ErrNotOnlyOp)
		is(t, "an unconfirmed one", alone(s.Peer, destroyClient(empty.Clientid), nil), ok)
		is(t, "again", alone(s.Peer, destroyClient(empty.Clientid), nil), wire.NFS4ErrStaleClientID)
		is(t, "DESTROY_SESSION", alone(other.Peer, destroySession(other.id), nil), ok)
		again.want("in another's session", ok, destroyClient(other.client))
	})
}

func TestReclaimComplete(t *testing.T) {
	site := newSite(t, nil, state.Config{})
	p := site.Peer(1)
	s := sessionOf(p, createArgs(exchanged(p, "client", 1).Clientid, 1))
	complete := func(one bool) nfs4test.Op {
		return op(wire.OpReclaimComplete, &wire.ReclaimComplete4Args{OneFs: one})
	}
	args := creating(openArgs("file", "owner", both, 0), wire.Unchecked4, attrs().f, 0)
	s.refused("OPEN before", wire.NFS4ErrGrace, args)
	s.want("of one file system, without a handle", wire.NFS4ErrNoFileHandle, complete(true))
	s.want("of one file system", ok, putRoot, complete(true))
	s.refused("OPEN before that of all", wire.NFS4ErrGrace, args)
	s.want("of all", ok, complete(false))
	s.want("of all, again", wire.NFS4ErrCompleteAlready, complete(false))
	s.open(args)
	s.refused("OPEN to claim", wire.NFS4ErrNoGrace, claiming(openArgs("", "owner", both, 0), wire.ClaimPrevious))
	s.want("something that is no bool", wire.NFS4ErrBadXDR, op(wire.OpReclaimComplete, words(7)))
	r := s.Compound(complete(false))
	is(t, "without a session", r.Status, wire.NFS4ErrOpNotInSession)
}
