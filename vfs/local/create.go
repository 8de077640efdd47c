package local

import (
	"bytes"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// change runs f, a change of directory d, with d's other changes through this
// FS held off, and tells what d looked like before and after.
func (fs *FS) change(op *vfs.Op, d *node, ch *vfs.Change, f func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var st unix.Stat_t
	if err := fs.look(op, d, &st); err != nil {
		return err
	}
	d.fill(&ch.Before, &st)
	ch.HasBefore = true
	err := f()
	if fstat(d.fd, &st) == nil {
		if err == nil {
			d.fillChanged(&ch.After, &st)
		} else {
			d.fill(&ch.After, &st)
		}
		ch.HasAfter, ch.Atomic = true, true
	}
	return err
}

// begin is what every change of a directory starts with.
func (fs *FS) begin(op *vfs.Op, dir vfs.Handle) (*node, error) {
	if fs.readOnly {
		return nil, syscall.EROFS
	}
	if op.Try {
		return nil, vfs.ErrWouldBlock
	}
	return fs.dir(op, dir)
}

// newName checks the name of something that is to be made.
func newName(name []byte) error {
	if isDot(name) || isDotDot(name) {
		return syscall.EEXIST
	}
	return checkName(name)
}

// oldName checks the name of something that is to be removed.
func oldName(name []byte) error {
	if isDot(name) || isDotDot(name) {
		return syscall.EINVAL
	}
	return checkName(name)
}

// makeObject makes name in dir by f, which runs as the caller and gets the
// directory's descriptor, and gives it the attributes in s that f did not.
func (fs *FS) makeObject(op *vfs.Op, dir vfs.Handle, name []byte, s *vfs.SetAttr, f func(dir int) error) (vfs.Object, vfs.Change, error) {
	var o vfs.Object
	var ch vfs.Change
	d, err := fs.begin(op, dir)
	if err != nil {
		return o, ch, err
	}
	defer d.put()
	if err = newName(name); err != nil {
		return o, ch, err
	}
	var n *node
	err = fs.change(op, d, &ch, func() error {
		if err := fs.as(op.Cred, func() error { return f(d.fd) }); err != nil {
			return err
		}
		var st unix.Stat_t
		var err error
		if n, err = fs.child(op, d, name, &st); err != nil {
			return err
		}
		return fs.dress(op, n, &st, s, &o)
	})
	return fs.made(d, n, o, ch, err)
}

// made ends the making of an object: it is durable then.
func (fs *FS) made(d, n *node, o vfs.Object, ch vfs.Change, err error) (vfs.Object, vfs.Change, error) {
	if n == nil {
		return o, ch, err
	}
	defer n.put()
	if err == nil {
		err = fs.durableName(d, n)
	}
	return o, ch, err
}

// durableName is durable for a name of n that was made in d.
func (fs *FS) durableName(d, n *node) error {
	regular := n.typ == vfs.Regular || n.typ == vfs.Directory
	if fs.kind.logged || fs.kind.withDirs && !regular {
		return fs.durable(d)
	}
	return fs.durable(d, n)
}

// dress applies what a new object was asked to have beyond its mode. An owner
// or a group that the caller may not give away is passed over, as every other
// server does: clients send along what they think it will be.
func (fs *FS) dress(op *vfs.Op, n *node, st *unix.Stat_t, s *vfs.SetAttr, o *vfs.Object) error {
	rest := *s
	if rest.SetUID && (rest.UID == st.Uid || op.Cred.UID != 0) {
		rest.SetUID = false
	}
	if rest.SetGID && (rest.GID == st.Gid || op.Cred.UID != 0 && !member(op.Cred, rest.GID)) {
		rest.SetGID = false
	}
	if rest.SetSize && (n.typ != vfs.Regular || rest.Size == uint64(st.Size)) {
		rest.SetSize = false
	}
	// mkdir takes no set-id bits; and a change of owner takes them away.
	const setID = unix.S_ISUID | unix.S_ISGID
	rest.SetMode = rest.SetMode && n.typ != vfs.Symlink && rest.Mode&setID&^st.Mode != 0 ||
		rest.SetMode && rest.Mode&setID != 0 && (rest.SetUID || rest.SetGID)
	rest.Mode |= st.Mode & unix.S_ISGID & setGIDOfDir(n)
	var err error
	if !rest.IsZero() {
		if err = fs.apply(op, n, st, &rest); err == nil {
			err = fs.look(op, n, st)
		}
	}
	if err == nil {
		o.Handle, o.HasAttr = n.handle, true
		n.fill(&o.Attr, st)
	}
	return err
}

// setGIDOfDir: a directory made in a set-gid directory is one as well.
func setGIDOfDir(n *node) uint32 {
	if n.typ == vfs.Directory {
		return unix.S_ISGID
	}
	return 0
}

func modeOf(s *vfs.SetAttr) uint32 {
	if !s.SetMode {
		return 0
	}
	return s.Mode & 0o7777
}

// Mkdir implements vfs.FileSystem.
func (fs *FS) Mkdir(op *vfs.Op, dir vfs.Handle, name []byte, s *vfs.SetAttr) (vfs.Object, vfs.Change, error) {
	return fs.makeObject(op, dir, name, s, func(dir int) error { return sysMkdirat(dir, name, modeOf(s)) })
}

// Symlink implements vfs.FileSystem.
func (fs *FS) Symlink(op *vfs.Op, dir vfs.Handle, name, text []byte, s *vfs.SetAttr) (vfs.Object, vfs.Change, error) {
	switch {
	case len(text) == 0 || bytes.IndexByte(text, 0) >= 0:
		return vfs.Object{}, vfs.Change{}, syscall.EINVAL
	case len(text) >= unix.PathMax:
		return vfs.Object{}, vfs.Change{}, syscall.ENAMETOOLONG
	}
	return fs.makeObject(op, dir, name, s, func(dir int) error {
		return unix.Symlinkat(string(text), dir, string(name))
	})
}

// Mknod implements vfs.FileSystem.
func (fs *FS) Mknod(op *vfs.Op, dir vfs.Handle, name []byte, t vfs.Type, s *vfs.SetAttr, major, minor uint32) (vfs.Object, vfs.Change, error) {
	mode := modeOf(s)
	var dev uint64
	switch t {
	case vfs.BlockDevice:
		mode |= unix.S_IFBLK
		dev = unix.Mkdev(major, minor)
	case vfs.CharDevice:
		mode |= unix.S_IFCHR
		dev = unix.Mkdev(major, minor)
	case vfs.Socket:
		mode |= unix.S_IFSOCK
	case vfs.FIFO:
		mode |= unix.S_IFIFO
	default:
		return vfs.Object{}, vfs.Change{}, syscall.EINVAL
	}
	return fs.makeObject(op, dir, name, s, func(dir int) error { return sysMknodat(dir, name, mode, dev) })
}

// newFile is how a file is opened that is being made.
const newFile = unix.O_RDWR | unix.O_NONBLOCK | unix.O_LARGEFILE

// tries bounds how often a create starts over because the name came and went.
const tries = 8

// Create implements vfs.FileSystem.
func (fs *FS) Create(op *vfs.Op, dir vfs.Handle, name []byte, how *vfs.CreateHow) (vfs.Object, vfs.Change, error) {
	var o vfs.Object
	var ch vfs.Change
	d, err := fs.begin(op, dir)
	if err != nil {
		return o, ch, err
	}
	defer d.put()
	if err = newName(name); err != nil {
		return o, ch, err
	}
	var n *node
	found := false
	err = fs.change(op, d, &ch, func() error {
		var err error
		for range tries {
			n, err = fs.createNew(op, d, name, how, &o)
			if err != syscall.EEXIST || how.Mode == vfs.Guarded {
				return err
			}
			n, err = fs.createFound(op, d, name, how, &o)
			if err != syscall.ENOENT {
				found = err == nil
				return err
			}
		}
		return vfs.ErrDelay
	})
	if found && how.Mode == vfs.Unchecked {
		if n == nil {
			return o, ch, err
		}
		defer n.put()
		if how.Attr.SetSize {
			err = fs.durable(n)
		}
		return o, ch, err
	}
	return fs.made(d, n, o, ch, err)
}

// createNew makes the file. The descriptor that made it, which the mode did not
// matter to, becomes the one for its data.
func (fs *FS) createNew(op *vfs.Op, d *node, name []byte, how *vfs.CreateHow, o *vfs.Object) (*node, error) {
	attr := &how.Attr
	fd := -1
	open := func() (err error) {
		fd, err = sysOpenat2(d.fd, name, newFile|unix.O_CREAT|unix.O_EXCL, uint64(modeOf(attr)), 0)
		return err
	}
	var err error
	if how.Mode == vfs.Exclusive {
		attr = exclusiveAttr(how.Verifier)
		fd, err = fs.makeMarked(op, d, name, attr)
	} else {
		err = fs.as(op.Cred, open)
	}
	if outOfDescriptors(err) {
		fs.makeRoom()
		err = fs.as(op.Cred, open)
	}
	if err != nil {
		return nil, err
	}
	path, err := fs.reopen(fd, unix.O_PATH)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	var st unix.Stat_t
	n, err := fs.settle(d, name, path, &st)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	n.files.keep(fd, true, fs.nodes.round.Load(), &fs.stats.open).put()
	if how.Mode == vfs.Exclusive {
		attr = &vfs.SetAttr{} // it has its marks
	}
	return n, fs.dress(op, n, &st, attr, o)
}

// createFound finishes a create whose name exists.
func (fs *FS) createFound(op *vfs.Op, d *node, name []byte, how *vfs.CreateHow, o *vfs.Object) (*node, error) {
	var st unix.Stat_t
	if err := fs.look(op, d, &st); err != nil {
		return nil, err
	}
	has, err := fs.rights(op, d, &st, mayExec)
	if err != nil {
		return nil, err
	}
	if has == 0 {
		return nil, syscall.EACCES
	}
	n, err := fs.child(op, d, name, &st)
	if err != nil {
		return nil, err
	}
	switch {
	case n.typ != vfs.Regular, how.Mode == vfs.Exclusive && !exclusiveMatches(&st, how.Verifier):
		err = syscall.EEXIST
	case how.Mode == vfs.Unchecked && how.Attr.SetSize:
		var ch vfs.Change
		err = fs.setAttr(op, n, &vfs.SetAttr{SetSize: true, Size: how.Attr.Size}, nil, &ch)
		if err == nil {
			err = fs.look(op, n, &st)
		}
	}
	if err != nil {
		n.put()
		return nil, err
	}
	o.Handle, o.HasAttr = n.handle, true
	n.fill(&o.Attr, &st)
	return n, nil
}
