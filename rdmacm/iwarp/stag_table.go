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
	mu     sync.RWMutex
	m      map[uint32]*region
	random struct {
		mu   sync.Mutex
		buf  [256]byte
		left int
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
	t.mu.Lock()
	defer t.mu.Unlock()
	for r.stag = t.fresh(); t.m[r.stag] != nil; {
		r.stag = t.fresh()
	}
	t.m[r.stag] = r
}

func (t *stagTable) lookup(stag uint32) *region {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.m[stag]
}

// remove removes r. It returns false if the table does not have r.
func (t *stagTable) remove(r *region) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	has := t.m[r.stag] == r
	if has {
		delete(t.m, r.stag)
	}
	return has
}
