package memfs

import (
	"slices"
	"sync"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Cookies of "." and "..". All other entries have larger cookies.
const (
	dotCookie    = 1
	dotDotCookie = 2
)

// A directory maps names to nodes. The mu of its node protects it.
type directory struct {
	names map[string]*entry
	// order holds the entries sorted by cookie. It also holds removed entries, until there are at
	// least 32 of them and they are half of it. dead is the number of removed entries in it.
	order []*entry
	dead  int
	last  uint64 // the largest cookie given out
	// To change parent, a goroutine holds both FS.renames and the node's lock. To read it, either
	// lock suffices.
	parent *node
}

// An entry is a name in a directory. name and cookie never change.
type entry struct {
	name   []byte
	cookie uint64
	node   *node // nil if the entry is removed
}

func newDirectory(parent *node) *directory {
	return &directory{names: make(map[string]*entry), last: dotDotCookie, parent: parent}
}

func (d *directory) get(name []byte) *node {
	if e := d.names[string(name)]; e != nil {
		return e.node
	}
	return nil
}

// put gives n the name. A new name goes to the end of order; an existing one keeps its cookie.
func (d *directory) put(name []byte, n *node) {
	if e := d.names[string(name)]; e != nil {
		e.node = n
		return
	}
	d.last++
	e := &entry{name: slices.Clone(name), cookie: d.last, node: n}
	d.names[string(name)] = e
	d.order = append(d.order, e)
}

func (d *directory) remove(name []byte) {
	e := d.names[string(name)]
	delete(d.names, string(name))
	e.node = nil
	if d.dead++; d.dead < 32 || d.dead < len(d.order)/2 {
		return
	}
	d.order = slices.DeleteFunc(d.order, func(e *entry) bool { return e.node == nil })
	d.dead = 0
}

// after returns the index, in d.order, of the first entry after cookie.
func (d *directory) after(cookie uint64) int {
	i, found := slices.BinarySearchFunc(d.order, cookie, func(e *entry, c uint64) int {
		switch {
		case e.cookie < c:
			return -1
		case e.cookie > c:
			return 1
		}
		return 0
	})
	if found {
		i++
	}
	return i
}

// entryBytes is the number of bytes that each entry adds to a directory's Attr.Size. Directories
// have a size because programs look at it.
const entryBytes = 32

// renamed records a change of the names in directory n. The caller holds n.mu.
func (n *node) renamed(now vfs.Time) {
	n.attr.Size = uint64(len(n.dir.names)+2) * entryBytes
	n.touch(now, true)
}

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
