package billy

import (
	"encoding/binary"
	"hash/fnv"
	"io/fs"
	"slices"
	"sort"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A node is a file that a client has seen.
type node struct {
	handle vfs.Handle
	id     uint64 // Attr.FileID
	inode  bool   // true if id is the file system's inode number
	kind   vfs.Type
	links  []*entry // its names; empty for the root and for a removed file
	directory
	// seen holds the attributes at the last call of FS.note, without Atime and Used, or zero.
	seen vfs.Attr
	// stamp is the file's Change. It grows with each change that a call saw or made. If the file
	// system has no ctime, stamp is also the ctime that clients get.
	stamp int64 // nanoseconds since 1970
	// mtime is the time of a client's change after which the file system did not update its own mtime.
	// Clients get the later one. It is zero without such a change, or if a client has set mtime since.
	mtime     vfs.Time
	did       done     // what calls did to the file since the last call of FS.note
	made      bool     // true if a client of this process made the file
	exclusive *[8]byte // verifier of the Exclusive Create that made it, or nil
}

// tree holds the files that clients have seen, as a tree of names. It translates handles, which
// clients use, to paths, which billy file systems use.
type tree struct {
	root     *node
	byHandle map[vfs.Handle]*node
	byID     map[uint64]*node
	life     uint64 // random number of this process, in handles and cookies that are valid only in this process
	lastOwn  uint64 // number in the last ownHandle made
	device   uint64 // device of the root; 0 if the file system does not say
}

// First bytes of handles.
const (
	ownHandle     = 'o' // followed by life and a number; valid only in this process
	handlerHandle = 'h' // followed by the file number and the handler's handle
)

const (
	ownLen   = 1 + 8 + 8
	theirsAt = 1 + 8 // offset of the handler's handle
)

// salt returns the upper bits of every cookie. They differ from process to process, so that
// cookies of an earlier process are recognized.
func (t *tree) salt() uint64 { return t.life & (1<<22 - 1) << 40 }

func hash(parts ...string) uint64 {
	h := fnv.New64a()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return h.Sum64() | 1
}

// n.is(a) reports whether a can be the attributes of the file n.
func (n *node) is(a *vfs.Attr) bool {
	return a.Type == n.kind && (a.FileID == 0 || !n.inode || a.FileID == n.id)
}

// newNode makes a node for the file at path with attributes a, and adds it to byHandle and byID.
func (f *FS) newNode(path []string, a *vfs.Attr) *node {
	n := &node{kind: a.Type, id: a.FileID, inode: a.FileID != 0}
	if !n.inode {
		n.id = hash(path...)
		for f.byID[n.id] != nil || n.id == 0 {
			n.id++
		}
	}
	// The handle contains the file number, because a handler may give a handle to another file later. A
	// number made from the path does not tell files apart: after a rename and a restart, the file that is
	// then at the path would have the handle. So only the root, which stays, has the handler's handle then.
	var b []byte
	if n.inode || len(path) == 0 {
		b = binary.LittleEndian.AppendUint64([]byte{handlerHandle}, n.id)
		b = append(b, f.handler.ToHandle(f.bfs, path)...)
	}
	if len(b) <= theirsAt || len(b) > vfs.MaxHandle {
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

// components returns the path of n. ESTALE: n has no path to the root any more.
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
		return nil, syscall.ESTALE // the file was removed, or an earlier process made the handle
	case len(b) <= theirsAt || b[0] != handlerHandle:
		return nil, vfs.ErrBadHandle
	case !f.alone:
		return nil, errAlone
	}
	// An earlier process made the handle. The handler converts its part to a path.
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
	// Another file may be at the path now.
	if n.handle != h {
		return nil, syscall.ESTALE
	}
	return n, nil
}

// step returns the node of name in dir, and its attributes.
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

// adopt returns the node of name in dir. If there is no such node, adopt makes it. The argument a
// holds the file's attributes from lstat.
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
	} // else name is another name of a file that has a node
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

// detach removes the entry e, unless it is nil, and the node if that was its last name.
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
	// The Handler of go-nfs has to forget the handle of n before n leaves the maps. After that, a
	// new file may get the same number and the same path.
	f.invalidate(n)
	delete(f.byHandle, n.handle)
	if f.byID[n.id] == n {
		delete(f.byID, n.id)
	}
	for _, below := range n.names {
		f.detach(below)
	}
}

