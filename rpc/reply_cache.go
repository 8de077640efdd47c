package rpc

import (
	"cmp"
	"hash/maphash"
	"net/netip"
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/queue"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// A replyCache has an entry for each call that changes something (RFC 1813 §4.5, RFC 7530
// §3.1.1). The entry is "running" until its call ends. Then it holds the reply.
//
// Calls with the same replyKey look the same. An entry belongs to its owner, the newest
// connection that made the call. Another call of the owner with the same key is a copy. A call of
// another connection is a copy if it cannot come from another client than the owner's
// (matchLocked). The server does not execute a copy: it answers it from the entry, at once or, if
// the entry is running, when that ends. A call that only looks the same is executed, after the
// other one. Then two connections have entries with one key: twins.
//
// The cache forgets a reply replyLife after it was made or last repeated, or for lack of room
// (linkLocked). A call that was refused for its credential, or dropped, leaves no entry.
//
// Every call is answered on the connection by which it came, as long as that connection lives.
type replyCache struct {
	seed maphash.Seed
	size int64 // bound on count.Bytes

	mu      sync.Mutex
	entries map[replyKey]*reply // the newest entry for each key
	clients map[netip.Addr]*replyClient
	ranks   [2 * surplusRank]queue.List[replyClient, *replyClient]
	swept   int // the rank that sweepLocked visited last
	count   ReplyCacheStats
	unused  sync.Pool // entries without a call, whose memory the next ones use
}

// replyLife: a Linux client that gets no answer over TCP repeats a call after 1, 3 and 6 minutes
// (nfs(5), timeo), and each answer may be lost with its connection.
const replyLife = 15 * time.Minute

// maxTwins is the largest number of connections that may have entries with one key.
const maxTwins = 4

// A reply is one entry.
type reply struct {
	queue.Links[reply] // links in owner.replies, once it is done
	key                replyKey
	owner              *replyOwner
	twin               *reply // the next older entry with the same key
	done               bool
	at                 time.Time // when it was made, or last repeated
	waiting            queue.List[waiter, *waiter]
	kept               Kept
	shared             bool // a reply is being sent from kept, so its memory must not be reused
}

// A replyOwner represents a connection in the cache. It may outlive the Conn.
type replyOwner struct {
	queue.Links[replyOwner] // links in replyClient.owners
	id                      uint64
	peer                    netip.AddrPort
	conn                    *Conn // nil: the connection has ended
	succeeded               bool  // the client repeats its calls on a newer connection
	// joined are the calls of this connection that wait, and the entries that they wait for.
	joined map[*Call]*reply

	client  *replyClient              // nil before the first reply
	window  int                       // the number of replies that are safe, from the last one on
	replies queue.List[reply, *reply] // in order of time
}

// A waiter is a call that waits for the end of a running one.
type waiter struct {
	queue.Links[waiter] // links in reply.waiting
	call                *Call
}

// left reports that no living client waits for answers on the connection, as far as the server can
// tell.
func (o *replyOwner) left() bool {
	return o.conn == nil || o.conn.Left != nil && o.conn.Left()
}

func newReplyCache(size int64) *replyCache {
	return &replyCache{
		seed: maphash.MakeSeed(), size: size,
		entries: make(map[replyKey]*reply), clients: make(map[netip.Addr]*replyClient),
		unused: sync.Pool{New: func() any { return new(reply) }},
	}
}

// begin reports whether to execute c now. If not, c was answered, or will be.
func (rc *replyCache) begin(s *Server, c *Call) bool {
	k := rc.key(c)
	for detached := false; ; detached = true {
		now := time.Now()
		rc.mu.Lock()
		o := rc.ownerLocked(c.Conn)
		m := rc.matchLocked(k, o, &c.Cred, now)
		e := m.entry
		switch {
		case e != nil && e.done:
			rc.count.Hits++
			e.shared = e.shared || e.kept.Size() > 0
			kept := e.kept
			e.at = now
			rc.unlinkLocked(e)
			e.claim(o)
			rc.linkLocked(e)
			rc.mu.Unlock()
			s.answer(c, &kept)
			return false
		case e == nil && c.Early:
			rc.mu.Unlock()
			return true
		case e == nil && (m.lags || o.succeeded):
			// The client already makes the call on a newer connection. If this is another client
			// with the same key, it will repeat the call on its next connection, because this one
			// ends.
			o.succeeded = true
			rc.count.Lagging++
			rc.mu.Unlock()
			c.state.close = true
			s.abandon(c)
			return false
		case e == nil && m.running == nil:
			rc.count.Misses++
			if m.others >= maxTwins {
				rc.discardLocked(m.oldest)
			}
			c.state.entry = rc.addLocked(k, o)
			rc.mu.Unlock()
			return true
		case !detached:
			// The call must be detached before other goroutines can find it among the waiting
			// ones.
			rc.mu.Unlock()
			c.detach()
		case c.lost():
			rc.mu.Unlock()
			s.abandon(c)
			return false
		default:
			if c.state.apart = e == nil; c.state.apart {
				// Run it after the other call: of two WRITEs, the older must not end last.
				e = m.running
				e.owner.succeeded = true
			} else {
				e.claim(o)
			}
			rc.count.Joined++
			c.state.lender = nil // the receiving goroutine goes on
			c.state.waiter.call = c
			e.waiting.Add(&c.state.waiter)
			if o.joined == nil {
				o.joined = make(map[*Call]*reply)
			}
			o.joined[c] = e
			rc.mu.Unlock()
			return false
		}
	}
}

// A match is the result of a search for entries of a call.
type match struct {
	entry *reply // answers the call
	// If no entry answers the call: others is the number of entries that may be another client's,
	// oldest is the oldest of them, and running is a running one. lags: the connection of one of
	// them is newer than the call's.
	others          int
	running, oldest *reply
	lags            bool
}

// matchLocked looks for an entry that answers a call of connection o. An entry of another owner
// answers it in these cases:
//   - The credential names the client, by its machine or a proven principal. Two clients behind
//     one address differ in that, and clients choose their XIDs at random.
//   - The owner has ended.
//   - The owner's peer has left it (Conn.Left): it has closed its side, or does not
//     acknowledge data.
//   - Both connections have the same port, which only one client can have.
func (rc *replyCache) matchLocked(k replyKey, o *replyOwner, cred *Cred, now time.Time) (m match) {
	for e := rc.entries[k]; e != nil; {
		older := e.twin
		if !rc.expireLocked(e, now) && e.owner == o {
			return match{entry: e}
		}
		e = older
	}
	named := len(cred.Machine) > 0 || cred.Principal != ""
	for e := rc.entries[k]; e != nil; e = e.twin {
		from := e.owner
		if named || from.peer == o.peer || from.left() {
			return match{entry: e}
		}
		m.others++
		m.oldest = e
		if !e.done {
			m.running = e
		}
		m.lags = m.lags || from.id > o.id
	}
	return m
}

// ownerLocked returns the owner that represents c.
func (rc *replyCache) ownerLocked(c *Conn) *replyOwner {
	if c.owner == nil {
		c.owner = &replyOwner{id: c.ID, peer: c.Peer, conn: c, window: cmp.Or(c.Window, defaultWindow)}
	}
	return c.owner
}

// ended notes that a connection has ended. It returns the connection's copies that wait, because
// no peer is left to answer.
func (rc *replyCache) ended(c *Conn) (left []*Call) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	o := rc.ownerLocked(c)
	o.conn = nil
	for k, e := range o.joined {
		e.waiting.Remove(&k.state.waiter)
		left = append(left, k)
	}
	o.joined = nil
	return left
}

