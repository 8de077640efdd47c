package local

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// An inode is what the process knows of a file whichever FS it is reached by.
// Directories may be exported together with directories beneath them, each by
// an FS of its own: a change through one of them is ordered with those through
// the others, and a Change that one told is not taken back by another.
type inode struct {
	key   inodeKey
	nodes int // that have it; its shard's

	// mu orders the changes made through this process; modes, those of the
	// mode with what openAsOwner does to it.
	mu, modes sync.Mutex
	// change is the highest Change that was ever told (attr.go); pushed says
	// that it is ahead of the ctime.
	change atomic.Uint64
	pushed atomic.Bool
	gone   atomic.Bool // the file has no name any more

	// stirs counts the changes that this process makes without mu: in the low
	// half those that are being made, in the high half those that were begun.
	stirs atomic.Uint64
	// left is the ctime, as a stamp, that this process's last change left.
	// foreign is the latest known that a change by another process left; 0: none.
	left, foreign atomic.Uint64
	quiet         atomic.Int64 // how long the inode is watched after it: see quietAfter
}

type inodeKey struct {
	dev    uint64
	handle vfs.Handle
}

const inodeShards = 64

// maxPushed bounds the memory for Change values of inodes that left.
const maxPushed = 1 << 16

// inodeTable holds the inodes that nodes have. It is the process's: see inodes.
type inodeTable struct {
	seed   maphash.Seed
	shards [inodeShards]struct {
		mu sync.Mutex
		m  map[inodeKey]*inode
		// pushed keeps, for inodes that left, a Change that is ahead of the
		// ctime: it must never be seen to go back.
		pushed map[inodeKey]uint64
		_      [40]byte // keep neighbours off the cache line
	}
}

var inodes = func() *inodeTable {
	t := &inodeTable{seed: maphash.MakeSeed()}
	for i := range t.shards {
		t.shards[i].m = make(map[inodeKey]*inode)
		t.shards[i].pushed = make(map[inodeKey]uint64)
	}
	return t
}()

func (t *inodeTable) shard(k *inodeKey) int {
	return int((maphash.Bytes(t.seed, k.handle.Bytes()) ^ k.dev) % inodeShards)
}

// take returns the inode with key k for one more node.
func (t *inodeTable) take(k inodeKey) *inode {
	s := &t.shards[t.shard(&k)]
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.m[k]
	if i == nil {
		i = &inode{key: k}
		if v, ok := s.pushed[k]; ok {
			delete(s.pushed, k)
			i.change.Store(v)
			i.pushed.Store(true)
		}
		s.m[k] = i
	}
	i.nodes++
	return i
}

// find returns the inode with key k for one more user if some node has it, or
// nil.
func (t *inodeTable) find(k inodeKey) *inode {
	s := &t.shards[t.shard(&k)]
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.m[k]
	if i != nil {
		i.nodes++
	}
	return i
}

// giveBack is for what take and find returned.
func (t *inodeTable) giveBack(i *inode) {
	s := &t.shards[t.shard(&i.key)]
	s.mu.Lock()
	defer s.mu.Unlock()
	if i.nodes--; i.nodes > 0 {
		return
	}
	delete(s.m, i.key)
	if !i.pushed.Load() || i.gone.Load() {
		return
	}
	if len(s.pushed) >= maxPushed/inodeShards {
		for k := range s.pushed { // any one
			delete(s.pushed, k)
			break
		}
	}
	s.pushed[i.key] = i.change.Load()
}

// told is the highest Change that was told of the file with key k and may be
// ahead of its ctime.
func (t *inodeTable) told(k inodeKey) uint64 {
	s := &t.shards[t.shard(&k)]
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.m[k]; i != nil {
		return i.change.Load()
	}
	return s.pushed[k]
}

// Change.Atomic says that nothing else changed the object between the two
// looks. Changes through this process know of each other: those of one inode
// wait for mu, and those that do not hold it (a file's new name changes the file
// as well, and a rename the directory that is renamed) stir it.
//
// A change by another process between the looks, some microseconds apart, shows
// in nothing. What shows is that the ctime before is not the one that this
// process left. So the claim is not made for an object that another process has
// changed lately, or may have: where that was one change, for a second; where
// one followed the other, for twice the time between the two.
//
// A client that gets no claim drops what it knows of a directory, and asks again:
// Linux's by an ACCESS for each user and a LOOKUP for each name.

// The bounds of how long an object is watched after a change by another process.
const (
	leastQuiet = time.Second
	mostQuiet  = 10 * time.Second
)

// quietAfter is how long an object is watched after a change by another process
// that came so long after the one before it. 0: there was none before it.
func quietAfter(gap time.Duration) time.Duration {
	if gap >= mostQuiet {
		return leastQuiet
	}
	return min(max(2*gap, leastQuiet), mostQuiet)
}

const (
	stirBegins = 1<<32 + 1
	stirEnds   = ^uint64(0) // one less
	stirsNow   = 1<<32 - 1
)

// stir begins a change of the inode without mu; stirred ends it, and st is what
// the file looks like then, or nil where that is not known.
func (i *inode) stir() { i.stirs.Add(stirBegins) }

func (i *inode) stirred(st *unix.Stat_t) {
	if st != nil {
		i.left.Store(stamp(st))
	}
	i.stirs.Add(stirEnds)
}

// A claim is that of one change to be the only one between its two looks.
type claim struct {
	inode *inode
	stirs uint64
	alone bool
}

// claim begins a change of n, which looks like st and whose mu is held.
func (n *node) claim(st *unix.Stat_t) claim {
	c := claim{inode: n.inode, stirs: n.stirs.Load()}
	c.alone = n.fs.kind.memory && c.stirs&stirsNow == 0 && n.undisturbed(n.fs, st)
	return c
}

// undisturbed says that no other process is known to have changed the inode lately.
func (i *inode) undisturbed(fs *FS, st *unix.Stat_t) bool {
	if is := stamp(st); is != i.left.Load() {
		i.left.Store(is)
		gap := time.Duration(0)
		if before := i.foreign.Swap(max(is, 1)); before != 0 && is > before {
			gap = time.Duration(is - before)
		}
		i.quiet.Store(int64(quietAfter(gap)))
	}
	last := i.foreign.Load()
	return last == 0 || fs.now().Sub(time.Unix(0, int64(last))) >= time.Duration(i.quiet.Load())
}

// holds ends the change, after which the inode looks like st.
func (c *claim) holds(st *unix.Stat_t) bool {
	c.inode.left.Store(stamp(st))
	return c.alone && c.inode.stirs.Load() == c.stirs
}
