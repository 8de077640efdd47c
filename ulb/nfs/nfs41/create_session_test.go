package nfs41

import (
	"slices"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

func TestCreateSessionErrors(t *testing.T) {
	fore := func(f func(a *wire.ChannelAttrs4)) func(*wire.CreateSession4Args) {
		return func(args *wire.CreateSession4Args) { f(&args.ForeChanAttrs) }
	}
	back := func(f func(a *wire.ChannelAttrs4)) func(*wire.CreateSession4Args) {
		return func(args *wire.CreateSession4Args) { f(&args.BackChanAttrs) }
	}
	for _, c := range []struct {
		name   string
		change func(args *wire.CreateSession4Args)
		want   wire.NFSStat4
	}{
		{"as it should be", func(*wire.CreateSession4Args) {}, wire.NFS4OK},
		{"no client", func(a *wire.CreateSession4Args) { a.Clientid++ }, wire.NFS4ErrStaleClientID},
		{"sequence too small", func(a *wire.CreateSession4Args) { a.Sequence-- }, wire.NFS4ErrSeqMisordered},
		{"sequence too large", func(a *wire.CreateSession4Args) { a.Sequence++ }, wire.NFS4ErrSeqMisordered},
		{"flag without a meaning", func(a *wire.CreateSession4Args) { a.Flags = 0xf }, wire.NFS4ErrInvalid},
		{"flags", func(a *wire.CreateSession4Args) { a.Flags = 7 }, wire.NFS4OK},
		{"requests too small", fore(func(a *wire.ChannelAttrs4) { a.Maxrequestsize = 20 }), wire.NFS4ErrTooSmall},
		{"responses too small", fore(func(a *wire.ChannelAttrs4) { a.Maxresponsesize = 0 }), wire.NFS4ErrTooSmall},
		{"no operations", fore(func(a *wire.ChannelAttrs4) { a.Maxoperations = 0 }), wire.NFS4ErrTooSmall},
		{"no requests", fore(func(a *wire.ChannelAttrs4) { a.Maxrequests = 0 }), wire.NFS4ErrTooSmall},
		{"nothing is kept", fore(func(a *wire.ChannelAttrs4) { a.MaxresponsesizeCached = 0 }), wire.NFS4OK},
		{"callbacks too small", back(func(a *wire.ChannelAttrs4) { a.Maxrequestsize = 10 }), wire.NFS4ErrTooSmall},
		{"answers to callbacks too small", back(func(a *wire.ChannelAttrs4) { a.Maxresponsesize = 10 }), wire.NFS4ErrTooSmall},
		{"callbacks of one operation", back(func(a *wire.ChannelAttrs4) { a.Maxoperations = 1 }), wire.NFS4ErrTooSmall},
		{"padding and an RDMA read queue", fore(func(a *wire.ChannelAttrs4) {
			a.Headerpadsize, a.RDMAIrd = 512, wire.OptUint32{Present: true, Value: 57}
		}), wire.NFS4OK},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := peer(t)
			args := createArgs(newClient(p, "client", 1), 1)
			c.change(args)
			res := create(p, args)
			is(t, "CREATE_SESSION", res.Status, c.want)
			if c.want != wire.NFS4OK {
				// A failed CREATE_SESSION changes nothing.
				newSession(p, newClient(p, "client", 1), 1)
				return
			}
			if res.ResOK.Flags != 0 || res.ResOK.Sequence != args.Sequence || res.ResOK.ForeChanAttrs.Headerpadsize != 0 ||
				res.ResOK.ForeChanAttrs.RDMAIrd != args.ForeChanAttrs.RDMAIrd {
				t.Errorf("%+v", res.ResOK)
			}
		})
	}
}

// The limits of a session's fore channel exceed neither the client's request nor the server's
// limits.
func TestLimitsOfASession(t *testing.T) {
	p := peer(t)
	args := createArgs(newClient(p, "client", 1), 1)
	args.ForeChanAttrs = wire.ChannelAttrs4{
		Maxrequestsize: 1<<32 - 1, Maxresponsesize: 1<<32 - 1, MaxresponsesizeCached: 1<<32 - 1, Maxoperations: 1<<32 - 1, Maxrequests: 1<<32 - 1,
	}
	args.BackChanAttrs = wire.ChannelAttrs4{Maxrequestsize: 1 << 20, Maxresponsesize: 1 << 20, Maxoperations: 77, Maxrequests: 1 << 30}
	res := create(p, args)
	is(t, "CREATE_SESSION", res.Status, wire.NFS4OK)
	f := res.ResOK.ForeChanAttrs
	if f.Maxrequestsize < nfs.MaxTransfer || f.Maxrequestsize > 2*nfs.MaxTransfer || f.Maxresponsesize < nfs.MaxTransfer ||
		f.MaxresponsesizeCached > 64<<10 || f.Maxoperations > 128 || f.Maxrequests != 1024 {
		t.Errorf("%+v", f)
	}
	// The client gets the limits of the backchannel for which it asked.
	if res.ResOK.BackChanAttrs != args.BackChanAttrs {
		t.Errorf("%+v", res.ResOK.BackChanAttrs)
	}
}

