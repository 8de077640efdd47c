package rpc

import (
	"container/heap"
	"net/netip"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/census"
)

// A replyRoom bounds what the replyCache remembers, by memory.
//
// A connection's last replies, as many as it may have calls under way, are those that its
// client may not have got: they are safe from everybody else. Up to most are kept while there
// is room: copies may have waited in a socket while their client went on.
//
// If memory is short, the client with the most replies beyond the safe ones loses one of
// these. If there are none, the client with the most bytes loses one. A client is an
// address, or a /64 of IPv6, as it is where connections are counted: a host that opens many
// connections competes with itself. Its connections lose in turn, each its oldest.
type replyRoom struct {
	size    int64 // in bytes
	bytes   int64 // in use
	clients map[netip.Addr]*replyClient
	order   replyOrder // the client that loses next is the first
	swept   int        // in order
}

// What an entry, and a connection that has some, are reckoned to occupy, in bytes, results
// apart.
const (
	entryCost = 320
	ownerCost = 512
)

// most is how many replies of a connection are kept at most, unless more are safe.
const most = 4096

// defaultWindow is how many replies of a connection are safe if its transport does not say
// how many calls it may have under way.
const defaultWindow = 128

// A replyOwner is a connection as the cache knows it. It may outlive the Conn.
type replyOwner struct {
	id        uint64
	peer      netip.AddrPort
	conn      *Conn // nil: the connection has ended
	left      bool  // its peer has closed its side, or does not acknowledge
	succeeded bool
	window    int // how many replies are safe
	client    *replyClient
	entries   int
	done      int // of entries
	// The replies, by their time.
	oldest, newest *reply
	prev, next     *replyOwner // in client.owners
}

// gives says whether a call of connection to may claim o's entries.
func (o *replyOwner) gives(to *replyOwner) bool {
	return o.conn == nil || o.left || o.peer == to.peer
}

// rank says in which list of its client o is.
func (o *replyOwner) rank() int {
	switch {
	case o.done == 0:
		return rankNone
	case o.done <= o.window:
		return rankSafe
	}
	return rankSurplus
}

const (
	rankNone = iota
	rankSafe
	rankSurplus
	ranks
)

// A replyClient is what one client has in the cache.
type replyClient struct {
	addr    netip.Addr
	owners  [ranks]replyOwners
	entries int
	surplus int   // replies beyond the safe ones
	bytes   int64 // of replies
	place   int   // in replyRoom.order
}

// victim is the connection that loses a reply next, or nil.
func (cl *replyClient) victim() *replyOwner {
	for r := rankSurplus; r > rankNone; r-- {
		if o := cl.owners[r].first; o != nil {
			// The others come first then.
			cl.owners[r].remove(o)
			cl.owners[r].add(o)
			return o
		}
	}
	return nil
}

func (e *reply) cost() int64 { return entryCost + int64(e.kept.Size()) }

// ownerLocked is the connection c.
func (rc *replyCache) ownerLocked(c *Conn) *replyOwner {
	if c.owner == nil {
		c.owner = &replyOwner{id: c.ID, peer: c.Peer, window: c.Window}
		if c.owner.window <= 0 {
			c.owner.window = defaultWindow
		}
		if c.server != nil { // it is told of the end
			c.owner.conn = c
		}
	}
	return c.owner
}

// ended takes note that a connection is gone.
func (rc *replyCache) ended(c *Conn) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	rc.ownerLocked(c).conn = nil
}

// heldLocked adds n to the entries of o. A connection without any is not the room's business.
func (rc *replyCache) heldLocked(o *replyOwner, n int) {
	rc.bytes += int64(n) * entryCost
	cl := o.client
	if o.entries == 0 {
		addr := census.Client(o.peer.Addr())
		if cl = rc.clients[addr]; cl == nil {
			cl = &replyClient{addr: addr}
			rc.clients[addr] = cl
			heap.Push(&rc.order, cl)
		}
		o.client = cl
		rc.bytes += ownerCost
	}
	o.entries += n
	cl.entries += n
	if o.entries == 0 {
		o.client = nil
		rc.bytes -= ownerCost
	}
	if cl.entries == 0 {
		delete(rc.clients, cl.addr)
		heap.Remove(&rc.order, cl.place)
	}
}

