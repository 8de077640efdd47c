package local

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// An inode is what the process knows of a file whichever FS it is reached by. The process owns it,
// by inodes; a node is an FS's.
// Directories may be exported together with directories beneath them, each by
// an FS of its own: a change through one of them is ordered with those through
// the others, and a Change that one told is not taken back by another.
type inode struct {
	key   inodeKey
	users int // nodes that have it, and calls; its shard's

	// mu orders the changes of the file's data, attributes and entries; modes, those of the
	// mode with what openAsOwner does to it. Changes of the file's names take neither.
	mu, modes  sync.Mutex
	gone       atomic.Bool // the file has no name any more
	version    version
	durability durability
}

// lock takes mu. An attempt does not wait for it; false: it is held.
func (i *inode) lock(op *vfs.Op) bool {
	if op.Try {
		return i.mu.TryLock()
	}
	i.mu.Lock()
	return true
}

type inodeKey struct {
	dev    uint64
	handle vfs.Handle
}

const inodeShards = 64

// maxPushed bounds the memory for Change values of inodes that left. Beyond it the Change that is
// the least ahead goes.
const maxPushed = 1 << 16

// inodeTable holds the inodes that nodes have. It is the process's: see inodes.
type inodeTable struct {
	seed   maphash.Seed
	pushed int // in a shard, at most
	shards [inodeShards]inodeShard
}

type inodeShard struct {
	mu sync.Mutex
	m  map[inodeKey]*inode
	// pushed keeps, for inodes that left, a Change that is ahead of the
	// ctime: it must never be seen to go back.
	pushed map[inodeKey]lastTold
	taken  atomic.Uint64 // inodes that were put into m
}

var inodes = newInodeTable(maxPushed)

func newInodeTable(maxPushed int) *inodeTable {
	t := &inodeTable{seed: maphash.MakeSeed(), pushed: maxPushed / inodeShards}
	for i := range t.shards {
		t.shards[i].m = make(map[inodeKey]*inode)
		t.shards[i].pushed = make(map[inodeKey]lastTold)
	}
	return t
}

func (t *inodeTable) shard(h *vfs.Handle) *inodeShard {
	return &t.shards[maphash.Bytes(t.seed, h.Bytes())%inodeShards]
}

// take returns the inode with key k on device d, which looks like st, for one more user.
func (t *inodeTable) take(k inodeKey, st *unix.Stat_t, d *device) *inode {
	s := t.shard(&k.handle)
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.m[k]
	if i == nil {
		i = &inode{key: k}
		i.version.init(st, s.pushed[k])
		i.durability.confirmed = d.failures.Load() // they failed before any change of i
		delete(s.pushed, k)
		s.m[k] = i
		s.taken.Add(1)
	}
	i.users++
	return i
}

// find returns the inode with key k for one more user if some node has it, or
// nil.
func (t *inodeTable) find(k inodeKey) *inode {
	s := t.shard(&k.handle)
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.m[k]
	if i != nil {
		i.users++
	}
	return i
}

// giveBack is for what take and find returned.
func (t *inodeTable) giveBack(i *inode) {
	s := t.shard(&i.key.handle)
	s.mu.Lock()
	defer s.mu.Unlock()
	if i.users--; i.users > 0 {
		return
	}
	delete(s.m, i.key)
	last, needed := i.version.lastTold()
	if !needed || i.gone.Load() {
		return
	}
	s.pushed[i.key] = last
	if len(s.pushed) > t.pushed {
		least, ahead := i.key, last.ahead
		for k, l := range s.pushed {
			if l.ahead < ahead {
				least, ahead = k, l.ahead
			}
		}
		delete(s.pushed, least)
	}
}

// A sighting is a look at a file that the looker holds by nothing but its name. It begins before
// the look.
type sighting struct {
	shard *inodeShard
	taken uint64
}

func (t *inodeTable) sight(h *vfs.Handle) sighting {
	s := t.shard(h)
	return sighting{s, s.taken.Load()}
}

// ctimeSays says that the ctime that was seen is the Change of the inode with key k. No node has
// the inode, and none came by it meanwhile, through which it could have been changed.
func (g *sighting) ctimeSays(k inodeKey) bool {
	g.shard.mu.Lock()
	defer g.shard.mu.Unlock()
	_, pushed := g.shard.pushed[k]
	return !pushed && g.shard.m[k] == nil && g.shard.taken.Load() == g.taken
}
