package nfs41

import (
	"crypto/rand"
	"encoding/binary"
	"sync"
	"sync/atomic"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// The table of sessions grows by one chunk at a time and never moves a session, so that readers
// need no lock. chunkSize is the number of sessions in a chunk, chunks the maximum number of
// chunks.
const (
	chunkSize = 256
	chunks    = 256
)

// table finds sessions by session ID. The ID holds the epoch of this run of the server, the
// session's index in the table, and eight random bytes. The random bytes protect the session: a
// peer that knows the ID may send requests in the session.
type table struct {
	epoch uint32
	rows  [chunks]atomic.Pointer[chunk]

	mu    sync.Mutex
	free  []uint32 // indexes of removed sessions
	used  uint32   // number of indexes used so far
	count uint64
}

type chunk [chunkSize]atomic.Pointer[Session]

// find returns the session with an ID, or nil.
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

// all yields every session.
func (t *table) all(yield func(s *Session) bool) {
	for i := range t.rows {
		c := t.rows[i].Load()
		if c == nil {
			return // rows are filled in order
		}
		for j := range c {
			if s := c[j].Load(); s != nil && !yield(s) {
				return
			}
		}
	}
}

// add gives s an ID and a free index in the table. It returns false if the table is full.
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

// remove removes s, which is in the table.
func (t *table) remove(s *Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := binary.BigEndian.Uint32(s.ID[4:])
	t.rows[i/chunkSize].Load()[i%chunkSize].Store(nil)
	t.free = append(t.free, i)
}