// The server answers a repeated CREATE_SESSION, in any compound, with the session that the first
// CREATE_SESSION created.
func TestCreateSessionReplay(t *testing.T) {
	site, _ := site(t, Config{}, state.Config{})
	p := site.Peer(1)
	id := newClient(p, "client", 1)
	first := create(p, createArgs(id, 1))
	s := &session{p, id, first.ResOK.Sessionid, first.ResOK.ForeChanAttrs, map[uint32]uint32{}}
	other := site.Peer(1)
	other.UID = 1000
	for what, again := range map[string]wire.CreateSession4Res{"again": create(p, createArgs(id, 1)), "by another principal": create(other, createArgs(id, 1))} {
		if again != first {
			t.Errorf("%s: %+v", what, again)
		}
	}
	var within wire.CreateSession4Res
	s.run(op(wire.OpCreateSession, createArgs(id, 1))).Ops[1].Into(t, &within)
	if within != first {
		t.Errorf("within a session: %+v", within)
	}
	s.run(op(wire.OpCreateSession, createArgs(id, 2))).Ops[1].Into(t, &within)
	if alone := create(p, createArgs(id, 2)); alone != within || alone.ResOK.Sessionid == first.ResOK.Sessionid {
		t.Errorf("one made within a session: %+v, then %+v", within, alone)
	}
	is(t, "the one before", create(p, createArgs(id, 1)).Status, wire.NFS4ErrSeqMisordered)
}

// After a failed CREATE_SESSION a client may use the next number (RFC 8881 §18.36.4, phase
// 2) or the same number again, as some clients do.
func TestCreateSessionBehindOneThatFailed(t *testing.T) {
	p := peer(t)
	id := newClient(p, "client", 1)
	wrong := func(n uint32) {
		t.Helper()
		args := createArgs(id, n)
		args.Flags = 0xf
		is(t, "a flag without a meaning", create(p, args).Status, wire.NFS4ErrInvalid)
	}
	wrong(1)
	wrong(1)
	newSession(p, id, 1)
	wrong(2)
	wrong(3)
	wrong(3)
	is(t, "two behind one that failed", create(p, createArgs(id, 5)).Status, wire.NFS4ErrSeqMisordered)
	is(t, "the one before", create(p, createArgs(id, 1)).Status, wire.NFS4ErrSeqMisordered)
	newSession(p, id, 4)
	is(t, "two behind one that did not fail", create(p, createArgs(id, 6)).Status, wire.NFS4ErrSeqMisordered)
	newSession(p, id, 5)
}

// Only the principal that created a client may confirm it.
func TestConfirmationByAnotherPrincipal(t *testing.T) {
	site, _ := site(t, Config{}, state.Config{})
	p, other := site.Peer(1), site.Peer(1)
	other.UID = 1000
	id := newClient(p, "client", 1)
	for range 2 {
		is(t, "another's CREATE_SESSION", create(other, createArgs(id, 1)).Status, wire.NFS4ErrClIDInUse)
	}
	newSession(p, id, 1)
	newSession(other, id, 2) // after that, a client without state protection accepts any principal
}

// The client ID alone does not allow a caller to create sessions, to repeat a CREATE_SESSION, or to
// destroy the client. The caller must be at an address from which the client has sent EXCHANGE_ID.
func TestSessionsAreMadeWhereTheClientIs(t *testing.T) {
	site, _ := site(t, Config{}, state.Config{})
	p, stranger := site.Peer(1), peerFrom(site, 1)
	id := newClient(p, "client", 1)
	is(t, "a stranger's first session", create(stranger, createArgs(id, 1)).Status, wire.NFS4ErrStaleClientID)
	destroy := op(wire.OpDestroyClientID, &wire.DestroyClientID4Args{Clientid: id})
	is(t, "a stranger's DESTROY_CLIENTID", single(stranger, destroy, nil), wire.NFS4ErrStaleClientID)
	s := newSession(p, id, 1)
	for n := range uint32(3) {
		is(t, "a stranger's session", create(stranger, createArgs(id, n)).Status, wire.NFS4ErrStaleClientID)
	}
	// In a session of its own the client may do this from any address. Otherwise it first has to
	// send EXCHANGE_ID from that address.
	s.Conn = stranger.Conn
	var within wire.CreateSession4Res
	s.run(op(wire.OpCreateSession, createArgs(id, 2))).Ops[1].Into(t, &within)
	is(t, "CREATE_SESSION in a session", within.Status, wire.NFS4OK)
	if again := newClient(stranger, "client", 1); again != id {
		t.Fatal("the client is not known that has moved")
	}
	newSession(stranger, id, 3)
}

