package rdma

import (
	"slices"

	"github.com/nfsrdmad/nfsrdmad/mem"
)

// maxClaim is the number of bytes that the calls of one connection into one group may hold
// for RDMA Reads that have not come back. It covers the data under way on a fast network,
// with a reserve.
const maxClaim = 16 << 20

// A readClaim bounds the RDMA Reads that the calls of one connection into one group have
// under way. A call asks for memory only when its Reads can be posted. Otherwise a call
// that waits behind the Reads of other calls would occupy memory by its mere announcement.
// Each group has a claim of its own: a stalled file system keeps its memory, and calls into
// other file systems must not wait for that.
//
// readQueue.mu guards it.
type readClaim struct {
	group         *mem.Group
	pieces, bytes int // Reads and bytes of the calls in the claim
	first, last   *call
}

// claimed is the part of a readClaim that a call has. claim is nil while it has none.
type claimed struct {
	claim         *readClaim
	pieces, bytes int // of the call's Reads
}

// room reports whether the Reads of c fit beside those of the calls in the claim. A single
// call always fits.
func (cl *readClaim) room(c *call, depth int) bool {
	return cl.pieces == 0 || cl.pieces+c.claimed.pieces <= depth && cl.bytes+c.claimed.bytes <= maxClaim
}

// charge adds c to the claim (sign 1), or removes it (sign -1).
func (cl *readClaim) charge(c *call, sign int) {
	if c.claimed.claim = nil; sign > 0 {
		c.claimed.claim = cl
	}
	cl.pieces += sign * c.claimed.pieces
	cl.bytes += sign * c.claimed.bytes
}

func (cl *readClaim) push(c *call) {
	c.reads.queued = nil
	if cl.last == nil {
		cl.first = c
	} else {
		cl.last.reads.queued = c
	}
	cl.last = c
}

func (cl *readClaim) pop() (c *call) {
	c = cl.first
	if cl.first = c.reads.queued; cl.first == nil {
		cl.last = nil
	}
	c.reads.queued = nil
	return c
}

// claimOfLocked returns the claim of calls into g.
func (q *readQueue) claimOfLocked(g *mem.Group) *readClaim {
	for _, cl := range q.claims {
		if cl.group == g {
			return cl
		}
	}
	cl := &readClaim{group: g}
	q.claims = append(q.claims, cl)
	return cl
}

// enter asks for the memory of c, which needs RDMA Reads: now, or when its claim has room.
func (q *readQueue) enter(c *call) {
	for _, s := range c.list.segments {
		c.claimed.pieces += (int(s.Length) + maxRead - 1) / maxRead
		c.claimed.bytes += int(s.Length)
	}
	q.mu.Lock()
	cl := q.claimOfLocked(c.reserved.request.Group)
	if cl.first != nil || !cl.room(c, q.depth) {
		cl.push(c)
		q.mu.Unlock()
		q.k.stats.ReadsDeferred.Add(1)
		return
	}
	cl.charge(c, 1)
	q.mu.Unlock()
	c.ask()
}

// leave takes c out of its claim, if it has one, and lets the calls that waited for room
// ask for memory.
func (q *readQueue) leave(c *call) {
	cl := c.claimed.claim
	if cl == nil {
		return
	}
	q.mu.Lock()
	cl.charge(c, -1)
	for next := cl.first; next != nil && cl.room(next, q.depth); next = cl.first {
		cl.pop()
		cl.charge(next, 1)
		q.mu.Unlock()
		next.ask()
		q.mu.Lock()
	}
	if cl.pieces == 0 && cl.first == nil {
		if i := slices.Index(q.claims, cl); i >= 0 && len(q.claims) > 1 {
			q.claims = slices.Delete(q.claims, i, i+1)
		}
	}
	q.mu.Unlock()
}

// closed drops the waiting calls, at the end of the connection.
func (q *readQueue) closed() {
	for {
		q.mu.Lock()
		var c *call
		for _, cl := range q.claims {
			if cl.first != nil {
				c = cl.pop()
				break
			}
		}
		q.mu.Unlock()
		if c == nil {
			return
		}
		c.Drop()
	}
}
