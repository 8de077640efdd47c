package local

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/internal/queue"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A node is a file that the FS holds open with O_PATH. Through that descriptor, calls read
// attributes and add names, but do not read or write data.
type node struct {
	queue.Links[node] // in sweepTurns
	handle            vfs.Handle
	fd                int // opened with O_PATH
	typ               vfs.Type
	ino               uint64
	origin

	refs atomic.Int32  // one for each user, and one while the node is in the cache
	used atomic.Uint32 // round of the sweeper (one a second) at the last use
	turn sweepTurn
	// confinedAt is the value of FS.moves when the directory was last found to lie below the root.
	confinedAt atomic.Uint32
	inode      *inode

	// opens is the number of Files that callers have open, plus one while there are claims. If the file
	// has no name any more (nameless), the cache drops the node when opens falls to 0. The mutex of the
	// node's shard guards both.
	opens    int
	nameless bool

	files    openFiles
	claims   nodeClaims
	unsynced unsyncedFile
	verdicts verdicts
	streams  dirStreams
	memory   dirMemory
	quiet    quietReads
	cache    *nodeCache
}

// put releases a reference. If it was the last one, put closes n's descriptors, which may block;
// calls with Op.Try use FS.giveBack instead.
func (n *node) put() {
	if n.release() {
		n.close()
	}
}

// release releases a reference. It returns true if that was the last one; then the caller closes
// n. If the file still exists then and has unsynced data, release also changes the verifier,
// because no later COMMIT could sync that data.
func (n *node) release() bool {
	if n.refs.Add(-1) > 0 {
		return false
	}
	if n.unsynced.listed.Load() && !n.inode.gone.Load() {
		n.cache.syncer.newVerifier()
	}
	return true
}

func (n *node) close() {
	n.forgetData()
	n.closeAll()
	n.cache.inodes.giveBack(n.inode)
	n.cache.host.close(n)
}

// stat reads n's attributes like FS.look, but does not check the link count.
func (n *node) stat(l *look) error {
	n.inode.version.beginLook(l)
	err := n.fstat(l)
	if err == nil {
		n.inode.version.tell(l)
	}
	return err
}

// fstat reads n's attributes. It asks the kernel without the host if that is a raw call: most calls of
// clients make one, and the host would return the attributes by value.
func (n *node) fstat(l *look) (err error) {
	if n.cache.rawAttr {
		return rawFstat(n.fd, &l.Stat_t)
	}
	l.Stat_t, err = n.cache.host.fstat(n.fd)
	return err
}

// A nodeHost is what a nodeCache and its nodes need from the file system and from the FS. Their tests have
// another one, without a file system.
type nodeHost interface {
	now() time.Time
	// fstat reads the attributes of the file that is open on fd.
	fstat(fd int) (unix.Stat_t, error)
	// close closes a node's descriptor when the node has no reference left. It may block.
	close(n *node)
	// closeFD closes a descriptor that no node needs.
	closeFD(fd int)
	// maxNodes returns the limit of nodes in the cache.
	maxNodes() int64
	// pin counts one more node that callers have open. ErrDelay: the limit is reached.
	pin() error
	// unpin undoes pin.
	unpin()
}

const nodeShards = 16

// nodeCache maps handles to nodes and limits the number of nodes.
type nodeCache struct {
	host   nodeHost
	inodes *inodeTable
	syncer *syncer
	root   *node // stays in the cache until drain; nil while there is none
	// memory is true if no other machine and no program changes the attributes of open files (see fsKind).
	memory  bool
	rawAttr bool // see fsKind
	seed    maphash.Seed
	count   atomic.Int64
	round   atomic.Uint32 // rounds of the sweeper so far, one a second
	shrinks atomic.Uint32 // number of calls of shrink
	shards  [nodeShards]nodeShard
}

type nodeShard struct {
	mu    sync.Mutex
	m     map[vfs.Handle]*node
	turns sweepTurns
}

func (c *nodeCache) init(host nodeHost, t *inodeTable, s *syncer) {
	c.host, c.inodes, c.syncer = host, t, s
	c.seed = maphash.MakeSeed()
	for i := range c.shards {
		c.shards[i].m = make(map[vfs.Handle]*node)
	}
}

func (c *nodeCache) shard(h *vfs.Handle) *nodeShard {
	return &c.shards[maphash.Bytes(c.seed, h.Bytes())%nodeShards]
}

// cached returns the node of h with a reference, or nil.
func (c *nodeCache) cached(h *vfs.Handle) *node {
	s := c.shard(h)
	s.mu.Lock()
	n := s.m[*h]
	if n != nil {
		n.refs.Add(1)
		n.used.Store(c.round.Load())
	}
	s.mu.Unlock()
	return n
}

// adopt returns the node of h with a reference: the one in the cache, or else a new one. fd is an
// O_PATH descriptor of that file, with attributes st. A new node keeps fd; if the cache has a node
// already, adopt closes fd. If the cache then has too many nodes, adopt removes idle ones.
func (c *nodeCache) adopt(fd int, st *unix.Stat_t, h vfs.Handle, from origin) *node {
	s := c.shard(&h)
	s.mu.Lock()
	if n := s.m[h]; n != nil {
		n.refs.Add(1)
		n.used.Store(c.round.Load())
		s.mu.Unlock()
		c.host.closeFD(fd)
		return n
	}
	n := &node{cache: c, handle: h, fd: fd, typ: typeOf(st.Mode), ino: st.Ino, origin: from,
		inode: c.inodes.acquire(inodeKey{st.Dev, h}, st, c.syncer.device)}
	n.refs.Store(2)
	n.used.Store(c.round.Load())
	s.m[h] = n
	s.turns.add(n, c.round.Load()+lookEveryRound)
	s.mu.Unlock()
	if most := c.host.maxNodes(); c.count.Add(1) > most {
		c.shrink(int(most/32+1), 2, 1, 0)
	}
	return n
}

