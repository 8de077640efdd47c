package nfs41

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
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
	// The limits of the backchannel are those that the client asked for.
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

// The number of sessions of a client is limited, and a failed CREATE_SESSION keeps no memory.
func TestSessionsAreBounded(t *testing.T) {
	site, m := site(t, Config{}, state.Config{})
	p := site.Peer(1)
	id := newClient(p, "client", 1)
	var first *session
	for i := range uint32(maxSessions) {
		s := newSession(p, id, i+1)
		if i == 0 {
			first = s
		}
	}
	is(t, "one too many", create(p, createArgs(id, maxSessions+1)).Status, wire.NFS4ErrNoSpace)
	is(t, "DESTROY_SESSION", single(p, op(wire.OpDestroySession, &wire.DestroySession4Args{Sessionid: first.id}), nil), wire.NFS4OK)
	newSession(p, id, maxSessions+1)
	if n := m.cache.aside.Held(); n != maxSessions*(shape{8, 8192}).aside() {
		t.Errorf("%d bytes set aside", n)
	}
	newSession(p, newClient(p, "client", 2), 1)
	if n := m.cache.aside.Held(); n != (shape{8, 8192}).aside() {
		t.Errorf("%d bytes set aside for one session", n)
	}
}

// If little memory for sessions is left, new sessions get fewer slots, and in the end
// CREATE_SESSION fails.
func TestMemoryBoundsSessions(t *testing.T) {
	site, m := site(t, Config{CacheMemory: 512 << 10}, state.Config{})
	p := site.Peer(1)
	id := newClient(p, "client", 1)
	var all []*session
	var slots []uint32
	for n := uint32(1); ; n++ {
		args := createArgs(id, n)
		args.ForeChanAttrs.Maxrequests = 1000
		res := create(p, args)
		if res.Status == wire.NFS4ErrNoSpace {
			break
		}
		is(t, "CREATE_SESSION", res.Status, wire.NFS4OK)
		all = append(all, &session{Peer: p, id: res.ResOK.Sessionid})
		slots = append(slots, res.ResOK.ForeChanAttrs.Maxrequests)
	}
	if n := m.cache.aside.Held(); n > 128<<10 || len(all) < 8 {
		t.Errorf("%d sessions took %d bytes", len(all), n)
	}
	if slots[0] != 32 || slots[len(slots)-1] > 8 || !slices.IsSortedFunc(slots, func(a, b uint32) int { return int(b) - int(a) }) {
		t.Errorf("slots %v", slots)
	}
	is(t, "DESTROY_SESSION", single(p, op(wire.OpDestroySession, &wire.DestroySession4Args{Sessionid: all[0].id}), nil), wire.NFS4OK)
	newSession(p, id, uint32(len(all)+1))
}

// peerFrom returns a peer at another address.
func peerFrom(site *nfs4test.Site, i int) *nfs4test.Peer {
	p := site.Peer(1)
	from := netip.AddrFrom4([4]byte{10, 2, byte(i >> 8), byte(i)})
	p.Conn = site.RPC.NewConn(netip.AddrPortFrom(from, 700), netip.AddrPort{}, "tcp", true)
	return p
}

// If some addresses create as many and as large sessions as they can, there is still enough memory
// for sessions of other addresses.
func TestAddressesShareTheMemoryOfSessions(t *testing.T) {
	site, m := site(t, Config{CacheMemory: 8 << 20}, state.Config{})
	const greedy = 40
	for i := range greedy {
		p := peerFrom(site, i)
		for n := 0; ; n++ {
			args := createArgs(newClient(p, fmt.Sprint("greedy ", i, " ", n), 1), 1)
			args.ForeChanAttrs.Maxrequests = 1024
			if s := create(p, args).Status; s == wire.NFS4ErrNoSpace {
				if n == 0 {
					t.Fatalf("address %d gets no session", i)
				}
				break
			} else if n > 1000 {
				t.Fatal("there is no bound")
			} else {
				is(t, "CREATE_SESSION", s, wire.NFS4OK)
			}
		}
	}
	if n := m.cache.aside.Held(); n > m.cache.half {
		t.Errorf("%d bytes are taken of %d", n, m.cache.half)
	}
	for i := range 3 {
		newClientSession(peerFrom(site, greedy+i), fmt.Sprint("modest ", i))
	}
	for n := range m.cache.shares {
		if has := m.cache.aside.AddressHolds(n); has > 3*m.cache.half/greedy {
			t.Errorf("%v has %d bytes", n, has)
		}
	}
}

