package local

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

const inodeShards = 64

// maxPushed is the largest number of Changes that the table keeps for inodes that it removed. Each
// shard may keep an equal part of them; if it has more, it drops the Change that is least ahead of
// its ctime.
const maxPushed = 1 << 16

// inodeTable holds the inodes in use by nodes and calls. The process has one: inodes.
type inodeTable struct {
	seed   maphash.Seed
	pushed int // largest number of entries in a shard's pushed
	shards [inodeShards]inodeShard
}

type inodeShard struct {
	mu sync.Mutex
	m  map[inodeKey]*inode
	// pushed holds the Changes of inodes that were removed from m, if they are or may be ahead of
	// the ctime. It is needed because a Change must never go back.
	pushed map[inodeKey]lastTold
	taken  atomic.Uint64 // number of inodes put into m so far
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

// acquire returns the inode with key k on device d and counts one more user. If the inode is new, st
// are its attributes.
func (t *inodeTable) acquire(k inodeKey, st *unix.Stat_t, d *device) *inode {
	s := t.shard(&k.handle)
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.m[k]
	if i == nil {
		i = &inode{key: k}
		i.version.init(st, s.pushed[k])
		i.durability.confirmed = d.failures.Load() // failed syncs until now came before any change of i
		delete(s.pushed, k)
		s.m[k] = i
		s.taken.Add(1)
	}
	i.users++
	return i
}

// find returns the inode with key k and counts one more user. It returns nil if the table has
// none.
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

// giveBack counts one user less. If i has no user left, giveBack removes it from the table.
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

// A sighting is for a file without a node, whose attributes are read by its name. It is made before
// the reading, and records how many inodes the file's shard of the table has taken so far. After
// the reading, ctimeSays reports whether the ctime is also the inode's Change.
type sighting struct {
	shard *inodeShard
	taken uint64
}

func (t *inodeTable) sight(h *vfs.Handle) sighting {
	s := t.shard(h)
	return sighting{s, s.taken.Load()}
}

// ctimeSays reports whether the ctime just read is the Change of the inode with key k. That is so
// if the table has neither the inode nor a pushed Change for it, and the shard took no inode since
// the sighting: a change through a node could have raised the inode's Change above the ctime.
func (g *sighting) ctimeSays(k inodeKey) bool {
	g.shard.mu.Lock()
	defer g.shard.mu.Unlock()
	_, pushed := g.shard.pushed[k]
	return !pushed && g.shard.m[k] == nil && g.shard.taken.Load() == g.taken
}