// full reports whether adding one more node would remove another.
func (c *nodeCache) full() bool { return c.count.Load() >= c.host.maxNodes() }

// removeLocked removes n from s, unless a caller uses n or n has unsynced data. The caller holds
// s.mu, and closes n afterwards. While n has 0 references, no other goroutine can get one: hold
// fails, and s is locked. So unsynced cannot change before n is removed.
func (c *nodeCache) removeLocked(s *nodeShard, n *node) bool {
	if n == c.root || !n.refs.CompareAndSwap(1, 0) {
		return false
	}
	if n.unsynced.listed.Load() {
		n.refs.Store(1)
		return false
	}
	c.takeLocked(s, n)
	return true
}

// takeLocked takes n out of the cache. The caller holds s.mu.
func (c *nodeCache) takeLocked(s *nodeShard, n *node) {
	delete(s.m, n.handle)
	s.turns.remove(n)
	c.count.Add(-1)
}

// shrink removes at most want idle nodes. For each element of patiences, which are in falling order,
// it removes nodes that were unused for that many rounds of the sweeper (seconds). Each call begins
// with another shard, so that no shard always goes first.
func (c *nodeCache) shrink(want int, patiences ...uint32) {
	now := c.round.Load()
	first := c.shrinks.Add(1)
	for _, patience := range patiences {
		for i := range uint32(nodeShards) {
			s := &c.shards[(first+i)%nodeShards]
			var out []*node
			s.mu.Lock()
			for _, n := range s.m {
				if want <= 0 {
					break
				}
				if roundsSince(now, n.used.Load()) >= patience && c.removeLocked(s, n) {
					out = append(out, n)
					want--
				}
			}
			s.mu.Unlock()
			for _, n := range out {
				n.close()
			}
		}
		if want <= 0 {
			return
		}
	}
}

// forget removes n, whose file has no name any more, from the cache and returns true. If callers have
// the file open, forget returns false, and n stays until the last of them closes the file. If n is
// the root, forget returns true, but n stays.
func (c *nodeCache) forget(n *node) bool {
	if n == c.root {
		return true
	}
	s := c.shard(&n.handle)
	s.mu.Lock()
	if n.opens > 0 {
		n.nameless = true
		s.mu.Unlock()
		return false
	}
	n.inode.gone.Store(true)
	in := s.m[n.handle] == n
	if in {
		c.takeLocked(s, n)
	}
	s.mu.Unlock()
	if in {
		n.put()
	}
	return true
}

// drop calls forget. If that returns true, drop also closes n's descriptors for data and listings.
func (c *nodeCache) drop(n *node) bool {
	if !c.forget(n) {
		return false
	}
	n.forgetData()
	n.closeAll()
	return true
}

// open counts one more File of n (or the claims on n, see beginClaims). It keeps n in the cache
// until nodeCache.close is called. It returns false if n is no longer in the cache, or if the limit of
// pinned descriptors is reached; then the error is ErrDelay.
func (c *nodeCache) open(n *node) (there bool, err error) {
	s := c.shard(&n.handle)
	s.mu.Lock()
	if there = s.m[n.handle] == n; there && n.opens > 0 {
		n.opens++
		s.mu.Unlock()
		return true, nil
	}
	s.mu.Unlock()
	if !there {
		return false, nil
	}
	if err = c.host.pin(); err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if there = s.m[n.handle] == n; !there || n.opens > 0 {
		c.host.unpin() // another caller has counted n meanwhile
	}
	if there {
		n.opens++
	}
	return there, nil
}

// close undoes one call of nodeCache.open. It returns true if the caller has to drop n, because the
// file lost its last name while it was open.
func (c *nodeCache) close(n *node) bool {
	s := c.shard(&n.handle)
	s.mu.Lock()
	defer s.mu.Unlock()
	if n.opens--; n.opens == 0 {
		c.host.unpin()
	}
	return n.opens == 0 && n.nameless
}

// each calls f with every node in the cache. It holds a reference to the node during f.
func (c *nodeCache) each(f func(*node)) {
	var batch []*node
	for i := range c.shards {
		s := &c.shards[i]
		batch = batch[:0]
		s.mu.Lock()
		for _, n := range s.m {
			n.refs.Add(1)
			batch = append(batch, n)
		}
		s.mu.Unlock()
		for _, n := range batch {
			f(n)
			n.put()
		}
	}
}

// drain empties the cache when the FS is closed.
func (c *nodeCache) drain() {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		out := s.m
		s.m = map[vfs.Handle]*node{}
		for _, n := range out {
			s.turns.remove(n)
		}
		s.mu.Unlock()
		for _, n := range out {
			c.count.Add(-1)
			n.put()
			if n == c.root {
				n.put() // the reference that FS.open took
			}
		}
	}
}

// roundsSince returns by how many rounds now is later than was. It returns 0 if now is earlier, which
// happens if a round begins after the caller has read now.
func roundsSince(now, was uint32) uint32 { return uint32(max(0, int32(now-was))) }

// hold takes a reference. It returns false if the last reference was released already.
func (n *node) hold() bool { return countUp(&n.refs) }

// countUp increments a count, unless it is 0; then it returns false.
func countUp(count *atomic.Int32) bool {
	for {
		is := count.Load()
		if is == 0 {
			return false
		}
		if count.CompareAndSwap(is, is+1) {
			return true
		}
	}
}
