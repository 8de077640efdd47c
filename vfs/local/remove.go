package local

import (
	"bytes"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Remove implements vfs.FileSystem.
func (fs *FS) Remove(op *vfs.Op, dir vfs.Handle, name []byte) (vfs.Change, error) {
	return fs.unlink(op, dir, name, 0)
}

// Rmdir implements vfs.FileSystem.
func (fs *FS) Rmdir(op *vfs.Op, dir vfs.Handle, name []byte) (vfs.Change, error) {
	return fs.unlink(op, dir, name, unix.AT_REMOVEDIR)
}

func (fs *FS) unlink(op *vfs.Op, dir vfs.Handle, name []byte, flags int) (vfs.Change, error) {
	var ch vfs.Change
	d, err := fs.begin(op, dir)
	if err != nil {
		return ch, err
	}
	defer d.put()
	if err = oldName(name); err != nil {
		return ch, err
	}
	var victim named
	err = fs.change(op, d, &ch, func() error {
		victim = fs.known(d, name)
		err := fs.as(op.Cred, func() error { return sysUnlinkat(d.fd, name, flags) })
		if err == nil && victim.ok {
			fs.resolver.gone(d.handle, victim.handle, name, victim.last)
		}
		return err
	})
	if victim.n != nil {
		if err == nil {
			fs.letGo(victim.n)
		}
		victim.n.put()
	}
	if err != nil {
		return ch, err
	}
	return ch, fs.durable(d)
}

// named is what had a name just before it was changed.
type named struct {
	handle vfs.Handle
	ok     bool
	last   bool  // it had no other name
	n      *node // with a reference; nil where it is not in the cache
}

// known identifies name in d.
func (fs *FS) known(d *node, name []byte) (v named) {
	fd, err := sysOpenat2(d.fd, name, unix.O_PATH, 0, unix.RESOLVE_NO_XDEV)
	if err != nil {
		return v
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if fstat(fd, &st) != nil {
		return v
	}
	if v.handle, err = identify(fd, &st); err != nil {
		return v
	}
	v.ok = true
	v.last = st.Nlink <= 1 || st.Mode&unix.S_IFMT == unix.S_IFDIR
	v.n = fs.nodes.cached(&v.handle)
	return v
}

// Rename implements vfs.FileSystem.
func (fs *FS) Rename(op *vfs.Op, fromDir vfs.Handle, fromName []byte, toDir vfs.Handle, toName []byte) (from, to vfs.Change, err error) {
	f, err := fs.begin(op, fromDir)
	if err != nil {
		return from, to, err
	}
	defer f.put()
	t, err := fs.begin(op, toDir)
	if err != nil {
		return from, to, err
	}
	defer t.put()
	if err = oldName(fromName); err == nil {
		err = oldName(toName)
	}
	if err != nil {
		return from, to, err
	}
	var moved, victim named
	move := func() error {
		moved, victim = fs.known(f, fromName), fs.known(t, toName)
		err := fs.as(op.Cred, func() error { return sysRenameat(f.fd, fromName, t.fd, toName) })
		if err == nil && moved.handle != victim.handle {
			if victim.ok {
				fs.resolver.gone(t.handle, victim.handle, toName, victim.last)
			}
			if moved.ok {
				fs.resolver.note(t.handle, moved.handle, toName)
			}
		}
		return err
	}
	if f == t {
		err = fs.change(op, f, &from, move)
		to = from
	} else {
		// The order keeps two renames between the same directories, in
		// opposite directions, from waiting for each other.
		outer, inner, outerCh, innerCh := f, t, &from, &to
		if bytes.Compare(f.handle.Bytes(), t.handle.Bytes()) > 0 {
			outer, inner, outerCh, innerCh = t, f, &to, &from
		}
		err = fs.change(op, outer, outerCh, func() error { return fs.change(op, inner, innerCh, move) })
	}
	if moved.n != nil {
		if err == nil {
			fs.touched(moved.n)
		}
		moved.n.put()
	}
	if victim.n != nil {
		if err == nil && victim.n != moved.n {
			fs.letGo(victim.n)
		}
		victim.n.put()
	}
	if err != nil {
		return from, to, err
	}
	if f == t {
		return from, to, fs.durable(f)
	}
	return from, to, fs.durable(f, t)
}

// touched tells a change of n's attributes that another operation brought with it.
func (fs *FS) touched(n *node) {
	var st unix.Stat_t
	if fstat(n.fd, &st) == nil {
		var a vfs.Attr
		n.fillChanged(&a, &st)
	}
}

// Link implements vfs.FileSystem. The kernel's fs.protected_hardlinks stands:
// where it is set, one links one's own files and those one may read and write.
func (fs *FS) Link(op *vfs.Op, h, dir vfs.Handle, name []byte, a *vfs.Attr) (vfs.Change, error) {
	var ch vfs.Change
	d, err := fs.begin(op, dir)
	if err != nil {
		return ch, err
	}
	defer d.put()
	n, err := fs.node(op, h)
	if err != nil {
		return ch, err
	}
	defer n.put()
	if err = newName(name); err != nil {
		return ch, err
	}
	var st unix.Stat_t
	if err = fs.look(op, n, &st); err != nil {
		return ch, err
	}
	n.fill(a, &st)
	if n.typ == vfs.Directory {
		return ch, syscall.EISDIR
	}
	err = fs.change(op, d, &ch, func() error {
		return fs.as(op.Cred, func() error { return sysLink(fs.proc, n.fd, d.fd, name) })
	})
	if fs.look(op, n, &st) == nil {
		if err == nil {
			n.fillChanged(a, &st)
		} else {
			n.fill(a, &st)
		}
	}
	if err != nil {
		return ch, err
	}
	fs.resolver.note(d.handle, n.handle, name)
	return ch, fs.durableName(d, n)
}
