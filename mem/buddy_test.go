package mem

import (
	"testing"

	"pgregory.net/rapid"
)

// check compares the allocator with the pages that a model says are taken.
func (a *buddy) check(t *rapid.T, taken, touched []bool) {
	covered := make([]bool, a.total)
	free := int32(0)
	for k := range a.heads {
		if (a.heads[k] != 0) != (a.nonEmpty>>k&1 == 1) {
			t.Fatalf("order %d: list and bit disagree", k)
		}
		for at := a.heads[k]; at != 0; at = a.next[at-1] {
			page := at - 1
			if page%(1<<k) != 0 || int(a.order[page]) != k+1 {
				t.Fatalf("block of order %d at page %d: misplaced", k, page)
			}
			other := page ^ 1<<k
			if other+1<<k <= a.total && int(a.order[other]) == k+1 {
				t.Fatalf("blocks of order %d at %d and %d are not joined", k, page, other)
			}
			for i := page; i < page+1<<k; i++ {
				if covered[i] || taken[i] {
					t.Fatalf("page %d is free twice, or free and taken", i)
				}
				covered[i] = true
				free++
			}
		}
	}
	var residue int32
	warm := make([]bool, a.total)
	for _, e := range a.warm {
		for i := e.page; i < e.page+e.pages; i++ {
			if covered[i] || taken[i] || !touched[i] {
				t.Fatalf("warm page %d is free twice, or taken, or was never used", i)
			}
			covered[i], warm[i] = true, true
			free++
			residue++
		}
	}
	for i := range covered {
		if !covered[i] && !taken[i] {
			t.Fatalf("page %d is lost", i)
		}
		bit := a.touched[i/64]>>(i%64)&1 == 1
		if bit != (touched[i] && !taken[i] && !warm[i]) {
			t.Fatalf("page %d: touched bit %v, taken %v, touched %v, warm %v", i, bit, taken[i], touched[i], warm[i])
		}
		if bit {
			residue++
		}
		if busy := a.busy[i/64]>>(i%64)&1 == 1; busy != (taken[i] || warm[i]) {
			t.Fatalf("page %d: busy bit %v, taken %v, warm %v", i, busy, taken[i], warm[i])
		}
		if int32(i) < a.low && !taken[i] && !warm[i] {
			t.Fatalf("page %d is free, and below %d", i, a.low)
		}
	}
	if free != a.free || residue != a.residue {
		t.Fatalf("%d pages free, %d touched; counted %d and %d", free, residue, a.free, a.residue)
	}
}

// The allocator against a model that is a table of pages: blocks never overlap,
// nothing is lost, everything is joined that can be, and an allocation fails
// only where no run of pages is free that is long enough.
func TestBuddyAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.Int32Range(1, 700).Draw(t, "total")
		a := newBuddy(total)
		taken, touched := make([]bool, total), make([]bool, total)
		var held []extent
		t.Repeat(map[string]func(*rapid.T){
			"alloc": func(t *rapid.T) {
				n := rapid.Int32Range(1, total).Draw(t, "pages")
				e, ok := a.alloc(n)
				if ok {
					if e.pages != n || e.page < 0 || e.page+n > total {
						t.Fatalf("asked for %d pages, got %+v of %d", n, e, total)
					}
					for i := e.page; i < e.page+n; i++ {
						if taken[i] {
							t.Fatalf("page %d handed out twice", i)
						}
						taken[i], touched[i] = true, true
					}
					held = append(held, e)
					return
				}
				run := int32(0)
				for i := range taken {
					if run++; taken[i] {
						run = 0
					}
					if run == n {
						t.Fatalf("%d pages refused, yet those up to %d are free", n, i)
					}
				}
			},
			"release": func(t *rapid.T) {
				if len(held) == 0 {
					t.Skip("nothing is held")
				}
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				e := held[i]
				held = append(held[:i], held[i+1:]...)
				for i := e.page; i < e.page+e.pages; i++ {
					taken[i] = false
				}
				a.release(e)
			},
			"trim": func(t *rapid.T) {
				a.cool()
				limit := rapid.Int32Range(0, total).Draw(t, "below")
				last := a.lastTouched(limit)
				for i := limit - 1; i > last; i-- {
					if touched[i] && !taken[i] {
						t.Fatalf("page %d is touched, but %d was found", i, last)
					}
				}
				if last < 0 {
					return
				}
				most := rapid.IntRange(0, 8).Draw(t, "order")
				e := a.carve(last, most)
				if e.pages > 1<<most || last < e.page || last >= e.page+e.pages {
					t.Fatalf("carved %+v for page %d, order %d", e, last, most)
				}
				a.residue -= unset(a.touched, e)
				for i := e.page; i < e.page+e.pages; i++ {
					touched[i] = false
				}
				a.put(e)
			},
			"": func(t *rapid.T) { a.check(t, taken, touched) },
		})
		for _, e := range held {
			a.release(e)
		}
		if _, ok := a.alloc(total); !ok {
			t.Fatal("everything is free, and cannot be had")
		}
	})
}

// Requests of 1 MiB and a page leave nothing between them that is too short for
// another.
func TestBlocksOfOneSizeLeaveNoGaps(t *testing.T) {
	a := newBuddy(1024)
	var held []extent
	for range 3 {
		e, ok := a.alloc(257)
		if !ok {
			t.Fatalf("257 pages are missing after %d blocks", len(held))
		}
		held = append(held, e)
	}
	if _, ok := a.alloc(253); !ok || a.free != 0 {
		t.Fatalf("%d pages are left", a.free)
	}
	a.release(held[1])
	if e, ok := a.alloc(257); !ok || e != held[1] {
		t.Fatalf("a gap of 257 pages is not found: %v", e)
	}
}
