package rpc

import "time"

// Config.ReplyCacheBytes limits the memory of the replyCache. This file decides which replies the
// cache deletes to stay within that limit.
//
// The last replies of a connection, up to its window (Conn.Window), are its "safe" replies: the
// client may not have received them, so the cache deletes them last. The earlier replies are the
// connection's "surplus". The cache stores them while there is memory, because copies of their
// calls may still wait in a socket. A connection has at most 4096 surplus replies (most).
//
// If memory is short, the cache asks its fair.Tree, in which connections are the holders and bytes
// the units, which connection loses its oldest reply. So a site with many addresses displaces no safe
// reply of another site that uses no more than its part. The replies of strangers (Conn.Known) go
// first once they take more than an eighth of the memory.

// entryCost is the memory that the cache counts for each reply, in addition to its results.
// ownerCost is the memory that it counts for each connection with replies. Both are in bytes.
const (
	entryCost = 320
	ownerCost = 512
)

// most is the largest surplus of a connection, in replies.
const most = 4096

// sweepMost is the largest number of expired replies of one connection that the cache deletes at the
// end of one call, because other calls wait for the lock meanwhile.
const sweepMost = 256

// defaultWindow is the number of safe replies of a connection without a Conn.Window.
const defaultWindow = 128

func (e *reply) cost() int64 { return entryCost + int64(e.kept.Size()) }

// surplus returns the number of the connection's surplus replies.
func (o *replyOwner) surplus() int64 { return int64(max(0, o.replies.Len-o.window)) }

// linkLocked adds e, whose call has ended, as the newest reply of its owner. Then it deletes
// replies until the owner's surplus and the cache's memory are within their limits.
func (rc *replyCache) linkLocked(e *reply) {
	o, cost := e.owner, e.cost()
	if o.replies.Len == 0 {
		rc.owners.Add(o)
		cost += ownerCost
	}
	if o.conn != nil {
		rc.room.SetStranger(&o.place, !o.conn.Known())
	}
	surplus := o.surplus()
	o.replies.Add(e)
	rc.room.Add(&o.place, cost, o.surplus()-surplus)
	if o.replies.Len > o.window+most {
		rc.count.Surplus++
		rc.discardLocked(o.replies.First)
	}
	for rc.room.Free() < 0 {
		loser := rc.room.Victim(nil, 0)
		if loser.Surplus() > 0 {
			rc.count.Surplus++
		} else {
			rc.count.Young++
		}
		rc.discardLocked(loser.Of.replies.First)
	}
}

// unlinkLocked removes e from its owner's replies. It is the inverse of linkLocked.
func (rc *replyCache) unlinkLocked(e *reply) {
	o, cost, surplus := e.owner, e.cost(), e.owner.surplus()
	if o.replies.Remove(e); o.replies.Len == 0 {
		rc.owners.Remove(o)
		cost += ownerCost
	}
	rc.room.Add(&o.place, -cost, o.surplus()-surplus)
}

// sweepLocked deletes expired replies: at most sweepMost of o, and at most sweepMost of another
// connection, each time of the next one, so that the replies of clients that make no more calls are
// deleted as well.
func (rc *replyCache) sweepLocked(o *replyOwner, now time.Time) {
	next := rc.owners.First
	if next != nil {
		rc.owners.Remove(next)
		rc.owners.Add(next)
	}
	for _, o := range [...]*replyOwner{o, next} {
		for n := 0; o != nil && n < sweepMost && o.replies.Len > 0 && rc.expireLocked(o.replies.First, now); n++ {
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
