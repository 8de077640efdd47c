package local

import (
	"bytes"
	"encoding/binary"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A dirChange is one change of the directory d.
type dirChange struct {
	d  *node
	ch *vfs.Change // d's attributes before and after
	// n is the object that was made or found, with a reference, or nil. object describes it. file is
	// its mark (see type mark). apart is true if further calls changed it after it was made, so that
	// the file system's log may commit the new name without these changes (see durableName).
	n      *node
	object vfs.Object
	file   mark
	apart  bool
	// called is true from the system call on.
	called bool
	// idle is true if the system call succeeds without changing anything.
	idle bool
}

// run runs f, which changes the directory by a system call that it makes through c.call. Meanwhile
// other changes of the directory by this process wait. If op.Try is set and another change is
// running, run returns ErrWouldBlock instead of waiting.
func (c *dirChange) run(op *vfs.Op, f func() error) error {
	if !c.d.inode.lock(op) {
		return vfs.ErrWouldBlock
	}
	defer c.d.inode.mu.Unlock()
	return c.settle(op, f())
}

// settle is called with the error of the change, while the directory is locked. If the change failed
// before its system call, settle stores the directory's attributes in c.ch. It returns the error of the
// change, or that of reading the attributes.
func (c *dirChange) settle(op *vfs.Op, err error) error {
	if c.called || err == vfs.ErrWouldBlock {
		return err
	}
	var is look
	if lookErr := c.d.fs.look(op, c.d, &is); lookErr != nil {
		return lookErr
	}
	c.d.unchanged(&is, c.ch)
	return err
}

// call reads d's attributes, runs f, which makes the system call, and reads the attributes again.
// Nothing else happens in between, so that few changes by other processes can be mistaken for the
// effect of this call. If d has no name any more, call returns ESTALE without running f.
func (c *dirChange) call(f func() error) error {
	var is look
	if err := c.d.stat(&is); err != nil {
		return err
	}
	if is.Nlink == 0 && c.d.fs.kind.links {
		return syscall.ESTALE
	}
	c.called = true
	only := c.d.before(&is, c.ch)
	err := f()
	_ = only.after(err == nil && !c.idle, &is)
	return err
}

// dirToChange returns the node of a directory that the caller is about to change, with a reference.
// If op.Try is set and the change may have to wait, it returns ErrWouldBlock. A change never waits if
// both inMemory (about this kind of change) and namesInMemory (about the file system) are true.
func (fs *FS) dirToChange(op *vfs.Op, dir vfs.Handle, inMemory bool) (*node, error) {
	if fs.readOnly {
		return nil, syscall.EROFS
	}
	if op.Try && !(inMemory && fs.namesInMemory(op)) {
		return nil, vfs.ErrWouldBlock
	}
	return fs.dir(op, dir)
}

// namesInMemory reports whether a call with Op.Try may change names. All of this must hold: the
// file system is in memory; the caller has the daemon's own identity, so that no thread is
// switched; and there is no index to write to.
func (fs *FS) namesInMemory(op *vfs.Op) bool {
	_, byKernel := fs.resolver.(kernelResolver)
	return fs.syncer.volatile && byKernel && fs.identity.asIs(op.Cred)
}

// newName returns nil if an object with this name can be made, and the error otherwise.
func newName(name []byte) error {
	if vfs.IsDot(name) {
		return syscall.EEXIST
	}
	return vfs.CheckName(name, maxName)
}

// oldName returns nil if the name can be removed or renamed, and the error otherwise.
func oldName(name []byte) error {
	if vfs.IsDot(name) {
		return syscall.EINVAL
	}
	return vfs.CheckName(name, maxName)
}

// make changes the directory dir by running do, which makes an object called name with the attributes
// in s, or finds it. Then it makes the change durable. For inMemory, see dirToChange.
func (fs *FS) make(op *vfs.Op, dir vfs.Handle, name []byte, s *vfs.SetAttr, inMemory bool, do func(c *dirChange) error) (vfs.Object, vfs.Change, error) {
	c := dirChange{ch: new(vfs.Change)}
	d, err := fs.dirToChange(op, dir, inMemory)
	if err != nil {
		return c.object, *c.ch, err
	}
	defer fs.giveBack(op, d)
	if err = newName(name); err == nil {
		err = checkOwners(s)
	}
	if err != nil {
		return c.object, *c.ch, err
	}
	c.d = d
	m := d.mark()
	err = c.run(op, func() error { return do(&c) })
	if c.n == nil {
		return c.object, *c.ch, err
	}
	defer c.n.put()
	switch {
	case err != nil:
	case c.object.Created:
		err = fs.durableName(op, c.n, m, c.file, c.apart)
	case s.SetSize:
		err = fs.syncer.durable(op, c.file)
	}
	return c.object, *c.ch, err
}

// makeObject makes name in dir by calling f, and then applies the attributes in s that f did not
// set. f runs as the caller and gets the directory's descriptor and the mode.
func (fs *FS) makeObject(op *vfs.Op, dir vfs.Handle, name []byte, s *vfs.SetAttr, f func(dir int, mode uint32) error) (vfs.Object, vfs.Change, error) {
	return fs.make(op, dir, name, s, false, func(c *dirChange) error {
		d, s := c.d, fs.masked(c.d, s)
		err := fs.identity.as(op.Cred, func() error { return c.call(func() error { return f(d.fd, modeOf(s)) }) })
		if err != nil {
			return err
		}
		var is look
		if c.n, err = fs.child(op, d, name, &is); err != nil {
			return err
		}
		c.n.inode.version.made()
		c.object.Created = true
		return c.dress(op, &is, s)
	})
}

// durableName makes the new name of n durable; dir and file are the marks of the directory and of
// n. If apart is set, n was changed after it was made. The file system's log may have committed the
// name without that change; then a sync of the directory has nothing to do, and n needs its own.
func (fs *FS) durableName(op *vfs.Op, n *node, dir, file mark, apart bool) error {
	regular := n.typ == vfs.Regular || n.typ == vfs.Directory
	if !apart && (fs.kind.logged || fs.kind.withDirs && !regular) {
		return fs.syncer.durable(op, dir)
	}
	if !regular {
		return fs.syncer.durable(op, file) // by a sync of the whole file system, which includes the directory
	}
	return fs.syncer.durable(op, dir, file)
}

// dress applies the attributes in s beyond the mode to c.n, a new object with the attributes in is,
// and fills in c.object. It ignores an owner or a group that the caller may not give, as other
// servers do, because clients often send those although their user did not ask for them.
func (c *dirChange) dress(op *vfs.Op, is *look, s *vfs.SetAttr) error {
	n, fs := c.n, c.d.fs
	c.file = n.mark()
	rest, st := *s, &is.Stat_t
	if rest.SetUID && (rest.UID == st.Uid || op.Cred.UID != 0) {
		rest.SetUID = false
	}
	if rest.SetGID && (rest.GID == st.Gid || op.Cred.UID != 0 && !member(op.Cred, rest.GID)) {
		rest.SetGID = false
	}
	if rest.SetSize && (n.typ != vfs.Regular || rest.Size == uint64(st.Size)) {
		rest.SetSize = false
	}
	// Set set-id bits again: mkdir ignores them, and a change of owner clears them.
	const setID = unix.S_ISUID | unix.S_ISGID
	rest.SetMode = rest.SetMode && n.typ != vfs.Symlink && rest.Mode&setID&^st.Mode != 0 ||
		rest.SetMode && rest.Mode&setID != 0 && (rest.SetUID || rest.SetGID)
	if n.typ == vfs.Directory {
		rest.Mode |= st.Mode & unix.S_ISGID // the bit may be inherited from the parent directory
	}
	if !rest.IsZero() {
		c.apart = true
		n.inode.version.before() // other clients may know the new object already
		err := fs.apply(op, n, st, &rest)
		if lookErr := n.after(true, is); err == nil {
			err = lookErr
		}
		if err != nil {
			return err
		}
	}
	c.tell(is)
	return nil
}

// tell fills in the handle and the attributes of c.object.
func (c *dirChange) tell(is *look) {
	c.object.Handle, c.object.HasAttr = c.n.handle, true
	c.n.fill(&c.object.Attr, is)
}

// masked returns s without the bits of its umask, for a new object in d. If d has a default ACL,
// the ACL decides instead (umask(2)), and s stays. The process's own umask is 0.
func (fs *FS) masked(d *node, s *vfs.SetAttr) *vfs.SetAttr {
	if !s.UseUmask {
		return s
	}
	if n, err := again(func() (int, error) { return unix.Getxattr(d.procPath(), "system.posix_acl_default", nil) }); err == nil && n > 0 {
		return s
	}
	m := s.Masked()
	return &m
}

func modeOf(s *vfs.SetAttr) uint32 {
	if !s.SetMode {
		return 0
	}
	return s.Mode & 0o7777
}

// Mkdir implements vfs.FileSystem.
func (fs *FS) Mkdir(op *vfs.Op, dir vfs.Handle, name []byte, s *vfs.SetAttr) (vfs.Object, vfs.Change, error) {
	return fs.makeObject(op, dir, name, s, func(dir int, mode uint32) error {
		return uninterrupted(func() error { return unix.Mkdirat(dir, string(name), mode) })
	})
}

// Symlink implements vfs.FileSystem.
func (fs *FS) Symlink(op *vfs.Op, dir vfs.Handle, name, text []byte, s *vfs.SetAttr) (vfs.Object, vfs.Change, error) {
	switch {
	case len(text) == 0 || bytes.IndexByte(text, 0) >= 0:
		return vfs.Object{}, vfs.Change{}, syscall.EINVAL
	case len(text) >= unix.PathMax:
		return vfs.Object{}, vfs.Change{}, syscall.ENAMETOOLONG
	}
	return fs.makeObject(op, dir, name, s, func(dir int, _ uint32) error {
		return uninterrupted(func() error { return unix.Symlinkat(string(text), dir, string(name)) })
	})
}

// maxMajor and maxMinor are the largest device numbers of Linux. The kernel cuts larger ones off, which
// would make another device.
const (
	maxMajor = 1<<12 - 1
	maxMinor = 1<<20 - 1
)

// Mknod implements vfs.FileSystem.
func (fs *FS) Mknod(op *vfs.Op, dir vfs.Handle, name []byte, t vfs.Type, s *vfs.SetAttr, major, minor uint32) (vfs.Object, vfs.Change, error) {
	var kind uint32
	var dev uint64
	if t == vfs.BlockDevice || t == vfs.CharDevice {
		if major > maxMajor || minor > maxMinor {
			return vfs.Object{}, vfs.Change{}, syscall.EINVAL
		}
		dev = unix.Mkdev(major, minor)
	}
	switch t {
	case vfs.BlockDevice:
		kind = unix.S_IFBLK
	case vfs.CharDevice:
		kind = unix.S_IFCHR
	case vfs.Socket:
		kind = unix.S_IFSOCK
	case vfs.FIFO:
		kind = unix.S_IFIFO
	default:
		return vfs.Object{}, vfs.Change{}, syscall.EINVAL
	}
	return fs.makeObject(op, dir, name, s, func(dir int, perm uint32) error {
		return uninterrupted(func() error { return unix.Mknodat(dir, string(name), kind|perm, int(dev)) })
	})
}

// newFile is the set of open flags that every way to make a file needs.
const newFile = unix.O_RDWR | unix.O_NONBLOCK | unix.O_LARGEFILE

// tries is the number of times that a call tries, if other programs make or remove the file meanwhile.
const tries = 8

// Create implements vfs.FileSystem.
func (fs *FS) Create(op *vfs.Op, dir vfs.Handle, name []byte, how *vfs.CreateHow) (vfs.Object, vfs.Change, error) {
	return fs.make(op, dir, name, &how.Attr, op.Try && fs.mayTryCreate(how), func(c *dirChange) error {
		for range tries {
			err := fs.createNew(op, c, name, how)
			if err != syscall.EEXIST || how.Mode == vfs.Guarded {
				return err
			}
			if op.Try {
				return vfs.ErrWouldBlock // the existing file may have to be truncated
			}
			if err = fs.createFound(op, c, name, how); err != syscall.ENOENT {
				return err
			}
		}
		return vfs.ErrDelay
	})
}

// mayTryCreate reports whether a Create with Op.Try may make the file: it sets no attributes but the
// mode, without set-id bits, and is not Exclusive, so that one system call makes the file; and the FS
// is below its limits of nodes and open files, so that it need not close any.
func (fs *FS) mayTryCreate(how *vfs.CreateHow) bool {
	mode := vfs.SetAttr{SetMode: how.Attr.SetMode, Mode: how.Attr.Mode &^ (unix.S_ISUID | unix.S_ISGID)}
	return how.Attr == mode && how.Mode != vfs.Exclusive && !fs.nodes.full() && fs.holdings.open() < fs.holdings.mostOpen()
}

// createNew makes the file by opening it with O_CREAT. The new descriptor is open for writing
// whatever the file's mode, and is kept for the file's data.
func (fs *FS) createNew(op *vfs.Op, c *dirChange, name []byte, how *vfs.CreateHow) error {
	fs.makeRoomToOpen()
	d, attr := c.d, fs.attrOfFile(c.d, how)
	open := func() (int, error) {
		if how.Mode == vfs.Exclusive {
			return fs.makeMarked(op, c, name, attr, exclusiveTimes(how.Verifier))
		}
		fd, err := callAs(&fs.identity, op.Cred, func() (int, error) { return c.openNew(name, attr) })
		if op.Try && outOfDescriptors(err) {
			err = vfs.ErrWouldBlock
		}
		return fd, err
	}
	fd, err := fs.withRoom(open)
	if err != nil {
		return err
	}
	// From here on the file exists, even if one of these calls, and so Create, fails.
	path, err := fs.reopenWithRoom(fd, unix.O_PATH)
	if err != nil {
		unix.Close(fd)
		return err
	}
	var is look
	if c.n, err = fs.settle(d, name, path, &is); err != nil {
		unix.Close(fd)
		return err
	}
	c.n.inode.version.made()
	c.n.keep(fd, true, fs.reopens).put()
	c.object.Created = true
	return c.dress(op, &is, attr)
}

// openNew makes the file name, with the mode in s, and opens it.
func (c *dirChange) openNew(name []byte, s *vfs.SetAttr) (fd int, err error) {
	err = c.call(func() (err error) {
		fd, err = sysOpenat2(c.d.fd, name, newFile|unix.O_CREAT|unix.O_EXCL, uint64(modeOf(s)), 0)
		return err
	})
	return fd, err
}

// attrOfFile returns the attributes that a Create in d applies to a new file. An exclusive Create
// applies no times, because they hold the verifier, and no size.
func (fs *FS) attrOfFile(d *node, how *vfs.CreateHow) *vfs.SetAttr {
	s := fs.masked(d, &how.Attr)
	if how.Mode != vfs.Exclusive {
		return s
	}
	applied := s.OfExclusive()
	return &applied
}

// createFound handles a Create whose name exists already.
func (fs *FS) createFound(op *vfs.Op, c *dirChange, name []byte, how *vfs.CreateHow) error {
	d := c.d
	var is look
	if err := fs.look(op, d, &is); err != nil {
		return err
	}
	if err := fs.require(op, d, &is, mayExec); err != nil {
		return err
	}
	n, err := fs.child(op, d, name, &is)
	if err != nil {
		return err
	}
	c.n = n
	switch {
	case n.typ != vfs.Regular, how.Mode == vfs.Exclusive && !exclusiveMatches(&is.Stat_t, how.Verifier):
		err = syscall.EEXIST
	case how.Mode == vfs.Unchecked && how.Attr.SetSize:
		var ch vfs.Change
		c.file = n.mark()
		err = fs.setAttr(op, n, &vfs.SetAttr{SetSize: true, Size: how.Attr.Size}, nil, &ch, false)
		if err == nil {
			err = fs.look(op, n, &is)
		}
	case how.Mode == vfs.Exclusive:
		// The client's first request may have made the file and then failed.
		err = c.dress(op, &is, fs.attrOfFile(d, how))
		c.object.Created = err == nil
	}
	if err != nil {
		c.n = nil
		n.put()
		return err
	}
	c.tell(&is)
	return nil
}

// The new file's times hold the verifier of an exclusive create (RFC 1813 §3.3.8) until the client
// sets the times; so the verifier survives a restart. Each time holds half of it: 31 bits in the
// seconds, because not every file system stores 32, and the top bit in the nanoseconds.

// topBitClear and topBitSet are the nanoseconds for a top bit of 0 and 1. They survive rounding, except
// that a file system without fractions of a second loses the top bit.
const (
	topBitClear = 250_000_000 // ns
	topBitSet   = 750_000_000
)

func exclusiveTime(half []byte) unix.Timespec {
	v := binary.BigEndian.Uint32(half)
	if v>>31 != 0 {
		return unix.Timespec{Sec: int64(v &^ (1 << 31)), Nsec: topBitSet}
	}
	return unix.Timespec{Sec: int64(v), Nsec: topBitClear}
}

// exclusiveTimes returns the atime and the mtime that hold the verifier v.
func exclusiveTimes(v [8]byte) [2]unix.Timespec {
	return [2]unix.Timespec{exclusiveTime(v[4:]), exclusiveTime(v[:4])}
}

// exclusiveMatches reports whether an exclusive create with verifier v made the file with
// attributes st, and the file is still empty and has the same times. Nanoseconds of 0 also match,
// because some file systems store whole seconds.
func exclusiveMatches(st *unix.Stat_t, v [8]byte) bool {
	same := func(t, mark unix.Timespec) bool { return t == mark || t == unix.Timespec{Sec: mark.Sec} }
	mark := exclusiveTimes(v)
	return st.Size == 0 && same(st.Atim, mark[0]) && same(st.Mtim, mark[1])
}

// makeMarked makes a file with the mode in s. Its times hold the verifier from the moment it has a
// name, so that a process killed in between leaves no file without a verifier. On a file system
// without unnamed files (O_TMPFILE) the file gets its name before its times.
func (fs *FS) makeMarked(op *vfs.Op, c *dirChange, name []byte, s *vfs.SetAttr, times [2]unix.Timespec) (fd int, err error) {
	d := c.d
	err = fs.identity.as(op.Cred, func() (err error) {
		if !fs.noUnnamed.Load() {
			// Look up the name first, so that a repeated create never makes another file.
			var st unix.Stat_t
			if unix.Fstatat(d.fd, string(name), &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
				return syscall.EEXIST
			}
			fd, err = sysOpenat2(d.fd, dot, newFile|unix.O_TMPFILE, uint64(modeOf(s)), 0)
			switch err {
			case nil:
				if err = utimens(fd, &times); err == nil {
					err = c.call(func() error { return fs.link(fd, d.fd, name) })
				}
				if err != nil {
					unix.Close(fd)
				}
				return err
			case syscall.EOPNOTSUPP, syscall.EISDIR, syscall.EINVAL:
				fs.noUnnamed.Store(true)
			default:
				return err
			}
		}
		if fd, err = c.openNew(name, s); err == nil {
			c.apart = true
			if err = utimens(fd, &times); err != nil {
				unix.Close(fd)
			}
		}
		return err
	})
	return fd, err
}
