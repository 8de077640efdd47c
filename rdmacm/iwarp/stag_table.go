package iwarp

import (
	"crypto/rand"
	"encoding/binary"
	"sync"
)

// A stagTable maps steering tags to the registered memory of all connections of a Provider.
// A steering tag belongs to one connection. The connections share the table so that a
// receiver can tell another connection's tag from an unknown one.
type stagTable struct {
	shards [stagShards]struct {
		mu sync.RWMutex
		m  map[uint32]*region
	}
	random struct {
		mu   sync.Mutex
		buf  [256]byte
		left int
	}
}

const stagShards = 16

func (t *stagTable) init() {
	for i := range t.shards {
		t.shards[i].m = make(map[uint32]*region)
	}
}

// fresh returns a random steering tag, never 0.
func (t *stagTable) fresh() uint32 {
	r := &t.random
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		if r.left == 0 {
			rand.Read(r.buf[:])
			r.left = len(r.buf)
		}
		r.left -= 4
		if s := binary.NativeEndian.Uint32(r.buf[r.left:]); s != 0 {
			return s
		}
	}
}

// insert adds r to the table, under a new steering tag that no other region has.
func (t *stagTable) insert(r *region) {
	for {
		stag := t.fresh()
		s := &t.shards[stag%stagShards]
		s.mu.Lock()
		if s.m[stag] == nil {
			r.stag = stag
			s.m[stag] = r
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
	}
}

func (t *stagTable) lookup(stag uint32) *region {
	s := &t.shards[stag%stagShards]
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.m[stag]
}

func (t *stagTable) remove(stag uint32) {
	s := &t.shards[stag%stagShards]
	s.mu.Lock()
	delete(s.m, stag)
	s.mu.Unlock()
}
