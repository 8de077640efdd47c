package rpc

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// sampled is how many bytes of the start, and of the end, of long arguments tell two
// calls apart that have the same XID: a digest of all the data of a WRITE would cost as
// much as the WRITE.
const sampled = 2 << 10

// replyLife is how long a reply is remembered after it was made, or last asked for. A Linux
// client that gets no answer over TCP sends a call again after 1, 3 and 6 minutes (nfs(5),
// timeo), and its connection may lose each answer.
const replyLife = 15 * time.Minute

// A replyCache knows the calls that must not be executed twice, and their replies (RFC
// 1813 §4.5, RFC 7530 §3.1.1).
//
// Two calls are the same if client address, XID, program, version, procedure, credential
// and a digest of the arguments are. A call of which none the same is known gets an entry.
// The entry is running until the call ends. Then it holds the reply, for replyLife or until
// there is no room (replyRoom). A call that was refused for its credential, or dropped,
// leaves no entry.
//
// An entry has an owner: the newest connection that made the call. A copy on the owner is
// answered: from the entry, or, if the entry is running, when it ends. A copy on another
// connection may claim the entry if
//
//   - the credential names the client: its machine, or a proven principal. Two clients
//     behind one address differ in that. Clients choose their XIDs by chance.
//   - the owner has ended,
//   - the owner's peer has left it (Conn.Left): it has closed its side, or does not
//     acknowledge what it is sent,
//   - the two have the same port: a client cannot have both.
//
// Then the copy is answered in the same way, and the entry goes to the newer one of both. A
// connection that lost an entry so is succeeded: its client makes all its calls again on the
// newer one. What is still read of it is older than those, so no change of it begins.
//
// Otherwise the copy may be of another client behind the same address:
//
//   - if the owner is older, the copy gets an entry of its own. But while the owner's entry
//     is running, the copy waits, and the owner counts as succeeded: it may be given up and
//     not known to be, and then the older of two WRITEs must not end last.
//   - if the owner is newer, the copy lags behind it. The lagging connection ends: its
//     client has given it up, or connects anew and is the newer one.
//
// Every call is answered on the connection by which it came, as long as that one lives.
type replyCache struct {
	seed maphash.Seed
	now  func() time.Time

	mu      sync.Mutex
	entries map[replyKey]*reply // the newest of those with the same key
	unused  *reply
	replyRoom
	count ReplyCacheStats
}

// maxTwins is how many connections may have done the same call each for itself.
const maxTwins = 4

type replyKey struct {
	addr [16]byte
	xid  uint32
	sum  uint64
}

// A reply is one entry.
type reply struct {
	key   replyKey
	owner *replyOwner
	twin  *reply // an older one with the same key, or the next unused one
	done  bool
	at    time.Time // when it was done, or asked for last
	// waiting are the copies of a running call, linked by callState.next.
	waiting *Call
	kept    Kept
	shared  bool // a reply is sent from kept: its memory is not to be used again
	// links in the owner's list of what is done
	prev, next *reply
}

func newReplyCache(size int64) *replyCache {
	return &replyCache{
		seed: maphash.MakeSeed(), now: time.Now,
		entries:   make(map[replyKey]*reply),
		replyRoom: replyRoom{size: size, clients: make(map[netip.Addr]*replyClient)},
	}
}

// identity is what tells calls with one XID apart. A result goes to the caller who earned
// it, protected as it was.
type identity struct {
	arguments, beside, groups, principal, machine uint64
	prog, version, proc                           uint32
	flavor                                        Flavor
	gss                                           GSSService
	uid, gid                                      uint32
}

func (rc *replyCache) key(c *Call) replyKey {
	h := &c.Header
	id := identity{
		arguments: rc.digest(c.Args.Rest()),
		groups:    rc.groups(c.Cred.Groups),
		principal: maphash.String(rc.seed, c.Cred.Principal),
		machine:   maphash.Bytes(rc.seed, c.Cred.Machine),
		prog:      h.Program, version: h.Version, proc: h.Procedure,
		flavor: c.Cred.Flavor, gss: c.Cred.GSS, uid: c.Cred.UID, gid: c.Cred.GID,
	}
	for i := range c.Excised {
		id.beside = maphash.Comparable(rc.seed, [2]uint64{id.beside, rc.digest(c.Excised[i].Data)})
	}
	if c.Cred.Principal != "" {
		// Its numbers may have become known since.
		id.groups, id.uid, id.gid = 0, 0, 0
	}
	return replyKey{addr: c.Conn.Peer.Addr().As16(), xid: h.XID, sum: maphash.Comparable(rc.seed, id)}
}

// digest tells bytes apart by their number, and by those at either end.
func (rc *replyCache) digest(b []byte) uint64 {
	if len(b) <= 2*sampled {
		return maphash.Bytes(rc.seed, b)
	}
	return maphash.Comparable(rc.seed, [3]uint64{
		uint64(len(b)), maphash.Bytes(rc.seed, b[:sampled]), maphash.Bytes(rc.seed, b[len(b)-sampled:]),
	})
}

