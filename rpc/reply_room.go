package rpc

import (
	"math/bits"
	"net/netip"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
	"github.com/nfsrdmad/nfsrdmad/internal/queue"
)

// The memory of the replyCache is bounded.
//
// The last replies of a connection, up to its window, are "safe", because its client may not have
// received them: they go only when nothing else is left. The earlier replies of a client's
// connections are its "surplus". They are kept while there is room, up to most of each connection,
// because copies of their calls may still wait in a socket.
//
// If memory is short, the largest client that has a surplus loses its oldest surplus reply. If no
// client has any, the largest client loses a safe one, of each of its connections in turn. Clients
// within a factor of two of each other lose in turn. A client is an IPv4 address or a /64 prefix
// of IPv6 (clientaddr.Of): a host that opens many connections competes with itself.

// The reckoned memory of a reply and of a connection that has some, in bytes, without the
// results.
const (
	entryCost = 320
	ownerCost = 512
)

// most is the largest surplus of a connection, in replies.
const most = 4096

// sweepMost is the largest number of expired replies of a connection or a client that one call
// forgets. Meanwhile the other calls wait for the lock.
const sweepMost = 256

// defaultWindow is the number of safe replies of a connection if its transport sets no
// Conn.Window.
const defaultWindow = 128

// A replyClient is one client that has replies.
type replyClient struct {
	queue.Links[replyClient] // links in replyCache.ranks
	ranked                   int
	addr                     netip.Addr
	bytes                    int64
	// owners are the client's connections that have replies: in owners[0] those without a
	// surplus, in owners[1] those with one.
	owners [2]queue.List[replyOwner, *replyOwner]
}

func (e *reply) cost() int64 { return entryCost + int64(e.kept.Size()) }

// rank measures how much the client has. A client of the highest rank loses a reply next.
func (cl *replyClient) rank() int {
	r := bits.Len64(uint64(cl.bytes))
	if cl.owners[1].Len > 0 {
		r += surplusRank
	}
	return r
}

// surplusRank is the lowest rank of a client with a surplus.
const surplusRank = 64

// next returns the reply that the client loses next, and makes it another connection's turn.
func (cl *replyClient) next() *reply {
	l := &cl.owners[min(cl.owners[1].Len, 1)]
	o := l.First
	l.Remove(o)
	l.Add(o)
	return o.replies.First
}

// linkLocked makes e, which is done, the newest reply of its owner, and makes room for it.
func (rc *replyCache) linkLocked(e *reply) {
	o, cost := e.owner, e.cost()
	if o.replies.Len == 0 {
		addr := clientaddr.Of(o.peer.Addr())
		if cl := rc.clients[addr]; cl != nil {
			o.client = cl
		} else {
			if o.client == nil { // else the record that the cache forgot with the last reply
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

// unlinkLocked undoes linkLocked.
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

// chargeLocked adds n bytes to the client, and moves it to the end of its rank. It forgets a
// client that has nothing left.
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

// sweepLocked forgets expired replies of o, and of one client of each rank in turn, so that
// connections and clients that no longer call are visited as well.
func (rc *replyCache) sweepLocked(o *replyOwner, now time.Time) {
	for n := 0; n < sweepMost && o.replies.Len > 0 && rc.expireLocked(o.replies.First, now); n++ {
	}
	rc.swept = (rc.swept + 1) % len(rc.ranks)
	if cl := rc.ranks[rc.swept].First; cl != nil {
		rc.chargeLocked(cl, 0) // the next one is first now
		for n := 0; n < sweepMost && cl.bytes > 0 && rc.expireLocked(cl.next(), now); n++ {
		}
	}
}

// expireLocked forgets e if it is too old.
func (rc *replyCache) expireLocked(e *reply, now time.Time) bool {
	if !e.done || now.Sub(e.at) <= replyLife {
		return false
	}
	rc.count.Expired++
	rc.discardLocked(e)
	return true
}
