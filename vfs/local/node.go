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
	// change is the highest Change that was ever told (attr.go); pushed says
	// that it is ahead of the ctime.
	change atomic.Uint64
	pushed atomic.Bool

	// mu orders the changes made through this FS; modes, those of the mode
	// with what openAsOwner does to it.
	mu, modes sync.Mutex

	files    openFiles
	data     dataSync
	verdicts verdicts
	streams  dirStreams
	names    rememberedNames
	fs       *FS
}

// put gives a reference back.
func (n *node) put() {
	if n.refs.Add(-1) == 0 {
		n.files.closeAll()
		n.streams.closeAll()
		n.fs.forgetNames(n)
		unix.Close(n.fd)
	}
}

const nodeShards = 16

// nodeCache finds nodes by handle and bounds how many there are.
type nodeCache struct {
	fs     *FS
	seed   maphash.Seed
	count  atomic.Int64
	round  atomic.Uint32
	shards [nodeShards]nodeShard

	// pushed keeps, for nodes that left the cache, a Change that is ahead of
	// the ctime: it must never be seen to go back.
	pushedMu sync.Mutex
	pushed   map[vfs.Handle]uint64
}

type nodeShard struct {
	mu sync.Mutex
	m  map[vfs.Handle]*node
	_  [40]byte // keep neighbours off the cache line
}

// maxDescriptors is what an FS makes use of at most: the sweeper looks at each
// every second.
const maxDescriptors = 1 << 17

// maxPushed bounds the memory for Change values of nodes that left.
const maxPushed = 1 << 16

func (c *nodeCache) init(fs *FS) {
	c.fs = fs
	c.seed = maphash.MakeSeed()
	c.pushed = make(map[vfs.Handle]uint64)
	for i := range c.shards {
		c.shards[i].m = make(map[vfs.Handle]*node)
	}
	instances.Add(1)
}

// instances are the FS of this process. They share its descriptors: a quarter
// is for nodes and a quarter for open files, the rest for connections.
var instances atomic.Int64

var descriptors = sync.OnceValue(func() int {
	var lim unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &lim) != nil || lim.Cur > maxDescriptors {
		return maxDescriptors
	}
	return int(lim.Cur)
})

// share is what this FS may hold open, configured being what it was told to.
func share(configured int) int {
	if configured <= 0 {
		configured = descriptors() / 4 / int(max(1, instances.Load()))
	}
	return max(configured, 16)
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
	n := &node{fs: c.fs, handle: h, fd: fd, typ: typeOf(st.Mode), fsid: fsid, ino: st.Ino}
	n.refs.Store(2)
	n.used.Store(c.round.Load())
	c.pushedMu.Lock()
	if v, ok := c.pushed[h]; ok {
		delete(c.pushed, h)
		n.change.Store(v)
		n.pushed.Store(true)
	}
	c.pushedMu.Unlock()
	s.m[h] = n
	s.mu.Unlock()
	if limit := share(c.fs.cfg.MaxNodes); c.count.Add(1) > int64(limit) {
		c.shrink(limit/32 + 1)
	}
	return n
}

// idle says that nobody but the cache holds n and that nothing is lost with it.
// The shard of n is locked.
func (n *node) idle() bool { return n.refs.Load() == 1 && !n.data.dirty() }

// remove takes n out of s, which is locked, and remembers what must not be
// forgotten. The caller puts n afterwards.
func (c *nodeCache) remove(s *nodeShard, n *node) {
	delete(s.m, n.handle)
	c.count.Add(-1)
	if !n.pushed.Load() {
		return
	}
	c.pushedMu.Lock()
	if len(c.pushed) >= maxPushed {
		for h := range c.pushed { // any one
			delete(c.pushed, h)
			break
		}
	}
	c.pushed[n.handle] = n.change.Load()
	c.pushedMu.Unlock()
}

// shrink lets up to want idle nodes go, the longest unused ones of a sample.
func (c *nodeCache) shrink(want int) {
	now := c.round.Load()
	for _, patience := range []uint32{2, 1, 0} {
		for i := range c.shards {
			s := &c.shards[i]
			var out []*node
			s.mu.Lock()
			for _, n := range s.m {
				if want <= 0 {
					break
				}
				if n.idle() && now-n.used.Load() >= patience && n != c.fs.root {
					c.remove(s, n)
					out = append(out, n)
					want--
				}
			}
			s.mu.Unlock()
			for _, n := range out {
				n.put()
			}
		}
		if want <= 0 {
			return
		}
	}
}

// forget takes n out of the cache: its file is gone.
func (c *nodeCache) forget(n *node) {
	if n == c.fs.root {
		return
	}
	s := c.shard(&n.handle)
	s.mu.Lock()
	in := s.m[n.handle] == n
	if in {
		delete(s.m, n.handle)
		c.count.Add(-1)
	}
	s.mu.Unlock()
	if in {
		n.put()
	}
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
	instances.Add(-1)
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

// node returns the node that h names, with a reference.
func (fs *FS) node(op *vfs.Op, h vfs.Handle) (*node, error) {
	if n := fs.nodes.cached(&h); n != nil {
		return n, nil
	}
	return fs.findNode(op, h)
}

func (fs *FS) findNode(op *vfs.Op, h vfs.Handle) (*node, error) {
	if err := checkHandle(&h); err != nil {
		return nil, err
	}
	if op.Try {
		return nil, vfs.ErrWouldBlock
	}
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
	return fs.nodes.adopt(fd, &st, h), nil
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

// look reads n's attributes. ESTALE: the file has no name any more; it is then
// let go, so that its space is.
func (fs *FS) look(op *vfs.Op, n *node, st *unix.Stat_t) error {
	var err error
	switch {
	case fs.kind.memory:
		err = fstatAtOnce(n.fd, st)
	case op.Try:
		return vfs.ErrWouldBlock
	default:
		err = fstat(n.fd, st)
	}
	if err == nil && st.Nlink == 0 && fs.kind.links {
		fs.nodes.forget(n)
		err = syscall.ESTALE
	}
	return err
}
