package fair

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
)

// A model counts who holds what by looking at all holders.
type model struct {
	size int64
	all  []*Node[int]
}

// A level maps a holder to its site, its address, or itself, in its group.
type level func(n *Node[int]) any

var levels = [...]level{
	func(n *Node[int]) any { return [2]any{n.stranger, clientaddr.Site(clientaddr.Of(n.Address))} },
	func(n *Node[int]) any { return [2]any{n.stranger, clientaddr.Of(n.Address)} },
	func(n *Node[int]) any { return n },
}

// held returns what all holders with this key at a level hold together.
func (m *model) held(of level, key any) (held int64) {
	for _, n := range m.all {
		if of(n) == key {
			held += n.held
		}
	}
	return held
}

func (m *model) group(stranger bool) int64 {
	return m.held(func(n *Node[int]) any { return n.stranger }, stranger)
}

// active returns the number of siblings of n at a level that hold units, n included.
func (m *model) active(n *Node[int], at int) int64 {
	parent := func(n *Node[int]) any { return n.stranger }
	if at > 0 {
		parent = levels[at-1]
	}
	all := map[any]bool{levels[at](n): true}
	for _, o := range m.all {
		if o.held > 0 && parent(o) == parent(n) {
			all[levels[at](o)] = true
		}
	}
	return int64(len(all))
}

// parts returns the parts of the site, the address and the holder n.
func (m *model) parts(n *Node[int]) (parts [3]int64) {
	p := m.size - min(m.group(true), m.size/8)
	if n.stranger {
		p = m.size / 8
	}
	for at := range parts {
		p /= m.active(n, at) + max(0, 1-int64(at))
		parts[at] = p
	}
	return parts
}

// firstBeyond returns the first level at which n is beyond its part with more units, -1 if this is
// its group, or 3 if it is beyond its part nowhere.
func (m *model) firstBeyond(n *Node[int], units int64) int {
	if s := m.group(true); n.stranger && s > 0 && s+units > m.size/8 {
		return -1
	}
	parts := m.parts(n)
	for at, of := range levels {
		if held := m.held(of, of(n)); held > 0 && held+units > parts[at] {
			return at
		}
	}
	return len(levels)
}

func (m *model) may(n *Node[int], units int64) bool {
	left := m.size - m.group(true) - m.group(false) - units
	if left < 0 {
		return false
	}
	return m.firstBeyond(n, units) == len(levels) ||
		m.held(levels[1], levels[1](n))+units <= left && left >= m.size/8
}

// mayBorrow is MayBorrow, by looking at all holders.
func (m *model) mayBorrow(n *Node[int], units int64) bool {
	may, siblings, equal := m.size, m.group(n.stranger), true
	if n.stranger {
		if may /= 8; siblings > 0 && siblings+units > may {
			return false
		}
	}
	for at, of := range levels[:2] {
		held := m.held(of, of(n))
		part := may / (m.active(n, at) + 1)
		may = max(part, (may-(siblings-held))*3/4)
		if held == 0 {
			may = max(may, units)
		} else if held+units > may {
			return false
		} else if held+units > part {
			equal = false
		}
		siblings = held
	}
	return equal || m.size-m.group(true)-m.group(false) >= units
}

// floors reports whether no site of known peers holds more than the floor.
func (m *model) floors(floor int64) bool {
	return !slices.ContainsFunc(m.all, func(n *Node[int]) bool { return !n.stranger && m.held(levels[0], levels[0](n)) > floor })
}

func floorOf(t *Tree[int], n *Node[int]) int64 {
	if n.stranger {
		return 0
	}
	return t.Floor
}

