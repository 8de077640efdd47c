package index

import (
	"bytes"
	"maps"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// The index writes new names to disk a moment later, many at once. Until then it keeps them in
// memory as changes to the places on disk. The disk is read by calls that look for a file, by
// searches, and by the goroutine that writes. Note and Gone never read it and never wait.

const (
	// If maxPending files have changes that are not on disk yet, Room returns false or waits. If
	// 2*maxPending have, Note and Gone drop changes; a search then finds the file when a call needs it.
	maxPending  = 1 << 16
	writeBehind = 100 * time.Millisecond
	// maxWrite is the largest number of files that one transaction writes. The database moves a page for
	// each key inserted between two others, and splits pages only at the end of a transaction; so the
	// time of a transaction grows with the square of the number of keys.
	maxWrite = 1 << 11
)

// A learnt holds the changes of a file's places since the places were last written to disk.
type learnt struct {
	seen places  // new places, the latest first
	gone []place // places that the file no longer has
	// If all is set, none of the places on disk is valid any more, only those in seen are.
	all bool
}

// apply returns the places ps with the changes in l.
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

// Note records that name in the directory dir belongs to the file h. It never waits.
func (x *Index) Note(dir, h vfs.Handle, name []byte) {
	if h == x.root {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.metLocked(h)
	if p, ok := x.recent[h]; ok && p.dir == dir && p.name == string(name) {
		return
	}
	p := place{dir, string(name)}
	l := x.pendLocked(h)
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

// Gone records that name in dir no longer belongs to h; last: h has no name any more. It never waits.
func (x *Index) Gone(dir, h vfs.Handle, name []byte, last bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.recent, h)
	if last {
		if len(x.dead) >= maxDead {
			clear(x.dead)
		}
		x.dead[h] = struct{}{}
	}
	l := x.pendLocked(h)
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

// pendLocked returns the entry of x.pending for h, and makes it if there is none. If there are
// 2*maxPending entries already, it makes none and returns nil.
func (x *Index) pendLocked(h vfs.Handle) *learnt {
	l := x.pending[h]
	if l == nil {
		if len(x.pending) >= 2*maxPending {
			x.forgotten.Add(1)
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

// Room reports whether fewer than maxPending files wait to be written, or waits for that unless try is set.
func (x *Index) Room(try bool) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	for len(x.pending) >= maxPending && !try {
		x.emptied.Wait()
	}
	return len(x.pending) < maxPending
}

// places returns the places of h, the latest first.
func (x *Index) places(h *vfs.Handle) (ps places) {
	x.mu.Lock()
	var since [2]learnt
	for i, l := range [...]*learnt{x.writing[*h], x.pending[*h]} {
		if l != nil {
			since[i] = learnt{slices.Clone(l.seen), slices.Clone(l.gone), l.all}
		}
	}
	x.mu.Unlock()
	if !since[0].all && !since[1].all {
		x.pages.populate()
		_ = x.db.View(func(tx *bolt.Tx) error {
			ps = decodePlaces(tx.Bucket(placesBucket).Get(h.Bytes()))
			return nil
		})
	}
	return since[1].apply(since[0].apply(ps))
}

// write is the goroutine that writes changes to disk. It waits for the time writeBehind after the
// first change, so that it writes many at once.
func (x *Index) write() {
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

// flush writes the pending changes to disk. If that fails, for example on a full disk, the index
// may have to search for these files later.
func (x *Index) flush() {
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

// write applies the changes in l to the list of places that is stored on disk for the file h.
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

// A place is a name in a directory.
type place struct {
	dir  vfs.Handle
	name string
}

// places are the names under which a file was seen, the latest first. They are never modified.
type places []place

// maxPlaces is the largest number of places that the index keeps for one file. If all of them are
// gone, a search finds another hard link.
const maxPlaces = 8

func (ps places) with(p place) places {
	out := append(make(places, 0, min(len(ps)+1, maxPlaces)), p)
	for _, q := range ps {
		if q != p && len(out) < maxPlaces {
			out = append(out, q)
		}
	}
	return out
}

func (ps places) without(p place) places {
	return slices.DeleteFunc(slices.Clone(ps), func(q place) bool { return q == p })
}

// encodePlaces returns the places in the form that they have on disk: for each place the length of
// the directory's handle, the length of the name (one byte each), the handle, and the name.
func encodePlaces(ps places) []byte {
	var b []byte
	for i := range ps {
		b = append(b, byte(ps[i].dir.Len()), byte(len(ps[i].name)))
		b = append(ps[i].dir.Append(b), ps[i].name...)
	}
	return b
}

// decodePlaces is the inverse of encodePlaces. It stops at the first part that is not valid.
func decodePlaces(b []byte) (ps places) {
	for len(b) >= 2 && len(ps) < maxPlaces {
		d, n := int(b[0]), int(b[1])
		if b = b[2:]; len(b) < d+n {
			break
		}
		h, ok := vfs.MakeHandle(b[:d])
		if name := b[d : d+n]; ok && vfs.CheckName(name, unix.NAME_MAX) == nil && !vfs.IsDot(name) {
			ps = append(ps, place{h, string(name)})
		}
		b = b[d+n:]
	}
	return ps
}
