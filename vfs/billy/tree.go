package billy

import (
	"encoding/binary"
	"hash/fnv"
	"slices"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A node is a file that a client has seen.
type node struct {
	handle vfs.Handle
	id     uint64 // Attr.FileID
	inode  bool   // id is the file system's own
	kind   vfs.Type
	links  []*entry // its names; empty for the root, and if the file is gone
	directory
	// seen are the attributes shown at the last look; zero before the first one.
	seen vfs.Attr
	// stamp grows with each change seen or made. If the file system shows no ctime, it is the
	// ctime.
	stamp int64 // nanoseconds since 1970
	// mtime is set if a client changed the file and the file system did not update its own.
	mtime     vfs.Time
	did       done     // since it was observed
	made      bool     // by a client of this process
	exclusive *[8]byte // the verifier of the exclusive Create that made it
}

// tree holds the files that clients have seen. It is a tree of names, because billy file systems
// use paths and clients use handles.
type tree struct {
	root     *node
	byHandle map[vfs.Handle]*node
	byID     map[uint64]*node
	life     uint64 // identifies this process in handles and cookies that are valid only in it
	lastOwn  uint64
	device   uint64 // of the root, where it shows one
}

// First bytes of handles.
const (
	ownHandle     = 'o' // life, number: good in this process
	handlerHandle = 'h' // file number, the handler's handle
)

const (
	ownLen   = 1 + 8 + 8
	theirsAt = 1 + 8 // where the handler's handle begins
)

// salt is in the upper bits of every cookie.
func (t *tree) salt() uint64 { return t.life & (1<<22 - 1) << 40 }

func hash(parts ...string) uint64 {
	h := fnv.New64a()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return h.Sum64() | 1
}

// is reports whether a are attributes of the file n.
func (n *node) is(a *vfs.Attr) bool {
	return a.Type == n.kind && (a.FileID == 0 || !n.inode || a.FileID == n.id)
}

// newNode makes the node of the file at path, with attributes a, and adds it to the tree.
func (f *FS) newNode(path []string, a *vfs.Attr) *node {
	n := &node{kind: a.Type, id: a.FileID, inode: a.FileID != 0}
	if !n.inode {
		n.id = hash(path...)
		for f.byID[n.id] != nil || n.id == 0 {
			n.id++
		}
	}
	// The handle contains the file number, because after a rename a handler may give a file the
	// handle that another file had.
	b := binary.LittleEndian.AppendUint64([]byte{handlerHandle}, n.id)
	b = append(b, f.handler.ToHandle(f.bfs, path)...)
	if len(b) == theirsAt || len(b) > vfs.MaxHandle {
		f.lastOwn++
		b = binary.LittleEndian.AppendUint64([]byte{ownHandle}, f.life)
		b = binary.LittleEndian.AppendUint64(b, f.lastOwn)
	}
	n.handle, _ = vfs.MakeHandle(b)
	if n.kind == vfs.Directory {
		n.directory = directory{names: make(map[string]*entry), last: f.salt() + dotDotCookie}
	}
	f.byHandle[n.handle] = n
	f.byID[n.id] = n
	return n
}

// components returns the path of n, or ESTALE.
func (f *FS) components(n *node) (path []string, err error) {
	for len(n.links) > 0 {
		path = append(path, n.links[0].name)
		n = n.links[0].dir
	}
	if n != f.root {
		return nil, syscall.ESTALE
	}
	slices.Reverse(path)
	return path, nil
}

// find returns the node of a handle.
func (f *FS) find(h vfs.Handle) (*node, error) {
	if n := f.byHandle[h]; n != nil {
		return n, nil
	}
	b := h.Bytes()
	switch {
	case len(b) == ownLen && b[0] == ownHandle:
		return nil, syscall.ESTALE // removed, or of an earlier process
	case len(b) <= theirsAt || b[0] != handlerHandle:
		return nil, vfs.ErrBadHandle
	case !f.alone:
		return nil, errAlone
	}
	// An earlier process made the handle. The handler knows the path.
	_, path, err := f.handler.FromHandle(b[theirsAt:])
	if err != nil {
		return nil, syscall.ESTALE
	}
	n := f.root
	for _, name := range path {
		if vfs.CheckName([]byte(name), maxName) != nil || vfs.IsDot([]byte(name)) || n.kind != vfs.Directory {
			return nil, syscall.ESTALE
		}
		if n, _, err = f.step(n, name); err == syscall.ENOENT {
			return nil, syscall.ESTALE
		} else if err != nil {
			return nil, err
		}
	}
	// The path may lead to another file now.
	if n.handle != h {
		return nil, syscall.ESTALE
	}
	return n, nil
}

// step finds name in dir and looks at it.
func (f *FS) step(dir *node, name string) (*node, vfs.Attr, error) {
	a, err := f.lstat(dir, name)
	if err == syscall.ENOENT && dir.names[name] != nil {
		if !f.alone {
			return nil, a, errAlone
		}
		f.detach(dir.names[name])
	}
	if err != nil {
		return nil, a, err
	}
	n, err := f.adopt(dir, name, &a)
	if err == nil {
		err = f.observe(n, &a)
	}
	return n, a, err
}

// adopt returns the node of name in dir. a are the attributes that the file system shows for it.
func (f *FS) adopt(dir *node, name string, a *vfs.Attr) (*node, error) {
	if e := dir.names[name]; e != nil && e.node.is(a) {
		return e.node, nil
	}
	if !f.alone {
		return nil, errAlone
	}
	path, err := f.components(dir)
	if err != nil {
		return nil, err
	}
	f.detach(dir.names[name])
	n := f.byID[a.FileID]
	if a.Nlink < 2 || n == nil || !n.inode || n.kind == vfs.Directory || !n.is(a) {
		n = f.newNode(append(path, name), a)
	} // else another name of a file that is known
	n.attach(dir, name)
	return n, nil
}

// attach gives n a new name in dir.
func (n *node) attach(dir *node, name string) {
	dir.last++
	e := &entry{name: name, cookie: dir.last, dir: dir, node: n}
	dir.names[name] = e
	dir.order = append(dir.order, e)
	n.links = append(n.links, e)
}

// detach removes the name e and, if it was the node's last name, the node. It does nothing if e
// is nil.
func (f *FS) detach(e *entry) {
	if e == nil {
		return
	}
	n, d := e.node, &e.dir.directory
	e.node = nil
	delete(d.names, e.name)
	if len(d.order) > 2*len(d.names)+32 {
		d.order = slices.DeleteFunc(d.order, func(e *entry) bool { return e.node == nil })
	}
	n.links = slices.DeleteFunc(n.links, func(l *entry) bool { return l == e })
	if len(n.links) > 0 {
		return
	}
	// Another file may get the same number and the same path.
	f.invalidate(n)
	delete(f.byHandle, n.handle)
	if f.byID[n.id] == n {
		delete(f.byID, n.id)
	}
	for _, below := range n.names {
		f.detach(below)
	}
}

// lose forgets a node whose file is no longer at its path.
func (f *FS) lose(n *node) {
	for len(n.links) > 0 {
		f.detach(n.links[0])
	}
}

// invalidate tells the handler that the path of n's handle is no longer valid. An error of the
// handler is ignored, because the client's call has succeeded.
func (f *FS) invalidate(n *node) {
	if b := n.handle.Bytes(); b[0] == handlerHandle {
		_ = f.handler.InvalidateHandle(f.bfs, b[theirsAt:])
	}
}
