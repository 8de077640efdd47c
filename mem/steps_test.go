package mem

import (
	"fmt"
	"math/bits"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
)

// manyOf returns address i of one of a number of sites, which are /48s.
func manyOf(i, sites int) netip.Addr {
	s, a := i%sites, i/sites
	return netip.AddrFrom16([16]byte{0x20, 1, 0x0d, 0xb8, 4: byte(s >> 8), 5: byte(s), 6: byte(a >> 8), 7: byte(a), 15: 1})
}

// However many clients of a site wait, and however many sites, those of another site get and release memory in as many
// steps; and one of those that wait is served in steps that grow with the logarithm of their number.
func TestStepsBesideWaitingClients(t *testing.T) {
	for _, size := range []int{mib, PageSize} {
		for _, sites := range []int{1, 16, 10_000} {
			for _, n := range []int{16, 10_000} {
				t.Run(fmt.Sprintf("%d bytes, %d clients of %d sites", size, n, sites), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { countSteps(t, size, sites, n) }) // no tick adds steps
				})
			}
		}
	}
}

func countSteps(t *testing.T, size, sites, n int) {
	p := configured(t, Config{Ceiling: 64 * mib})
	g := p.NewGroup()
	var held []*Buffer
	if size == PageSize {
		// A large request is next, so that small ones have to wait for the reserve.
		held = take(p, nil, 128, addresses(8, 1)...)
		large := ask(p.OpenShare(site(99, 1), nil), nil, "large", 8*mib, nil)
		defer func() { large.buffer.Release() }()
	}
	var waiting []*wish
	for i := 0; i < n || len(waiting) < n/2; i++ {
		w := ask(p.OpenShare(manyOf(i%n, sites), nil), g, "waits", size, nil)
		if w.calls > 0 {
			held = append(held, w.buffer)
		} else {
			waiting = append(waiting, w)
		}
	}
	audited(t, p)
	mine := p.OpenShare(site(50, 1), nil)
	worst := 0
	for range 100 {
		p.visited = 0
		if b, ok := mine.TryGetIn(g, size); ok {
			b.Release()
		}
		worst = max(worst, p.visited)
	}
	sites = min(sites, 16) // the next ones cost nothing
	if most := 4 * (sites + 2); worst > most {
		t.Errorf("another site's request takes %d steps, want at most %d", worst, most)
	}
	t.Logf("%d wait; another site: %d steps", len(waiting), worst)
	if n < 100 {
		slices.Reverse(held) // the reserve first, so that those that wait for it change their order
	}
	worst = 0
	for len(held) > 0 {
		p.visited = 0
		before := p.Stats().Waiting
		held[0].Release()
		delivered(t, p)
		held = held[1:]
		served := before - p.Stats().Waiting
		worst = max(worst, p.visited/(served+1))
		if n < 100 {
			audited(t, p)
		}
	}
	if most := 4 * (sites + 2 + bits.Len(uint(n))); worst > most {
		t.Errorf("a waiting request is served in %d steps, want at most %d", worst, most)
	}
	t.Logf("served in %d steps", worst)
	drain(t, p, waiting)
}

// Clients that wait for the limits of their shares cost a few steps each, however many others of their site wait.
func TestStepsBesideSharesAtTheirLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const full, n = 3, 10_000
		p := configured(t, Config{Ceiling: 64 * mib, Share: 8 * mib})
		var held []*Buffer
		var waiting []*wish
		var shares []*Share
		for i := range full {
			s := p.OpenShare(manyOf(i, 1), nil)
			shares = append(shares, s)
			for b, ok := s.TryGet(mib); ok; b, ok = s.TryGet(mib) {
				held = append(held, b)
			}
		}
		rest := fill(t, p, mib)
		for _, s := range shares {
			waiting = append(waiting, ask(s, nil, "waits for its share", mib, nil))
		}
		for i := range n {
			waiting = append(waiting, ask(p.OpenShare(manyOf(full+i, 1), nil), nil, "waits", mib, nil))
		}
		audited(t, p)
		for _, b := range rest[:8] {
			p.visited = 0
			before := p.Stats().Waiting
			b.Release()
			delivered(t, p)
			served := before - p.Stats().Waiting
			if most := 4 * (2*full + 1 + bits.Len(uint(n))); served == 0 || p.visited > most*(served+1) {
				t.Fatalf("%d requests are served in %d steps, want at most %d", served, p.visited, most)
			}
		}
		release(append(held, rest[8:]...))
		drain(t, p, waiting)
	})
}
