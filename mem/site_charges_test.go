package mem

import (
	"net/netip"
	"testing"
)

// However many addresses of a site keep calls and replies, a connection of another site may begin calls, and so may
// the first few addresses of the same site.
func TestSitesLeaveRoomForCharges(t *testing.T) {
	for name, of := range map[string]func(i int) netip.Addr{
		"one address": func(int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, 1}) },
		"a /24":       func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}) },
		"a /48": func(i int) netip.Addr {
			return netip.AddrFrom16([16]byte{0x20, 1, 0x0d, 0xb8, 6: byte(i >> 8), 7: byte(i)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, 64*mib, 8*mib)
			const call = 64 << 10
			charges := make(map[*Share]int)
			fill := func(at netip.Addr) *Share {
				s := p.OpenShare(at, nil)
				charges[s] = 0
				for !s.Full(LeastCalls) {
					s.Charge(call)
					charges[s] += call
				}
				return s
			}
			for i := range 256 {
				fill(of(i))
			}
			most := p.chargesOf() * 3 / 4
			if got := p.Stats().Charged; got > most+call || got < p.chargesOf()/2 {
				t.Errorf("%d bytes are charged of %d", got, p.chargesOf())
			}
			if newcomer := fill(netip.AddrFrom4([4]byte{203, 0, 113, 1})); charges[newcomer] < 10*call {
				t.Errorf("a newcomer may keep %d bytes", charges[newcomer])
			}
			for s, n := range charges {
				s.Discharge(n)
				s.Close()
			}
			if st := p.Stats(); st.Charged != 0 || st.Clients != 0 || len(p.sites) != 0 {
				t.Errorf("%d bytes, %d clients, %d sites stay", st.Charged, st.Clients, len(p.sites))
			}
		})
	}
}
