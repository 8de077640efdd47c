package pseudo

import (
	"slices"
	"sync/atomic"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Cookies of the entries that every directory has. All others follow.
const (
	dotCookie    = 1
	dotDotCookie = 2
	firstCookie  = 3
)

// FS is the file system of the directories above and between exports. It implements
// vfs.FileSystem as a client that sees all exports would use it; Below says which of its
// names a client sees.
type FS struct {
	exports *export.Table
	export  *export.Export // the one that FS is
	tree    atomic.Pointer[tree]
}

var _ vfs.FileSystem = (*FS)(nil)

// Attach returns the tree of names of a table, and makes it the table's root. It is
// called before the table's first Replace.
func Attach(t *export.Table) *FS {
	f := &FS{exports: t}
	f.export = &export.Export{Name: "/", FS: f, ReadOnly: true, Squash: export.AllSquash, AnonUID: export.Nobody, AnonGID: export.Nobody}
	t.SetRoot(f.export)
	return f
}

// now is the tree of the exports that there are now.
func (f *FS) now() *tree {
	of := f.exports.Tree()
	t := f.tree.Load()
	if t == nil || t.of != of {
		t = grow(of)
		f.tree.Store(t)
	}
	return t
}

// find is the node that a handle names.
func (f *FS) find(h vfs.Handle) (*tree, *node, error) {
	t := f.now()
	if n := t.byHandle[h]; n != nil {
		return t, n, nil
	}
	if h.Len() != 17 || h.Bytes()[0] != handleFormat {
		return t, nil, vfs.ErrBadHandle
	}
	return t, nil, syscall.ESTALE
}

// attr are the attributes of a directory.
func (t *tree) attr(n *node) vfs.Attr {
	return vfs.Attr{
		Type: vfs.Directory, Mode: 0o555, Nlink: uint32(2 + len(n.children)), FileID: n.fileID,
		Atime: t.built, Mtime: t.built, Ctime: t.built, Change: t.change,
	}
}

// Root implements vfs.FileSystem.
func (f *FS) Root() vfs.Handle { return f.now().root.handle }

// Lane implements vfs.FileSystem.
func (f *FS) Lane() any { return f }

// Info implements vfs.FileSystem.
func (f *FS) Info(_ *vfs.Op, h vfs.Handle) (vfs.Info, error) {
	if _, _, err := f.find(h); err != nil {
		return vfs.Info{}, err
	}
	return vfs.Info{
		MaxName: 255, MaxLink: 1, TimeGranularity: vfs.Time{Nsec: 1}, NoTruncate: true,
		ChownRestricted: true, CasePreserving: true, Homogeneous: true, ReadOnly: true,
	}, nil
}

// Usage implements vfs.FileSystem.
func (f *FS) Usage(_ *vfs.Op, h vfs.Handle) (vfs.Usage, error) {
	t, _, err := f.find(h)
	if err != nil {
		return vfs.Usage{}, err
	}
	return vfs.Usage{TotalFiles: uint64(len(t.byHandle))}, nil
}

// GetAttr implements vfs.FileSystem.
func (f *FS) GetAttr(_ *vfs.Op, h vfs.Handle, a *vfs.Attr) error {
	t, n, err := f.find(h)
	if err == nil {
		*a = t.attr(n)
	}
	return err
}

// Access implements vfs.FileSystem.
func (f *FS) Access(op *vfs.Op, h vfs.Handle, want vfs.Access, a *vfs.Attr) (vfs.Access, error) {
	if err := f.GetAttr(op, h, a); err != nil {
		return 0, err
	}
	return want & (vfs.AccessRead | vfs.AccessLookup), nil
}

// Lookup implements vfs.FileSystem.
func (f *FS) Lookup(_ *vfs.Op, dir vfs.Handle, name []byte, dirAttr *vfs.Attr) (o vfs.Object, err error) {
	t, n, err := f.find(dir)
	if err != nil {
		return o, err
	}
	*dirAttr = t.attr(n)
	switch string(name) {
	case ".":
	case "..":
		if n.parent != nil {
			n = n.parent
		}
	default:
		if n = n.children[string(name)]; n == nil {
			return o, syscall.ENOENT
		}
	}
	return vfs.Object{Handle: n.handle, Attr: t.attr(n), HasAttr: true}, nil
}

// ReadDir implements vfs.FileSystem.
func (f *FS) ReadDir(_ *vfs.Op, dir vfs.Handle, cookie uint64, plus bool, dirAttr *vfs.Attr, emit func(e *vfs.DirEntry) bool) (eof bool, err error) {
	t, n, err := f.find(dir)
	if err != nil {
		return false, err
	}
	*dirAttr = t.attr(n)
	var entry vfs.DirEntry
	put := func(name string, n *node, cookie uint64) bool {
		entry = vfs.DirEntry{Name: append(entry.Name[:0], name...), FileID: n.fileID, Cookie: cookie}
		if plus {
			entry.Handle, entry.Attr, entry.HasAttr = n.handle, t.attr(n), true
		}
		return emit(&entry)
	}
	if cookie < dotCookie && !put(".", n, dotCookie) {
		return false, nil
	}
	up := n
	if n.parent != nil {
		up = n.parent
	}
	if cookie < dotDotCookie && !put("..", up, dotDotCookie) {
		return false, nil
	}
	i, found := slices.BinarySearchFunc(n.sorted, &node{cookie: cookie}, byCookie)
	if found {
		i++
	}
	for _, child := range n.sorted[i:] {
		if !put(child.name, child, child.cookie) {
			return false, nil
		}
	}
	return true, nil
}

// ReadLink implements vfs.FileSystem: there are only directories.
func (f *FS) ReadLink(_ *vfs.Op, h vfs.Handle, _ []byte, _ *vfs.Attr) (int, error) {
	if _, _, err := f.find(h); err != nil {
		return 0, err
	}
	return 0, syscall.EINVAL
}

// Read implements vfs.FileSystem.
func (f *FS) Read(_ *vfs.Op, h vfs.Handle, _ uint64, _ []byte, _ *vfs.Attr) (int, bool, error) {
	if _, _, err := f.find(h); err != nil {
		return 0, false, err
	}
	return 0, false, syscall.EISDIR
}

// Verifier implements vfs.FileSystem.
func (f *FS) Verifier() (v [8]byte) { return v }

// Close implements vfs.FileSystem.
func (f *FS) Close() error { return nil }
