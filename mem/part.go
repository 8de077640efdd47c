package mem

import (
	"net/netip"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
	"github.com/nfsrdmad/nfsrdmad/internal/fair"
)

// In each Group, the rule of package fair (Tree.MayBorrow) bounds what the clients of a site, and a
// client, hold of the memory that the Group may have. A request beyond it waits, does not count as held
// memory, and delays no other site. So a client whose calls stall, because its peer is slow or for another
// reason, leaves room for others at once: they need not wait until the pool has ended its connections.
//
// Each Group has its own bounds, so what stalls in one file system costs a client nothing in another.

// parts counts the pages of the main zone that a Group has, by site and client.
type parts = fair.Tree[*Client]

// A part is what a client holds in a parts. It is nil for a client that is bounded nowhere, because
// its key is no address.
type part = *fair.Node[*Client]

// setKey sets the key of c, and its site if the key is an address.
func (c *Client) setKey(key any) {
	c.key = key
	if a, ok := key.(netip.Addr); ok {
		c.address = a
		c.site = clientaddr.Site(clientaddr.Of(a))
	}
}

// partIn returns what c holds in g.
func (c *Client) partIn(g *Group) part {
	in := c.inGroup(g)
	if in == nil {
		in = c.add(g, 0)
	}
	if in.part == nil {
		in.part = &fair.Node[*Client]{Of: c, Address: c.address}
		g.parts.SetStranger(in.part, c.blamed)
	}
	return in.part
}

// blameLocked sets c.blamed. A blamed client counts as a stranger, and waits in rows of its own: as the first one
// of a row of others it would make these wait for the part of strangers.
func (c *Client) blameLocked(is bool) {
	if c.blamed == is {
		return
	}
	c.blamed = is
	for _, q := range c.waits {
		w := q.row.place
		c.pool.leaveRowLocked(q)
		c.pool.rowLocked(w, c).add(q)
	}
	for i := range c.in {
		if in := &c.in[i]; in.part != nil {
			in.group.parts.SetStranger(in.part, is)
		}
	}
}

// mayLocked reports whether the rule allows c to hold n more pages of the main zone in g, now or when
// pages are free. Like the limit of a Group, the rule allows any request if nothing is held.
func (c *Client) mayLocked(g *Group, n int32) bool {
	if !c.site.IsValid() || g.parts.Held() == 0 {
		return true
	}
	g.parts.Size = int64(min(g.limitLocked(), c.pool.main.total))
	return g.parts.MayBorrow(c.partIn(g), int64(n))
}

// entitledLocked reports whether the client of q has no more than its part in the group after it gets the first
// request of q from the main zone.
func (q *requestQueue) entitledLocked() bool {
	c, g, n := q.share.client, q.group, q.need()
	return c.mayLocked(g, n) && (!c.site.IsValid() || g.parts.Held() == 0 || g.parts.Entitled(c.partIn(g), int64(n)))
}

// holdPartLocked adds n pages of the main zone, which may be negative, to what c holds in g.
func (c *Client) holdPartLocked(g *Group, n int32) {
	if c.site.IsValid() {
		g.parts.Add(c.partIn(g), int64(n), 0)
	}
}

// boundedLocked reports whether another request of the site of c waits for a part in g: see siteRow.bounded.
func (g *Group) boundedLocked(c *Client) bool {
	if g.bounded == 0 {
		return false
	}
	r := g.waiting.rows[c.rowKey()]
	return r != nil && r.bounded
}
