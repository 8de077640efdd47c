package local

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"syscall"

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
	fsid              uint64
	ino               uint64
	fileID            uint64 // see FS.fileID

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
	fs       *FS
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
		n.fs.newVerifier()
	}
	return true
}

func (n *node) close() {
	n.forgetData()
	n.closeAll()
	n.memory.forget(n.fs)
	inodes.giveBack(n.inode)
	unix.Close(n.fd)
}

const nodeShards = 16

// nodeCache maps handles to nodes and limits the number of nodes.
type nodeCache struct {
	fs      *FS
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

// adopt returns the node of h with a reference: the one in the cache, or else a new one. fd is an
// O_PATH descriptor of that file, with attributes st; near is an open node, probably of the same
// device, or nil. A new node keeps fd; if the cache has a node already, adopt closes fd. If the cache
// then has too many nodes, adopt removes idle ones.
func (c *nodeCache) adopt(fd int, st *unix.Stat_t, h vfs.Handle, near *node) *node {
	fsid := c.fs.fsid(fd, st, near)
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
		fileID: c.fs.fileID(fsid, st), inode: inodes.acquire(inodeKey{st.Dev, h}, st, c.fs.device)}
	n.refs.Store(2)
	n.used.Store(c.round.Load())
	s.m[h] = n
	s.turns.add(n, c.round.Load()+lookEveryRound)
	s.mu.Unlock()
	if most := c.fs.maxNodes(); c.count.Add(1) > most {
		c.shrink(int(most/32+1), 2, 1, 0)
	}
	return n
}

// full reports whether adding one more node would remove another.
func (c *nodeCache) full() bool { return c.count.Load() >= c.fs.maxNodes() }

// removeLocked removes n from s, unless a caller uses n or n has unsynced data. The caller holds
// s.mu, and closes n afterwards. While n has 0 references, no other goroutine can get one: hold
// fails, and s is locked. So unsynced cannot change before n is removed.
func (c *nodeCache) removeLocked(s *nodeShard, n *node) bool {
	if n == c.fs.root || !n.refs.CompareAndSwap(1, 0) {
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

// open counts one more File of n (or the claims on n, see openClaims). It keeps n in the cache
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
	if err = c.fs.pinOne(&c.fs.stats.pinnedNodes); err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if there = s.m[n.handle] == n; !there || n.opens > 0 {
		c.fs.stats.pinnedNodes.Add(-1) // another caller has counted n meanwhile
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
		c.fs.stats.pinnedNodes.Add(-1)
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
			if n == c.fs.root {
				n.put() // the reference that FS.open took
			}
		}
	}
}

var _ vfs.Shared = (*FS)(nil)

// Volume implements vfs.Shared. A volume is a file system's device number in mountinfo (proc(5)). All
// subvolumes of a btrfs have the same; a handle says which subvolume its file is on.
func (fs *FS) Volume() any { return fs.volume }

// Root implements vfs.FileSystem.
func (fs *FS) Root() vfs.Handle { return fs.root.handle }

// Lane implements vfs.FileSystem. FSs on one file system share a lane, because they stall together.
func (fs *FS) Lane() any { return fs.device }

// node returns the node of h with a reference. It makes sure that a directory lies below the root.
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
	fd, err := fs.withRoom(func() (int, error) { return fs.resolver.Open(h) })
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err = sysFstat(fd, &st); err != nil {
		unix.Close(fd)
		return nil, err
	}
	n := fs.nodes.adopt(fd, &st, h, nil)
	n.confinedAt.Store(moves)
	return n, nil
}

// dir returns the node of a directory, with a reference. For another file it returns ENOTDIR.
func (fs *FS) dir(op *vfs.Op, h vfs.Handle) (*node, error) {
	n, err := fs.node(op, h)
	if err == nil && n.typ != vfs.Directory {
		n.put()
		return nil, syscall.ENOTDIR
	}
	return n, err
}

func outOfDescriptors(err error) bool { return err == syscall.EMFILE || err == syscall.ENFILE }

// lookAt returns the node of h with a reference, and reads its attributes into the last argument.
func (fs *FS) lookAt(op *vfs.Op, h vfs.Handle, is *look) (*node, error) {
	n, err := fs.node(op, h)
	if err == nil {
		if err = fs.look(op, n, is); err != nil {
			fs.giveBack(op, n)
		}
	}
	return n, err
}

// look reads n's attributes. ESTALE: the file has no name any more and no caller has it open; then
// look removes n from the cache, so that the file's space becomes free.
func (fs *FS) look(op *vfs.Op, n *node, l *look) error {
	if op.Try && !fs.kind.memory {
		return vfs.ErrWouldBlock
	}
	err := n.stat(l)
	if err == syscall.ENOENT { // FUSE, of a file that was removed
		fs.nodes.forget(n)
		return syscall.ESTALE
	}
	if err == nil && l.Nlink == 0 && fs.kind.links && fs.nodes.forget(n) {
		err = syscall.ESTALE
	}
	return err
}

// stat reads n's attributes like n.look, but does not check the link count.
func (n *node) stat(l *look) error {
	n.inode.version.beginLook(l)
	err := n.fs.kind.fstat(n.fd, &l.Stat_t)
	if err == nil {
		n.inode.version.tell(l)
	}
	return err
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
