package memfs

import (
	"bytes"
	"maps"
	"slices"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

const (
	maxXattrName = 250
	// xattrRoom is the maximum storage of all extended attributes of one file, in bytes.
	xattrRoom = 4 * vfs.MaxXattr
	// xattrCost is the storage, in bytes, of one attribute beyond its name and value.
	xattrCost = 32
)

var _ vfs.Xattrs = (*FS)(nil)

func checkXattr(name []byte) error {
	switch {
	case len(name) == 0 || bytes.IndexByte(name, 0) >= 0:
		return syscall.EINVAL
	case len(name) > maxXattrName:
		return syscall.ENAMETOOLONG
	}
	return nil
}

// hasXattrs reports whether n is of a type that can have extended attributes.
func (n *node) hasXattrs() bool { return n.data != nil || n.dir != nil }

// xattrList returns the length, in bytes, of the list of the names of n's extended attributes.
func (n *node) xattrList() (length int) {
	for name := range n.xattrs {
		length += len(name) + 1
	}
	return length
}

// readXattrs returns the node of h, locked for reading, if op's caller may read its extended
// attributes.
func (f *FS) readXattrs(op *vfs.Op, h vfs.Handle) (*node, error) {
	n, err := f.rlock(h)
	if err != nil {
		return nil, err
	}
	if n.hasXattrs() && !may(op.Cred, &n.attr, mayRead) {
		n.mu.RUnlock()
		return nil, syscall.EACCES
	}
	return n, nil
}

// KeepsXattrs implements vfs.Xattrs.
func (f *FS) KeepsXattrs() bool { return true }

// GetXattr implements vfs.Xattrs.
func (f *FS) GetXattr(op *vfs.Op, h vfs.Handle, name, buf []byte) (int, error) {
	if err := f.enter(op, GetXattr); err != nil {
		return 0, err
	}
	defer f.leave()
	if err := checkXattr(name); err != nil {
		return 0, err
	}
	n, err := f.readXattrs(op, h)
	if err != nil {
		return 0, err
	}
	defer n.mu.RUnlock()
	value, ok := n.xattrs[string(name)]
	switch {
	case !ok:
		return 0, syscall.ENODATA
	case len(value) > len(buf):
		return 0, syscall.ERANGE
	}
	return copy(buf, value), nil
}

// ListXattrs implements vfs.Xattrs. The names are sorted.
func (f *FS) ListXattrs(op *vfs.Op, h vfs.Handle, buf []byte) (int, error) {
	if err := f.enter(op, ListXattrs); err != nil {
		return 0, err
	}
	defer f.leave()
	n, err := f.readXattrs(op, h)
	if err != nil {
		return 0, err
	}
	defer n.mu.RUnlock()
	used := 0
	for _, name := range slices.Sorted(maps.Keys(n.xattrs)) {
		if len(buf)-used <= len(name) {
			return 0, syscall.ERANGE
		}
		used += copy(buf[used:], name)
		buf[used] = 0
		used++
	}
	return used, nil
}

// SetXattr implements vfs.Xattrs.
func (f *FS) SetXattr(op *vfs.Op, h vfs.Handle, name, value []byte, mode vfs.XattrMode) (vfs.Change, error) {
	if len(value) > vfs.MaxXattr {
		return vfs.Change{}, syscall.E2BIG
	}
	return f.changeXattr(op, SetXattr, h, name, func(n *node, was []byte, is bool) error {
		switch {
		case is && mode == vfs.XattrCreate:
			return syscall.EEXIST
		case !is && mode == vfs.XattrReplace:
			return syscall.ENODATA
		}
		more := len(value) - len(was)
		if !is {
			more += len(name) + xattrCost
		}
		tooLong := !is && n.xattrList()+len(name)+1 > vfs.MaxXattr
		if tooLong || n.xattrBytes+more > xattrRoom || !f.reserve(more) {
			return syscall.ENOSPC
		}
		n.xattrBytes += more
		if n.xattrs == nil {
			n.xattrs = make(map[string][]byte)
		}
		n.xattrs[string(name)] = slices.Clone(value)
		return nil
	})
}

// RemoveXattr implements vfs.Xattrs.
func (f *FS) RemoveXattr(op *vfs.Op, h vfs.Handle, name []byte) (vfs.Change, error) {
	return f.changeXattr(op, RemoveXattr, h, name, func(n *node, was []byte, is bool) error {
		if !is {
			return syscall.ENODATA
		}
		less := len(name) + len(was) + xattrCost
		delete(n.xattrs, string(name))
		n.xattrBytes -= less
		f.bytes.Add(-int64(less))
		return nil
	})
}

// changeXattr locks the file's node and calls the function change. It passes the node, the
// attribute's present value (was), and whether the attribute exists (is).
func (f *FS) changeXattr(op *vfs.Op, m Method, h vfs.Handle, name []byte, change func(n *node, was []byte, is bool) error) (vfs.Change, error) {
	if err := checkXattr(name); err != nil {
		return vfs.Change{}, err
	}
	return f.alter(op, m, h, func(n *node) error {
		switch {
		case !n.hasXattrs():
			return syscall.EPERM
		case n.dir != nil && n.attr.Mode&sticky != 0 && op.Cred.UID != 0 && op.Cred.UID != n.attr.UID:
			return syscall.EPERM
		case !may(op.Cred, &n.attr, mayWrite):
			return syscall.EACCES
		}
		was, is := n.xattrs[string(name)]
		err := change(n, was, is)
		if err == nil {
			n.touch(f.now(), false)
		}
		return err
	})
}
