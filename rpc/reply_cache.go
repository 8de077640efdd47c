package rpc

import (
	"cmp"
	"hash/maphash"
	"net/netip"
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/fair"
	"github.com/nfsrdmad/nfsrdmad/internal/queue"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// A replyCache is the duplicate-request cache. It has an entry for each call that changes something
// (RFC 1813 §4.5, RFC 7530 §3.1.1). The entry is "running" until its call ends. Then it holds the
// reply.
//
// A repeated call has the same replyKey as the first, but another client's call may have that key
// as well. So an entry has an owner: the newest connection that made the call. A call with the key
// of an entry is a copy of the entry's call if it comes from the owner's connection, or if it can
// only come from the owner's client (matchLocked). The server does not execute a copy. It answers
// the copy with the entry's reply, once the entry's call has ended. A call of another client with
// the same key is executed, after the entry's call has ended. It then has an entry of its own with
// the same key; such entries are twins.
//
// The cache deletes a reply that it did not send for replyLife, and also replies for lack of memory
// (linkLocked). At the end of a call, the cache deletes the call's entry if the call was refused
// for its credential, if it was dropped, or if its reply takes more than a quarter of the cache.
//
// The server answers every call on the connection on which it arrived, as long as that connection
// lives.
type replyCache struct {
	seed maphash.Seed

	mu      sync.Mutex
	entries map[replyKey]*reply                 // the newest entry for each key
	room    fair.Tree[*replyOwner]              // the bytes that replies take
	owners  queue.List[replyOwner, *replyOwner] // the connections with replies: sweepLocked visits the first one next
	count   ReplyCacheStats                     // without Bytes
	unused  sync.Pool                           // deleted entries, for reuse of their memory
}

// replyLife is the time for which the cache stores a reply after it was last sent. A Linux client
// that gets no answer over TCP repeats a call after 1, 3 and 6 minutes (nfs(5), timeo), and each
// answer may be lost with its connection.
const replyLife = 15 * time.Minute

// maxTwins is the largest number of entries with the same key.
const maxTwins = 4

// A reply is an entry of the replyCache.
type reply struct {
	queue.Links[reply] // links in owner.replies, if done is set
	key                replyKey
	owner              *replyOwner
	twin               *reply // the next older entry with the same key
	done               bool
	at                 time.Time // the time of the reply, or of its last repetition
	waiting            queue.List[waiter, *waiter]
	kept               Kept
	shared             bool // a reply in transmission may refer to kept's memory, so it must not be reused
}

// A replyOwner represents a connection in the cache. It may outlive the Conn.
type replyOwner struct {
	queue.Links[replyOwner] // links in replyCache.owners
	id                      uint64
	peer                    netip.AddrPort
	conn                    *Conn // nil if the connection has ended
	succeeded               bool  // true if the client repeats its calls on a newer connection
	// joined has the calls of this connection that wait for the end of a call with the same key. It
	// maps each of them to the entry of the call for which it waits.
	joined map[*Call]*reply

	place   fair.Node[*replyOwner]    // its place in replyCache.room
	window  int                       // the number of safe replies: see reply_room.go
	replies queue.List[reply, *reply] // the oldest first
}

// A waiter is a call that waits for the end of a running call with the same key.
type waiter struct {
	queue.Links[waiter] // links in reply.waiting
	call                *Call
}

// left reports whether the connection has ended, or its client no longer waits for answers on it,
// as far as the server can tell.
func (o *replyOwner) left() bool {
	return o.conn == nil || o.conn.Left != nil && o.conn.Left()
}

func newReplyCache(size int64) *replyCache {
	return &replyCache{
		seed: maphash.MakeSeed(), entries: make(map[replyKey]*reply), room: fair.Tree[*replyOwner]{Size: size},
		unused: sync.Pool{New: func() any { return new(reply) }},
	}
}

// mayExecute reports whether the server has to execute c, a call that changes something, now. If not,
// mayExecute has answered c, will answer it later, or has dropped it.
func (rc *replyCache) mayExecute(s *Server, c *Call) bool {
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
			// As far as the server can tell, the client repeats its calls on a newer connection, and
			// no longer waits for a reply to c. If this is wrong, because another client's call has
			// the same key, the client repeats c on a new connection, because the server closes c's.
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
			// The call must be detached before other goroutines can find it in e.waiting.
			rc.mu.Unlock()
			c.detach()
		case c.lost():
			rc.mu.Unlock()
			s.abandon(c)
			return false
		default:
			if c.state.apart = e == nil; c.state.apart {
				// Execute c only after the running call has ended: if both are WRITEs, the older
				// must not overwrite the data of the newer.
				e = m.running
				e.owner.succeeded = true
			} else {
				e.claim(o)
			}
			rc.count.Joined++
			c.state.lender = nil // c waits, so the receiving goroutine need not run it
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

// A match is the result of a search for the entry that answers a call.
type match struct {
	entry *reply // the entry whose reply answers the call, or nil
	// If entry is nil, others is the number of entries with the call's key, which may belong to
	// another client. oldest is the oldest of these entries, and running is one that is still
	// running, or nil. lags is true if the owner of one of them is newer than the call's connection.
	others          int
	running, oldest *reply
	lags            bool
}

// matchLocked looks for an entry that answers a call with key k from connection o. An entry of o
// itself answers the call. An entry of another owner answers it in each of these cases:
//   - The credential names the client, by a machine name or a proven principal. Two clients behind
//     one address have different names, and clients choose their XIDs at random.
//   - The owner's connection has ended.
//   - Conn.Left of the owner's connection returns true: the peer has closed its side, does not
//     acknowledge data, or may already use another connection.
//   - Both connections have the same client address and port, which only one client at a time can use.
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

// ownerLocked returns the replyOwner of c. It makes one if c has none.
func (rc *replyCache) ownerLocked(c *Conn) *replyOwner {
	if c.owner == nil {
		o := &replyOwner{id: c.ID, peer: c.Peer, conn: c, window: cmp.Or(c.Window, defaultWindow)}
		o.place.Of, o.place.Address = o, c.Peer.Addr()
		c.owner = o
	}
	return c.owner
}

// ended records that a connection has ended. It returns the calls of the connection that wait for a
// running call. The caller drops them, because there is no peer to answer.
func (rc *replyCache) ended(c *Conn) (left []*Call) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	o := rc.ownerLocked(c)
	o.conn = nil
	for c, e := range o.joined {
		e.waiting.Remove(&c.state.waiter)
		left = append(left, c)
	}
	o.joined = nil
	return left
}

// claim records that e's call has arrived again, on o's connection. If that connection is newer than
// the owner's, o becomes the owner, because the client now repeats its calls there. Calls that still
// arrive on the older connection were sent before, so the server must not execute them (succeeded).
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

// finish stores the result of the call of e. It returns the calls that wait for the end of that call,
// and the result for them.
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
	case e.cost() > rc.room.Size/4:
		rc.count.Oversize++
		rc.removeLocked(e)
	default:
		e.done, e.at = true, now
		rc.sweepLocked(e.owner, now)
		rc.linkLocked(e)
	}
	return waiting, kept
}

