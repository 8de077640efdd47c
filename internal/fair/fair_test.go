package fair

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
)

// at returns holder k of address a of a site, an IPv6 /48.
func at(site, a, k int) *Node[int] {
	return &Node[int]{Of: site, Address: netip.MustParseAddr(fmt.Sprintf("2001:db8:%x:%x::%x:%x", site, a, k>>16, k&0xffff))}
}

// grow gives n one unit after the other, free ones or such as it takes back from others, until it can
// have no more. It returns how many it took back.
func grow(t *testing.T, tree *Tree[int], n *Node[int]) (taken int) {
	t.Helper()
	for {
		if !tree.May(n, 1) {
			v := tree.Victim(n, 1)
			if v == nil || v.Of == n.Of {
				return taken
			}
			tree.Add(v, -1, 0)
			taken++
		}
		tree.Add(n, 1, 0)
	}
}

// However many addresses a site has, and however many holders an address, another site keeps what it
// has within its part, and gets the rest of its part.
func TestManyAddressesTakeNothingFromOtherSites(t *testing.T) {
	const size = 4096
	for _, k := range []int{1, 2, 16, 256} {
		for name, attacker := range map[string]func(i int) *Node[int]{
			"addresses": func(i int) *Node[int] { return at(2, i, 0) },
			"holders":   func(i int) *Node[int] { return at(2, 0, i) },
		} {
			tree := &Tree[int]{Size: size}
			honest := at(1, 1, 1)
			tree.Add(honest, size/8, 0)
			for i := range k {
				grow(t, tree, attacker(i))
			}
			if honest.Held() != size/8 {
				t.Errorf("%d %s took %d of %d units from another site", k, name, size/8-honest.Held(), size/8)
			}
			grow(t, tree, honest)
			if part := int64(size / 3); honest.Held() < part {
				t.Errorf("%d %s: the other site gets %d units, and its part is %d", k, name, honest.Held(), part)
			}
		}
	}
}

// However many sites there are, a site keeps its floor, and without a floor only its part.
func TestASiteKeepsItsFloor(t *testing.T) {
	const size, sites = 1024, 200
	for _, floor := range []int64{0, 16} {
		tree := &Tree[int]{Size: size, Floor: floor}
		honest := at(1, 1, 1)
		tree.Add(honest, 4*16, 0)
		for i := range sites {
			grow(t, tree, at(2+i, 1, 1))
		}
		if n := honest.Held(); n < floor || floor == 0 && n > size/sites+1 {
			t.Errorf("with a floor of %d units an honest site keeps %d", floor, n)
		}
	}
}

// An address that is alone has half of the units. The addresses of one site together have all but an
// eighth, so that their number is no disadvantage while no other site asks.
func TestFreeUnitsAreUsed(t *testing.T) {
	const size = 4096
	tree := &Tree[int]{Size: size}
	alone := at(1, 0, 0)
	if grow(t, tree, alone); alone.Held() != size/2 {
		t.Errorf("an address that is alone has %d of %d units", alone.Held(), size)
	}
	for i := range 10 {
		grow(t, tree, at(1, i+1, 0))
	}
	if free := tree.Free(); free < size/8 || free > size/8+8 {
		t.Errorf("%d units are free", free)
	}
	if site, other := tree.SiteHolds(alone.Address), tree.SiteHolds(at(2, 0, 0).Address); site != tree.Held() || other != 0 {
		t.Errorf("a site holds %d of %d, one that has none %d", site, tree.Held(), other)
	}
	if alone.Held() != size/2 {
		t.Errorf("it has lost %d units while others were free", size/2-alone.Held())
	}
}

// A newcomer's first unit is there at once, or after one unit was taken back. It is not taken from
// those within their parts.
func TestNewcomerGetsItsFirstUnit(t *testing.T) {
	const size = 512
	tree := &Tree[int]{Size: size}
	for i := range size {
		n := at(i, 0, 0)
		if !tree.May(n, 1) {
			v := tree.Victim(n, 1)
			if v == nil {
				t.Fatalf("site %d gets nothing", i)
			}
			if part := int64(size / (i + 2)); v.Held() <= part {
				t.Fatalf("site %d takes from one that has %d, and its part is %d", i, v.Held(), part)
			}
			tree.Add(v, -1, 0)
		}
		tree.Add(n, 1, 0)
		grow(t, tree, n)
	}
}

// Strangers together displace no known peer once they have an eighth of the units.
func TestStrangersComeLast(t *testing.T) {
	const size = 800
	tree := &Tree[int]{Size: size}
	known := at(1, 1, 1)
	tree.Add(known, size, 0)
	for i := range 3000 {
		n := at(i, 0, 0)
		tree.SetStranger(n, true)
		tree.Add(n, 1, 0)
		for tree.Free() < 0 {
			tree.Add(tree.Victim(nil, 0), -1, 0)
		}
	}
	if known.Held() != size-size/8 {
		t.Errorf("a known peer has %d of %d units left", known.Held(), size)
	}
	tree.SetStranger(known, true)
	if tree.Victim(nil, 0) != known || tree.Held() != size {
		t.Error("a holder that has moved does not count where it is")
	}
}

