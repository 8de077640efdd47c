package mem

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The grants and their order agree with a model. Each share has an order of its own for each group,
// separately for small requests and others. Shares and groups stay within their limits, and the
// pool within the ceiling. No queue waits that could be served (audit). When everything is released,
// all requests are granted, although whatever waits was charged for, and the charges stay.
func TestOrderAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const limit = 2*mib + 3*PageSize
		cfg := Config{Ceiling: 6 * mib, Share: limit, Group: 3 * mib}
		p, err := NewPool(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		type asked struct {
			wish
			n, share, in int
			charged      int // while it waits
		}
		small := func(a *asked) bool { return pagesOf(a.Size) <= smallPages }
		shares := []*Share{
			p.OpenShare(site(1, 1), nil), p.OpenShare(site(1, 1), nil), p.OpenShare(site(1, 2), nil),
			p.OpenShare(site(2, 1), nil), p.OpenShare("bounded nowhere", nil),
		}
		groups := []*Group{nil, p.NewGroup(), p.NewGroup()}
		waiting := make([][]*asked, len(shares))
		var held []*asked
		inUse, inGroup, charged := make([]int64, len(shares)), make([]int64, len(groups)), make([]int, len(shares))
		asks := 0
		charge := func(i, n int) {
			charged[i] += n
			shares[i].Charge(n)
		}
		back := func(i int) {
			a := held[i]
			held = slices.Delete(held, i, i+1)
			n := int64(cap(a.buffer.Bytes()))
			inUse[a.share] -= n
			if a.buffer.page < p.main.total {
				inGroup[a.in] -= n
			}
			a.buffer.Release()
			delivered(t, p)
		}
		t.Repeat(map[string]func(*rapid.T){
			"get": func(t *rapid.T) {
				asks++
				a := &asked{n: asks, share: rapid.IntRange(0, len(shares)-1).Draw(t, "share"), in: rapid.IntRange(0, len(groups)-1).Draw(t, "group")}
				a.Size, a.Group = rapid.IntRange(1, 2*mib).Draw(t, "size"), groups[a.in]
				a.charged = rapid.IntRange(0, 3*mib).Draw(t, "charged")
				a.Granted = func(r *Request, b *Buffer, err error) {
					if err != nil {
						t.Fatalf("request %d: %v", a.n, err)
					}
					of := &waiting[a.share]
					at := slices.IndexFunc(*of, func(w *asked) bool { return w.in == a.in && small(w) == small(a) })
					if first := (*of)[at]; first != a {
						t.Fatalf("request %d of share %d and group %d passes %d", a.n, a.share, a.in, first.n)
					}
					*of = slices.Delete(*of, at, at+1)
					charge(a.share, -a.charged)
					a.buffer = b
					held = append(held, a)
					n := int64(cap(b.Bytes()))
					inUse[a.share] += n
					if b.page < p.main.total {
						inGroup[a.in] += n
					}
				}
				waiting[a.share] = append(waiting[a.share], a)
				charge(a.share, a.charged)
				shares[a.share].Get(&a.Request)
				delivered(t, p)
			},
			"release": func(t *rapid.T) {
				if len(held) == 0 {
					t.Skip("nothing is held")
				}
				back(rapid.IntRange(0, len(held)-1).Draw(t, "which"))
			},
			"cancel": func(t *rapid.T) {
				i := rapid.IntRange(0, len(shares)-1).Draw(t, "share")
				if len(waiting[i]) == 0 {
					t.Skip("no request waits")
				}
				j := rapid.IntRange(0, len(waiting[i])-1).Draw(t, "which")
				a := waiting[i][j]
				waiting[i] = slices.Delete(waiting[i], j, j+1)
				if !shares[i].Cancel(&a.Request) {
					t.Fatal("Cancel of a waiting request fails")
				}
				charge(i, -a.charged)
				delivered(t, p)
			},
			"charge": func(t *rapid.T) {
				charge(rapid.IntRange(0, len(shares)-1).Draw(t, "share"), rapid.IntRange(0, 3*mib).Draw(t, "bytes"))
			},
			"discharge": func(t *rapid.T) {
				i := rapid.IntRange(0, len(shares)-1).Draw(t, "share")
				n := charged[i]
				for _, a := range waiting[i] {
					n -= a.charged
				}
				charge(i, -n)
			},
			"trim": func(*rapid.T) { p.Trim() },
			"blame": func(t *rapid.T) {
				setBlame(p, shares[rapid.IntRange(0, len(shares)-1).Draw(t, "share")].client, rapid.Bool().Draw(t, "is"))
				delivered(t, p)
			},
			"": func(t *rapid.T) {
				if err := p.audit(); err != nil {
					t.Fatal(err)
				}
				var used, heap int64
				waits := 0
				for i, s := range shares {
					if got := s.InUse(); got != inUse[i] || got > limit {
						t.Fatalf("share %d holds %d, model says %d", i, got, inUse[i])
					}
					used += inUse[i]
					heap += int64(charged[i])
					waits += len(waiting[i])
				}
				for i := range groups[1:] {
					if inGroup[i+1] > cfg.Group {
						t.Fatalf("group %d holds %d of the main zone", i+1, inGroup[i+1])
					}
				}
				if st := p.Stats(); st.InUse != used || st.InUse > st.Ceiling || st.Charged != heap || st.Waiting != waits {
					t.Fatalf("%+v, model says %d in use, %d charged, %d waiting", st, used, heap, waits)
				}
			},
		})
		for len(held) > 0 {
			back(0)
		}
		if st := p.Stats(); st.Waiting != 0 || st.InUse != 0 || st.Active != 0 {
			t.Fatalf("everything was given back, and yet %+v", st)
		}
		for i := range shares {
			charge(i, -charged[i])
		}
		if st := p.Stats(); st.Charged != 0 {
			t.Fatalf("everything was discharged, and yet %+v", st)
		}
	})
}
