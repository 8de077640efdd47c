package mem

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// Of n file systems one, two, or all but one stall, with as many calls as they
// get, on one connection or on many, of one client or several: each of the others
// has memory at once, for a READ of a byte and for one of 1 MiB.
func TestStalledGroupsLeaveRoomForTheOthers(t *testing.T) {
	for _, n := range []int{2, 3, 8, 64} {
		for _, stalled := range []int{1, 2, n - 1} {
			for _, connections := range []int{1, 5} {
				for _, size := range []int{mib, mib + PageSize, 128 << 10, PageSize} {
					if stalled < n && (size != PageSize || n == 8) {
						t.Run(fmt.Sprintf("%d of %d, %d connections, %d bytes", stalled, n, connections, size), func(t *testing.T) {
							stall(t, n, stalled, connections, size)
						})
					}
				}
			}
		}
	}
}

func stall(t *testing.T, n, stalled, connections, size int) {
	p := configured(t, Config{Ceiling: 256 * mib, Groups: n})
	var groups []*Group
	for range n {
		groups = append(groups, p.NewGroup())
	}
	var shares []*Share
	for i := range connections {
		shares = append(shares, p.OpenShare(i/2, nil))
	}
	// They stall one after the other, each when it has all that it gets.
	var held, waiting []*wish
	for _, g := range groups[:stalled] {
		for i := range 400 * mib / size / stalled {
			w := ask(shares[i%connections], g, "stalled", size, nil)
			if w.calls == 1 {
				held = append(held, w)
			} else if waiting = append(waiting, w); len(waiting)%32 == 0 {
				break
			}
		}
	}
	audited(t, p)
	for i, g := range append(groups[stalled:], nil) {
		for _, size := range []int{1, mib} {
			w := ask(shares[i%connections], g, "working", size, nil)
			if w.calls != 1 {
				t.Fatalf("group %d has no memory for %d bytes: %+v", stalled+i, size, p.Stats())
			}
			w.buffer.Release()
		}
	}
	audited(t, p)
	for _, w := range held {
		w.buffer.Release()
	}
	drain(t, p, waiting)
}

// A file system that works takes most of what those leave that stall.
func TestGroupThatWorksIsNotHeldToItsFloor(t *testing.T) {
	p := configured(t, Config{Ceiling: 256 * mib, Groups: 64})
	one, other := p.NewGroup(), p.NewGroup()
	held := fill(t, p, mib, one)
	if n := len(held); n < 60 || n > 128 {
		t.Errorf("a group has %d MiB of 240", n)
	}
	held = append(held, fill(t, p, mib, other)...)
	if n := other.InUse() / mib; n < 20 {
		t.Errorf("beside one that stalls, a group has %d MiB", n)
	}
	release(held)
}

// However a limit is shared out and groups take of it: what they hold together is
// within the limit, and each group that holds less than its floor may have as
// much of it.
func TestFloorsAreAlwaysFree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int32Range(1, 1<<17).Draw(t, "limit")
		groups := rapid.Int32Range(2, 70).Draw(t, "groups")
		d := share(limit, groups)
		if d.floor < 0 || d.commons < 0 || d.floor*(groups+1)+d.commons != limit {
			t.Fatalf("%d pages among %d: %+v", limit, groups, d)
		}
		var h holding
		var gs []*Group
		for i := range groups + 1 { // one is that of the ungrouped
			gs = append(gs, &Group{slot: i})
		}
		rng := rand.New(rand.NewPCG(1, rapid.Uint64().Draw(t, "seed")))
		most := rapid.Int32Range(1, 600).Draw(t, "largest request")
		for range 500 {
			g := gs[rng.IntN(len(gs))]
			n := 1 + rng.Int32N(most)
			if rng.IntN(4) == 0 && h.of(g) > 0 {
				n = 1 + rng.Int32N(h.of(g))
				h.add(g, -n)
				g.held -= n
			} else if h.lets(d, g, n) && h.pages+n <= limit {
				if h.of(g) == 0 && n > d.floor {
					continue // the exception, which may take of others' floors
				}
				g.held += n
				h.add(g, n)
			}
			for _, g := range gs {
				if n := d.floor - h.of(g); n > 0 && (!h.lets(d, g, n) || h.pages+n > limit) {
					t.Fatalf("%+v, %d pages held of %d: a group with %d may not have %d more", d, h.pages, limit, h.of(g), n)
				}
			}
		}
	})
}

func TestFloorHoldsAReadWhereItCan(t *testing.T) {
	for _, c := range []struct {
		limit, groups, floor int32 // MiB, groups, pages
	}{
		{240, 1, 0}, // no group has to leave anything
		{240, 2, floorMost},
		{240, 64, 472},
		{128, 64, floorLeast},
		{15, 2, 640},
		{4, 8, 113}, // there is no more
	} {
		if d := share(c.limit*256, c.groups); d.floor != c.floor {
			t.Errorf("%d MiB among %d: %+v, want a floor of %d", c.limit, c.groups, d, c.floor)
		}
	}
}
