package local

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A node is a file that is held open by path: it can be looked at and named in
// calls, not read or written.
type node struct {
	handle vfs.Handle
	fd     int // O_PATH
	typ    vfs.Type
	fsid   uint64
	ino    uint64

	refs atomic.Int32  // users, and one for the cache
	used atomic.Uint32 // the sweeper's round when it was last asked for
	// confinedAt is FS.moves when the directory was last known to lie below the root.
	confinedAt atomic.Uint32
	inode      *inode

	// opens counts the callers' Files, and nameless says that the node would
	// have been forgotten but for them. The lock of its shard guards both.
	opens    int
	nameless bool

	files    openFiles
	claims   nodeClaims
	unsynced unsyncedFile
	verdicts verdicts
	streams  dirStreams
	names    rememberedNames
	list     rememberedList
	quiet    quietReads
	fs       *FS
}

// put gives a reference back. The last one closes n's descriptors, which may
// block: attempts use FS.giveBack.
func (n *node) put() {
	if n.release() {
		n.close()
	}
}

// release gives a reference back. true: it was the last one, and the caller closes n.
// Whichever way n got here with data that is not synced, the verifier says so before
// anything else is answered: no later COMMIT would find that data.
func (n *node) release() bool {
	if n.refs.Add(-1) > 0 {
		return false
	}
	if n.unsynced.listed.Load() && !n.inode.gone.Load() {
		n.fs.newVerifier()
	}
	return true
}

func (n *node) close() {
	n.forgetData()
	n.files.closeAll()
	n.streams.closeAll()
	n.fs.forgetNames(n)
	n.fs.forgetList(n)
	inodes.giveBack(n.inode)
	unix.Close(n.fd)
}

const nodeShards = 16

// nodeCache finds nodes by handle and bounds how many there are.
type nodeCache struct {
	fs    *FS
	seed  maphash.Seed
	count atomic.Int64
	round atomic.Uint32
	// shrinks counts the calls of shrink.
	shrinks atomic.Uint32
	shards  [nodeShards]nodeShard
}

type nodeShard struct {
	mu sync.Mutex
	m  map[vfs.Handle]*node
	_  [40]byte // keep neighbours off the cache line
}

func (c *nodeCache) init(fs *FS) {
	c.fs = fs
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

// known is cached for what a name is known to be, and finds a node that has not
// been let go since without looking for it.
func (c *nodeCache) known(k *knownName) *node {
	if n := k.node.Value(); n != nil && !n.inode.gone.Load() && n.hold() {
		n.used.Store(c.round.Load())
		return n
	}
	return c.cached(&k.handle)
}

// adopt returns the node of h, which is what fd, a fresh O_PATH descriptor with
// attributes st, names. The descriptor is the cache's from here on.
func (c *nodeCache) adopt(fd int, st *unix.Stat_t, h vfs.Handle) *node {
	fsid := c.fs.fsid(fd, st.Dev)
	s := c.shard(&h)
	s.mu.Lock()
	if n := s.m[h]; n != nil {
		n.refs.Add(1)
		n.used.Store(c.round.Load())
		s.mu.Unlock()
		unix.Close(fd)
		return n
	}
	n := &node{fs: c.fs, handle: h, fd: fd, typ: typeOf(st.Mode), fsid: fsid, ino: st.Ino,
		inode: inodes.take(inodeKey{st.Dev, h}, st, c.fs.device)}
	n.refs.Store(2)
	n.used.Store(c.round.Load())
	s.m[h] = n
	s.mu.Unlock()
	if most := c.fs.maxNodes(); c.count.Add(1) > most {
		c.shrink(int(most/32+1), 2, 1, 0)
	}
	return n
}

// full says that one node more makes others go.
func (c *nodeCache) full() bool { return c.count.Load() >= c.fs.maxNodes() }

// removeLocked takes n out of s, unless a caller has n, or something would be lost with it. The
// caller closes n afterwards. While n has no reference hold fails, and s is locked: what is
// seen of n's data then is so still when n is out.
func (c *nodeCache) removeLocked(s *nodeShard, n *node) bool {
	if n == c.fs.root || !n.refs.CompareAndSwap(1, 0) {
		return false
	}
	if n.unsynced.listed.Load() {
		n.refs.Store(1)
		return false
	}
	delete(s.m, n.handle)
	c.count.Add(-1)
	return true
}

// shrink lets up to want idle nodes go, the longest unused ones of a sample: those that
// no caller has asked for in so many rounds of the sweeper, then in fewer. Each call
// begins with another shard: else nodes in the first ones would always go first.
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

// forget takes n out of the cache: its file is gone. false: it is open, and will
// be forgotten when it is not any more.
func (c *nodeCache) forget(n *node) bool {
	if n == c.fs.root {
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
		delete(s.m, n.handle)
		c.count.Add(-1)
	}
	s.mu.Unlock()
	if in {
		n.put()
	}
	return true
}

// drop is forget, and lets go of what n holds open.
func (c *nodeCache) drop(n *node) bool {
	if !c.forget(n) {
		return false
	}
	n.forgetData()
	n.files.closeAll()
	n.streams.closeAll()
	return true
}

// open says that a caller holds n open: it stays in the cache until the close.
// false: it is not there any more.
func (c *nodeCache) open(n *node) bool {
	s := c.shard(&n.handle)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m[n.handle] != n {
		return false
	}
	n.opens++
	return true
}

// close ends an open. true: n is to be dropped, its file was gone before.
func (c *nodeCache) close(n *node) bool {
	s := c.shard(&n.handle)
	s.mu.Lock()
	defer s.mu.Unlock()
	n.opens--
	return n.opens == 0 && n.nameless
}

// each calls f with every node in the cache, each with a reference during f.
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

// drain empties the cache at the end.
func (c *nodeCache) drain() {
	if c.fs == nil {
		return // never begun
	}
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		out := s.m
		s.m = map[vfs.Handle]*node{}
		s.mu.Unlock()
		for _, n := range out {
			c.count.Add(-1)
			n.put()
			if n == c.fs.root {
				n.put() // the reference that open took
			}
		}
	}
}

