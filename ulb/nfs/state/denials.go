package state

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// denials holds the denied accesses of all files that are open with a deny mode. Readers do not
// take Manager.mu; writers hold it.
type denials struct {
	// all is the number of files that are open with a deny mode, plus grace.denials. While it is 0,
	// no access has to be checked.
	all    atomic.Int64
	seed   maphash.Seed
	once   sync.Once
	shards [16]struct {
		mu   sync.RWMutex
		deny map[fileID]Access
	}
}

func (d *denials) shard(id fileID) int {
	d.once.Do(func() { d.seed = maphash.MakeSeed() })
	return int(maphash.Bytes(d.seed, id.handle.Bytes()) % uint64(len(d.shards)))
}

func (d *denials) of(id fileID) Access {
	s := &d.shards[d.shard(id)]
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.deny[id]
}

// set stores the accesses that the opens of a file deny.
func (d *denials) set(id fileID, deny Access) {
	if deny == 0 && d.all.Load() == 0 {
		return
	}
	s := &d.shards[d.shard(id)]
	s.mu.Lock()
	defer s.mu.Unlock()
	_, was := s.deny[id]
	switch {
	case deny != 0:
		if s.deny == nil {
			s.deny = make(map[fileID]Access)
		}
		s.deny[id] = deny
		if !was {
			d.all.Add(1)
		}
	case was:
		delete(s.deny, id)
		d.all.Add(-1)
	}
}
