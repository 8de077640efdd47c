package verbs

import (
	"net/netip"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/internal/fair"
)

// However many connections, addresses and sites take memory for messages, a newcomer of another site gets some, and the
// addresses of one site get no more than one of them could.
func TestShareOfTheMemoryForMessages(t *testing.T) {
	const size, each = 64 << 20, 800 << 10
	for name, of := range map[string]func(i int) netip.Addr{
		"one address": func(int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, 1}) },
		"a /24":       func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}) },
		"a /48": func(i int) netip.Addr {
			return netip.AddrFrom16([16]byte{0x20, 1, 0x0d, 0xb8, 6: byte(i >> 8), 7: byte(i)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, d := &Provider{memory: fair.Tree[struct{}]{Size: size}}, new(rnic)
			var all []*share
			for i := range 4096 {
				if s, err := p.reserve(d, of(i), each); err == nil {
					all = append(all, s)
				}
			}
			if held := p.memory.Held(); held < size/2 || held > size*3/4 {
				t.Errorf("%d connections have %d of %d bytes", len(all), held, size)
			}
			newcomer := netip.AddrFrom4([4]byte{203, 0, 113, 1})
			for range 8 {
				s, err := p.reserve(d, newcomer, each)
				if err != nil {
					t.Fatalf("a newcomer: %v", err)
				}
				all = append(all, s)
			}
			for _, s := range all {
				p.giveBack(d, s)
			}
			if p.memory.Held() != 0 || d.connections != 0 {
				t.Errorf("%d bytes and %d connections stay", p.memory.Held(), d.connections)
			}
		})
	}
}
