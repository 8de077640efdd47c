package mem

import (
	"testing"
	"testing/synctest"
	"time"
)

// scatter fills the main zone with blocks of a page for two groups in turn, and returns the
// blocks of each.
func scatter(t *testing.T, p *Pool, a, b *Group) (ofA, ofB []*Buffer) {
	t.Helper()
	s := p.NewShare()
	for i := 0; ; i++ {
		g := a
		if i%2 == 1 {
			g = b
		}
		m, ok := s.TryGetIn(g, PageSize)
		if !ok || m.page >= p.main.total {
			if ok {
				m.Release()
			}
			return ofA, ofB
		}
		if i%2 == 1 {
			ofB = append(ofB, m)
		} else {
			ofA = append(ofA, m)
		}
	}
}

// If a stalled file system holds every other page, a block of 1 MiB is impossible. After seconds
// the pool lets other requests pass the request for such a block, and serves it when the file
// system goes on.
func TestRequestWithoutPossibleBlockHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := configured(t, Config{Ceiling: 9 * mib, Share: 9 * mib, Group: 9 * mib})
		stalled, works := p.NewGroup(), p.NewGroup()
		held, gone := scatter(t, p, stalled, works)
		large := ask(p.OpenShare("a", nil), works, "large", mib, nil)
		release(gone[1:]) // four MiB are free, without two adjacent pages
		held[100].Release()
		held[101].Release()
		held = append(held[:100], held[102:]...)
		audited(t, p)
		other := ask(p.OpenShare("b", nil), works, "other", large1, nil)
		for i := 110; i < 120; i++ {
			held[i].Release()
		}
		held = append(held[:110], held[120:]...)
		other.want(t, 0, nil) // it may not pass the large request
		time.Sleep(5 * time.Second)
		synctest.Wait()
		audited(t, p)
		if st := p.Stats(); st.Unfittable != 1 || !st.Pressed {
			t.Errorf("%+v", st)
		}
		other.want(t, 1, nil)
		// Later requests of the same size wait as well. Smaller requests wait only until enough
		// pages are free.
		second := ask(p.OpenShare("c", nil), works, "second", mib, nil)
		third := ask(p.OpenShare("d", nil), works, "third", large1, nil)
		second.want(t, 0, nil)
		third.want(t, 0, nil) // there is no memory for it yet
		other.buffer.Release()
		third.want(t, 1, nil)
		third.buffer.Release()
		large.want(t, 0, nil)
		time.Sleep(time.Minute)
		audited(t, p)
		release(held)
		large.want(t, 1, nil)
		second.want(t, 1, nil)
		large.buffer.Release()
		second.buffer.Release()
		gone[0].Release()
		time.Sleep(time.Second)
		if st := p.Stats(); st.Unfittable != 0 || st.Pressed {
			t.Errorf("%+v", st)
		}
	})
}

// While others request small blocks and release them all the time, a large request gets its block
// if all held memory is released some time: no other request passes it.
func TestLargeRequestIsServedInFragments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := configured(t, Config{Ceiling: 9 * mib, Share: 9 * mib, Group: 9 * mib})
		g := p.NewGroup()
		a, b := scatter(t, p, g, nil)
		var held []*Buffer
		for i := range b {
			held = append(held, a[len(a)-1-i], b[i])
		}
		held = append(held, a[:len(a)-len(b)]...)
		large := ask(p.OpenShare("large", nil), g, "large", 4*mib, nil)
		s := p.OpenShare("busy", nil)
		var busy []*wish
		for i := 0; len(held) > 0; i++ {
			held[0].Release() // one block is released each millisecond
			held = held[1:]
			busy = append(busy, ask(s, g, "busy", 2*large1, nil))
			time.Sleep(time.Millisecond)
			if large.calls > 0 {
				break
			}
			audited(t, p)
			if p.Stats().Unfittable > 0 {
				t.Fatal("a request is set aside whose block will come")
			}
			for _, w := range busy {
				if w.calls > 0 {
					t.Fatal("a request passes the one that has the turn")
				}
			}
		}
		large.want(t, 1, nil)
		if len(held) == 0 {
			t.Error("it was served when nothing was held any more")
		}
		release(held)
		large.buffer.Release()
		drain(t, p, busy)
	})
}

// Memory that is held for very long counts as pinned, even if its group gives other blocks back.
func TestBlockHeldForLongIsPinned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := configured(t, Config{Ceiling: 9 * mib, Share: 9 * mib, Group: 9 * mib})
		g := p.NewGroup()
		held, rest := scatter(t, p, g, g)
		release(rest)
		large := ask(p.OpenShare("large", nil), g, "large", mib, nil)
		for range 20 {
			held[0].Release() // at one end of the arena
			held = held[1:]
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if st := p.Stats(); st.Unfittable != 1 {
			t.Errorf("%+v", st)
		}
		audited(t, p)
		release(held)
		drain(t, p, []*wish{large})
	})
}
