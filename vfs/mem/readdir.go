package memfs

import (
	"sync"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A listing holds one page of directory entries. ReadDir fills it under the directory's lock, and
// passes the entries to emit without the lock.
type listing struct {
	found [128]found
	n     int
	entry vfs.DirEntry
}

type found struct {
	name   []byte
	cookie uint64
	node   *node
}

var listings = sync.Pool{New: func() any { return new(listing) }}

var dot, dotDot = []byte("."), []byte("..")

// ReadDir implements vfs.FileSystem.
func (f *FS) ReadDir(op *vfs.Op, dir vfs.Handle, cookie uint64, plus bool, dirAttr *vfs.Attr, emit func(e *vfs.DirEntry) bool) (eof bool, err error) {
	if err := f.enter(op, ReadDir); err != nil {
		return false, err
	}
	f.leave() // a Crash does not change names, and emit may call other methods
	l := listings.Get().(*listing)
	defer func() {
		clear(l.found[:])
		l.entry = vfs.DirEntry{}
		listings.Put(l)
	}()
	for first := true; ; first = false {
		end, err := f.page(op, dir, cookie, l, dirAttr, first)
		if err != nil {
			return false, err
		}
		for i := range l.found[:l.n] {
			e := &l.found[i]
			l.entry = vfs.DirEntry{Name: e.name, FileID: e.node.attr.FileID, Cookie: e.cookie}
			if plus {
				e.node.mu.RLock()
				if !e.node.gone {
					l.entry.Handle, l.entry.HasAttr = f.handle(e.node), true
					e.node.tell(op, &l.entry.Attr)
				}
				e.node.mu.RUnlock()
			}
			cookie = e.cookie
			if !emit(&l.entry) {
				return false, nil
			}
		}
		if end {
			return true, nil
		}
	}
}

// page fills l with the entries after cookie. end is true if these include the last one. first is
// true for the first page of a ReadDir.
func (f *FS) page(op *vfs.Op, dir vfs.Handle, cookie uint64, l *listing, dirAttr *vfs.Attr, first bool) (end bool, err error) {
	d, err := f.rlock(dir)
	if err != nil {
		return false, err
	}
	defer d.mu.RUnlock()
	if first {
		*dirAttr = d.attr
	}
	switch {
	case d.dir == nil:
		return false, syscall.ENOTDIR
	case first && !may(op.Cred, &d.attr, mayRead):
		return false, syscall.EACCES
	case cookie > d.dir.last:
		return false, vfs.ErrBadCookie
	}
	l.n = 0
	if cookie < dotCookie {
		l.add(dot, dotCookie, d)
	}
	if cookie < dotDotCookie {
		l.add(dotDot, dotDotCookie, d.dir.parent)
	}
	for _, e := range d.dir.order[d.dir.after(cookie):] {
		if e.node == nil {
			continue
		}
		if l.n == len(l.found) {
			return false, nil
		}
		l.add(e.name, e.cookie, e.node)
	}
	return true, nil
}

func (l *listing) add(name []byte, cookie uint64, n *node) {
	l.found[l.n] = found{name, cookie, n}
	l.n++
}