// checkVictim returns an error if the Tree's Victim for n is not one of those that the rule allows.
func (m *model) checkVictim(t *Tree[int], n *Node[int]) error {
	v, free := t.Victim(n, 1), t.Free()
	beyond := m.firstBeyond(n, 1)
	switch {
	case v == nil && free < 1 && t.Floor > 0 && m.floors(t.Floor):
		return nil
	case v == nil && free < 1:
		return fmt.Errorf("no unit is free, and none is taken back")
	case v == nil:
		return nil
	case v.held == 0:
		return fmt.Errorf("%v loses a unit, and has none", v.Address)
	}
	same := -1 // the last level at which v and n are in the same
	if n.stranger == v.stranger {
		for same = 0; same < len(levels) && levels[same](n) == levels[same](v); same++ {
		}
		same--
	}
	if s := m.group(true); n.stranger != v.stranger {
		if v.stranger && s <= m.size/8 && v.surplus == 0 || n.stranger && beyond == -1 {
			return fmt.Errorf("strangers hold %d of %d, and lose to known peers: %v", s, m.size, v.stranger)
		}
	}
	if beyond >= 0 && beyond < len(levels) && n.stranger == v.stranger && same == beyond-1 {
		return fmt.Errorf("an asker beyond its part at level %d takes a unit from another one there", beyond)
	}
	// v has most at the level at which it differs from n, and below.
	parts := m.parts(v)
	for at := same + 1; at < len(levels); at++ {
		of := levels[at]
		has := m.held(of, of(v))
		for _, o := range m.all {
			if o.stranger == v.stranger && (at == 0 || levels[at-1](o) == levels[at-1](v)) && v.surplus == 0 && m.held(of, of(o)) > has {
				return fmt.Errorf("%v holds %d and loses a unit, and not %v with %d", v.Address, has, o.Address, m.held(of, of(o)))
			}
		}
		if at == 0 && n.stranger == v.stranger && v.surplus == 0 && has <= max(parts[0], floorOf(t, v)) {
			return fmt.Errorf("a site holds %d of its part %d, and loses a unit", has, parts[0])
		}
	}
	return nil
}

// audit returns an error if the Tree's records are not those of the holders.
func (m *model) audit(t *Tree[int]) error {
	seen := map[*Node[int]]bool{}
	var walk func(g *group[int], n *Node[int], depth int) error
	walk = func(g *group[int], n *Node[int], depth int) error {
		seen[n] = true
		if len(n.children) == 0 && depth < 3 && depth > 0 {
			return fmt.Errorf("%v has no holder", n.Address)
		}
		if cap(n.children) > 16 && cap(n.children) > 8*(len(n.children)+1) {
			return fmt.Errorf("memory for %d children is kept for %d", cap(n.children), len(n.children))
		}
		var held, surplus int64
		for i, c := range n.children {
			held, surplus = held+c.held, surplus+c.surplus
			if c.up != n || c.at != i || c.held == 0 || i > 0 && c.before(n.children[(i-1)/2]) {
				return fmt.Errorf("child %d of %v is not where it belongs", i, n.Address)
			}
			if depth == 0 && g.sites[c.Address] != c || depth == 1 && g.addresses[c.Address] != c {
				return fmt.Errorf("%v is not in its table", c.Address)
			}
			if err := walk(g, c, depth+1); err != nil {
				return err
			}
		}
		if depth < 3 && (held != n.held || surplus != n.surplus) {
			return fmt.Errorf("%v holds %d and %d, its children %d and %d", n.Address, n.held, n.surplus, held, surplus)
		}
		return nil
	}
	sites, addresses := 0, 0
	for _, g := range []*group[int]{&t.known, &t.strangers} {
		if err := walk(g, &g.Node, 0); err != nil {
			return err
		}
		for _, s := range g.sites {
			if s.held > 0 {
				sites++
			}
			addresses += len(s.children)
		}
		for _, a := range g.addresses {
			if a.in != g || a.home != g.sites[a.home.Address] || (a.held == 0) != a.idle || a.idle && t.idle[a.idleAt] != a {
				return fmt.Errorf("%v is in a table where it does not belong", a.Address)
			}
		}
	}
	if t.Sites() != sites || t.Addresses() != addresses {
		return fmt.Errorf("%d sites, %d addresses in tables; counted %d and %d", t.Sites(), t.Addresses(), sites, addresses)
	}
	for _, n := range m.all {
		if (n.held > 0) != seen[n] {
			return fmt.Errorf("a holder of %d units is in the tree: %v", n.held, seen[n])
		}
	}
	return nil
}

