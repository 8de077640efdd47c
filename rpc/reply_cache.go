package rpc

import (
	"hash/maphash"
	"math/bits"
	"sync"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// MaxArgsPrefix is how many bytes of a call's arguments count for telling two
// calls apart.
const MaxArgsPrefix = 256

// entryCost is what an entry is reckoned to occupy beside its results, in bytes.
const entryCost = 256

// maxReplyShards is the number of independently locked parts of a large cache.
const maxReplyShards = 16

// replyCache remembers the results of calls that must not be executed twice.
// A call is known by its client's address (not the port: a client that lost its
// connection sends again over a new one), XID, procedure, and a checksum of its
// credential and the start of its arguments. What is kept is the results with
// the places of their payloads, before verifier and chunks, which belong to each
// request: a replay is framed anew for the duplicate that asks for it.
type replyCache struct {
	seed   maphash.Seed
	shards []replyShard
	shift  int
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
	oldest   *replyEntry // of those that are done
	newest   *replyEntry
	unused   *replyEntry
	bytes    int64
	maxBytes int64
	max      int // entries

	hits, joined, misses, evicted, oversize uint64
}

// A replyEntry is one call: running, until finish, then done.
type replyEntry struct {
	key        replyKey
	shard      *replyShard
	done       bool
	heir       *Call // the latest duplicate of a running call
	kept       results
	shared     bool // somebody sends from kept.body: it is not to be used again
	prev, next *replyEntry
}

// results are what a call came to, kept for replays.
type results struct {
	auth  AuthStat
	stat  AcceptStat
	body  []byte // the words, then the contents of the payloads
	words int    // how much of body is words
	marks []mark
}

// mark is a payload's place: the position among the words, and the length.
type mark struct {
	at, length int
	eligible   bool
}

func newReplyCache(entries int, size int64) *replyCache {
	n := 1
	for n < maxReplyShards && entries/(2*n) >= 64 {
		n *= 2
	}
	rc := &replyCache{
		seed:   maphash.MakeSeed(),
		shards: make([]replyShard, n),
		shift:  32 - bits.Len(uint(n-1)),
	}
	for i := range rc.shards {
		rc.shards[i].entries = make(map[replyKey]*replyEntry)
		rc.shards[i].max = entries / n
		rc.shards[i].maxBytes = size / int64(n)
	}
	return rc
}

// identity is what of a credential goes into the checksum: a result is replayed
// to who earned it.
type identity struct {
	sum      uint64
	flavor   Flavor
	uid, gid uint32
}

func (rc *replyCache) key(c *Call) replyKey {
	rest := c.Args.Rest()
	n := len(rest)
	if f := c.state.row.ArgsPrefix; f != nil {
		n = max(0, min(n, f(c.Args)))
	}
	h := &c.Header
	return replyKey{
		addr: c.Conn.Peer.Addr().As16(),
		xid:  h.XID, prog: h.Program, version: h.Version, proc: h.Procedure,
		sum: maphash.Comparable(rc.seed, identity{
			sum:    maphash.Bytes(rc.seed, rest[:min(n, MaxArgsPrefix)]),
			flavor: c.Cred.Flavor, uid: c.Cred.UID, gid: c.Cred.GID,
		}),
	}
}

func (rc *replyCache) shard(k *replyKey) *replyShard {
	x := (k.xid ^ uint32(k.sum)) * 0x9e3779b1
	return &rc.shards[x>>rc.shift&uint32(len(rc.shards)-1)]
}

// begin says whether c is new and to be executed. Where it is not, it was
// answered, or waits for the answer of the call that it repeats.
func (rc *replyCache) begin(s *Server, c *Call) bool {
	k := rc.key(c)
	sh := rc.shard(&k)
	for detached := false; ; {
		sh.mu.Lock()
		e := sh.entries[k]
		switch {
		case e == nil:
			c.state.entry = sh.add(k)
			sh.misses++
			sh.mu.Unlock()
			return true
		case e.done:
			sh.hits++
			sh.unlink(e)
			sh.link(e)
			e.shared = e.shared || len(e.kept.body) > 0
			kept := e.kept
			sh.mu.Unlock()
			s.answer(c, &kept)
			return false
		case !detached:
			// It must be able to wait before anybody can see that it does.
			sh.mu.Unlock()
			c.Detach()
			detached = true
		default:
			older := e.heir
			e.heir = c
			sh.joined++
			sh.mu.Unlock()
			if older != nil {
				s.supersede(older)
			}
			return false
		}
	}
}

// finish keeps what the call of e came to, and returns the duplicate that took
// over its way, if there is one, with what it is to be answered.
func (rc *replyCache) finish(e *replyEntry, w *xdr.Writer, out Outcome) (heir *Call, kept results) {
	sh := e.shard
	sh.mu.Lock()
	defer sh.mu.Unlock()
	heir = e.heir
	e.heir = nil
	e.kept.take(w, out)
	cost := entryCost + int64(len(e.kept.body))
	switch {
	case out.Auth != AuthOK:
		// Nothing was done. The same call with a better credential may come.
		kept = e.give(heir)
		sh.remove(e)
	case cost > sh.maxBytes/4:
		sh.oversize++
		kept = e.give(heir)
		sh.remove(e)
	default:
		e.done = true
		sh.link(e)
		sh.bytes += cost
		for sh.bytes > sh.maxBytes && sh.oldest != e {
			sh.evict()
		}
		kept = e.give(heir)
	}
	return heir, kept
}

func (e *replyEntry) give(heir *Call) results {
	if heir == nil {
		return results{}
	}
	e.shared = true
	return e.kept
}

// forget drops e, whose call has no answer, and returns the duplicate that waits
// for one, if there is.
func (rc *replyCache) forget(e *replyEntry) (heir *Call) {
	sh := e.shard
	sh.mu.Lock()
	defer sh.mu.Unlock()
	heir = e.heir
	sh.remove(e)
	return heir
}

func (sh *replyShard) add(k replyKey) *replyEntry {
	for len(sh.entries) >= sh.max && sh.oldest != nil {
		sh.evict()
	}
	e := sh.unused
	if e != nil {
		sh.unused = e.next
		e.next = nil
	} else {
		e = &replyEntry{shard: sh}
	}
	e.key = k
	sh.entries[k] = e
	return e
}

func (sh *replyShard) evict() {
	e := sh.oldest
	sh.evicted++
	sh.bytes -= entryCost + int64(len(e.kept.body))
	sh.unlink(e)
	sh.remove(e)
}

// remove takes an entry that is on no list out of the cache.
func (sh *replyShard) remove(e *replyEntry) {
	delete(sh.entries, e.key)
	body, marks := e.kept.body[:0], e.kept.marks[:0]
	if e.shared || cap(body) > 4*entryCost {
		body, marks = nil, nil
	}
	*e = replyEntry{shard: sh, next: sh.unused, kept: results{body: body, marks: marks}}
	sh.unused = e
}

func (sh *replyShard) link(e *replyEntry) {
	e.prev, e.next = sh.newest, nil
	if sh.newest != nil {
		sh.newest.next = e
	} else {
		sh.oldest = e
	}
	sh.newest = e
}

func (sh *replyShard) unlink(e *replyEntry) {
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		sh.oldest = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	} else {
		sh.newest = e.prev
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
		st.Oversize += sh.oversize
		st.Entries += len(sh.entries)
		st.Bytes += sh.bytes
		sh.mu.Unlock()
	}
	return st
}

// take copies what w holds behind its reply header.
func (r *results) take(w *xdr.Writer, out Outcome) {
	r.auth, r.stat = out.Auth, out.Stat
	r.body, r.marks, r.words = r.body[:0], r.marks[:0], 0
	if out.Auth != AuthOK || out.Stat != Success {
		return
	}
	r.body = append(r.body, w.Bytes()[ReplyHeader:]...)
	r.words = len(r.body)
	for _, p := range w.Payloads() {
		r.body = append(r.body, p.Data...)
		r.marks = append(r.marks, mark{p.Position - ReplyHeader, len(p.Data), p.Eligible})
	}
}

// put writes the results as they were written first.
func (r *results) put(w *xdr.Writer) {
	at, content := 0, r.body[r.words:]
	for _, m := range r.marks {
		w.FixedOpaque(r.body[at : m.at-4]) // the count is Payload's to write
		w.Payload(content[:m.length:m.length], m.eligible, nil)
		at, content = m.at, content[m.length:]
	}
	w.FixedOpaque(r.body[at:r.words])
}