// However many addresses of one site create as many sessions as they can, a client of another site keeps
// its session with all slots, and a client of a third site gets one with more than one slot.
func TestASiteWithManyAddressesTakesNoSession(t *testing.T) {
	site, m := site(t, Config{CacheMemory: 1 << 20}, state.Config{})
	args := createArgs(newClient(peerFrom(site, 0), "honest", 1), 1)
	args.ForeChanAttrs.Maxrequests = 16
	honest := create(peerFrom(site, 0), args)
	is(t, "CREATE_SESSION", honest.Status, wire.NFS4OK)
	for i := range 300 {
		p := site.Peer(1)
		from := netip.MustParseAddr(fmt.Sprintf("2001:db8:0:%x::1", i))
		p.Conn = site.RPC.NewConn(netip.AddrPortFrom(from, 700), netip.AddrPort{}, "tcp", true)
		args := createArgs(newClient(p, fmt.Sprint("attacker ", i), 1), 1)
		args.ForeChanAttrs.Maxrequests = 64
		create(p, args)
	}
	kept := m.sessions.find(&honest.ResOK.Sessionid)
	if kept == nil || kept.ended.Load() || len(kept.slots) != int(honest.ResOK.ForeChanAttrs.Maxrequests) {
		t.Error("an honest client has lost its session")
	}
	args = createArgs(newClient(peerFrom(site, 1<<8), "next", 1), 1)
	args.ForeChanAttrs.Maxrequests = 16
	if res := create(peerFrom(site, 1<<8), args); res.Status != wire.NFS4OK || res.ResOK.ForeChanAttrs.Maxrequests < fewSlots {
		t.Errorf("a new client gets %v, %+v", res.Status, res.ResOK.ForeChanAttrs)
	}
	if n := m.cache.aside.Held(); n > m.cache.half {
		t.Errorf("%d bytes are taken of %d", n, m.cache.half)
	}
}

// Every site gets a session as long as the memory has room for one of the smallest shape for each, whatever sessions
// the other sites have and want, and it keeps that session however often the others come back. If the client restarts,
// it gets a session in place of the one that it had.
func TestEverySiteGetsASession(t *testing.T) {
	const memory, sites = 128 << 10, (64 << 10) / (sessionCost + slotCost + leastCached)
	for name, attrs := range map[string]wire.ChannelAttrs4{
		"large": {Maxrequests: 64, MaxresponsesizeCached: maxCached},
		"small": {Maxrequests: 1},
	} {
		t.Run(name, func(t *testing.T) {
			site, m := site(t, Config{CacheMemory: memory}, state.Config{})
			try := func(i, client int) wire.CreateSession4Res {
				p := peerFrom(site, i<<8)
				args := createArgs(newClient(p, fmt.Sprint("client ", client, " of site ", i), 1), 1)
				args.ForeChanAttrs.Maxrequests, args.ForeChanAttrs.MaxresponsesizeCached = attrs.Maxrequests, attrs.MaxresponsesizeCached
				return create(p, args)
			}
			// The sites take as much as they can, the first ones before the others ask, until there is one site less than
			// the memory has room for.
			hoard := func(sites int) {
				for i := range sites {
					for client := 0; try(i, client).Status == wire.NFS4OK && client < 2*memory/sessionCost; client++ {
					}
				}
			}
			hoard(sites / 2)
			hoard(sites - 1)
			p := peerFrom(site, sites<<8)
			args := createArgs(newClient(p, "honest", 1), 1)
			args.ForeChanAttrs.Maxrequests = 64
			got := create(p, args)
			if is(t, "CREATE_SESSION", got.Status, wire.NFS4OK); got.Status != wire.NFS4OK {
				return
			}
			if n := got.ResOK.ForeChanAttrs.MaxresponsesizeCached; n < leastCached {
				t.Errorf("the session keeps replies of %d bytes", n)
			}
			hoard(sites - 1)
			if s := m.sessions.find(&got.ResOK.Sessionid); s == nil || s.ended.Load() {
				t.Error("the honest client has lost its session")
			}
			is(t, "CREATE_SESSION after a restart", create(p, createArgs(newClient(p, "honest", 2), 1)).Status, wire.NFS4OK)
			if n := m.cache.aside.Held(); n > m.cache.aside.Size {
				t.Errorf("%d bytes are taken of %d", n, m.cache.aside.Size)
			}
		})
	}
}