// After the largest sequence number of CREATE_SESSION comes 0.
func TestCreateSessionSequenceWraps(t *testing.T) {
	site, m := site(t, Config{}, state.Config{})
	p := site.Peer(1)
	id := newClient(p, "client", 1)
	newSession(p, id, 1)
	clientOf(m.state.Client(id)).sequence.Store(1<<32 - 1)
	is(t, "the replay at the end", create(p, createArgs(id, 1<<32-1)).Status, wire.NFS4OK)
	newSession(p, id, 0)
}

func securityList(t *testing.T, list ...wire.CallbackSecParms4) (v wire.CreateSession4ArgsSecParms) {
	t.Helper()
	w := xdr.NewWriter(make([]byte, 0, 4096))
	w.Uint32(uint32(len(list)))
	for i := range list {
		list[i].Encode(w)
	}
	d := xdr.NewDecoder(w.Bytes())
	if v.Decode(d); d.Err() != nil {
		t.Fatal(d.Err())
	}
	return v
}

var (
	secNone = wire.CallbackSecParms4{Secflavor: wire.AuthNone}
	secSys  = wire.CallbackSecParms4{Secflavor: wire.AuthSys, SysCred: wire.AuthsysParms{Stamp: 5, Machinename: []byte("client"), UID: 7, GID: 11, Gids: []uint32{13, 17}}}
	secGSS  = wire.CallbackSecParms4{Secflavor: wire.RPCSECGSS, GSSHandles: wire.GSSCBHandles4{
		Service: wire.RpcGSSSvcPrivacy, HandleFromServer: []byte("ours"), HandleFromClient: []byte("theirs"),
	}}
)

func TestSecurityOfTheBackchannel(t *testing.T) {
	site, m := site(t, Config{BackContext: func(by *rpc.Cred, server, client []byte, service rpc.GSSService) BackContext {
		if string(server) != "known" || string(client) != "theirs" || service != rpc.GSSPrivacy || by.Principal != "user@TEST" {
			return nil
		}
		return &backContext{}
	}}, state.Config{})
	p := site.Peer(1)
	p.Principal = "user@TEST"
	known := secGSS
	known.GSSHandles.HandleFromServer = []byte("known")
	for i, c := range []struct {
		list      []wire.CallbackSecParms4
		principal string
		status    wire.NFSStat4
		usable    bool
		flavor    uint32
		contexts  int
	}{
		{nil, "user@TEST", wire.NFS4OK, false, 0, 0},
		{[]wire.CallbackSecParms4{secNone}, "user@TEST", wire.NFS4OK, true, wire.AuthNone, 0},
		{[]wire.CallbackSecParms4{secSys, secNone}, "user@TEST", wire.NFS4OK, true, wire.AuthSys, 0},
		{[]wire.CallbackSecParms4{secNone, known, secSys}, "user@TEST", wire.NFS4OK, true, wire.AuthNone, 0},
		{[]wire.CallbackSecParms4{secNone, secGSS, secSys}, "user@TEST", wire.NFS4ErrNoEnt, false, 0, 0},
		{[]wire.CallbackSecParms4{secGSS}, "user@TEST", wire.NFS4ErrNoEnt, false, 0, 0},
		{[]wire.CallbackSecParms4{known}, "user@TEST", wire.NFS4OK, true, 0, 1},
		{[]wire.CallbackSecParms4{known, known, secSys}, "user@TEST", wire.NFS4OK, true, wire.AuthSys, 1},
		{slices.Repeat([]wire.CallbackSecParms4{known}, 3*maxSecurity), "user@TEST", wire.NFS4OK, true, 0, 1},
		{[]wire.CallbackSecParms4{known}, "other@TEST", wire.NFS4ErrNoEnt, false, 0, 0},
		{[]wire.CallbackSecParms4{known}, "", wire.NFS4ErrNoEnt, false, 0, 0},
	} {
		p.Principal = c.principal
		args := createArgs(newClient(p, "client"+c.principal, byte(i+1)), 1)
		args.SecParms = securityList(t, c.list...)
		res := create(p, args)
		is(t, "CREATE_SESSION", res.Status, c.status)
		if res.Status != wire.NFS4OK {
			continue
		}
		sec := m.sessions.find(&res.ResOK.Sessionid).security.Load()
		used := sec.context(time.Now())
		if sec.usable(time.Now()) != c.usable || uint32(sec.cred.Flavor) != c.flavor || (used != nil) != (c.contexts > 0) || len(sec.contexts) > maxContexts {
			t.Errorf("%d: %+v, %v", i, sec, used)
		}
	}
}