// claim makes o the owner of e if o is newer than its owner. Then the client repeats all its
// calls on o. Calls that still arrive on the former owner are older than those: that owner is
// succeeded, and the cache begins none of its calls.
func (e *reply) claim(o *replyOwner) {
	if e.owner.id < o.id {
		e.owner.succeeded = true
		e.owner = o
	}
}

// addLocked adds a running entry.
func (rc *replyCache) addLocked(k replyKey, o *replyOwner) *reply {
	e := rc.unused.Get().(*reply)
	e.key, e.owner, e.twin = k, o, rc.entries[k]
	rc.entries[k] = e
	rc.count.Entries++
	return e
}

// finish keeps the result of the call of e. It returns the copies that wait, and the result to
// answer them with.
func (rc *replyCache) finish(e *reply, c *Call, w *xdr.Writer, out Outcome) (waiting []*Call, kept Kept) {
	if !out.Dropped {
		e.kept.Keep(c, w, out) // e is running: only e.waiting is shared with other goroutines
	}
	now := time.Now()
	rc.mu.Lock()
	defer rc.mu.Unlock()
	for p := e.waiting.First; p != nil; p = e.waiting.First {
		e.waiting.Remove(p)
		delete(p.call.Conn.owner.joined, p.call)
		waiting = append(waiting, p.call)
		e.shared, kept = true, e.kept
	}
	switch {
	case out.Dropped, out.Auth != AuthOK:
		// Nothing was executed. The client may repeat the call with a better credential.
		rc.removeLocked(e)
	case e.cost() > rc.size/4:
		rc.count.Oversize++
		rc.removeLocked(e)
	default:
		e.done, e.at = true, now
		rc.sweepLocked(e.owner, now)
		rc.linkLocked(e)
	}
	return waiting, kept
}

// discardLocked forgets a finished reply.
func (rc *replyCache) discardLocked(e *reply) {
	rc.unlinkLocked(e)
	rc.removeLocked(e)
}

// removeLocked removes an entry that no list has.
func (rc *replyCache) removeLocked(e *reply) {
	if first := rc.entries[e.key]; first != e {
		for first.twin != e {
			first = first.twin
		}
		first.twin = e.twin
	} else if e.twin != nil {
		rc.entries[e.key] = e.twin
	} else {
		delete(rc.entries, e.key)
	}
	rc.count.Entries--
	if !e.shared && e.kept.Size() <= 4*entryCost {
		*e = reply{kept: Kept{body: e.kept.body, marks: e.kept.marks}}
		rc.unused.Put(e)
	}
}

func (rc *replyCache) stats() ReplyCacheStats {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	return rc.count
}
