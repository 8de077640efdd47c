package mem

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// While large numbers of peers hold all of the main zone and wait for more of it, a client that
// asks for a page, or for 64 KiB, gets it at once.
func TestSmallRequestsFindMemoryBesideLargeOnes(t *testing.T) {
	for _, strangers := range []int{1, 256} {
		t.Run(fmt.Sprint(strangers, " strangers"), func(t *testing.T) {
			p := configured(t, Config{Ceiling: 256 * mib, Share: 128 * mib})
			var held, waiting []*wish
			for i := range 300 {
				s := p.OpenShare(fmt.Sprint("stranger", i%strangers), nil)
				for range 4 {
					if w := ask(s, nil, "stranger", mib, nil); w.calls == 1 {
						held = append(held, w)
					} else {
						waiting = append(waiting, w)
					}
				}
			}
			if len(held) != 240 {
				t.Fatalf("strangers hold %d blocks", len(held))
			}
			honest := p.OpenShare("honest", nil)
			for _, size := range []int{1, PageSize, 64 << 10} {
				w := ask(honest, nil, "honest", size, nil)
				w.want(t, 1, nil)
				b, ok := p.OpenShare("another", nil).TryGet(size)
				if !ok {
					t.Fatalf("TryGet of %d bytes fails", size)
				}
				b.Release()
				w.buffer.Release()
			}
			if w := ask(honest, nil, "honest", large1, nil); w.calls != 0 {
				t.Error("more than 64 KiB is found beside the main zone")
			} else {
				waiting = append(waiting, w)
			}
			audited(t, p)
			for _, w := range held {
				w.buffer.Release()
			}
			drain(t, p, waiting)
		})
	}
}

// If clients take as many small blocks as they get, one after the other, and keep them, there are
// still 64 KiB for a new client after thirty of them, and a page after seven hundred.
func TestEachClientFindsAPage(t *testing.T) {
	for _, inGroup := range []bool{false, true} {
		p := configured(t, Config{Ceiling: 256 * mib, Share: 128 * mib})
		var g *Group
		if inGroup {
			g = p.NewGroup()
		}
		held := fill(t, p, mib)
		honest := p.OpenShare("honest", nil)
		for i := range 700 {
			s := p.OpenShare(i, nil)
			for {
				b, ok := s.TryGetIn(g, []int{64 << 10, PageSize}[i%2])
				if !ok {
					break
				}
				held = append(held, b)
			}
			size := 1
			if i < 30 {
				size = 64 << 10
			}
			b, ok := honest.TryGetIn(g, size)
			if !ok {
				t.Fatalf("%d bytes are not left after %d clients: %+v", size, i+1, p.Stats())
			}
			b.Release()
		}
		if st := p.Stats(); st.Small < 12*mib {
			t.Errorf("%d bytes of the reserve are in use", st.Small)
		}
		audited(t, p)
		release(held)
	}
}

// A client gets at most a tenth of the reserve, with any number of shares.
func TestReserveIsSharedOut(t *testing.T) {
	p := configured(t, Config{Ceiling: 256 * mib, Share: 128 * mib})
	held := fill(t, p, 128<<10)
	take := func(open func(i int) *Share) (n int) {
		var got []*Buffer
		for i := range 5000 {
			if b, ok := open(i).TryGet(PageSize); ok {
				got = append(got, b)
			}
		}
		release(got)
		return len(got)
	}
	reserve := int(p.reserve.total)
	s := p.OpenShare("client", nil)
	if n := take(func(int) *Share { return s }); n < reserve/16 || n > reserve/10 {
		t.Errorf("a client has %d pages of %d", n, reserve)
	}
	shares := []*Share{p.OpenShare("client", nil), s}
	if n := take(func(i int) *Share { return shares[i%2] }); n < reserve/16 || n > reserve/10 {
		t.Errorf("a client with two shares has %d pages of %d", n, reserve)
	}
	release(held)
}

