package rpc

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"

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
// (replyRoom). A call that was refused for its credential, or dropped, leaves no entry.
//
// Every call is answered on the connection by which it came, as long as that connection lives.
type replyCache struct {
	seed maphash.Seed
	now  func() time.Time

	mu      sync.Mutex
	entries map[replyKey]*reply // the newest entry for each key
	unused  *reply
	replyRoom
	count ReplyCacheStats
}

// replyLife: a Linux client that gets no answer over TCP repeats a call after 1, 3 and 6 minutes
// (nfs(5), timeo), and each answer may be lost with its connection.
const replyLife = 15 * time.Minute

// maxTwins is the largest number of connections that may have entries with one key.
const maxTwins = 4

// A reply is one entry.
type reply struct {
	replyPlace
	key     replyKey
	owner   *replyOwner
	twin    *reply // the next older entry with the same key, or the next unused entry
	done    bool
	at      time.Time // when it was made, or last repeated
	waiting *Call     // copies of a running call, linked by callState.next
	kept    Kept
	shared  bool // a reply is being sent from kept, so its memory must not be reused
}

// A replyOwner represents a connection in the cache. It may outlive the Conn.
type replyOwner struct {
	id        uint64
	peer      netip.AddrPort
	conn      *Conn // nil: the connection has ended
	left      bool  // Conn.Left reported true
	succeeded bool  // the client repeats its calls on a newer connection
	// joined are the entries that calls of this connection wait for.
	joined map[*reply]struct{}
	ownerRoom
}

func newReplyCache(size int64) *replyCache {
	return &replyCache{
		seed: maphash.MakeSeed(), now: time.Now,
		entries:   make(map[replyKey]*reply),
		replyRoom: replyRoom{size: size, clients: make(map[netip.Addr]*replyClient)},
	}
}

// begin reports whether to execute c now. If not, c was answered, or will be.
func (rc *replyCache) begin(s *Server, c *Call) bool {
	k := rc.key(c)
	for asked, detached := false, false; ; {
		now := rc.now()
		rc.mu.Lock()
		o := rc.ownerLocked(c.Conn)
		m := rc.matchLocked(k, o, &c.Cred, now)
		e := m.entry
		switch {
		case len(m.others()) > 0 && !asked:
			// Conn.Left tells whether the other connections live. It must be called without the
			// lock.
			rc.mu.Unlock()
			rc.ask(m.others())
			asked = true
		case e != nil && e.done:
			rc.count.Hits++
			e.shared = e.shared || e.kept.Size() > 0
			kept := e.kept
			e.at = now
			if e.owner.id >= o.id && e.in == &e.owner.safe {
				e.put(e.in) // make it the newest of its list
			} else {
				rc.unlinkLocked(e)
				e.claim(o)
				rc.linkLocked(e)
			}
			rc.mu.Unlock()
			s.answer(c, &kept)
			return false
		case e == nil && (m.lags || o.succeeded) && !c.Early:
			// The client already makes the call on a newer connection. If this is another client
			// with the same key, it will repeat the call on its next connection, because this one
			// ends.
			o.succeeded = true
			rc.count.Lagging++
			rc.mu.Unlock()
			s.turnAway(c, DropAndEnd)
			s.leave()
			return false
		case (e != nil || m.running != nil && !c.Early) && !detached:
			// The call must be detached before other goroutines can find it among the waiting
			// ones.
			rc.mu.Unlock()
			c.detach()
			detached = true
		case (e != nil || m.running != nil && !c.Early) && c.lost():
			rc.mu.Unlock()
			s.abandon(c)
			return false
		case e != nil || m.running != nil && !c.Early:
			if c.state.apart = e == nil; c.state.apart {
				// Run it after the other call: of two WRITEs, the older must not end last.
				e = m.running
				e.owner.succeeded = true
			} else {
				e.claim(o)
			}
			rc.count.Joined++
			c.state.lender = nil // the receiving goroutine goes on
			e.joinLocked(o, c)
			rc.mu.Unlock()
			return false
		default:
			if !c.Early {
				rc.count.Misses++
				if m.count >= maxTwins && m.oldest != nil {
					rc.discardLocked(m.oldest)
				}
				c.state.entry = rc.addLocked(k, o)
			}
			rc.mu.Unlock()
			return true
		}
	}
}

// A match is the result of a search for entries of a call.
type match struct {
	entry *reply // answers the call
	// If the call's connection has no entry of its own: conns are the count connections with
	// entries that may be another client's, running is a running one of their entries, and oldest
	// is the oldest finished one. lags: one of these connections is newer than the call's.
	conns           [maxTwins + 1]*Conn
	count           int
	running, oldest *reply
	lags            bool
}

func (m *match) others() []*Conn { return m.conns[:m.count] }

