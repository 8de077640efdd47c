package rpc

import (
	"hash/maphash"
	"math/bits"
	"net/netip"
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// sampled is how many bytes of the start, and of the end, of long arguments tell two
// calls apart that have the same XID: a digest of all the data of a WRITE would cost as
// much as the WRITE.
const sampled = 2 << 10

// replyLife is how long a reply is remembered: a client that did not get it has
// asked again by then.
const replyLife = 2 * time.Minute

// entryCost is what an entry is reckoned to occupy beside its results, in bytes.
const entryCost = 320

// maxReplyShards is the greatest number of independently locked parts of a large cache, and
// shardBytes what each part holds at least.
const (
	maxReplyShards = 16
	shardBytes     = 256 << 10
)

// replyCache knows the calls that must not be executed twice, or not beside each
// other. A call is known by its client's address (not the port: a client that lost
// its connection sends again over a new one), XID, procedure, and a checksum of its
// credential and the start of its arguments. It is bounded by the memory that it
// occupies; of that each client has its part.
type replyCache struct {
	seed   maphash.Seed
	shards []replyShard
	shift  int
	now    func() time.Time
}

type replyKey struct {
	addr                [16]byte
	xid                 uint32
	prog, version, proc uint32
	sum                 uint64
}

type replyShard struct {
	mu       sync.Mutex
	entries  map[replyKey]*replyEntry
	clients  map[[16]byte]*replyClient
	unused   *replyEntry
	bytes    int64
	maxBytes int64

	hits, joined, misses, evicted, expired, oversize uint64
}

// A replyClient is what one client address has in a shard.
type replyClient struct {
	oldest, newest *replyEntry // of those that are done
	entries        int
	bytes          int64
}

// A replyEntry is one call: running, until finish, then done.
type replyEntry struct {
	key    replyKey
	shard  *replyShard
	client *replyClient
	at     time.Time // when it was done
	done   bool
	// waiting are the duplicates of a running call, linked by callState.next.
	waiting    *Call
	kept       Kept
	shared     bool // a reply is sent from kept: its memory is not to be used again
	prev, next *replyEntry
}

func newReplyCache(size int64) *replyCache {
	n := 1
	for n < maxReplyShards && size/int64(2*n) >= shardBytes {
		n *= 2
	}
	rc := &replyCache{
		seed:   maphash.MakeSeed(),
		shards: make([]replyShard, n),
		shift:  32 - bits.Len(uint(n-1)),
		now:    time.Now,
	}
	for i := range rc.shards {
		rc.shards[i].entries = make(map[replyKey]*replyEntry)
		rc.shards[i].clients = make(map[[16]byte]*replyClient)
		rc.shards[i].maxBytes = size / int64(n)
	}
	return rc
}

// identity is what of a credential goes into the checksum: a result is replayed
// to the caller who earned it.
type identity struct {
	arguments, beside, groups, principal uint64
	flavor                               Flavor
	uid, gid                             uint32
}

func (rc *replyCache) key(c *Call) replyKey {
	var beside uint64
	for i := range c.Excised {
		beside = maphash.Comparable(rc.seed, [2]uint64{beside, rc.digest(c.Excised[i].Data)})
	}
	h := &c.Header
	id := identity{
		arguments: rc.digest(c.Args.Rest()),
		beside:    beside,
		groups:    rc.groups(c.Cred.Groups),
		principal: maphash.String(rc.seed, c.Cred.Principal),
		flavor:    c.Cred.Flavor, uid: c.Cred.UID, gid: c.Cred.GID,
	}
	if c.Cred.Principal != "" {
		// Its numbers may have become known since.
		id.groups, id.uid, id.gid = 0, 0, 0
	}
	return replyKey{
		addr: clientOf(c.Conn.Peer.Addr()),
		xid:  h.XID, prog: h.Program, version: h.Version, proc: h.Procedure,
		sum: maphash.Comparable(rc.seed, id),
	}
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

func clientOf(a netip.Addr) [16]byte { return a.As16() }

func (rc *replyCache) groups(list []uint32) (sum uint64) {
	for _, g := range list {
		sum = maphash.Comparable(rc.seed, [2]uint64{sum, uint64(g) + 1})
	}
	return sum
}

func (rc *replyCache) shard(k *replyKey) *replyShard {
	x := (k.xid ^ uint32(k.sum)) * 0x9e3779b1
	return &rc.shards[x>>rc.shift&uint32(len(rc.shards)-1)]
}

// begin says whether c is to be executed now. If not, it was answered, or waits for the
// answer of the call that it repeats.
func (rc *replyCache) begin(s *Server, c *Call) bool {
	k := rc.key(c)
	sh := rc.shard(&k)
	for detached := false; ; {
		sh.mu.Lock()
		e := sh.entries[k]
		if e != nil && e.done && rc.now().Sub(e.at) > replyLife {
			sh.expired++
			sh.discard(e)
			e = nil
		}
		switch {
		case e == nil:
			e = sh.add(k)
			c.state.entry = e
			sh.misses++
			sh.mu.Unlock()
			return true
		case e.done:
			sh.hits++
			sh.unlink(e)
			sh.link(e)
			e.shared = e.shared || e.kept.Size() > 0
			kept := e.kept
			sh.mu.Unlock()
			s.answer(c, &kept)
			return false
		case !detached:
			// It must be able to wait before others can see that it does.
			sh.mu.Unlock()
			c.detach()
			detached = true
		default:
			c.state.next, e.waiting = e.waiting, c
			sh.joined++
			sh.mu.Unlock()
			return false
		}
	}
}

// finish keeps what the call of e came to, and returns the duplicates that came
// meanwhile, with what they are to be answered.
func (rc *replyCache) finish(e *replyEntry, c *Call, w *xdr.Writer, out Outcome) (waiting *Call, kept Kept) {
	sh := e.shard
	sh.mu.Lock()
	defer sh.mu.Unlock()
	waiting, e.waiting = e.waiting, nil
	e.kept.Keep(c, w, out)
	size := int64(e.kept.Size())
	switch {
	case out.Auth != AuthOK:
		// Nothing was done. The same call with a better credential may come.
		kept = e.give(waiting)
		sh.remove(e)
	case entryCost+size > sh.maxBytes/4:
		sh.oversize++
		kept = e.give(waiting)
		sh.remove(e)
	default:
		e.done, e.at = true, rc.now()
		for old := e.client.oldest; old != nil && e.at.Sub(old.at) > replyLife; old = e.client.oldest {
			sh.expired++
			sh.discard(old)
		}
		sh.link(e)
		sh.charge(e.client, size)
		sh.shrink(e)
		kept = e.give(waiting)
	}
	return waiting, kept
}

func (e *replyEntry) give(waiting *Call) Kept {
	if waiting == nil {
		return Kept{}
	}
	e.shared = true
	return e.kept
}

// forget drops e, whose call has no answer, and returns the duplicates that wait for
// one.
func (rc *replyCache) forget(e *replyEntry) (waiting *Call) {
	sh := e.shard
	sh.mu.Lock()
	defer sh.mu.Unlock()
	waiting = e.waiting
	sh.remove(e)
	return waiting
}

// The functions below are called with the shard locked.

func (sh *replyShard) add(k replyKey) *replyEntry {
	cl := sh.clients[k.addr]
	if cl == nil {
		cl = new(replyClient)
		sh.clients[k.addr] = cl
	}
	e := sh.unused
	if e != nil {
		sh.unused = e.next
		e.next = nil
	} else {
		e = &replyEntry{shard: sh}
	}
	e.key, e.client = k, cl
	sh.entries[k] = e
	cl.entries++
	sh.charge(cl, entryCost)
	sh.shrink(e)
	return e
}

func (sh *replyShard) charge(cl *replyClient, n int64) {
	sh.bytes += n
	cl.bytes += n
}

// shrink makes room. A client that holds more than its part loses its own oldest
// reply; where the client of e does not, the one that holds most loses its. keep
// stays.
func (sh *replyShard) shrink(keep *replyEntry) {
	for sh.bytes > sh.maxBytes {
		cl := keep.client
		if cl.bytes*int64(len(sh.clients)) < sh.maxBytes || cl.oldest == nil || cl.oldest == keep {
			cl = nil
			for _, other := range sh.clients {
				if other.oldest != nil && other.oldest != keep && (cl == nil || other.bytes > cl.bytes) {
					cl = other
				}
			}
			if cl == nil {
				return // all that is left is running
			}
		}
		sh.evicted++
		sh.discard(cl.oldest)
	}
}

// discard forgets a reply.
func (sh *replyShard) discard(e *replyEntry) {
	sh.unlink(e)
	sh.charge(e.client, -int64(e.kept.Size()))
	sh.remove(e)
}

// remove takes an entry that is on no list out of the cache.
func (sh *replyShard) remove(e *replyEntry) {
	delete(sh.entries, e.key)
	cl := e.client
	sh.charge(cl, -entryCost)
	if cl.entries--; cl.entries == 0 {
		delete(sh.clients, e.key.addr)
	}
	body, marks := e.kept.body[:0], e.kept.marks[:0]
	if e.shared || cap(body) > 4*entryCost {
		body, marks = nil, nil
	}
	*e = replyEntry{shard: sh, next: sh.unused, kept: Kept{body: body, marks: marks}}
	sh.unused = e
}

func (sh *replyShard) link(e *replyEntry) {
	cl := e.client
	e.prev, e.next = cl.newest, nil
	if cl.newest != nil {
		cl.newest.next = e
	} else {
		cl.oldest = e
	}
	cl.newest = e
}

func (sh *replyShard) unlink(e *replyEntry) {
	cl := e.client
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		cl.oldest = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	} else {
		cl.newest = e.prev
	}
	e.prev, e.next = nil, nil
}

func (rc *replyCache) stats() (st ReplyCacheStats) {
	for i := range rc.shards {
		sh := &rc.shards[i]
		sh.mu.Lock()
		st.Hits += sh.hits
		st.Joined += sh.joined
		st.Misses += sh.misses
		st.Evicted += sh.evicted
		st.Expired += sh.expired
		st.Oversize += sh.oversize
		st.Entries += len(sh.entries)
		st.Bytes += sh.bytes
		sh.mu.Unlock()
	}
	return st
}
