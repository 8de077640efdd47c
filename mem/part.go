package mem

import (
	"net/netip"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
	"github.com/nfsrdmad/nfsrdmad/internal/fair"
)

// The rule of package fair bounds what the clients of a site, and a client, hold of the main zone, and
// of the memory of each Group. A request beyond it waits, does not count as held memory, and delays no
// other client. So a client whose calls stall, because its peer is slow or for another reason, leaves
// room for others at once: they need not wait until the pool has ended its connections.

// parts counts the pages of the main zone, or of a Group, by site and client.
type parts = fair.Tree[*Client]

// A part is what a client holds in a parts. It is nil for a client that is bounded nowhere, because
// its key is no address.
type part = *fair.Node[*Client]

// newPart returns a part of t for c, which holds nothing there.
func (c *Client) newPart(t *parts) part {
	a, ok := c.key.(netip.Addr)
	if !ok {
		return nil
	}
	n := &fair.Node[*Client]{Of: c, Address: a}
	t.SetStranger(n, c.blamed)
	return n
}

// blameLocked sets c.blamed. In each parts, a blamed client counts as a stranger.
func (c *Client) blameLocked(is bool) {
	c.blamed = is
	if c.part == nil {
		return
	}
	c.pool.parts.SetStranger(c.part, is)
	for i := range c.in {
		if in := &c.in[i]; in.part != nil {
			in.group.parts.SetStranger(in.part, is)
		}
	}
}

// site returns the site of c. It is the zero Addr if the key of c is no address.
func (c *Client) site() (site netip.Addr) {
	if a, ok := c.key.(netip.Addr); ok {
		site = clientaddr.Site(clientaddr.Of(a))
	}
	return site
}

// mayLocked reports whether the rule allows c to hold n more pages of the main zone in g, now or when
// pages are free. Like the limit of a Group, the rule allows any request if nothing is held.
func (c *Client) mayLocked(g *Group, n int32) bool {
	if c.part == nil {
		return true
	}
	p := c.pool
	if !may(&p.parts, c.part, p.main.total, n) {
		return false
	}
	limit := g.limitLocked()
	if limit == noLimit {
		return true
	}
	return may(&g.parts, c.partIn(g), limit, n)
}

// partIn returns what c holds in g.
func (c *Client) partIn(g *Group) part {
	in := c.inGroup(g)
	if in == nil {
		in = c.add(g, 0)
	}
	if in.part == nil {
		in.part = c.newPart(&g.parts)
	}
	return in.part
}

func may(t *parts, of part, size, n int32) bool {
	t.Size = int64(size)
	return t.Held() == 0 || t.Entitled(of, int64(n)) || t.May(of, int64(n))
}

// holdPartLocked adds n pages of the main zone, which may be negative, to what c holds there and in the
// Group of its entry in.
func (c *Client) holdPartLocked(in *heldIn, n int32) {
	if c.part == nil {
		return
	}
	c.pool.parts.Add(c.part, int64(n), 0)
	if in.part == nil {
		in.part = c.newPart(&in.group.parts)
	}
	in.group.parts.Add(in.part, int64(n), 0)
}

// boundedLocked reports whether a request of c waits in g for the part of c. Then others of c wait, too,
// because smaller ones would starve it.
func (c *Client) boundedLocked(g *Group) bool {
	for _, w := range c.waits {
		if w.place == &g.waiting {
			return w.bounded
		}
	}
	return false
}
