package local

import (
	"syscall"
	"weak"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Lookup implements vfs.FileSystem.
func (fs *FS) Lookup(op *vfs.Op, dir vfs.Handle, name []byte, dirAttr *vfs.Attr) (vfs.Object, error) {
	var o vfs.Object
	d, err := fs.dir(op, dir)
	if err != nil {
		return o, err
	}
	defer fs.giveBack(op, d)
	var st unix.Stat_t
	if err = fs.look(op, d, &st); err != nil {
		return o, err
	}
	d.fill(dirAttr, &st)
	if err = vfs.CheckName(name, maxName); err != nil {
		return o, err
	}
	has, err := fs.rights(op, d, &st, mayExec)
	if err != nil {
		return o, err
	}
	if has == 0 {
		return o, syscall.EACCES
	}
	dirStat := st
	n := fs.remembered(op, d, name, &st)
	if n == nil {
		old := fs.namesAreOld(dirStat.Ctim, settling)
		if n, err = fs.child(op, d, name, &st); err != nil {
			return o, err
		}
		if old {
			fs.rememberName(d, &dirStat, name, knownName{n.handle, n.ino, weak.Make(n)})
		}
	}
	o.Handle = n.handle
	n.fill(&o.Attr, &st)
	o.HasAttr = true
	if op.Want != 0 {
		err = fs.tellWanted(op, n, &o.Attr)
	}
	fs.giveBack(op, n)
	return o, err
}

// remembered returns the node that name in d is known to be, with a reference,
// or nil. It gets d's attributes in st and leaves the node's there.
func (fs *FS) remembered(op *vfs.Op, d *node, name []byte, st *unix.Stat_t) *node {
	known, ok := d.names.find(name, st.Ctim)
	if !ok || !fs.kind.memory {
		return nil
	}
	n := fs.nodes.known(&known)
	if n == nil {
		return nil
	}
	ctime := st.Ctim
	if fs.kind.fstat(n.fd, st) != nil || st.Nlink == 0 {
		st.Ctim = ctime
		fs.giveBack(op, n)
		return nil
	}
	n.liesIn(d)
	return n
}

// child finds name in d, whatever the caller's rights; st receives its
// attributes.
func (fs *FS) child(op *vfs.Op, d *node, name []byte, st *unix.Stat_t) (*node, error) {
	if vfs.IsDot(name) {
		return fs.dotChild(op, d, name, st)
	}
	resolve := uint64(unix.RESOLVE_NO_XDEV)
	if op.Try {
		if fs.nodes.full() || !fs.resolver.room(true) {
			return nil, vfs.ErrWouldBlock // making room closes files, or writes
		}
		resolve |= resolveCached
	}
	fd, err := sysOpenat2(d.fd, name, unix.O_PATH, 0, resolve)
	if err != nil {
		if op.Try && (err == syscall.EAGAIN || err == syscall.EINVAL || outOfDescriptors(err)) {
			return nil, vfs.ErrWouldBlock // EINVAL: RESOLVE_CACHED came with Linux 5.12
		}
		if !outOfDescriptors(err) {
			return nil, err
		}
		fs.makeRoom()
		if fd, err = sysOpenat2(d.fd, name, unix.O_PATH, 0, resolve); err != nil {
			return nil, err
		}
	}
	return fs.settle(d, name, fd, st)
}

// settle makes a node of fd, a fresh O_PATH descriptor for name in d.
func (fs *FS) settle(d *node, name []byte, fd int, st *unix.Stat_t) (*node, error) {
	if err := fstat(fd, st); err != nil {
		unix.Close(fd)
		return nil, err
	}
	h, err := identify(fd, st)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	fs.resolver.note(d.handle, h, name)
	n := fs.nodes.adopt(fd, st, h)
	n.liesIn(d)
	return n, nil
}

func (fs *FS) dotChild(op *vfs.Op, d *node, name []byte, st *unix.Stat_t) (*node, error) {
	n := d
	if string(name) == ".." && d != fs.root && d.handle != fs.root.handle {
		if op.Try {
			return nil, vfs.ErrWouldBlock
		}
		fd, err := fs.parent(d)
		if err != nil {
			return nil, err
		}
		if err = fstat(fd, st); err != nil {
			unix.Close(fd)
			return nil, err
		}
		h, err := identify(fd, st)
		if err != nil {
			unix.Close(fd)
			return nil, err
		}
		return fs.nodes.adopt(fd, st, h), nil
	}
	if err := fs.look(op, n, st); err != nil {
		return nil, err
	}
	n.refs.Add(1)
	return n, nil
}

// parent opens the directory above d, which is not the root, if it is in the
// tree.
func (fs *FS) parent(d *node) (int, error) {
	fd, err := sysOpenParent(d.fd, 1)
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err = fstat(fd, &st); err != nil || fs.below(fd, &st) != nil {
		unix.Close(fd)
		return -1, syscall.ESTALE
	}
	return fd, nil
}

// ReadLink implements vfs.FileSystem.
func (fs *FS) ReadLink(op *vfs.Op, h vfs.Handle, buf []byte, a *vfs.Attr) (int, error) {
	n, err := fs.node(op, h)
	if err != nil {
		return 0, err
	}
	defer n.put()
	if n.typ != vfs.Symlink {
		return 0, syscall.EINVAL
	}
	if op.Try {
		return 0, vfs.ErrWouldBlock
	}
	var st unix.Stat_t
	if err = fs.look(op, n, &st); err != nil {
		return 0, err
	}
	n.fill(a, &st)
	if len(buf) == 0 {
		return 0, syscall.ENAMETOOLONG
	}
	got, err := sysReadlink(n.fd, buf)
	if err != nil {
		return 0, err
	}
	if got == len(buf) {
		// The kernel cuts in silence: was there more?
		var longer [unix.PathMax + 1]byte
		if all, err := sysReadlink(n.fd, longer[:]); err == nil && all > got {
			return 0, syscall.ENAMETOOLONG
		}
	}
	return got, nil
}
