package fair

import (
	"net/netip"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
)

// Add adds units to those that the holder n has, and surplus to those of them that are surplus. Both
// may be negative. n enters the Tree with its first unit, and leaves it with its last.
func (t *Tree[T]) Add(n *Node[T], units, surplus int64) {
	if n.held+units < 0 || n.surplus+surplus < 0 || n.surplus+surplus > n.held+units {
		panic("fair: a holder gives back units that it does not have")
	}
	if units == 0 && surplus == 0 {
		return
	}
	g := t.groupOf(n)
	if n.up == nil {
		t.enter(g, n)
	}
	t.steps++
	for c := n; ; {
		up := c.up
		c.held, c.surplus = c.held+units, c.surplus+surplus
		if units != 0 {
			c.changed = t.steps
		}
		if up == nil {
			return // c is the group
		}
		if c.held > 0 {
			t.settle(c)
		} else {
			t.leave(g, c)
		}
		c = up
	}
}

// enter puts the holder n into the Tree, with its address and its site.
func (t *Tree[T]) enter(g *group[T], n *Node[T]) {
	if g.sites == nil {
		g.sites, g.addresses = make(map[netip.Addr]*Node[T]), make(map[netip.Addr]*Node[T])
	}
	client := clientaddr.Of(n.Address)
	address := g.addresses[client]
	if address == nil {
		prefix := clientaddr.Site(client)
		site := g.sites[prefix]
		if site == nil {
			site = t.node(prefix)
			g.sites[prefix] = site
			t.insert(&g.Node, site)
		}
		address = t.node(client)
		g.addresses[client] = address
		t.insert(site, address)
	}
	t.insert(address, n)
}

// leave takes c, which holds nothing, out of the Tree. Its parent, which then holds nothing either if
// c was the last child, is the next to leave.
func (t *Tree[T]) leave(g *group[T], c *Node[T]) {
	t.remove(c)
	switch c {
	case g.addresses[c.Address]:
		delete(g.addresses, c.Address)
	case g.sites[c.Address]:
		delete(g.sites, c.Address)
	default:
		return // a holder
	}
	if len(t.unused) < mostUnused {
		t.unused = append(t.unused, c)
	}
}

// node returns a Node for a site or an address.
func (t *Tree[T]) node(a netip.Addr) *Node[T] {
	last := len(t.unused) - 1
	if last < 0 {
		return &Node[T]{Address: a}
	}
	n := t.unused[last]
	t.unused[last] = nil
	t.unused = t.unused[:last]
	n.Address = a
	return n
}

// A path is the site, the address and the holder of an asker. Those that hold nothing are nil.
type path[T any] [3]*Node[T]

func (t *Tree[T]) pathOf(n *Node[T]) (p path[T]) {
	t.visited += len(p)
	if n.up != nil {
		return path[T]{n.up.up, n.up, n}
	}
	g, client := t.groupOf(n), clientaddr.Of(n.Address)
	return path[T]{g.sites[clientaddr.Site(client)], g.addresses[client]}
}

// A part is what a group, a site or an address may divide among its children.
type part struct {
	units int64
	// spare is 1 in a group, which keeps one part for the next site, and else 0.
	spare int64
}

// partOf returns the part of a group in the resource.
func (t *Tree[T]) partOf(g *group[T]) part {
	most := t.Size / strangersPart
	if g == &t.strangers {
		return part{most, 1}
	}
	return part{t.Size - min(t.strangers.held, most), 1}
}

// of returns the part of c, a child of n, in the part p of n. c is nil if it holds nothing.
func of[T any](p part, n, c *Node[T]) part {
	var active int64
	if n != nil {
		active = int64(len(n.children))
	}
	if c == nil {
		active++
	}
	return part{units: p.units / (active + p.spare)}
}

// beyond reports whether a child that has a part p and holds c's units is beyond it with more units.
// A child that holds nothing is not.
func beyond[T any](p part, c *Node[T], units int64) bool {
	return c != nil && c.held > 0 && c.held+units > p.units
}

// Entitled reports whether n has no more than its part after it gets more units: see the rule.
func (t *Tree[T]) Entitled(n *Node[T], units int64) bool {
	g := t.groupOf(n)
	p, at := t.partOf(g), &g.Node
	if g == &t.strangers && beyond(p, at, units) {
		return false
	}
	for _, c := range t.pathOf(n) {
		p = of(p, at, c)
		if beyond(p, c, units) {
			return false
		}
		at = c
	}
	return true
}

// May reports whether n may get this number of the free units.
func (t *Tree[T]) May(n *Node[T], units int64) bool {
	left := t.Free() - units
	if left < 0 {
		return false
	}
	if t.Entitled(n, units) {
		return true
	}
	held := units
	if address := t.pathOf(n)[1]; address != nil {
		held += address.held
	}
	return held <= left && left >= t.Size/spare
}

// Victim returns the holder from which the user of the package takes a unit, so that n gets more
// units. It is n itself if n is beyond its part in its own address and no other holder there has
// more. If n is nil, it is the holder that has to lose a unit because more than Size are held. It
// is nil if none has more than its part.
func (t *Tree[T]) Victim(n *Node[T], units int64) *Node[T] {
	var own path[T]
	g, known := &t.known, n == nil || !n.stranger
	if n != nil {
		own = t.pathOf(n)
	}
	switch p := t.partOf(&t.strangers); {
	case t.strangers.held > p.units, !known && beyond(p, &t.strangers.Node, units),
		t.strangers.surplus > 0 && t.known.surplus == 0:
		g = &t.strangers
	}
	asks := n != nil && known == (g == &t.known) // whether the asker is below at
	p, at := t.partOf(g), &g.Node
	for level, c := range own {
		if len(at.children) == 0 {
			return nil
		}
		t.visited++
		top := at.children[0]
		if !asks {
			c = top
		}
		next := of(p, at, c)
		switch {
		case asks && beyond(next, c, units):
			top = c
		case n != nil && level == 0 && top.held <= next.units && top.surplus == 0:
			return nil
		}
		asks = asks && top == c
		at, p = top, next
	}
	return at
}
