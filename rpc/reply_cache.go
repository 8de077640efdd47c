package rpc

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// A replyCache has an entry for each call that changes something (RFC 1813 §4.5, RFC 7530
// §3.1.1). The entry is running until its call ends. Then it holds the reply.
//
// Calls with the same replyKey look the same. An entry belongs to the newest connection that
// made the call: its owner. A call of the owner is a copy. A call of another connection is one
// if its client cannot be another one than the owner's (matchLocked). A copy is not executed:
// it is answered from the entry, or, if the entry is running, when it ends. What only looks
// the same is executed, after the other. Then two connections have entries with one key: twins.
//
// A reply is forgotten replyLife after it was made or asked for, or for lack of room
// (replyRoom). A call that was refused for its credential, or dropped, leaves no entry.
//
// Every call is answered on the connection by which it came, as long as that one lives.
type replyCache struct {
	seed maphash.Seed
	now  func() time.Time

	mu      sync.Mutex
	entries map[replyKey]*reply // the newest with each key
	unused  *reply
	replyRoom
	count ReplyCacheStats
}

// replyLife: a Linux client that gets no answer over TCP sends a call again after 1, 3 and 6
// minutes (nfs(5), timeo), and its connection may lose each answer.
const replyLife = 15 * time.Minute

// maxTwins is how many connections may have an entry with one key.
const maxTwins = 4

// A reply is one entry.
type reply struct {
	replyPlace
	key     replyKey
	owner   *replyOwner
	twin    *reply // the next older one with the same key, or the next unused one
	done    bool
	at      time.Time // when it was done, or asked for last
	waiting *Call     // copies of a running call, linked by callState.next
	kept    Kept
	shared  bool // a reply is sent from kept: its memory is not to be used again
}

// A replyOwner is a connection as the cache knows it. It may outlive the Conn.
type replyOwner struct {
	id        uint64
	peer      netip.AddrPort
	conn      *Conn // nil: the connection has ended
	left      bool  // its peer has closed its side, or does not acknowledge
	succeeded bool  // its client makes its calls by a newer connection
	ownerRoom
}

func newReplyCache(size int64) *replyCache {
	return &replyCache{
		seed: maphash.MakeSeed(), now: time.Now,
		entries:   make(map[replyKey]*reply),
		replyRoom: replyRoom{size: size, clients: make(map[netip.Addr]*replyClient)},
	}
}

// begin says whether c is to be executed now. If not, it was answered, or will be.
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
			// Their transport knows whether they live. It is not asked under the lock.
			rc.mu.Unlock()
			rc.ask(m.others())
			asked = true
		case e != nil && e.done:
			rc.count.Hits++
			e.shared = e.shared || e.kept.Size() > 0
			kept := e.kept
			e.at = now
			if e.owner.id >= o.id && e.in == &e.owner.safe {
				e.put(e.in) // it is the newest now
			} else {
				rc.unlinkLocked(e)
				e.claim(o)
				rc.linkLocked(e)
			}
			rc.mu.Unlock()
			s.answer(c, &kept)
			return false
		case e == nil && (m.lags || o.succeeded) && !c.Early:
			// The client makes the call by a newer connection, or, if it is another one,
			// by its next: this one ends.
			o.succeeded = true
			rc.count.Lagging++
			rc.mu.Unlock()
			s.turnAway(c, DropAndEnd)
			s.leave()
			return false
		case (e != nil || m.running != nil && !c.Early) && !detached:
			// It must be able to wait before others can see that it does.
			rc.mu.Unlock()
			c.detach()
			detached = true
		case e != nil || m.running != nil && !c.Early:
			if c.state.apart = e == nil; c.state.apart {
				// It runs afterwards: the older of two WRITEs must not end last.
				e = m.running
				e.owner.succeeded = true
			} else {
				e.claim(o)
			}
			rc.count.Joined++
			c.state.lender = nil // its goroutine goes on
			c.state.next, e.waiting = e.waiting, c
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

// A match is what is known of a call.
type match struct {
	entry *reply // answers it
	// If the call's connection has no entry of its own: the connections that have one
	// which may be another client's, how many they are, and of their entries the one that
	// is running and the oldest that is done. lags: one of them is newer.
	conns           [maxTwins + 1]*Conn
	count           int
	running, oldest *reply
	lags            bool
}

func (m *match) others() []*Conn { return m.conns[:m.count] }

// matchLocked looks for what answers a call of connection o. The caller's client is that of
// another owner if
//   - the credential names it: its machine, or a proven principal. Two clients behind one
//     address differ in that. Clients choose their XIDs by chance.
//   - the owner has ended,
//   - the owner's peer has left it (Conn.Left): it has closed its side, or does not
//     acknowledge what it is sent,
//   - the two have the same port: a client cannot have both.
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

// ask notes which connections the peers have left.
func (rc *replyCache) ask(conns []*Conn) {
	for _, c := range conns {
		if c.Left != nil && c.Left() {
			rc.mu.Lock()
			c.owner.left = true
			rc.mu.Unlock()
		}
	}
}

// ownerLocked is the connection c.
func (rc *replyCache) ownerLocked(c *Conn) *replyOwner {
	if c.owner == nil {
		c.owner = &replyOwner{id: c.ID, peer: c.Peer, ownerRoom: ownerRoom{window: c.Window}}
		if c.owner.window <= 0 {
			c.owner.window = defaultWindow
		}
		if c.server != nil { // it is told of the end
			c.owner.conn = c
		}
	}
	return c.owner
}

// ended takes note that a connection is gone.
func (rc *replyCache) ended(c *Conn) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	rc.ownerLocked(c).conn = nil
}

// claim makes e the entry of o, if that is newer than its owner. Then the client makes all
// its calls again on o. What is still read of the former owner is older than those: it is
// succeeded, and no change of it begins.
func (e *reply) claim(o *replyOwner) {
	if e.owner.id < o.id {
		e.owner.succeeded = true
		e.owner = o
	}
}

// addLocked makes a running entry.
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

// finish keeps what the call of e came to, and returns the copies that wait, with what they
// are to be answered.
func (rc *replyCache) finish(e *reply, c *Call, w *xdr.Writer, out Outcome) (waiting *Call, kept Kept) {
	e.kept.Keep(c, w, out) // e is running: the call's alone but for waiting
	now := rc.now()
	rc.mu.Lock()
	defer rc.mu.Unlock()
	if waiting = e.waiting; waiting != nil {
		e.waiting, e.shared, kept = nil, true, e.kept
	}
	switch {
	case out.Auth != AuthOK:
		// Nothing was done. The same call with a better credential may come.
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

// forget drops e, whose call has no answer, and returns the copies that wait for one.
func (rc *replyCache) forget(e *reply) (waiting *Call) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	waiting = e.waiting
	rc.removeLocked(e)
	return waiting
}

// discardLocked forgets a reply.
func (rc *replyCache) discardLocked(e *reply) {
	rc.unlinkLocked(e)
	rc.removeLocked(e)
}

// removeLocked takes an entry that takes no room out of the cache.
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