// After each of many random steps, the Tree agrees with a model that has no tree: who may have free
// units, and who loses one.
func TestTreeAgainstModel(t *testing.T) {
	most := mostIdle
	mostIdle = 4
	defer func() { mostIdle = most }()
	rapid.Check(t, func(t *rapid.T) {
		tree := &Tree[int]{Size: rapid.Int64Range(1, 60).Draw(t, "size"), Floor: rapid.Int64Range(0, 4).Draw(t, "floor")}
		m := &model{size: tree.Size}
		for i := range 24 {
			// 4 sites, of IPv4 and IPv6, with 3 addresses each, with 2 holders each.
			n := &Node[int]{Of: i, Address: netip.MustParseAddr(fmt.Sprintf("192.0.%d.%d", i/12, i/2%3))}
			if i%12 >= 6 {
				n.Address = netip.MustParseAddr(fmt.Sprintf("2001:db8:%d:%d::%d", i/12, i/2%3, i))
			}
			m.all = append(m.all, n)
		}
		some := func(t *rapid.T) *Node[int] { return rapid.SampledFrom(m.all).Draw(t, "holder") }
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				if err := m.audit(tree); err != nil {
					t.Fatal(err)
				}
			},
			"ask": func(t *rapid.T) {
				n, units := some(t), rapid.Int64Range(1, 9).Draw(t, "units")
				if got, want := tree.May(n, units), m.may(n, units); got != want {
					t.Fatalf("%v may have %d more: %v, want %v", n.Address, units, got, want)
				}
				if entitled := tree.Entitled(n, units); entitled != (m.firstBeyond(n, units) == len(levels)) {
					t.Fatalf("%v is entitled to %d more: %v", n.Address, units, entitled)
				}
				if s := tree.Spare(n); s > 0 && (!m.may(n, s) || m.firstBeyond(n, s+1) < len(levels) && m.may(n, s+1)) {
					t.Fatalf("%v may borrow %d, and has %d", n.Address, s, n.held)
				}
				if got, want := tree.MayBorrow(n, units), m.mayBorrow(n, units); got != want {
					t.Fatalf("%v may borrow %d more: %v, want %v", n.Address, units, got, want)
				}
				if tree.May(n, units) {
					tree.Add(n, units, 0)
				}
			},
			// An asker that gets no free unit takes one back, and then gets it.
			"take": func(t *rapid.T) {
				n := some(t)
				if tree.May(n, 1) {
					t.Skip("there are free units")
				}
				if err := m.checkVictim(tree, n); err != nil {
					t.Fatal(err)
				}
				if v := tree.Victim(n, 1); v != nil && v != n {
					tree.Add(v, -1, -min(v.surplus, 1))
					tree.Add(n, 1, 0)
				}
			},
			// More than Size is held until the most have lost enough.
			"overfill": func(t *rapid.T) {
				n := some(t)
				tree.Add(n, rapid.Int64Range(1, 4).Draw(t, "units"), 0)
				for tree.Free() < 0 {
					v := tree.Victim(nil, 0)
					if v == nil {
						t.Fatalf("%d units too many are held, and none is taken back", -tree.Free())
					}
					if v != n && v.surplus == 0 && !n.stranger && !v.stranger && m.held(levels[0], levels[0](v)) < m.held(levels[0], levels[0](n)) {
						t.Fatalf("a site loses to one that holds more")
					}
					tree.Add(v, -1, -min(v.surplus, 1))
				}
			},
			"give back": func(t *rapid.T) {
				n := some(t)
				if n.held == 0 {
					t.Skip("it has none")
				}
				units := rapid.Int64Range(1, n.held).Draw(t, "units")
				tree.Add(n, -units, -max(0, n.surplus-(n.held-units)))
			},
			"surplus": func(t *rapid.T) {
				n := some(t)
				tree.Add(n, 0, rapid.Int64Range(0, n.held).Draw(t, "surplus")-n.surplus)
			},
			"move": func(t *rapid.T) {
				n := some(t)
				held := n.held
				if tree.SetStranger(n, !n.stranger); n.held != held {
					t.Fatal("who becomes known loses units")
				}
			},
		})
		for _, n := range slices.Clone(m.all) {
			tree.Add(n, -n.held, -n.surplus)
		}
		if tree.Held() != 0 || tree.Sites() != 0 || tree.Addresses() != 0 || len(tree.known.children)+len(tree.strangers.children) != 0 {
			t.Fatal("nobody holds anything, and the tree is not empty")
		}
		if n := m.all[0]; !tree.May(n, tree.Size) {
			t.Fatal("nothing is held, and not all is to be had")
		}
	})
}