// A small request of a client that has its part of the main zone hides none of a neighbour in its site that has not.
func TestSmallRequestsBesideOneThatHasItsPart(t *testing.T) {
	p := configured(t, Config{Ceiling: 64 * mib})
	g, one := p.NewGroup(), p.OpenShare(site(1, 1), nil)
	var held []*Buffer
	for _, size := range []int{mib, 64 << 10} {
		for b, ok := one.TryGetIn(g, size); ok; b, ok = one.TryGetIn(g, size) {
			held = append(held, b)
			if b.page >= p.main.total {
				break
			}
		}
	}
	others := fill(t, p, mib)
	for i := 0; p.reserve.free() > 0; i++ {
		b, ok := p.OpenShare(site(2+i, 1), nil).TryGet(PageSize)
		if !ok {
			t.Fatalf("%d pages of the reserve are left", p.reserve.free())
		}
		held = append(held, b)
	}
	first := ask(one, g, "has its part", 64<<10, nil)
	beside := ask(p.OpenShare(site(1, 2), nil), g, "beside", 64<<10, nil)
	audited(t, p)
	first.want(t, 0, nil)
	beside.want(t, 0, nil)
	others[0].Release()
	audited(t, p)
	if beside.calls == 0 {
		t.Errorf("a client waits while the main zone has room for it: %+v", p.Stats())
	}
	release(append(held, others[1:]...))
	drain(t, p, []*wish{first, beside})
}

// In a row of many clients each is found after a few scans, although a scan looks at few of them.
func TestEachNeighbourIsLookedAt(t *testing.T) {
	const many = 40
	p := configured(t, Config{Ceiling: 64 * mib})
	held := fill(t, p, mib)
	var waiting []*wish
	for i := range many {
		waiting = append(waiting, ask(p.OpenShare(site(1, 1+i), nil), nil, "waits", mib, nil))
	}
	r := p.ungrouped.waiting.first()
	first := p.candidateLocked(r)
	for _, c := range r.clients[1:] {
		scans := 1
		for p.besideLocked(r, first, func(q *requestQueue) bool { return q.in == c }) == nil {
			if scans++; scans > many/besideMost+1 {
				t.Fatalf("after %d scans a client is not found", scans)
			}
		}
	}
	release(held)
	drain(t, p, waiting)
}

// Small and large requests of one share do not delay each other.
func TestSmallAndLargeOfOneShareWaitApart(t *testing.T) {
	p := newPool(t, 4*mib, 4*mib)
	held := fill(t, p, mib)
	s := p.NewShare()
	large, small := ask(s, nil, "large", mib, nil), ask(s, nil, "small", PageSize, nil)
	large.want(t, 0, nil)
	small.want(t, 1, nil)
	small.buffer.Release()
	held[0].Release()
	large.want(t, 1, nil)
	large.buffer.Release()
	release(held[1:])
}

// A small request that finds no room in the reserve, because smaller ones always take it, is
// promoted to the main zone after a while.
func TestSmallRequestsAreNotStarvedBySmallerOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, 4*mib, 4*mib)
		held := fill(t, p, mib)
		var pages []*Buffer
		for i := range 200 {
			if b, ok := p.OpenShare(i, nil).TryGet(PageSize); ok {
				pages = append(pages, b)
			}
		}
		small := ask(p.OpenShare("small", nil), nil, "small", 64<<10, nil)
		small.want(t, 0, nil)
		large := ask(p.OpenShare("large", nil), nil, "large", mib, nil)
		other := ask(p.OpenShare("other", nil), nil, "other", mib, nil)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		audited(t, p)
		late := ask(p.OpenShare("late", nil), nil, "late", mib, nil)
		held[0].Release()
		large.want(t, 1, nil)
		held[1].Release() // other comes first, because it has waited for longer in this queue
		other.want(t, 1, nil)
		held[2].Release()
		small.want(t, 1, nil)
		late.want(t, 0, nil)
		release(held[3:])
		release(pages)
		drain(t, p, []*wish{large, other, small, late})
	})
}
