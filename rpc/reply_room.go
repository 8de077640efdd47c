package rpc

import (
	"math/bits"
	"net/netip"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
	"github.com/nfsrdmad/nfsrdmad/internal/queue"
)

// Config.ReplyCacheBytes limits the memory of the replyCache. This file decides which replies the
// cache deletes to stay within that limit.
//
// The last replies of a connection, up to its window (Conn.Window), are its "safe" replies: the
// client may not have received them, so the cache deletes them last. The earlier replies are the
// connection's "surplus". The cache stores them while there is memory, because copies of their
// calls may still wait in a socket. A connection has at most 4096 surplus replies (most).
//
// If memory is short, the largest client that has a surplus loses its oldest surplus reply. If no
// client has a surplus, the largest client loses a safe reply, from each of its connections in
// turn. Clients whose memory differs by less than a factor of two lose replies in turn. A client is
// an IPv4 address or a /64 prefix of IPv6 (clientaddr.Of), so a host with many connections counts
// as one client.

// entryCost is the memory that the cache counts for each reply, in addition to its results.
// ownerCost is the memory that it counts for each connection with replies. Both are in bytes.
const (
	entryCost = 320
	ownerCost = 512
)

// most is the largest surplus of a connection, in replies.
const most = 4096

// sweepMost is the largest number of expired replies of one connection, or of one client, that the
// cache deletes at the end of one call, because other calls wait for the lock meanwhile.
const sweepMost = 256

// defaultWindow is the number of safe replies of a connection without a Conn.Window.
const defaultWindow = 128

// A replyClient is a client that has replies in the cache.
type replyClient struct {
	queue.Links[replyClient] // links in replyCache.ranks
	ranked                   int
	addr                     netip.Addr
	bytes                    int64
	// owners lists the client's connections that have replies. owners[1] has the connections with a
	// surplus (see the comment at the top of this file), owners[0] the others.
	owners [2]queue.List[replyOwner, *replyOwner]
}

func (e *reply) cost() int64 { return entryCost + int64(e.kept.Size()) }

// rank returns the client's rank by its memory: the number of bits of its byte count, plus
// surplusRank if it has a surplus. If memory is short, a client of the highest rank loses a reply.
func (cl *replyClient) rank() int {
	r := bits.Len64(uint64(cl.bytes))
	if cl.owners[1].Len > 0 {
		r += surplusRank
	}
	return r
}

// surplusRank is the lowest rank of a client with a surplus.
const surplusRank = 64

// next returns the reply of the client that the cache has to delete next: the oldest one of the first
// connection in owners[1] or, if that list is empty, in owners[0]. That connection goes to the end of
// its list.
func (cl *replyClient) next() *reply {
	l := &cl.owners[min(cl.owners[1].Len, 1)]
	o := l.First
	l.Remove(o)
	l.Add(o)
	return o.replies.First
}

// linkLocked adds e, whose call has ended, as the newest reply of its owner. Then it deletes
// replies until the owner's surplus and the cache's memory are within their limits.
func (rc *replyCache) linkLocked(e *reply) {
	o, cost := e.owner, e.cost()
	if o.replies.Len == 0 {
		addr := clientaddr.Of(o.peer.Addr())
		if cl := rc.clients[addr]; cl != nil {
			o.client = cl
		} else {
			if o.client == nil { // otherwise reuse the record, which rc.clients no longer has
				o.client = &replyClient{addr: addr}
			}
			rc.clients[addr], o.client.ranked = o.client, 0
			rc.ranks[0].Add(o.client)
		}
		o.client.owners[0].Add(o)
		cost += ownerCost
	}
	cl := o.client
	o.replies.Add(e)
	if o.replies.Len == o.window+1 {
		cl.owners[0].Remove(o)
		cl.owners[1].Add(o)
	}
	rc.chargeLocked(cl, cost)
	if o.replies.Len > o.window+most {
		rc.count.Surplus++
		rc.discardLocked(o.replies.First)
	}
	for r := len(rc.ranks) - 1; r > 0 && rc.count.Bytes > rc.size; {
		if loser := rc.ranks[r].First; loser == nil {
			r--
		} else {
			if r >= surplusRank {
				rc.count.Surplus++
			} else {
				rc.count.Young++
			}
			rc.discardLocked(loser.next())
		}
	}
}

// unlinkLocked removes e from its owner's replies. It is the inverse of linkLocked.
func (rc *replyCache) unlinkLocked(e *reply) {
	o, cl, cost := e.owner, e.owner.client, e.cost()
	o.replies.Remove(e)
	switch o.replies.Len {
	case o.window:
		cl.owners[1].Remove(o)
		cl.owners[0].Add(o)
	case 0:
		cl.owners[0].Remove(o)
		cost += ownerCost
	}
	rc.chargeLocked(cl, -cost)
}

// chargeLocked adds n, which may be negative, to the client's byte count, and moves the client to
// the end of the list of its rank. It removes a client without replies.
func (rc *replyCache) chargeLocked(cl *replyClient, n int64) {
	rc.count.Bytes += n
	cl.bytes += n
	rc.ranks[cl.ranked].Remove(cl)
	if cl.bytes == 0 {
		delete(rc.clients, cl.addr)
		return
	}
	cl.ranked = cl.rank()
	rc.ranks[cl.ranked].Add(cl)
}

// sweepLocked deletes expired replies: at most sweepMost of o, and at most sweepMost of one client
// from rc.ranks. Each sweep takes that client from the next rank, so that the replies of clients
// that make no more calls are deleted as well.
func (rc *replyCache) sweepLocked(o *replyOwner, now time.Time) {
	for n := 0; n < sweepMost && o.replies.Len > 0 && rc.expireLocked(o.replies.First, now); n++ {
	}
	rc.swept = (rc.swept + 1) % len(rc.ranks)
	if cl := rc.ranks[rc.swept].First; cl != nil {
		rc.chargeLocked(cl, 0) // this moves cl to the end of the list, so that the next visit takes another client
		for n := 0; n < sweepMost && cl.bytes > 0 && rc.expireLocked(cl.next(), now); n++ {
		}
	}
}

// expireLocked deletes e if its call has ended and the reply was not sent for replyLife. It reports
// whether it deleted e.
func (rc *replyCache) expireLocked(e *reply, now time.Time) bool {
	if !e.done || now.Sub(e.at) <= replyLife {
		return false
	}
	rc.count.Expired++
	rc.discardLocked(e)
	return true
}
