package rdma

import (
	"slices"

	"github.com/nfsrdmad/nfsrdmad/mem"
)

// maxClaim is the largest number of bytes of memory that the calls of one connection in one
// mem.Group may hold for incomplete RDMA Reads. It is more than the data in flight on a
// fast network, so it does not slow the Reads down.
const maxClaim = 16 << 20

// A readClaim limits the incomplete RDMA Reads of one connection's calls in one mem.Group.
// A call requests memory only when its Reads can be posted. Otherwise a peer could occupy
// memory merely by announcing data. Each group has its own readClaim, because the calls of
// a stalled file system keep their memory, and calls to other file systems must not wait
// for it.
//
// readQueue.mu guards it.
type readClaim struct {
	group         *mem.Group
	pieces, bytes int // Reads and bytes of the calls that have entered
	first, last   *call
}

// claimed is the part of a readClaim that one call occupies. claim is nil while the call
// occupies none.
type claimed struct {
	claim         *readClaim
	pieces, bytes int // number and bytes of the call's Reads
}

// room reports whether the Reads of c fit into the readClaim's limits, together with those
// of the calls that have entered. depth is the number of Reads that the peer allows. A
// single call always fits.
func (cl *readClaim) room(c *call, depth int) bool {
	return cl.pieces == 0 || cl.pieces+c.claimed.pieces <= depth && cl.bytes+c.claimed.bytes <= maxClaim
}

// charge adds c to the readClaim (sign 1), or removes it (sign -1).
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

// claimOfLocked returns the readClaim of group g. If there is none, it makes one.
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

// enter requests the memory of c, which needs RDMA Reads. If they do not fit its group's
// readClaim, c waits until leave makes room.
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

// leave takes c out of its readClaim, if it has one. Waiting calls that fit now request
// their memory.
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
