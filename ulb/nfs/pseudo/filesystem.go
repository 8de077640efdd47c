package pseudo

import (
	"slices"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Cookies of the two entries that every directory has. All other cookies are higher.
const (
	dotCookie    = 1
	dotDotCookie = 2
	firstCookie  = 3
)

// Seen is the tree for one caller: the root, and the directories that lead to an export that serves it.
type Seen struct {
	*FS
	// By is the caller's connection. If it is nil, only the root is visible, and it is empty.
	By     *rpc.Conn
	Caller *rpc.Cred
}

var _ vfs.FileSystem = Seen{}

// find returns the node that a handle names, or ESTALE if the caller does not see it.
func (f Seen) find(h vfs.Handle) (*tree, *node, error) {
	t := f.now()
	if n := t.byHandle[h]; n != nil && (n == t.root || f.sees(n)) {
		return t, n, nil
	}
	if h.Len() != 17 || h.Bytes()[0] != handleFormat {
		return t, nil, vfs.ErrBadHandle
	}
	return t, nil, syscall.ESTALE
}

// sees reports whether the caller sees node n, which is not the root.
func (f Seen) sees(n *node) bool { return f.By != nil && n.leads(f.By, f.Caller) }

// attr returns the attributes of a directory.
func (f Seen) attr(t *tree, n *node) vfs.Attr {
	links := uint32(2)
	for _, child := range n.sorted {
		if f.sees(child) {
			links++
		}
	}
	return vfs.Attr{
		Type: vfs.Directory, Mode: 0o555, Nlink: links, FileID: n.fileID,
		Atime: t.since, Mtime: t.since, Ctime: t.since, Change: t.change,
	}
}

// The following methods are those of vfs.FileSystem.

func (f Seen) Root() vfs.Handle  { return f.now().root.handle }
func (f Seen) Lane() any         { return f.FS }
func (f Seen) Verifier() [8]byte { return [8]byte{} }
func (f Seen) Close() error      { return nil }

func (f Seen) Info(_ *vfs.Op, h vfs.Handle) (vfs.Info, error) {
	if _, _, err := f.find(h); err != nil {
		return vfs.Info{}, err
	}
	return vfs.Info{
		MaxName: 255, MaxLink: 1, TimeGranularity: vfs.Time{Nsec: 1}, ReadOnly: true,
	}, nil
}

func (f Seen) Usage(_ *vfs.Op, h vfs.Handle) (vfs.Usage, error) {
	t, _, err := f.find(h)
	if err != nil {
		return vfs.Usage{}, err
	}
	return vfs.Usage{TotalFiles: uint64(len(t.byHandle))}, nil
}

func (f Seen) GetAttr(_ *vfs.Op, h vfs.Handle, a *vfs.Attr) error {
	t, n, err := f.find(h)
	if err == nil {
		*a = f.attr(t, n)
	}
	return err
}

func (f Seen) Access(op *vfs.Op, h vfs.Handle, want vfs.Access, a *vfs.Attr) (vfs.Access, error) {
	if err := f.GetAttr(op, h, a); err != nil {
		return 0, err
	}
	return want & (vfs.AccessRead | vfs.AccessLookup), nil
}

func (f Seen) Lookup(_ *vfs.Op, dir vfs.Handle, name []byte, dirAttr *vfs.Attr) (o vfs.Object, err error) {
	t, n, err := f.find(dir)
	if err != nil {
		return o, err
	}
	*dirAttr = f.attr(t, n)
	switch string(name) {
	case ".":
	case "..":
		if n.parent != nil {
			n = n.parent
		}
	default:
		if n = n.children[string(name)]; n == nil || !f.sees(n) {
			return o, syscall.ENOENT
		}
	}
	return vfs.Object{Handle: n.handle, Attr: f.attr(t, n), HasAttr: true}, nil
}

func (f Seen) ReadDir(_ *vfs.Op, dir vfs.Handle, cookie uint64, plus bool, dirAttr *vfs.Attr, emit func(e *vfs.DirEntry) bool) (eof bool, err error) {
	t, n, err := f.find(dir)
	if err != nil {
		return false, err
	}
	*dirAttr = f.attr(t, n)
	var entry vfs.DirEntry
	put := func(name string, n *node, cookie uint64) bool {
		entry = vfs.DirEntry{Name: append(entry.Name[:0], name...), FileID: n.fileID, Cookie: cookie}
		if plus {
			entry.Handle, entry.Attr, entry.HasAttr = n.handle, f.attr(t, n), true
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
		if f.sees(child) && !put(child.name, child, child.cookie) {
			return false, nil
		}
	}
	return true, nil
}

// ReadLink returns EINVAL, because this file system has only directories.
func (f Seen) ReadLink(_ *vfs.Op, h vfs.Handle, _ []byte, _ *vfs.Attr) (int, error) {
	if _, _, err := f.find(h); err != nil {
		return 0, err
	}
	return 0, syscall.EINVAL
}

func (f Seen) Read(_ *vfs.Op, h vfs.Handle, _ uint64, _ []byte, _ *vfs.Attr) (int, bool, error) {
	if _, _, err := f.find(h); err != nil {
		return 0, false, err
	}
	return 0, false, syscall.EISDIR
}

// The following methods would change the file system. All of them fail.

func (Seen) SetAttr(*vfs.Op, vfs.Handle, *vfs.SetAttr, *vfs.Time) (vfs.Change, error) {
	return vfs.Change{}, syscall.EROFS
}
func (Seen) Write(*vfs.Op, vfs.Handle, uint64, [][]byte, vfs.Stability) (int, vfs.Stability, vfs.Change, error) {
	return 0, 0, vfs.Change{}, syscall.EROFS
}
func (Seen) Commit(*vfs.Op, vfs.Handle, uint64, uint32) (vfs.Change, error) {
	return vfs.Change{}, syscall.EISDIR
}
func (Seen) Create(*vfs.Op, vfs.Handle, []byte, *vfs.CreateHow) (vfs.Object, vfs.Change, error) {
	return vfs.Object{}, vfs.Change{}, syscall.EROFS
}
func (Seen) Mkdir(*vfs.Op, vfs.Handle, []byte, *vfs.SetAttr) (vfs.Object, vfs.Change, error) {
	return vfs.Object{}, vfs.Change{}, syscall.EROFS
}
func (Seen) Symlink(*vfs.Op, vfs.Handle, []byte, []byte, *vfs.SetAttr) (vfs.Object, vfs.Change, error) {
	return vfs.Object{}, vfs.Change{}, syscall.EROFS
}
func (Seen) Mknod(*vfs.Op, vfs.Handle, []byte, vfs.Type, *vfs.SetAttr, uint32, uint32) (vfs.Object, vfs.Change, error) {
	return vfs.Object{}, vfs.Change{}, syscall.EROFS
}
func (Seen) Remove(*vfs.Op, vfs.Handle, []byte) (vfs.Change, error) {
	return vfs.Change{}, syscall.EROFS
}
func (Seen) Rmdir(*vfs.Op, vfs.Handle, []byte) (vfs.Change, error) {
	return vfs.Change{}, syscall.EROFS
}
func (Seen) Rename(*vfs.Op, vfs.Handle, []byte, vfs.Handle, []byte) (from, to vfs.Change, err error) {
	return from, to, syscall.EROFS
}
func (Seen) Link(*vfs.Op, vfs.Handle, vfs.Handle, []byte, *vfs.Attr) (vfs.Change, error) {
	return vfs.Change{}, syscall.EROFS
}
