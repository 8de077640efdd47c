package local

import (
	"bytes"
	"maps"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// What is learnt is written some time later, many names at once. Until then it
// stands here as what it changes: the places on disk are looked at by the writer
// and by calls that look for a file. A call that learns something looks at nothing on
// disk, and waits for nothing.

const (
	// maxPending is how many files a call that may block lets be pending before
	// it adds another one. Twice as many are pending at most: what is learnt
	// beyond that is forgotten, and found by a search when it is asked for.
	maxPending  = 1 << 16
	writeBehind = 100 * time.Millisecond
	// maxWrite is how many files one transaction writes. The database moves what
	// a page holds for each key that is put between two, and splits pages at the
	// end of a transaction: the time for one grows with the square.
	maxWrite = 1 << 11
)

// A learnt is what was learnt of a file since its places were written.
type learnt struct {
	seen places  // the latest first
	gone []place // not any more
	// all: every place but those in seen is gone.
	all bool
}

// apply returns the places ps with what was learnt since.
func (l *learnt) apply(ps places) places {
	if l.all {
		ps = nil
	}
	out := append(make(places, 0, maxPlaces), l.seen...)
	for _, p := range ps {
		if len(out) < maxPlaces && !slices.Contains(l.seen, p) && !slices.Contains(l.gone, p) {
			out = append(out, p)
		}
	}
	return out
}

// note implements resolver.
func (x *index) note(dir, h vfs.Handle, name []byte) {
	if h == x.root {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.met(h)
	if p, ok := x.recent[h]; ok && p.dir == dir && p.name == string(name) {
		return
	}
	p := place{dir, string(name)}
	l := x.pend(h)
	if l == nil {
		return
	}
	l.seen = l.seen.with(p)
	l.gone = slices.DeleteFunc(l.gone, func(q place) bool { return q == p })
	if len(x.recent) >= maxRecent {
		clear(x.recent)
	}
	x.recent[h] = p
	delete(x.dead, h)
}

// gone implements resolver.
func (x *index) gone(dir, h vfs.Handle, name []byte, last bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.recent, h)
	if last {
		if len(x.dead) >= maxDead {
			clear(x.dead)
		}
		x.dead[h] = struct{}{}
	}
	l := x.pend(h)
	switch {
	case l == nil:
	case last:
		*l = learnt{all: true}
	default:
		p := place{dir, string(name)}
		l.seen = l.seen.without(p)
		if len(l.gone) >= maxPlaces {
			l.gone = l.gone[1:]
		}
		l.gone = append(l.gone, p)
	}
}

// pend returns where what is learnt of h is kept, or nil where there is no room.
// x is locked.
func (x *index) pend(h vfs.Handle) *learnt {
	l := x.pending[h]
	if l == nil {
		if len(x.pending) >= 2*maxPending {
			x.fs.stats.forgotten.Add(1)
			return nil
		}
		l = new(learnt)
		x.pending[h] = l
	}
	select {
	case x.wake <- struct{}{}:
	default:
	}
	return l
}

// room implements resolver.
func (x *index) room(try bool) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	for len(x.pending) >= maxPending && !try {
		x.emptied.Wait()
	}
	return len(x.pending) < maxPending
}

// places are where h was seen, the latest first.
func (x *index) places(h *vfs.Handle) (ps places) {
	x.mu.Lock()
	var since [2]learnt
	for i, l := range [...]*learnt{x.writing[*h], x.pending[*h]} {
		if l != nil {
			since[i] = learnt{slices.Clone(l.seen), slices.Clone(l.gone), l.all}
		}
	}
	x.mu.Unlock()
	if !since[0].all && !since[1].all {
		_ = x.pages.view(x.db, func(tx *bolt.Tx) error {
			ps = decodePlaces(tx.Bucket(placesBucket).Get(h.Bytes()))
			return nil
		})
	}
	return since[1].apply(since[0].apply(ps))
}

// write is the goroutine that writes what was learnt.
func (x *index) write() {
	defer close(x.ended)
	for {
		select {
		case <-x.stop:
			x.flush()
			return
		case <-x.wake:
		}
		select {
		case <-x.stop:
		case <-time.After(writeBehind):
		}
		x.flush()
	}
}

// flush writes what is pending. An error, of a full disk say, costs a search
// after the next start.
func (x *index) flush() {
	x.mu.Lock()
	batch := x.pending
	x.pending, x.writing = map[vfs.Handle]*learnt{}, batch
	x.emptied.Broadcast()
	x.mu.Unlock()
	handles := slices.SortedFunc(maps.Keys(batch), func(a, b vfs.Handle) int { return bytes.Compare(a.Bytes(), b.Bytes()) })
	for some := range slices.Chunk(handles, maxWrite) {
		_ = x.pages.update(x.db, func(tx *bolt.Tx) error {
			b := tx.Bucket(placesBucket)
			for _, h := range some {
				if err := batch[h].write(b, h.Bytes()); err != nil {
					return err
				}
			}
			return nil
		})
	}
	x.mu.Lock()
	x.writing = nil
	x.mu.Unlock()
}

// write makes what was learnt of the file with the handle h part of its places on
// disk.
func (l *learnt) write(b *bolt.Bucket, h []byte) error {
	was := decodePlaces(b.Get(h))
	switch is := l.apply(was); {
	case slices.Equal(is, was):
		return nil
	case len(is) == 0:
		return b.Delete(h)
	default:
		return b.Put(h, encodePlaces(is))
	}
}