func (rc *replyCache) groups(list []uint32) (sum uint64) {
	for _, g := range list {
		sum = maphash.Comparable(rc.seed, [2]uint64{sum, uint64(g) + 1})
	}
	return sum
}

// begin says whether c is to be executed now. If not, it was answered, or will be.
func (rc *replyCache) begin(s *Server, c *Call) bool {
	k, named := rc.key(c), len(c.Cred.Machine) > 0 || c.Cred.Principal != ""
	for asked, detached := false, false; ; {
		now := rc.now()
		rc.mu.Lock()
		o := rc.ownerLocked(c.Conn)
		e, rivals, lags := rc.findLocked(k, o, named, now)
		switch {
		case rivals[0] != nil && !asked:
			// Their transport knows whether they live. It is not asked under the lock.
			rc.mu.Unlock()
			rc.ask(rivals)
			asked = true
		case e != nil && e.done:
			rc.count.Hits++
			rc.claimLocked(e, o)
			e.at = now
			e.owner.renew(e)
			e.shared = e.shared || e.kept.Size() > 0
			kept := e.kept
			rc.mu.Unlock()
			s.answer(c, &kept)
			return false
		case e == nil && (lags || o.succeeded) && !c.Early:
			o.succeeded = true
			rc.count.Lagging++
			rc.mu.Unlock()
			s.turnAway(c, DropAndEnd)
			s.leave()
			return false
		case e != nil || rivals[0] != nil && !rivals[0].done && !c.Early:
			if !detached {
				// It must be able to wait before others can see that it does.
				rc.mu.Unlock()
				c.detach()
				detached = true
				continue
			}
			rc.count.Joined++
			if c.state.apart = e == nil; e == nil {
				e = rivals[0]
				e.owner.succeeded = true
			} else {
				rc.claimLocked(e, o)
			}
			c.state.lender = nil // its goroutine goes on
			c.state.next, e.waiting = e.waiting, c
			rc.mu.Unlock()
			return false
		default:
			if !c.Early {
				rc.count.Misses++
				c.state.entry = rc.addLocked(k, o)
			}
			rc.mu.Unlock()
			return true
		}
	}
}

// rivals are entries with one key whose owners live, the one that is running first.
type rivals [maxTwins + 1]*reply

// findLocked returns the entry that answers a call of connection o with key k, or nil.
// named: the credential names the client. Unless the entry is o's own, r are the entries that
// o may not claim, and lags says that one of these belongs to a newer connection.
func (rc *replyCache) findLocked(k replyKey, o *replyOwner, named bool, now time.Time) (found *reply, r rivals, lags bool) {
	n := 0
	for e := rc.entries[k]; e != nil; {
		older := e.twin
		switch {
		case e.done && now.Sub(e.at) > replyLife:
			rc.count.Expired++
			rc.discardLocked(e)
		case e.owner == o:
			return e, rivals{}, false
		case named || e.owner.gives(o):
			if found == nil {
				found = e
			}
		default:
			r[n] = e
			if !e.done {
				r[0], r[n] = e, r[0]
			}
			n++
			lags = lags || e.owner.id > o.id
		}
		e = older
	}
	return found, r, lags
}

// ask notes which owners of rivals have left.
func (rc *replyCache) ask(r rivals) {
	var left [len(r)]*Conn
	rc.mu.Lock()
	for i, e := range r {
		if e != nil && e.owner != nil {
			left[i] = e.owner.conn
		}
	}
	rc.mu.Unlock()
	for _, c := range left {
		if c != nil && c.Left != nil && c.Left() {
			rc.mu.Lock()
			c.owner.left = true
			rc.mu.Unlock()
		}
	}
}

// addLocked makes a running entry. Of too many twins the oldest goes.
func (rc *replyCache) addLocked(k replyKey, o *replyOwner) *reply {
	e := rc.unused
	if e != nil {
		rc.unused = e.twin
	} else {
		e = new(reply)
	}
	e.key, e.owner, e.twin = k, o, rc.entries[k]
	n, oldest := 0, (*reply)(nil)
	for t := e.twin; t != nil; t = t.twin {
		if n++; t.done {
			oldest = t
		}
	}
	rc.entries[k] = e
	if n >= maxTwins && oldest != nil {
		rc.discardLocked(oldest)
	}
	rc.count.Entries++
	rc.heldLocked(o, 1)
	rc.shrinkLocked()
	return e
}

// claimLocked makes e the entry of o, if that is newer than its owner.
func (rc *replyCache) claimLocked(e *reply, o *replyOwner) {
	from := e.owner
	if from.id >= o.id {
		return
	}
	from.succeeded = true
	if e.done {
		rc.unlinkLocked(e)
	}
	e.owner = o
	rc.heldLocked(o, 1)
	rc.heldLocked(from, -1)
	if e.done {
		rc.linkLocked(e)
	}
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
		e.done, e.at = true, now
		rc.linkLocked(e)
		rc.sweepLocked(e.owner, now)
		rc.shrinkLocked()
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

// removeLocked takes an entry that is on no list out of the cache.
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
	rc.heldLocked(e.owner, -1)
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
