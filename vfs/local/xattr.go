package local

import (
	"bytes"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// System calls for extended attributes of O_PATH descriptors need Linux 6.13. So this file uses the
// descriptor's path in /proc/self/fd. The calls run with the caller's identity, so that the kernel
// checks the caller's rights.

// userSpace is the prefix of the names of extended attributes that users may set. Clients see only
// these.
const userSpace = "user."

var _ vfs.Xattrs = (*FS)(nil)

// xattrName returns an attribute's name as local programs see it.
func (fs *FS) xattrName(name []byte) (string, error) {
	switch {
	case !fs.xattrs:
		return "", vfs.ErrNotSupported
	case len(name) == 0 || bytes.IndexByte(name, 0) >= 0:
		return "", syscall.EINVAL
	case len(name) > maxName-len(userSpace):
		return "", syscall.ENAMETOOLONG
	}
	return userSpace + string(name), nil
}

// procPath returns the path in /proc/self/fd of n's descriptor.
func (n *node) procPath() string { return "/proc/self/fd/" + strconv.Itoa(n.fd) }

// keepsXattrs reports whether the file system of the directory fd keeps extended attributes of users. It
// depends on the kind of file system, its options and the kernel: the kernel is asked for an attribute that
// the directory need not have.
func keepsXattrs(fd int) bool {
	_, err := unix.Fgetxattr(fd, userSpace+"nfsrdmad", nil)
	return err != unix.EOPNOTSUPP
}

// KeepsXattrs implements vfs.Xattrs.
func (fs *FS) KeepsXattrs() bool { return fs.xattrs }

// GetXattr implements vfs.Xattrs.
func (fs *FS) GetXattr(op *vfs.Op, h vfs.Handle, name, buf []byte) (got int, err error) {
	full, err := fs.xattrName(name)
	if err != nil {
		return 0, err
	}
	if op.Try {
		return 0, vfs.ErrWouldBlock // extended attributes may be in disk blocks of their own
	}
	var is look
	n, err := fs.lookAt(op, h, &is)
	if err != nil {
		return 0, err
	}
	defer n.put()
	// With an empty buffer the system call would return the value's length instead of ERANGE.
	room := buf
	if len(room) == 0 {
		room = make([]byte, 1)
	}
	got, err = callAs(&fs.identity, op.Cred, func() (int, error) {
		return again(func() (int, error) { return unix.Getxattr(n.procPath(), full, room) })
	})
	if err == nil && got > len(buf) {
		err = syscall.ERANGE
	}
	if err != nil {
		return 0, notSupported(err)
	}
	return got, nil
}

// ListXattrs implements vfs.Xattrs. The kernel lists attribute names of all kinds to any caller.
// So this method checks permission itself and returns only the names that begin with "user.".
func (fs *FS) ListXattrs(op *vfs.Op, h vfs.Handle, buf []byte) (int, error) {
	switch {
	case !fs.xattrs:
		return 0, vfs.ErrNotSupported
	case op.Try:
		return 0, vfs.ErrWouldBlock
	}
	var is look
	n, err := fs.lookAt(op, h, &is)
	if err != nil {
		return 0, err
	}
	defer n.put()
	if n.typ != vfs.Regular && n.typ != vfs.Directory {
		return 0, nil
	}
	if err = fs.require(op, n, &is, mayRead); err != nil {
		return 0, err
	}
	all := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(all)
	got, err := again(func() (int, error) { return unix.Listxattr(n.procPath(), *all) })
	if err != nil {
		return 0, notSupported(err)
	}
	used := 0
	for name := range bytes.SplitAfterSeq((*all)[:got], []byte{0}) {
		short, ok := bytes.CutPrefix(name, []byte(userSpace))
		if !ok {
			continue
		}
		if len(short) > len(buf)-used {
			return 0, syscall.ERANGE
		}
		used += copy(buf[used:], short)
	}
	return used, nil
}

// SetXattr implements vfs.Xattrs.
func (fs *FS) SetXattr(op *vfs.Op, h vfs.Handle, name, value []byte, mode vfs.XattrMode) (vfs.Change, error) {
	flags := 0
	switch mode {
	case vfs.XattrCreate:
		flags = unix.XATTR_CREATE
	case vfs.XattrReplace:
		flags = unix.XATTR_REPLACE
	}
	return fs.changeXattr(op, h, name, func(path, name string) error {
		return uninterrupted(func() error { return unix.Setxattr(path, name, value, flags) })
	})
}

// RemoveXattr implements vfs.Xattrs.
func (fs *FS) RemoveXattr(op *vfs.Op, h vfs.Handle, name []byte) (vfs.Change, error) {
	return fs.changeXattr(op, h, name, func(path, name string) error {
		return uninterrupted(func() error { return unix.Removexattr(path, name) })
	})
}

// changeXattr changes an extended attribute of h by calling change, with the caller's identity.
func (fs *FS) changeXattr(op *vfs.Op, h vfs.Handle, name []byte, change func(path, name string) error) (ch vfs.Change, err error) {
	full, err := fs.xattrName(name)
	switch {
	case err != nil:
		return ch, err
	case fs.readOnly:
		return ch, syscall.EROFS
	case op.Try:
		return ch, vfs.ErrWouldBlock
	}
	n, err := fs.node(op, h)
	if err != nil {
		return ch, err
	}
	defer n.put()
	m := n.mark()
	if err = n.changeXattr(op, &ch, func() error { return change(n.procPath(), full) }); err != nil {
		return ch, notSupported(err)
	}
	return ch, fs.syncer.durable(op, m)
}

// changeXattr runs the function do, which changes n's extended attributes, with the caller's
// identity. It stores the attributes before and after in ch.
func (n *node) changeXattr(op *vfs.Op, ch *vfs.Change, do func() error) error {
	n.inode.mu.Lock()
	defer n.inode.mu.Unlock()
	var is look
	if err := n.fs.look(op, n, &is); err != nil {
		return err
	}
	c := n.before(&is, ch)
	err := n.fs.identity.as(op.Cred, do)
	_ = c.after(err == nil, &is)
	return err
}
