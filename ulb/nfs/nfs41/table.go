package nfs41

import (
	"crypto/rand"
	"encoding/binary"
	"sync"
	"sync/atomic"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// The table of sessions grows by chunks, so that it is read without a lock.
const (
	chunkSize = 256
	chunks    = 256
)

// table finds sessions. A session's identity is the epoch of the server's life, its place
// in the table, and eight bytes that cannot be guessed and do not come twice: a peer
// that knows an identity may make requests in the session.
type table struct {
	epoch uint32
	rows  [chunks]atomic.Pointer[chunk]

	mu    sync.Mutex
	free  []uint32 // places that were used before
	used  uint32   // places ever used
	count uint64
}

type chunk [chunkSize]atomic.Pointer[Session]

// find is the session with an identity, or nil.
func (t *table) find(id *wire.SessionID4) *Session {
	i := binary.BigEndian.Uint32(id[4:])
	if i >= chunks*chunkSize {
		return nil
	}
	c := t.rows[i/chunkSize].Load()
	if c == nil {
		return nil
	}
	if s := c[i%chunkSize].Load(); s != nil && s.ID == *id {
		return s
	}
	return nil
}

// all are the sessions there are.
func (t *table) all(yield func(s *Session) bool) {
	for i := range t.rows {
		c := t.rows[i].Load()
		if c == nil {
			return // the rows are used in their order
		}
		for j := range c {
			if s := c[j].Load(); s != nil && !yield(s) {
				return
			}
		}
	}
}

// add gives s an identity, and a place. It is false where there is none left.
func (t *table) add(s *Session) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := t.used
	switch n := len(t.free); {
	case n > 0:
		i = t.free[n-1]
		t.free = t.free[:n-1]
	case i == chunks*chunkSize:
		return false
	default:
		t.used++
	}
	row := &t.rows[i/chunkSize]
	if row.Load() == nil {
		row.Store(new(chunk))
	}
	t.count++
	binary.BigEndian.PutUint32(s.ID[:], t.epoch+uint32(t.count>>32))
	binary.BigEndian.PutUint32(s.ID[4:], i)
	rand.Read(s.ID[8:])
	row.Load()[i%chunkSize].Store(s)
	return true
}

// remove takes a session out, that is in the table.
func (t *table) remove(s *Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := binary.BigEndian.Uint32(s.ID[4:])
	t.rows[i/chunkSize].Load()[i%chunkSize].Store(nil)
	t.free = append(t.free, i)
}