// The cost of an operation depends on the depth of the tree, and on the logarithm of the number of
// those beside the asker: not on how many hold units.
func TestCostOfAnOperation(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{10, 1000, 30_000} {
		for name, place := range map[string]func(i int) *Node[int]{
			"sites":     func(i int) *Node[int] { return at(i%65536, i/65536, 0) },
			"addresses": func(i int) *Node[int] { return at(1+i/65536, i%65536, 0) },
			"holders":   func(i int) *Node[int] { return at(1, 1, i) },
		} {
			tree := &Tree[int]{Size: int64(10 * n)}
			all := make([]*Node[int], n)
			for i := range all {
				all[i] = place(i)
				tree.Add(all[i], 1+random.Int64N(20), 0)
			}
			worst := 0
			for range 2000 {
				a := all[random.IntN(n)]
				tree.visited = 0
				tree.May(a, 1)
				v := tree.Victim(a, 1)
				if v == nil {
					v = tree.Victim(nil, 0)
				}
				tree.Add(v, -1, 0)
				tree.Add(a, 1+random.Int64N(5), 0)
				tree.Add(a, -a.held, 0)
				tree.Add(a, 1, 0)
				worst = max(worst, tree.visited)
			}
			if most := 6 * (len(path[int]{}) + 1) * (1 + bits.Len(uint(n))); worst > most {
				t.Errorf("%d %s: an operation visits %d nodes, want at most %d", n, name, worst, most)
			}
		}
	}
}

// Lent is the rule of MayBorrow for sites.
func TestLentIsTheRuleForSites(t *testing.T) {
	const size = 96
	random := rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		tree, others := &Tree[int]{Size: size}, int64(0)
		held := int64(1)
		tree.Add(at(1, 0, 0), 1, 0)
		siblings := random.IntN(5)
		for i := range siblings {
			n := random.Int64N(16) + 1
			tree.Add(at(2+i, 0, 0), n, 0)
			others += n
		}
		for next := at(1, 1, 0); tree.Free() > 0; next = at(1, int(held), 0) {
			most := Lent(size, others+held, held, siblings+1)
			if may := tree.MayBorrow(next, 1); may != (held < most) {
				t.Fatalf("a site holds %d of %d, others hold %d: MayBorrow says %v, Lent %d", held, size, others, may, most)
			} else if !may {
				break
			}
			tree.Add(next, 1, 0)
			held++
		}
	}
}

// If a holder comes and goes at an address, the Tree allocates no memory each time.
func TestComingAndGoingAllocatesNothing(t *testing.T) {
	tree, n := &Tree[int]{Size: 10}, at(1, 1, 1)
	if allocs := testing.AllocsPerRun(100, func() {
		tree.Add(n, 1, 0)
		tree.Add(n, -1, 0)
	}); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

// A Count allows a site and an address what MayBorrow allows them, and leaves nothing behind.
func TestCountIsTheRuleOfMayBorrow(t *testing.T) {
	const size = 96
	random := rand.New(rand.NewPCG(5, 6))
	tree, all := &Tree[int]{Size: size}, new(Count)
	all.Divide(size)
	type address struct {
		*Node[int]
		Count
	}
	var addresses []*address
	for site := range 3 {
		of := new(Count)
		of.Under(all)
		for i := range 3 {
			a := &address{Node: at(site, i, 0)}
			a.Under(of)
			addresses = append(addresses, a)
		}
	}
	granted, refused := 0, 0
	for range 20_000 {
		a := addresses[random.IntN(len(addresses))]
		if n := a.Node.Held(); n > 0 && random.IntN(3) == 0 {
			n = 1 + random.Int64N(n)
			tree.Add(a.Node, -n, 0)
			a.Count.Add(-n)
			continue
		}
		may := tree.Free() > 0 && tree.MayBorrow(a.Node, 1)
		if may != (a.Room() > 0) {
			t.Fatalf("an address holds %d, its site %d, all %d of %d: MayBorrow says %v, Room %d", a.Node.Held(), a.Count.up.Held(), all.Held(), size, may, a.Room())
		}
		if !may {
			refused++
			continue
		}
		granted++
		n := min(a.Room(), 1+random.Int64N(8))
		tree.Add(a.Node, n, 0)
		a.Count.Add(n)
	}
	if granted < 1000 || refused < 1000 {
		t.Errorf("%d granted, %d refused", granted, refused)
	}
	for _, a := range addresses {
		a.Count.Add(-a.Count.Held())
		if a.Count.up.Held() == 0 && a.Count.up.active.Load() != 0 {
			t.Errorf("%d addresses hold nothing", a.Count.up.active.Load())
		}
	}
	if all.Held() != 0 || all.active.Load() != 0 {
		t.Errorf("%d units, %d sites stay", all.Held(), all.active.Load())
	}
}

// Goroutines may add to Counts at a time.
func TestCountsOfManyGoroutines(t *testing.T) {
	all, site := new(Count), new(Count)
	all.Divide(100)
	site.Under(all)
	var adding sync.WaitGroup
	for i := range 4 {
		a := new(Count)
		a.Under(site)
		for range 2 {
			adding.Go(func() {
				for range 2000 {
					a.Add(1)
					a.Room()
					a.Add(-1)
				}
				if i%2 == 0 {
					a.Add(1)
				}
			})
		}
	}
	adding.Wait()
	if all.Held() != 4 || all.active.Load() != 1 || site.active.Load() != 2 {
		t.Errorf("%d units, %d sites, %d addresses hold some", all.Held(), all.active.Load(), site.active.Load())
	}
}

// Within, unlike Entitled, refuses those that hold nothing a first request of more than their part.
func TestWithinMakesNoExceptionForTheFirstRequest(t *testing.T) {
	tree := Tree[int]{Size: 120}
	first := Node[int]{Address: netip.AddrFrom4([4]byte{10, 0, 1, 1})}
	tree.Add(&first, 10, 0)
	next := Node[int]{Address: netip.AddrFrom4([4]byte{10, 0, 2, 1})}
	const part = 120 / 3 // two sites, and the next one
	for units, within := range map[int64]bool{part: true, part + 1: false} {
		if is := tree.Within(&next, units); is != within {
			t.Errorf("within its part with %d units: %v", units, is)
		}
		if !tree.Entitled(&next, units) {
			t.Errorf("not entitled to %d units", units)
		}
	}
}
