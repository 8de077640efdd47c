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
			t.leave(c)
		}
		c = up
	}
}

// enter puts the holder n into the Tree, with its address and its site.
func (t *Tree[T]) enter(g *group[T], n *Node[T]) {
	address := t.addressOf(g, n)
	if address == nil {
		address = t.newAddress(g, n)
	}
	if site := address.home; address.up == nil {
		if site.up == nil {
			t.insert(&g.Node, site)
		}
		t.insert(site, address)
		if address.idle {
			address.idle = false
			last := len(t.idle) - 1
			moved := t.idle[last]
			t.idle[address.idleAt], moved.idleAt = moved, address.idleAt
			t.idle = t.idle[:last]
		}
	}
	t.insert(address, n)
}

// addressOf returns the Node of n's address in g, or nil if there is none.
func (t *Tree[T]) addressOf(g *group[T], n *Node[T]) *Node[T] {
	if a := n.home; a != nil && a.in == g {
		return a
	}
	a := g.addresses[clientaddr.Of(n.Address)]
	if a != nil {
		n.home = a
	}
	return a
}

// newAddress returns a new Node for n's address in g.
func (t *Tree[T]) newAddress(g *group[T], n *Node[T]) *Node[T] {
	if g.sites == nil {
		g.sites, g.addresses = make(map[netip.Addr]*Node[T]), make(map[netip.Addr]*Node[T])
	}
	client := clientaddr.Of(n.Address)
	prefix := clientaddr.Site(client)
	site := g.sites[prefix]
	if site == nil {
		site = &Node[T]{Address: prefix}
		g.sites[prefix] = site
	}
	site.of++
	n.home = &Node[T]{Address: client, home: site, in: g}
	g.addresses[client] = n.home
	return n.home
}

// leave takes c, which holds nothing, out of the Tree. Its parent, which then holds nothing either if
// c was the last child, is the next to leave. The Tree keeps the Nodes of mostIdle addresses and of
// their sites, because holders often come back.
func (t *Tree[T]) leave(c *Node[T]) {
	t.remove(c)
	if c.in == nil {
		return // a holder or a site
	}
	if len(t.idle) == mostIdle {
		last := t.idle[0]
		delete(last.in.addresses, last.Address)
		if last.home.of--; last.home.of == 0 {
			delete(last.in.sites, last.home.Address)
		}
		last.in, last.idle = nil, false
		t.idle[0] = t.idle[mostIdle-1]
		t.idle[0].idleAt = 0
		t.idle = t.idle[:mostIdle-1]
	}
	c.idle, c.idleAt = true, len(t.idle)
	t.idle = append(t.idle, c)
}

// A path is the site, the address and the holder of an asker. Those that hold nothing may be nil.
type path[T any] [3]*Node[T]

func (t *Tree[T]) pathOf(n *Node[T]) (p path[T]) {
	t.visited += len(p)
	if n.up != nil {
		return path[T]{n.up.up, n.up, n}
	}
	g := t.groupOf(n)
	if address := t.addressOf(g, n); address != nil {
		return path[T]{address.home, address}
	}
	return path[T]{g.sites[clientaddr.Site(clientaddr.Of(n.Address))]}
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

// of returns the part of c, a child of n, in the part p of n. c may be nil if it holds nothing.
func of[T any](p part, n, c *Node[T]) part {
	var active int64
	if n != nil {
		active = int64(len(n.children))
	}
	if c == nil || c.held == 0 {
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

// Within reports whether n, its address and its site have no more than their parts after n gets more units. Unlike
// Entitled, it makes no exception for those that hold nothing: what they ask for may be more than their parts.
func (t *Tree[T]) Within(n *Node[T], units int64) bool {
	g := t.groupOf(n)
	p, at := t.partOf(g), &g.Node
	if g == &t.strangers && g.held+units > p.units {
		return false
	}
	for _, c := range t.pathOf(n) {
		p = of(p, at, c)
		if c.Held()+units > p.units {
			return false
		}
		at = c
	}
	return true
}

// May reports whether n may get this number of the free units.
func (t *Tree[T]) May(n *Node[T], units int64) bool {
	if units > t.Free() {
		return false
	}
	return t.Entitled(n, units) || units <= t.Spare(n)
}

// Spare returns how many free units n may borrow, beyond its part: half of what other addresses leave, without what
// n's address holds, and so that an eighth of all stays free. It is not negative.
func (t *Tree[T]) Spare(n *Node[T]) int64 {
	free, held := t.Free(), int64(0)
	if address := t.pathOf(n)[1]; address != nil {
		held = address.held
	}
	return max(0, min((free-held)/2, free-t.Size/spare))
}

// Lent returns how many units, of size, one of the siblings of a level may hold if only their holders give
// units back, as in MayBorrow: an equal part, or three quarters of what its siblings leave, if that is more, and
// always one. held is what all of them hold, own of it this one, and active is the number of those that hold units.
// It is for rooms that count themselves, because their resource has a single level, or because they serve
// their waiters in turn (package turns).
func Lent[N int | int64](size, held, own N, active int) N {
	if own == 0 {
		active++
	}
	may := lent(int64(size), int64(held-own), int64(size)/int64(max(active, 1)+1))
	if own == 0 {
		may = max(may, 1)
	}
	return N(may)
}

func lent(size, others, part int64) int64 {
	return max(part, (size-others)*lentParts/(lentParts+1))
}

// MayBorrow reports whether n may get this number of units that cannot be taken back: only their holder
// returns them. n's site, and its address in the site, may each have an equal part, of as many as there are
// siblings that hold units and one more, or three quarters of what the siblings leave, if that is more. The
// parts of addresses are parts of what their site may have. A first request is not too large for its part.
// Strangers together have an eighth of Size. Holders of one address are not bounded among each other.
//
// The units need not be free, if n has no more than its equal parts: then n may wait for them in line.
func (t *Tree[T]) MayBorrow(n *Node[T], units int64) bool {
	g := t.groupOf(n)
	may, at, equal := t.Size, &g.Node, true
	if n.stranger {
		if may /= strangersPart; g.held > 0 && g.held+units > may {
			return false
		}
	}
	path := t.pathOf(n)
	for _, c := range path[:2] {
		p := of(part{may, 1}, at, c)
		equal = equal && !beyond(p, c, units)
		if may = lent(may, at.Held()-c.Held(), p.units); c.Held() == 0 {
			may = max(may, units)
		}
		if beyond(part{units: may}, c, units) {
			return false
		}
		at = c
	}
	return equal || t.Free() >= units
}

// Victim returns the holder from which the user of the package takes a unit, so that n gets more
// units. It is n itself if n is beyond its part in its own address and no other holder there has
// more. If n is nil, it is the holder that has to lose a unit because more than Size are held.
// Victim returns nil if no site has more than its part, nor a surplus unit. A site of known peers
// counts as within its part while it holds no more than Tree.Floor, unless n is nil.
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
	p, at, floor := t.partOf(g), &g.Node, int64(0)
	if g == &t.known {
		floor = t.Floor
	}
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
		case n != nil && level == 0 && top.held <= max(next.units, floor) && top.surplus == 0:
			return nil
		}
		asks = asks && top == c
		at, p = top, next
	}
	return at
}
