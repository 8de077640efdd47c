package rpc

import (
	"math/bits"
	"net/netip"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/census"
	"github.com/nfsrdmad/nfsrdmad/internal/queue"
)

// A replyRoom bounds what the replyCache remembers, by memory.
//
// A connection's last replies, as many as it may have calls under way, are those that its
// client may not have got. They are safe: they go when nothing else is left. What a client's
// connections had before is kept while there is room, up to most: copies may have waited in a
// socket while their client went on.
//
// If memory is short, a client with the most replies beyond the safe ones loses the oldest of
// these. If no client has any, one with the most bytes loses a safe one, of each of its
// connections in turn. Clients that have as much but for a factor of two lose in turn. A
// client is an address, or a /64 of IPv6, as it is where connections are counted: a host that
// opens many connections competes with itself.
type replyRoom struct {
	size    int64 // in bytes
	bytes   int64 // in use
	clients map[netip.Addr]*replyClient
	ranks   [surplusRank + 14]queue.List[replyClient, *replyClient]
	swept   int // the rank looked at last
}

// What a reply, and a connection that has some, are reckoned to occupy, in bytes, results
// apart.
const (
	entryCost = 320
	ownerCost = 512
)

// most is how many replies of a client are kept beside the safe ones.
const most = 4096

// defaultWindow is how many replies of a connection are safe if its transport does not say
// how many calls it may have under way.
const defaultWindow = 128

// A replyPlace is where a reply takes room.
type replyPlace struct {
	queue.Links[reply]
	in *replyList // replyOwner.safe or replyClient.surplus
}

type replyList = queue.List[reply, *reply]

// An ownerRoom is what a connection has in the room.
type ownerRoom struct {
	queue.Links[replyOwner]              // in replyClient.owners
	client                  *replyClient // nil: it has no replies
	window                  int          // how many replies are safe
	safe                    replyList    // by their time
	replies                 int
}

// A replyClient is what one client has in the room.
type replyClient struct {
	queue.Links[replyClient] // in replyRoom.ranks
	ranked                   int
	addr                     netip.Addr
	owners                   queue.List[replyOwner, *replyOwner]
	surplus                  replyList
	bytes                    int64
}

func (e *reply) cost() int64 { return entryCost + int64(e.kept.Size()) }

// rank is how much the client has: one of the highest rank loses a reply next.
func (cl *replyClient) rank() int {
	if n := cl.surplus.Len; n > 0 {
		return surplusRank + bits.Len(uint(n))
	}
	return bits.Len64(uint64(cl.bytes))
}

// Ranks above surplusRank are those of clients that have more than what is safe: bits.Len of
// most + 1, and no more.
const surplusRank = 63

// next is the reply that the client loses next. It has one.
func (cl *replyClient) next() *reply {
	if cl.surplus.Len > 0 {
		return cl.surplus.First
	}
	o := cl.owners.First
	// The others come first then.
	cl.owners.Remove(o)
	cl.owners.Add(o)
	return o.safe.First
}

// linkLocked makes e, which is done, the newest reply of its owner, and makes room for it.
func (rc *replyCache) linkLocked(e *reply) {
	o := e.owner
	if o.replies == 0 {
		rc.enterLocked(o)
	}
	o.replies++
	cl := o.client
	e.put(&o.safe)
	if o.safe.Len > o.window {
		o.safe.First.put(&cl.surplus)
	}
	rc.chargeLocked(cl, e.cost())
	if cl.surplus.Len > most {
		rc.count.Surplus++
		rc.discardLocked(cl.surplus.First)
	}
	for r := len(rc.ranks) - 1; r > 0 && rc.bytes > rc.size; {
		if loser := rc.ranks[r].First; loser == nil {
			r--
		} else {
			if r > surplusRank {
				rc.count.Surplus++
			} else {
				rc.count.Young++
			}
			rc.discardLocked(loser.next())
		}
	}
}

// unlinkLocked takes the room of e back.
func (rc *replyCache) unlinkLocked(e *reply) {
	o := e.owner
	e.put(nil)
	rc.chargeLocked(o.client, -e.cost())
	if o.replies--; o.replies == 0 {
		rc.leaveLocked(o)
	}
}

func (e *reply) put(l *replyList) {
	if e.in != nil {
		e.in.Remove(e)
	}
	if e.in = l; l != nil {
		l.Add(e)
	}
}

// enterLocked makes o one of its client's connections that have replies.
func (rc *replyCache) enterLocked(o *replyOwner) {
	addr := census.Client(o.peer.Addr())
	cl := rc.clients[addr]
	if cl == nil {
		cl = &replyClient{addr: addr}
		rc.clients[addr] = cl
		rc.ranks[0].Add(cl)
	}
	o.client = cl
	cl.owners.Add(o)
	rc.chargeLocked(cl, ownerCost)
}

// leaveLocked takes that back.
func (rc *replyCache) leaveLocked(o *replyOwner) {
	cl := o.client
	o.client = nil
	cl.owners.Remove(o)
	rc.chargeLocked(cl, -ownerCost)
	if cl.owners.Len == 0 {
		delete(rc.clients, cl.addr)
		rc.ranks[cl.ranked].Remove(cl)
	}
}

// chargeLocked adds n to what the client has, in bytes. It is the last of its rank then.
func (rc *replyCache) chargeLocked(cl *replyClient, n int64) {
	rc.bytes += n
	cl.bytes += n
	rc.ranks[cl.ranked].Remove(cl)
	cl.ranked = cl.rank()
	rc.ranks[cl.ranked].Add(cl)
}

// sweepLocked forgets replies that are too old: of o's client, and of one of each rank in
// turn, so that those which do not call any more are looked at as well.
func (rc *replyCache) sweepLocked(o *replyOwner, now time.Time) {
	if o.client != nil {
		rc.expireLocked(o.client, now)
	}
	rc.swept = (rc.swept + 1) % len(rc.ranks)
	if other := rc.ranks[rc.swept].First; other != nil {
		rc.chargeLocked(other, 0)
		rc.expireLocked(other, now)
	}
}

func (rc *replyCache) expireLocked(cl *replyClient, now time.Time) {
	for cl.owners.Len > 0 {
		e := cl.next()
		if now.Sub(e.at) <= replyLife {
			return
		}
		rc.count.Expired++
		rc.discardLocked(e)
	}
}