// node returns the node that h names, with a reference. A directory lies below the root.
func (fs *FS) node(op *vfs.Op, h vfs.Handle) (*node, error) {
	n := fs.nodes.cached(&h)
	if n == nil {
		return fs.findNode(op, h)
	}
	if n.typ == vfs.Directory && n.confinedAt.Load() != fs.moves.Load() {
		if err := fs.confine(op, n); err != nil {
			fs.giveBack(op, n)
			return nil, err
		}
	}
	return n, nil
}

func (fs *FS) findNode(op *vfs.Op, h vfs.Handle) (*node, error) {
	if err := checkHandle(&h); err != nil {
		return nil, err
	}
	if op.Try {
		return nil, vfs.ErrWouldBlock
	}
	moves := fs.moves.Load()
	fd, err := fs.resolver.open(h)
	if outOfDescriptors(err) {
		fs.makeRoom()
		fd, err = fs.resolver.open(h)
	}
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err = fstat(fd, &st); err != nil {
		unix.Close(fd)
		return nil, err
	}
	n := fs.nodes.adopt(fd, &st, h)
	n.confinedAt.Store(moves)
	return n, nil
}

// dir is node for what must be a directory.
func (fs *FS) dir(op *vfs.Op, h vfs.Handle) (*node, error) {
	n, err := fs.node(op, h)
	if err == nil && n.typ != vfs.Directory {
		n.put()
		return nil, syscall.ENOTDIR
	}
	return n, err
}

func outOfDescriptors(err error) bool { return err == syscall.EMFILE || err == syscall.ENFILE }

// look reads n's attributes. ESTALE: the file has no name any more and is not
// open; it is then let go, so that its space is.
func (fs *FS) look(op *vfs.Op, n *node, l *look) error {
	if op.Try && !fs.kind.memory {
		return vfs.ErrWouldBlock
	}
	err := n.stat(l)
	if err == nil && l.Nlink == 0 && fs.kind.links && fs.nodes.forget(n) {
		err = syscall.ESTALE
	}
	return err
}

// stat is look for a file that may have no name.
func (n *node) stat(l *look) error {
	n.inode.version.begin(l)
	err := n.fs.kind.fstat(n.fd, &l.Stat_t)
	if err == nil {
		n.inode.version.tell(l)
	}
	return err
}
