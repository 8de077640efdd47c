package nfs41

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

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
