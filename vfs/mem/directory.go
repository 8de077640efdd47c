package memfs

import (
	"slices"

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