// matchLocked looks for an entry that answers a call of connection o. An entry of another owner
// answers it in these cases:
//   - The credential names the client, by its machine or a proven principal. Two clients behind
//     one address differ in that, and clients choose their XIDs at random.
//   - The owner has ended.
//   - The owner's peer has left it (Conn.Left): it has closed its side, or does not
//     acknowledge data.
//   - Both connections have the same port, which only one client can have.
func (rc *replyCache) matchLocked(k replyKey, o *replyOwner, cred *Cred, now time.Time) (m match) {
	named := len(cred.Machine) > 0 || cred.Principal != ""
	for e := rc.entries[k]; e != nil; {
		from, older := e.owner, e.twin
		switch {
		case e.done && now.Sub(e.at) > replyLife:
			rc.count.Expired++
			rc.discardLocked(e)
		case from == o:
			return match{entry: e}
		case named || from.conn == nil || from.left || from.peer == o.peer:
			if m.entry == nil {
				m.entry = e
			}
		default:
			m.conns[m.count] = from.conn
			m.count++
			if e.done {
				m.oldest = e
			} else {
				m.running = e
			}
			m.lags = m.lags || from.id > o.id
		}
		e = older
	}
	return m
}

// ask notes which connections their peers have left.
func (rc *replyCache) ask(conns []*Conn) {
	for _, c := range conns {
		if c.Left != nil && c.Left() {
			rc.mu.Lock()
			c.owner.left = true
			rc.mu.Unlock()
		}
	}
}

// ownerLocked returns the owner that represents c.
func (rc *replyCache) ownerLocked(c *Conn) *replyOwner {
	if c.owner == nil {
		c.owner = &replyOwner{id: c.ID, peer: c.Peer, ownerRoom: ownerRoom{window: c.Window}}
		if c.owner.window <= 0 {
			c.owner.window = defaultWindow
		}
		if c.server != nil { // its end will be reported to the cache
			c.owner.conn = c
		}
	}
	return c.owner
}

// ended notes that a connection has ended. It returns the connection's copies that wait, because
// no peer is left to answer.
func (rc *replyCache) ended(c *Conn) (left *Call) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	o := rc.ownerLocked(c)
	o.conn = nil
	for e := range o.joined {
		for at := &e.waiting; *at != nil; {
			if k := *at; k.Conn == c {
				*at = k.state.next
				k.state.next, left = left, k
			} else {
				at = &k.state.next
			}
		}
	}
	o.joined = nil
	return left
}

// joinLocked has c, a copy by connection o, wait for the end of e's call.
func (e *reply) joinLocked(o *replyOwner, c *Call) {
	c.state.next, e.waiting = e.waiting, c
	if o.joined == nil {
		o.joined = make(map[*reply]struct{})
	}
	o.joined[e] = struct{}{}
}

// partLocked returns the copies that wait for the end of e's call, which has come.
func (e *reply) partLocked() (waiting *Call) {
	waiting, e.waiting = e.waiting, nil
	for c := waiting; c != nil; c = c.state.next {
		delete(c.Conn.owner.joined, e)
	}
	return waiting
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
	e := rc.unused
	if e != nil {
		rc.unused = e.twin
	} else {
		e = new(reply)
	}
	e.key, e.owner, e.twin = k, o, rc.entries[k]
	rc.entries[k] = e
	rc.count.Entries++
	return e
}

// finish keeps the result of the call of e. It returns the copies that wait, and the result to
// answer them with.
func (rc *replyCache) finish(e *reply, c *Call, w *xdr.Writer, out Outcome) (waiting *Call, kept Kept) {
	e.kept.Keep(c, w, out) // e is running: only e.waiting is shared with other goroutines
	now := rc.now()
	rc.mu.Lock()
	defer rc.mu.Unlock()
	if waiting = e.partLocked(); waiting != nil {
		e.shared, kept = true, e.kept
	}
	switch {
	case out.Auth != AuthOK:
		// Nothing was executed. The client may repeat the call with a better credential.
		rc.removeLocked(e)
	case e.cost() > rc.size/4:
		rc.count.Oversize++
		rc.removeLocked(e)
	default:
		rc.sweepLocked(e.owner, now)
		e.done, e.at = true, now
		rc.linkLocked(e)
	}
	return waiting, kept
}

// forget removes e, whose call gets no answer, and returns the copies that wait for it.
func (rc *replyCache) forget(e *reply) (waiting *Call) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	waiting = e.partLocked()
	rc.removeLocked(e)
	return waiting
}

// discardLocked forgets a finished reply.
func (rc *replyCache) discardLocked(e *reply) {
	rc.unlinkLocked(e)
	rc.removeLocked(e)
}

// removeLocked removes an entry that is not linked in the replyRoom.
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
	body, marks := e.kept.body[:0], e.kept.marks[:0]
	if e.shared || cap(body) > 4*entryCost {
		body, marks = nil, nil
	}
	*e = reply{twin: rc.unused, kept: Kept{body: body, marks: marks}}
	rc.unused = e
}

func (rc *replyCache) stats() ReplyCacheStats {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	st := rc.count
	st.Bytes = rc.bytes
	return st
}
