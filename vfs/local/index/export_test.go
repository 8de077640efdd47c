package index

import (
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// SetClock replaces the clock that searches are spaced by.
func (x *Index) SetClock(now func() time.Time) { x.now = now }

// OnSearch has each search call f before it looks.
func (x *Index) OnSearch(f func()) { x.begins = f }

// Flush writes what the index has learnt.
func (x *Index) Flush() { x.flush() }

// Hold lets the index write nothing until the returned function is called. marker is a handle that
// nothing else uses.
func (x *Index) Hold(marker vfs.Handle) (goOn func()) {
	x.flush()
	tx, err := x.db.Begin(true)
	if err != nil {
		panic(err)
	}
	// The goroutine that writes takes marker and waits for the transaction. What is noted from
	// then on stays pending.
	x.Note(x.root, marker, []byte("marker"))
	x.mu.Lock()
	for x.writing[marker] == nil {
		x.emptied.Wait()
	}
	x.mu.Unlock()
	return sync.OnceFunc(func() { tx.Rollback() })
}

// NamesOf returns the names in the root that the index knows of h, the latest first.
func (x *Index) NamesOf(h vfs.Handle) (names []string) {
	for _, p := range x.places(&h) {
		names = append(names, p.name)
	}
	return names
}
