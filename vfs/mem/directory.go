package memfs

import (
	"slices"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Cookies of the entries that every directory has. All others follow.
const (
	dotCookie    = 1
	dotDotCookie = 2
)

// A directory maps names to nodes. Its node's lock guards it.
type directory struct {
	names map[string]*entry
	// order holds the entries by rising cookie, the removed ones too until
	// they are half of it.
	order []*entry
	dead  int
	last  uint64 // the youngest cookie
	// parent changes under FS.renames and the node's lock: either suffices
	// to read it.
	parent *node
}

// An entry is a name in a directory. name and cookie never change.
type entry struct {
	name   []byte
	cookie uint64
	node   *node // nil once removed
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

// put gives n the name. A new name goes to the end of the order; an existing one keeps its place.
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

// after returns the index, in d.order, of the first entry behind cookie.
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

// entryBytes is what an entry adds to a directory's size: directories have
// sizes so that programs which look at them see something.
const entryBytes = 32

// renamed marks a change of the names in n, a locked directory.
func (n *node) renamed(now vfs.Time) {
	n.attr.Size = uint64(len(n.dir.names)+2) * entryBytes
	n.touch(now, true)
}
