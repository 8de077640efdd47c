package rpc

import (
	"math/bits"
	"net/netip"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
	"github.com/nfsrdmad/nfsrdmad/internal/queue"
)

// A replyRoom bounds the memory of the replyCache.
//
// The last replies of a connection, up to its window, are "safe", because its client may not have
// received them: they go only when nothing else is left. The earlier replies of a client's
// connections are its "surplus". They are kept while there is room, up to most of them, because
// copies of their calls may still wait in a socket.
//
// If memory is short, a client with the largest surplus loses its oldest surplus reply. If no
// client has any, a client with the most bytes loses a safe one, of each of its connections in
// turn. Clients within a factor of two of each other lose in turn. A client is an IPv4 address or
// a /64 prefix of IPv6 (clientaddr.Of): a host that opens many connections competes with itself.
type replyRoom struct {
	size    int64 // bound, in bytes
	bytes   int64 // in use
	clients map[netip.Addr]*replyClient
	ranks   [surplusRank + 14]queue.List[replyClient, *replyClient]
	swept   int // the rank that sweepLocked visited last
}

// The reckoned memory of a reply and of a connection that has some, in bytes, without the
// results.
const (
	entryCost = 320
	ownerCost = 512
)

// most is the largest surplus of a client, in replies.
const most = 4096

// defaultWindow is the number of safe replies of a connection if its transport sets no
// Conn.Window.
const defaultWindow = 128

// A replyPlace is a reply's place in the room.
type replyPlace struct {
	queue.Links[reply]
	in *replyList // the owner's safe or the client's surplus
}

type replyList = queue.List[reply, *reply]

// An ownerRoom is a connection's part of the room.
type ownerRoom struct {
	queue.Links[replyOwner]              // links in replyClient.owners
	client                  *replyClient // nil: it has no replies
	window                  int          // largest number of safe replies
	safe                    replyList    // in order of time
	replies                 int
}

// A replyClient is one client's part of the room.
type replyClient struct {
	queue.Links[replyClient] // links in replyRoom.ranks
	ranked                   int
	addr                     netip.Addr
	owners                   queue.List[replyOwner, *replyOwner]
	surplus                  replyList
	bytes                    int64
}

func (e *reply) cost() int64 { return entryCost + int64(e.kept.Size()) }

// rank measures how much the client has. A client of the highest rank loses a reply next.
func (cl *replyClient) rank() int {
	if n := cl.surplus.Len; n > 0 {
		return surplusRank + bits.Len(uint(n))
	}
	return bits.Len64(uint64(cl.bytes))
}

// Ranks above surplusRank belong to clients with a surplus: surplusRank + bits.Len of its size.
const surplusRank = 63

// next returns the reply that the client loses next. The client has at least one.
func (cl *replyClient) next() *reply {
	if cl.surplus.Len > 0 {
		return cl.surplus.First
	}
	o := cl.owners.First
	// Next time another connection loses a reply.
	cl.owners.Remove(o)
	cl.owners.Add(o)
	return o.safe.First
}

// linkLocked makes e, which is finished, the newest reply of its owner, and makes room for it.
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

// unlinkLocked removes e from the room.
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

// enterLocked adds o to the connections of its client that have replies.
func (rc *replyCache) enterLocked(o *replyOwner) {
	addr := clientaddr.Of(o.peer.Addr())
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

// leaveLocked undoes enterLocked.
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

// chargeLocked adds n bytes to the client, and moves it to the end of its rank.
func (rc *replyCache) chargeLocked(cl *replyClient, n int64) {
	rc.bytes += n
	cl.bytes += n
	rc.ranks[cl.ranked].Remove(cl)
	cl.ranked = cl.rank()
	rc.ranks[cl.ranked].Add(cl)
}

// sweepLocked forgets expired replies of o's client, and of one client of each rank in turn, so
// that clients that no longer call are visited as well.
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