// discardLocked deletes an entry whose call has ended.
func (rc *replyCache) discardLocked(e *reply) {
	rc.unlinkLocked(e)
	rc.removeLocked(e)
}

// removeLocked deletes an entry that is not in its owner's replies.
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
	count := rc.count
	count.Bytes = rc.room.Held()
	return count
}

// sampled is the number of bytes at each end of long data that digest reads. A hash over all data
// of a WRITE would cost as much as the WRITE itself.
const sampled = 2 << 10

// A replyKey identifies a call. A repeated call has the same key as the first; different calls may
// rarely have the same key as well.
type replyKey struct {
	addr [16]byte
	xid  uint32
	// sum is a hash of the procedure, the arguments, the caller and the protection. It contains the
	// caller and the protection so that a stored result goes only to the caller that it was made
	// for, with the same protection.
	sum uint64
}

func (rc *replyCache) key(c *Call) replyKey {
	h, cred := &c.Header, &c.Cred
	groups, uid, gid := cred.Groups, cred.UID, cred.GID
	if cred.Principal != "" {
		// The hash leaves out the user and group numbers, because the lookup of the principal's
		// numbers may give another result for the repeated call.
		groups, uid, gid = nil, 0, 0
	}
	var lists [2]uint64
	for _, g := range groups {
		lists[0] = maphash.Comparable(rc.seed, [...]uint64{lists[0], uint64(g) + 1})
	}
	for i := range c.Excised {
		lists[1] = maphash.Comparable(rc.seed, [...]uint64{lists[1], rc.digest(c.Excised[i].Data)})
	}
	return replyKey{addr: c.Conn.Peer.Addr().As16(), xid: h.XID, sum: maphash.Comparable(rc.seed, [...]uint64{
		uint64(h.Program), uint64(h.Version), uint64(h.Procedure), rc.digest(c.Args.Rest()), lists[0], lists[1],
		uint64(uid), uint64(gid), uint64(cred.Flavor), uint64(cred.GSS),
		maphash.String(rc.seed, cred.Principal), maphash.Bytes(rc.seed, cred.Machine),
	})}
}

// digest returns a hash of b. If b is longer than 2*sampled bytes, the hash covers only its length,
// its first sampled bytes and its last sampled bytes.
func (rc *replyCache) digest(b []byte) uint64 {
	if len(b) <= 2*sampled {
		return maphash.Bytes(rc.seed, b)
	}
	return maphash.Comparable(rc.seed, [...]uint64{
		uint64(len(b)), maphash.Bytes(rc.seed, b[:sampled]), maphash.Bytes(rc.seed, b[len(b)-sampled:]),
	})
}
