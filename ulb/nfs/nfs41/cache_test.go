package nfs41

import (
	"net/netip"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// However many addresses of a site store replies, a newcomer of another site can store some.
func TestStoredRepliesOfASiteLeaveRoom(t *testing.T) {
	const size, reply = 8 << 20, maxCached
	for name, of := range map[string]func(i int) netip.Addr{
		"one address": func(int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, 1}) },
		"a /24":       func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}) },
		"a /48": func(i int) netip.Addr {
			return netip.AddrFrom16([16]byte{0x20, 1, 0x0d, 0xb8, 6: byte(i >> 8), 7: byte(i)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := new(cache)
			c.init(size)
			begin := func(at netip.Addr) *Session {
				s := new(Session)
				s.place.Address = at
				if c.session(s, shape{1, 0}, false).slots == 0 {
					t.Fatal("no session")
				}
				return s
			}
			var all []*Session
			stored := make(map[*Session]int64)
			for i := range 512 {
				s := begin(of(i))
				all = append(all, s)
				for range 64 {
					if c.holds(s.share, 0, reply) {
						c.account(s.share, reply)
						stored[s] += reply
					}
				}
			}
			if most := c.half * 3 / 4; c.others.Held() > most || c.others.Held() < c.half/2-reply {
				t.Errorf("%d bytes are stored of %d", c.others.Held(), c.half)
			}
			newcomer := begin(netip.AddrFrom4([4]byte{203, 0, 113, 1}))
			if all = append(all, newcomer); !c.holds(newcomer.share, 0, reply) {
				t.Errorf("%d bytes are stored, and a newcomer may store no reply", c.others.Held())
			}
			for _, s := range all {
				c.account(s.share, -stored[s])
				c.endSession(s)
			}
			if len(c.shares) != 0 || len(c.sites) != 0 || c.others.Held() != 0 {
				t.Errorf("%d addresses, %d sites, %d bytes stay", len(c.shares), len(c.sites), c.others.Held())
			}
		})
	}
}

// If a site has reached its limit, the address whose sessions store most loses replies that its clients did not ask
// for, also when an address of the site with less asks for room.
func TestNeighboursGetRoomOfEachOther(t *testing.T) {
	site, m := site(t, Config{}, state.Config{})
	first := newClientSession(site.Peer(1), "first")
	second := newClientSession(site.Other(1), "second")
	unasked := *first.sequenceOp(1)
	unasked.Cachethis = false
	create := op(wire.OpCreate, &wire.Create4Args{Objtype: wire.Createtype4{Type: wire.NF4Dir}, Objname: wire.UTF8String("a")})
	want(t, "CREATE", first.with(&unasked, []nfs4test.Op{putExport(first), create}...), wire.NFS4OK, 3)
	of := m.sessions.find(&first.id)
	if of.held.Load() == 0 {
		t.Fatal("the reply is not stored")
	}
	// The site has reached its limit, and neither address has.
	s := of.share.site
	n := m.cache.half * 3 / 4
	s.others.Add(n)
	m.relieve(m.sessions.find(&second.id).share)
	s.others.Add(-n)
	if n := of.held.Load(); n != 0 {
		t.Errorf("the neighbour keeps %d bytes", n)
	}
}
