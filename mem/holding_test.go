package mem

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// A holding of many groups has the same counts as a map.
func TestHoldingAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h holding
		groups := []*Group{{}, {}, {}, {}}
		of := map[*Group]int32{}
		for range 100 {
			g := rapid.SampledFrom(groups).Draw(t, "group")
			n := rapid.Int32Range(-of[g], 9).Draw(t, "pages")
			if n == 0 {
				continue
			}
			h.add(g, n)
			if of[g] += n; of[g] == 0 {
				delete(of, g)
			}
			all := int32(0)
			for _, g := range groups {
				if all += of[g]; h.of(g) != of[g] {
					t.Fatalf("%d pages, counted %d", of[g], h.of(g))
				}
			}
			if h.pages != all {
				t.Fatalf("%d pages, counted %d", all, h.pages)
			}
		}
	})
}

// If one, two or four of five file systems stall, with as many calls as they get, on one connection
// or on many, of one client or several, each other file system gets memory at once, for a READ of a
// byte and for a READ of 1 MiB.
func TestStalledGroupsLeaveRoomForTheOthers(t *testing.T) {
	for _, stalled := range []int{1, 2, 4} {
		for _, connections := range []int{1, 5} {
			for _, size := range []int{mib, mib + PageSize, 128 << 10, PageSize} {
				t.Run(fmt.Sprintf("%d of 5, %d connections, %d bytes", stalled, connections, size), func(t *testing.T) {
					stall(t, 5, stalled, connections, size)
				})
			}
		}
	}
}

func stall(t *testing.T, n, stalled, connections, size int) {
	p := configured(t, Config{Ceiling: 256 * mib, Share: 256 * mib})
	var groups []*Group
	for range n {
		groups = append(groups, p.NewGroup())
	}
	var shares []*Share
	for i := range connections {
		shares = append(shares, p.OpenShare(i/2, nil))
	}
	// The file systems stall one after the other, each when it has all the memory that it gets.
	var held, waiting []*wish
	for _, g := range groups[:stalled] {
		for i := range 400 * mib / size {
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

// A single group gets half of the main zone, and a second group beside it gets a quarter.
func TestGroupsThatWorkUseMostOfTheMemory(t *testing.T) {
	p := configured(t, Config{Ceiling: 256 * mib})
	one, other := p.NewGroup(), p.NewGroup()
	held := fill(t, p, mib, one)
	if n := len(held); n != 120 {
		t.Errorf("a group has %d MiB of 240", n)
	}
	held = append(held, fill(t, p, mib, other)...)
	if n := other.InUse() / mib; n != 60 {
		t.Errorf("beside one that stalls, a group has %d MiB", n)
	}
	release(held)
}
