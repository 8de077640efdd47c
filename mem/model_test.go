package mem

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The order of grants against a model: each share in its own order for each group,
// shares and groups within their limits, the pool within the ceiling. Nobody waits
// for whom there is room, and nobody is forgotten.
func TestOrderAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, err := NewPool(Config{Ceiling: 4 * mib, Share: 2*mib + 3*PageSize})
		if err != nil {
			t.Fatal(err)
		}
		type asked struct {
			wish
			n     int
			share int
			in    int
		}
		shares := []*Share{p.NewShare(), p.NewShare(), p.NewShare()}
		groups := []*Group{nil, p.NewGroup(), p.NewGroup()}
		grouped := make([]int64, len(groups))
		waiting := make([][]*asked, len(shares))
		var held []*asked
		inUse := make([]int64, len(shares))
		n := 0
		get := func(t *rapid.T) {
			i := rapid.IntRange(0, len(shares)-1).Draw(t, "share")
			in := rapid.IntRange(0, len(groups)-1).Draw(t, "group")
			size := rapid.IntRange(1, 2*mib).Draw(t, "size")
			n++
			a := &asked{n: n, share: i, in: in}
			a.Size, a.Group = size, groups[in]
			a.Granted = func(r *Request, b *Buffer, err error) {
				if err != nil {
					t.Fatalf("request %d: %v", a.n, err)
				}
				at := slices.IndexFunc(waiting[i], func(w *asked) bool { return w.in == in })
				if first := waiting[i][at]; first != a {
					t.Fatalf("request %d of share %d and group %d passes %d", a.n, i, in, first.n)
				}
				waiting[i] = slices.Delete(waiting[i], at, at+1)
				grouped[in] += int64(cap(b.Bytes()))
				a.buffer = b
				held = append(held, a)
				inUse[i] += int64(cap(b.Bytes()))
			}
			waiting[i] = append(waiting[i], a)
			shares[i].Get(&a.Request)
		}
		release := func(t *rapid.T) {
			if len(held) == 0 {
				t.Skip("nothing is held")
			}
			i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
			a := held[i]
			held = append(held[:i], held[i+1:]...)
			inUse[a.share] -= int64(cap(a.buffer.Bytes()))
			grouped[a.in] -= int64(cap(a.buffer.Bytes()))
			a.buffer.Release()
		}
		t.Repeat(map[string]func(*rapid.T){
			"get": get, "release": release,
			"cancel": func(t *rapid.T) {
				i := rapid.IntRange(0, len(shares)-1).Draw(t, "share")
				if len(waiting[i]) == 0 {
					t.Skip("nobody waits")
				}
				j := rapid.IntRange(0, len(waiting[i])-1).Draw(t, "which")
				a := waiting[i][j]
				waiting[i] = slices.Delete(waiting[i], j, j+1)
				if !shares[i].Cancel(&a.Request) {
					t.Fatal("Cancel of a waiting request fails")
				}
			},
			"trim": func(*rapid.T) { p.Trim() },
			"": func(t *rapid.T) {
				var sum int64
				for i, s := range shares {
					if got := s.InUse(); got != inUse[i] || got > 2*mib+3*PageSize {
						t.Fatalf("share %d holds %d, model says %d", i, got, inUse[i])
					}
					sum += inUse[i]
				}
				for i, g := range groups[1:] {
					if grouped[i+1] > 2*mib || g.InUse() < grouped[i+1] {
						t.Fatalf("group %d holds %d, model says %d", i+1, g.InUse(), grouped[i+1])
					}
					if r := g.waiting.head; r != nil && g.room(r.pages) {
						t.Fatalf("group %d holds a request back that it has room for", i+1)
					}
				}
				for i, s := range shares {
					if r := s.waiting.head; r != nil && s.room(r.pages) {
						t.Fatalf("share %d holds a request back that it has room for", i)
					}
				}
				if st := p.Stats(); st.InUse != sum || sum > st.Ceiling ||
					st.Waiting != len(waiting[0])+len(waiting[1])+len(waiting[2]) {
					t.Fatalf("%+v, model says %d in use", st, sum)
				}
			},
		})
		for len(held) > 0 {
			a := held[0]
			held = held[1:]
			inUse[a.share] -= int64(cap(a.buffer.Bytes()))
			a.buffer.Release()
		}
		if st := p.Stats(); st.Waiting != 0 || st.InUse != 0 {
			t.Fatalf("everything released, and yet %+v", st)
		}
		p.Close()
	})
}