// invalidate tells the handler that the path in n's handle is no longer valid. It ignores an error
// of the handler, because the client's call has succeeded.
func (f *FS) invalidate(n *node) {
	if b := n.handle.Bytes(); b[0] == handlerHandle {
		_ = f.handler.InvalidateHandle(f.bfs, b[theirsAt:])
	}
}

// pageLen is the largest number of entries that page returns.
const pageLen = 128

// Cookies of "." and "..", to which FS.salt is added. All other entries have larger cookies.
const (
	dotCookie    = 1
	dotDotCookie = 2
)

// A directory holds the names in one directory that the FS has seen, in the order in which it first
// saw them. An entry's cookie comes from its number in that order, so other entries do not change it.
type directory struct {
	names map[string]*entry // nil if the node is not a directory
	order []*entry          // sorted by cookie; detach takes out removed entries when there are many
	last  uint64            // the latest cookie given out
}

// An entry is a name of a node in a directory.
type entry struct {
	name   string
	cookie uint64
	dir    *node
	node   *node // nil if the entry is removed
}

// ReadDir implements vfs.FileSystem.
func (f *FS) ReadDir(op *vfs.Op, dir vfs.Handle, cookie uint64, plus bool, dirAttr *vfs.Attr, emit func(e *vfs.DirEntry) bool) (eof bool, err error) {
	a := dirAttr
	for {
		var page []vfs.DirEntry
		err := f.look(op, func() (err error) { page, eof, err = f.page(dir, cookie, plus, a); return })
		if err != nil {
			return false, err
		}
		for i := range page {
			cookie = page[i].Cookie
			if !emit(&page[i]) {
				return false, nil
			}
		}
		if eof {
			return true, nil
		}
		a = &vfs.Attr{} // dirAttr keeps the attributes read with the first page
	}
}

// page returns up to pageLen entries after cookie. end is true if no entries follow them.
func (f *FS) page(dir vfs.Handle, cookie uint64, plus bool, dirAttr *vfs.Attr) (page []vfs.DirEntry, end bool, err error) {
	d, err := f.get(dir, dirAttr)
	switch {
	case err != nil:
		return nil, false, err
	case d.kind != vfs.Directory:
		return nil, false, syscall.ENOTDIR
	}
	if cookie == 0 {
		if err := f.list(d); err != nil {
			return nil, false, err
		}
	} else if cookie <= f.salt() || cookie > d.last {
		return nil, false, vfs.ErrBadCookie // another process or directory gave out the cookie
	}
	// entries holds copies, because f.stat of one entry may remove others from d.order.
	entries := []entry{{".", f.salt() + dotCookie, d, d}, {"..", f.salt() + dotDotCookie, d, d.parent()}}
	i := sort.Search(len(d.order), func(i int) bool { return d.order[i].cookie > cookie })
	for ; i < len(d.order) && len(entries) < pageLen; i++ {
		if d.order[i].node != nil {
			entries = append(entries, *d.order[i])
		}
	}
	for _, e := range entries {
		if e.cookie <= cookie {
			continue
		}
		de := vfs.DirEntry{Name: []byte(e.name), FileID: e.node.id, Cookie: e.cookie}
		if plus {
			a, err := f.stat(e.node)
			if err == errAlone {
				return nil, false, err
			}
			if err == nil {
				de.Handle, de.Attr, de.HasAttr = e.node.handle, a, true
			}
		}
		page = append(page, de)
	}
	return page, i == len(d.order), nil
}

// list reads the names in d from the file system and updates d.directory. Each listing of the
// directory begins with a call of list.
func (f *FS) list(d *node) error {
	var infos []fs.FileInfo
	err := f.at(d, "", func(path string) (err error) { infos, err = f.bfs.ReadDir(path); return })
	if err != nil {
		return err
	}
	there := make(map[string]bool, len(infos))
	for _, info := range infos {
		name := info.Name()
		if vfs.CheckName([]byte(name), maxName) != nil || vfs.IsDot([]byte(name)) {
			continue // no client can use this name
		}
		there[name] = true
		a := f.shown(info)
		if _, err := f.adopt(d, name, &a); err != nil {
			return err
		}
	}
	for name, e := range d.names {
		if there[name] {
			continue
		}
		if !f.alone {
			return errAlone
		}
		f.detach(e)
	}
	return nil
}
