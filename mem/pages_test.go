package mem

import (
	"testing"

	"pgregory.net/rapid"
)

// check compares the map with the taken and touched pages of a model.
func (m *pageMap) check(t *rapid.T, taken, touched []bool) {
	var inUse, resident int32
	for i := range taken {
		if taken[i] {
			inUse++
		} else if int32(i) < m.low {
			t.Fatalf("page %d is free, and below %d", i, m.low)
		}
		if touched[i] {
			resident++
		}
		if busy := m.busy[i/64]>>(i%64)&1 == 1; busy != taken[i] {
			t.Fatalf("page %d: busy bit %v, taken %v", i, busy, taken[i])
		}
		if bit := m.touched[i/64]>>(i%64)&1 == 1; bit != touched[i] {
			t.Fatalf("page %d: touched bit %v, touched %v", i, bit, touched[i])
		}
	}
	if inUse != m.inUse || resident != m.resident {
		t.Fatalf("%d pages in use, %d touched; counted %d and %d", inUse, resident, m.inUse, m.resident)
	}
}

// The map agrees with a model that is a table of pages: extents never overlap, nothing is lost,
// an allocation takes the first run that is long enough, and fails only if there is none.
func TestPageMapAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.Int32Range(1, 700).Draw(t, "total")
		m := newPageMap(total)
		taken, touched := make([]bool, total), make([]bool, total)
		var held []extent
		t.Repeat(map[string]func(*rapid.T){
			"alloc": func(t *rapid.T) {
				n := rapid.Int32Range(1, total).Draw(t, "pages")
				want, run := int32(-1), int32(0)
				for i := range taken {
					if run++; taken[i] {
						run = 0
					}
					if run == n {
						want = int32(i) + 1 - n
						break
					}
				}
				if m.has(n) != (want >= 0) {
					t.Fatalf("has(%d): %v, but the first run is at %d", n, want < 0, want)
				}
				e, ok := m.alloc(n)
				if ok != (want >= 0) || ok && e != (extent{want, n}) {
					t.Fatalf("asked for %d pages, got %+v, %v of %d; the first run is at %d", n, e, ok, total, want)
				}
				for i := e.page; i < e.page+e.pages; i++ {
					taken[i], touched[i] = true, true
				}
				if ok {
					held = append(held, e)
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
				m.release(e)
			},
			"trim": func(t *rapid.T) {
				below := rapid.Int32Range(0, total).Draw(t, "below")
				most := rapid.Int32Range(1, 100).Draw(t, "most")
				last := below - 1
				for last >= 0 && (taken[last] || !touched[last]) {
					last--
				}
				first := last + 1
				for first > 0 && last-first+1 < most && !taken[first-1] && touched[first-1] {
					first--
				}
				e := m.lastTouched(below, most)
				if want := (extent{first, last - first + 1}); e.pages != want.pages || e.pages > 0 && e != want {
					t.Fatalf("below %d, %+v is free and touched; want %+v", below, e, want)
				}
				if e.pages == 0 {
					return
				}
				m.fence(e)
				if n := m.forget(e); n != e.pages {
					t.Fatalf("%d pages of %+v were resident", n, e)
				}
				m.unfence(e)
				for i := e.page; i < e.page+e.pages; i++ {
					touched[i] = false
				}
			},
			"": func(t *rapid.T) { m.check(t, taken, touched) },
		})
		for _, e := range held {
			m.release(e)
		}
		if _, ok := m.alloc(total); !ok {
			t.Fatal("everything is free, and cannot be had")
		}
	})
}

// Extents of one size, here of 1 MiB and a page, leave no gaps between them that are too short for
// another extent.
func TestExtentsOfOneSizeLeaveNoGaps(t *testing.T) {
	m := newPageMap(1024)
	var held []extent
	for range 3 {
		e, ok := m.alloc(257)
		if !ok {
			t.Fatalf("257 pages are missing after %d extents", len(held))
		}
		held = append(held, e)
	}
	if _, ok := m.alloc(253); !ok || m.free() != 0 {
		t.Fatalf("%d pages are left", m.free())
	}
	m.release(held[1])
	if e, ok := m.alloc(257); !ok || e != held[1] {
		t.Fatalf("a gap of 257 pages is not found: %v", e)
	}
}
