package turns

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func address(last byte) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, last}) }

// at returns the address i of three in the first site, and of one in each other.
func at(i byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, site(i), i}) }

func site(i byte) byte { return max(i, 3) - 3 }

// Addresses are served in turn, and the connections of an address in turn. The waiters of a
// connection are served in the order of Join.
func TestTurns(t *testing.T) {
	var l Line[int, string]
	for _, v := range []struct {
		address byte
		conn    int
		value   string
	}{
		{1, 1, "a1 first"}, {1, 1, "a1 second"}, {1, 1, "a1 third"}, {1, 2, "a2 first"}, {1, 2, "a2 second"}, {2, 1, "b1 first"}, {2, 1, "b1 second"},
	} {
		l.Join(&Place[int, string]{Value: v.value}, address(v.address), v.conn)
	}
	var got []string
	for p := l.Next(); p != nil; p = l.Next() {
		got = append(got, p.Value)
	}
	want := []string{"a1 first", "b1 first", "a2 first", "b1 second", "a1 second", "a2 second", "a1 third"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A site is served as often as any other, however many addresses of it wait, and its units are bounded.
func TestSitesTakeTurns(t *testing.T) {
	const turns, most = 64, 128
	for name, of := range map[string]func(i int) netip.Addr{
		"one address": func(int) netip.Addr { return address(7) },
		"a /24":       func(i int) netip.Addr { return address(byte(i)) },
		"a /48": func(i int) netip.Addr {
			return netip.AddrFrom16([16]byte{0x20, 1, 0x0d, 0xb8, 6: byte(i >> 8), 7: byte(i)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			join := func(l *Line[int, string]) {
				for i := range 4096 {
					l.Join(&Place[int, string]{Value: "many"}, of(i), i)
				}
				for range turns {
					l.Join(&Place[int, string]{Value: "one"}, netip.AddrFrom4([4]byte{203, 0, 113, 1}), 1)
				}
			}
			var l Line[int, string]
			join(&l)
			got := make(map[string]int)
			for range 2 * turns {
				got[l.Next().Value]++
			}
			if got["one"] != turns {
				t.Errorf("%d of %d turns", got["one"], 2*turns)
			}
			l, got = Line[int, string]{}, make(map[string]int)
			join(&l)
			for p, _ := l.Take(most); p != nil; p, _ = l.Take(most) {
				got[p.Value]++
			}
			if got["one"] < most/8 || got["many"] < most/4 {
				t.Errorf("of %d units: %v", most, got)
			}
		})
	}
}

// For any sequence of joins and leaves, no waiter is lost or comes twice, the order within a
// connection is kept, and no site is served twice while another one waits, nor an address of the same site.
func TestLineBesideAModel(t *testing.T) {
	type waiting struct {
		place   *Place[int, int]
		address byte
		conn    int
		sites   map[byte]int // how often other sites were served since this one was
		before  map[byte]int // and other addresses of this site
	}
	type holding struct {
		of      *Place[int, int]
		address byte
	}
	const most = 8
	rapid.Check(t, func(t *rapid.T) {
		var l Line[int, int]
		var all []*waiting
		var held []holding
		by, bySite := make(map[byte]int), make(map[byte]int)
		next := 0
		mayHold := func(a byte) bool {
			sites, near := map[byte]bool{site(a): true}, map[byte]bool{a: true}
			for _, h := range held {
				sites[site(h.address)] = true
				if site(h.address) == site(a) {
					near[h.address] = true
				}
			}
			s, own := bySite[site(a)], by[a]
			ofSite := max(most/(len(sites)+1), (most-(len(held)-s))*3/4)
			ofAddress := max(ofSite/(len(near)+1), (ofSite-(s-own))*3/4)
			other := slices.ContainsFunc(all, func(w *waiting) bool { return site(w.address) != site(a) })
			return len(held) < most && (s == 0 || s < ofSite) && (own == 0 || own < ofAddress || other)
		}
		t.Repeat(map[string]func(*rapid.T){
			"join": func(t *rapid.T) {
				w := &waiting{
					place: &Place[int, int]{Value: next}, sites: make(map[byte]int), before: make(map[byte]int),
					address: rapid.ByteRange(1, 5).Draw(t, "address"), conn: rapid.IntRange(1, 3).Draw(t, "connection"),
				}
				next++
				l.Join(w.place, at(w.address), w.conn)
				all = append(all, w)
			},
			"leave": func(t *rapid.T) {
				if len(all) == 0 {
					t.Skip("nothing waits")
				}
				i := rapid.IntRange(0, len(all)-1).Draw(t, "which")
				l.Leave(all[i].place)
				all = slices.Delete(all, i, i+1)
			},
			"next": func(t *rapid.T) {
				p := l.Next()
				i := slices.IndexFunc(all, func(w *waiting) bool { return w.place == p })
				if p == nil && len(all) == 0 {
					return
				}
				if i < 0 {
					t.Fatalf("%v is next, and does not wait", p)
				}
				w := all[i]
				if k := slices.IndexFunc(all, func(o *waiting) bool { return o.address == w.address && o.conn == w.conn }); k != i {
					t.Fatalf("%d is before %d of the same connection", w.place.Value, all[k].place.Value)
				}
				all = slices.Delete(all, i, i+1)
				for _, o := range all {
					if site(o.address) != site(w.address) {
						if o.sites[site(w.address)]++; o.sites[site(w.address)] > 1 {
							t.Fatalf("site %d has a second turn while %d waits", site(w.address), site(o.address))
						}
						continue
					}
					clear(o.sites)
					if o.address == w.address {
						clear(o.before)
					} else if o.before[w.address]++; o.before[w.address] > 1 {
						t.Fatalf("address %d has a second turn while %d waits", w.address, o.address)
					}
				}
			},
			"take": func(t *rapid.T) {
				p, a := l.Take(most)
				i := slices.IndexFunc(all, func(w *waiting) bool { return w.place == p })
				if p == nil {
					for _, w := range all {
						if mayHold(w.address) {
							t.Fatalf("address %d waits and may hold one more", w.address)
						}
					}
					return
				}
				w := all[i]
				if k := slices.IndexFunc(all, func(o *waiting) bool { return o.address == w.address && o.conn == w.conn }); k != i {
					t.Fatalf("%d is before %d of the same connection", w.place.Value, all[k].place.Value)
				}
				if !mayHold(w.address) {
					t.Fatalf("address %d holds %d of %d, others %d, and gets one more", w.address, by[w.address], most, len(held)-by[w.address])
				}
				all = slices.Delete(all, i, i+1)
				held = append(held, holding{a, w.address})
				by[w.address]++
				bySite[site(w.address)]++
				for _, o := range all {
					clear(o.sites)
					clear(o.before)
				}
			},
			"give back": func(t *rapid.T) {
				if len(held) == 0 {
					t.Skip("nothing is held")
				}
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				l.GiveBack(held[i].of)
				by[held[i].address]--
				bySite[site(held[i].address)]--
				held = slices.Delete(held, i, i+1)
			},
			"": func(t *rapid.T) {
				if len(held) > most {
					t.Fatalf("%d are held of %d", len(held), most)
				}
				if l.Len() != len(all) || l.Held() != len(held) || len(l.byAddress) > len(all)+len(held) || len(l.bySite) > len(l.byAddress)+1 || len(l.byConn) > len(all) {
					t.Fatalf("%d waiters, %d units, %d addresses, %d connections: %d wait", l.Len(), l.Held(), len(l.byAddress), len(l.byConn), len(all))
				}
				for _, w := range all {
					if !w.place.Waits() {
						t.Fatal(fmt.Sprint(w.place.Value, " does not wait any more"))
					}
				}
			},
		})
	})
}

// A Line allocates nothing for as many waiters as it has had before.
func TestNoAllocation(t *testing.T) {
	var l Line[int, int]
	var places [8]Place[int, int]
	if n := testing.AllocsPerRun(100, func() {
		for i := range places {
			l.Join(&places[i], at(byte(i%5)), i%4)
		}
		for p, a := l.Take(1000); p != nil; p, a = l.Take(1000) {
			l.GiveBack(a)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