// linkLocked makes e the newest reply of its owner. Of too many the oldest goes.
func (rc *replyCache) linkLocked(e *reply) {
	o := e.owner
	o.link(e)
	rc.doneLocked(o, 1, int64(e.kept.Size()))
	if o.done > max(most, o.window) {
		rc.count.Surplus++
		rc.discardLocked(o.oldest)
	}
}

// unlinkLocked takes e out of its owner's replies.
func (rc *replyCache) unlinkLocked(e *reply) {
	e.owner.unlink(e)
	rc.doneLocked(e.owner, -1, -int64(e.kept.Size()))
}

// doneLocked adds n to the replies of o, whose results have so many bytes.
func (rc *replyCache) doneLocked(o *replyOwner, n int, bytes int64) {
	cl, was, beyond := o.client, o.rank(), max(0, o.done-o.window)
	o.done += n
	cl.surplus += max(0, o.done-o.window) - beyond
	if now := o.rank(); now != was {
		if was != rankNone {
			cl.owners[was].remove(o)
		}
		if now != rankNone {
			cl.owners[now].add(o)
		}
	}
	rc.bytes += bytes
	cl.bytes += int64(n)*entryCost + bytes
	heap.Fix(&rc.order, cl.place)
}

// shrinkLocked makes room. If all that is left is running, there is none.
func (rc *replyCache) shrinkLocked() {
	for rc.bytes > rc.size && len(rc.order) > 0 {
		o := rc.order[0].victim()
		switch {
		case o == nil:
			return
		case o.done > o.window:
			rc.count.Surplus++
		default:
			rc.count.Young++
		}
		rc.discardLocked(o.oldest)
	}
}

// sweepLocked forgets replies of o that are too old, and of one more connection, so that
// those which have ended are looked at as well.
func (rc *replyCache) sweepLocked(o *replyOwner, now time.Time) {
	rc.expireLocked(o, now)
	if rc.swept++; rc.swept >= len(rc.order) {
		rc.swept = 0
	}
	if other := rc.order[rc.swept].victim(); other != nil {
		rc.expireLocked(other, now)
	}
}

func (rc *replyCache) expireLocked(o *replyOwner, now time.Time) {
	for o.oldest != nil && now.Sub(o.oldest.at) > replyLife {
		rc.count.Expired++
		rc.discardLocked(o.oldest)
	}
}

func (o *replyOwner) renew(e *reply) {
	o.unlink(e)
	o.link(e)
}

func (o *replyOwner) link(e *reply) {
	e.prev, e.next = o.newest, nil
	if o.newest != nil {
		o.newest.next = e
	} else {
		o.oldest = e
	}
	o.newest = e
}

func (o *replyOwner) unlink(e *reply) {
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		o.oldest = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	} else {
		o.newest = e.prev
	}
	e.prev, e.next = nil, nil
}

// replyOwners is a list of connections.
type replyOwners struct{ first, last *replyOwner }

func (l *replyOwners) add(o *replyOwner) {
	o.prev, o.next = l.last, nil
	if l.last != nil {
		l.last.next = o
	} else {
		l.first = o
	}
	l.last = o
}

func (l *replyOwners) remove(o *replyOwner) {
	if o.prev != nil {
		o.prev.next = o.next
	} else {
		l.first = o.next
	}
	if o.next != nil {
		o.next.prev = o.prev
	} else {
		l.last = o.prev
	}
	o.prev, o.next = nil, nil
}

// replyOrder is a heap of clients: see replyRoom.
type replyOrder []*replyClient

func (h replyOrder) Len() int { return len(h) }

func (h replyOrder) Less(i, j int) bool {
	if h[i].surplus != h[j].surplus {
		return h[i].surplus > h[j].surplus
	}
	return h[i].bytes > h[j].bytes
}

func (h replyOrder) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *replyOrder) Push(x any) {
	cl := x.(*replyClient)
	cl.place = len(*h)
	*h = append(*h, cl)
}

func (h *replyOrder) Pop() any {
	last := len(*h) - 1
	cl := (*h)[last]
	(*h)[last], *h = nil, (*h)[:last]
	return cl
}
