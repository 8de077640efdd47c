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

// room reports whether the Reads of c fit beside those of the calls in the claim. A single
// call always fits.
func (cl *readClaim) room(c *call, depth int) bool {
	return cl.pieces == 0 || cl.pieces+c.claimPieces <= depth && cl.bytes+c.claimBytes <= maxClaim
}

// charge adds c to the claim (sign 1), or removes it (sign -1).
func (cl *readClaim) charge(c *call, sign int) {
	if c.claim = nil; sign > 0 {
		c.claim = cl
	}
	cl.pieces += sign * c.claimPieces
	cl.bytes += sign * c.claimBytes
}

func (cl *readClaim) push(c *call) {
	c.queued = nil
	if cl.last == nil {
		cl.first = c
	} else {
		cl.last.queued = c
	}
	cl.last = c
}

func (cl *readClaim) pop() (c *call) {
	c = cl.first
	if cl.first = c.queued; cl.first == nil {
		cl.last = nil
	}
	c.queued = nil
	return c
}

// claimOf returns the claim of calls into g. q.mu is held.
func (q *readQueue) claimOf(g *mem.Group) *readClaim {
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
	for _, s := range c.segments {
		c.claimPieces += (int(s.Length) + maxRead - 1) / maxRead
		c.claimBytes += int(s.Length)
	}
	q.mu.Lock()
	cl := q.claimOf(c.request.Group)
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
	cl := c.claim
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
