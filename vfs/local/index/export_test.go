package index

import (
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// SetClock replaces the clock that decides when a search may begin.
func (x *Index) SetClock(now func() time.Time) { x.now = now }

// OnSearch makes each search call f before it reads any directory.
func (x *Index) OnSearch(f func()) { x.begins = f }

// Flush writes the pending names to disk.
func (x *Index) Flush() { x.flush() }

// Hold keeps the index from writing anything until the returned function is called. marker is a
// handle that nothing else uses.
func (x *Index) Hold(marker vfs.Handle) (goOn func()) {
	x.flush()
	tx, err := x.db.Begin(true)
	if err != nil {
		panic(err)
	}
	// The goroutine write takes marker from pending and then waits for tx to end. Names noted from
	// then on stay pending.
	x.Note(x.root, marker, []byte("marker"))
	x.mu.Lock()
	for x.writing[marker] == nil {
		x.emptied.Wait()
	}
	x.mu.Unlock()
	return sync.OnceFunc(func() { tx.Rollback() })
}

// NamesOf returns the names in the root that the index has for h, the latest first.
func (x *Index) NamesOf(h vfs.Handle) (names []string) {
	for _, p := range x.places(&h) {
		names = append(names, p.name)
	}
	return names
}