// A session that is being created makes room like any other, for example while the record of its client is written. Its
// CREATE_SESSION then gets NFS4ERR_DELAY, and keeps no memory.
func TestSessionInTheMakingGivesWay(t *testing.T) {
	site, m := site(t, Config{CacheMemory: 64 << 10}, state.Config{})
	owner := m.state.Client(newClient(peerFrom(site, 0), "client", 1))
	making := &Session{owner: owner, client: clientOf(owner), minor: m}
	making.place.Address = peerFrom(site, 0).Conn.Peer.Addr()
	m.makeRoom(making, shape{64, maxCached}, false)
	for i := 1; making.place.Held() > 0; i++ {
		newClientSession(peerFrom(site, i<<8), fmt.Sprint("newcomer ", i))
	}
	is(t, "the end of its CREATE_SESSION", making.client.join(making), wire.NFS4ErrDelay)
	held := m.cache.aside.Held()
	making.giveBack()
	if n := m.cache.aside.Held(); n != held || len(m.cache.sites) != m.cache.aside.Sites() {
		t.Errorf("%d bytes are held, and were %d; %d sites of %d", n, held, len(m.cache.sites), m.cache.aside.Sites())
	}
}

// The server has ended the session of a client to make room, and another client of its address has more than the part of the
// address. If the client has an open, it gets a session of one slot, because it could not keep its lease otherwise.
func TestClientWithAnOpenGetsASessionAgain(t *testing.T) {
	for holds, status := range map[bool]wire.NFSStat4{true: wire.NFS4OK, false: wire.NFS4ErrNoSpace} {
		site, m := site(t, Config{CacheMemory: 1 << 20}, state.Config{})
		neighbour := createArgs(newClient(peerFrom(site, 0), "neighbour", 1), 1)
		neighbour.ForeChanAttrs.Maxrequests = 64
		is(t, "CREATE_SESSION", create(peerFrom(site, 0), neighbour).Status, wire.NFS4OK)
		s := newClientSession(peerFrom(site, 0), "client")
		s.run(op(wire.OpReclaimComplete, &wire.ReclaimComplete4Args{}))
		if holds {
			want(t, "OPEN", s.run(putExport(s), op(wire.OpOpen, &wire.Open4Args{
				ShareAccess: wire.Open4ShareAccessBoth, Owner: wire.StateOwner4{Owner: []byte("owner")},
				Openhow: wire.Openflag4{Opentype: wire.Open4Create},
				Claim:   wire.OpenClaim4{Claim: wire.ClaimNull, File: []byte("file")},
			})), wire.NFS4OK, 3)
		}
		for i := range 35 {
			newClientSession(peerFrom(site, (1+i)<<8), fmt.Sprint("other ", i))
		}
		old := m.sessions.find(&s.id)
		old.client.part(old)
		old.end() // as makeRoom does
		res := create(peerFrom(site, 0), createArgs(s.client, 2))
		if is(t, "CREATE_SESSION", res.Status, status); holds && res.ResOK.ForeChanAttrs.Maxrequests != 1 {
			t.Errorf("%d slots", res.ResOK.ForeChanAttrs.Maxrequests)
		}
	}
}

// If there is no memory for a session, the server removes clients without state whose leases ran
// out, together with their sessions.
func TestSessionsOfTheExpiredGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site, _ := site(t, Config{CacheMemory: 128 << 10}, state.Config{})
		p := site.Peer(1)
		n := 0
		next := func() wire.NFSStat4 {
			n++
			return create(p, createArgs(newClient(p, fmt.Sprint("client ", n), 1), 1)).Status
		}
		for next() != wire.NFS4ErrNoSpace {
			if n > 100 {
				t.Fatal("there is no bound")
			}
		}
		time.Sleep(2 * time.Minute)
		is(t, "the first that comes when leases have run out", next(), wire.NFS4ErrNoSpace)
		time.Sleep(time.Second)
		is(t, "the next", next(), wire.NFS4OK)
	})
}
