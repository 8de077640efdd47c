package local

import (
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
	d, err := fs.dirToChange(op, dir, op.Try)
	if err != nil {
		return ch, err
	}
	defer fs.giveBack(op, d)
	if err = oldName(name); err != nil {
		return ch, err
	}
	var victim named
	c := dirChange{d: d, ch: &ch}
	m := d.mark()
	err = c.run(op, func() error {
		victim = fs.known(d, name)
		if op.Try && !victim.small() {
			return vfs.ErrWouldBlock
		}
		victim.before()
		err := fs.identity.as(op.Cred, func() error {
			return c.call(func() error { return uninterrupted(func() error { return unix.Unlinkat(d.fd, string(name), flags) }) })
		})
		victim.after(err == nil)
		if err == nil && victim.ok {
			fs.resolver.Gone(d.handle, victim.handle, name, victim.nameless())
		}
		return err
	})
	if victim.n != nil && err == nil {
		fs.letGo(&victim)
	}
	victim.put()
	if err != nil {
		return ch, err
	}
	return ch, fs.syncer.durable(op, m)
}

// A named is the file to which a name belongs just before the name is removed or renamed.
type named struct {
	handle vfs.Handle
	ok     bool
	n      *node  // with a reference; nil if the file has no node and the kernel resolves handles
	inode  *inode // with one user counted; nil if no FS of the process has it
	// Attributes of n after the change. seen is true if they could be read.
	is   look
	seen bool
}

// v.before is called before the change of the name, and v.after afterwards, because the change of
// the name also changes the file's ctime and link count.
func (v *named) before() {
	if v.inode != nil {
		v.inode.version.before()
	}
}

func (v *named) after(changed bool) {
	switch {
	case v.inode == nil:
	case v.n == nil:
		v.inode.version.after(changed, nil)
	default:
		v.seen = v.n.after(changed, &v.is) == nil
	}
}

// nameless reports, after the change, whether the file has no name any more. It uses the attributes after
// the change, because another call may have made or removed a name of the file just before it.
func (v *named) nameless() bool {
	return v.n != nil && (v.n.typ == vfs.Directory || v.seen && v.is.Nlink == 0)
}

// smallFile is the largest size, in blocks of 512 bytes, of a file that a call with Op.Try may
// remove, because freeing blocks takes time.
const smallFile = 2048

// small reports whether the file is known to be regular and has at most smallFile blocks.
func (v *named) small() bool {
	var st unix.Stat_t
	return v.n != nil && v.n.typ == vfs.Regular && v.n.fs.kind.fstat(v.n.fd, &st) == nil && st.Blocks <= smallFile
}

// put releases the references to the node and to the inode.
func (v *named) put() {
	if v.n != nil {
		v.n.put()
	}
	if v.inode != nil {
		inodes.giveBack(v.inode)
	}
}

// known returns the file of name in d, by one system call if the kernel resolves handles. Otherwise it
// opens the file, because the index must learn afterwards whether the file still has a name.
func (fs *FS) known(d *node, name []byte) (v named) {
	key := inodeKey{dev: d.inode.key.dev}
	err := error(syscall.EOPNOTSUPP)
	if _, byKernel := fs.resolver.(kernelResolver); byKernel {
		if key.handle, _, err = fs.handleOf(d.fd, name); err == nil {
			v.n = fs.nodes.cached(&key.handle)
		}
	}
	if err != nil {
		fd, err := fs.openName(d, name)
		if err != nil {
			return v
		}
		if v.n, err = fs.adopt(fd, d); err != nil {
			return v
		}
		key = v.n.inode.key
	}
	v.handle, v.ok, v.inode = key.handle, true, inodes.find(key)
	return v
}

// Rename implements vfs.FileSystem.
func (fs *FS) Rename(op *vfs.Op, fromDir vfs.Handle, fromName []byte, toDir vfs.Handle, toName []byte) (from, to vfs.Change, err error) {
	f, err := fs.dirToChange(op, fromDir, false)
	if err != nil {
		return from, to, err
	}
	defer f.put()
	t, err := fs.dirToChange(op, toDir, false)
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
	mf, mt := f.mark(), t.mark()
	r := renaming{f: f, t: t, fromName: fromName, toName: toName, from: dirChange{d: f, ch: &from}, to: dirChange{d: t, ch: &to}}
	err = fs.rename(op, &r)
	if r.within() {
		to = from
	}
	if err == nil && r.victim.n != nil && r.victim.handle != r.moved.handle {
		fs.letGo(&r.victim)
	}
	r.moved.put()
	r.victim.put()
	switch {
	case err != nil:
		return from, to, err
	case r.within():
		return from, to, fs.syncer.durable(op, mf)
	}
	return from, to, fs.syncer.durable(op, mf, mt)
}

// A renaming is one Rename of fromName in f to toName in t. from and to are the changes of the two
// directories. In a rename within one directory, to is not used.
type renaming struct {
	f, t             *node
	fromName, toName []byte
	from, to         dirChange
	moved, victim    named
}

// within reports whether both directories are one. They may have two nodes even then: if a directory is
// removed between the look-ups of its two handles, the cache drops its node and makes another one.
func (r *renaming) within() bool { return r.f.inode == r.t.inode }

// rename makes the system call, as a change of both directories.
func (fs *FS) rename(op *vfs.Op, r *renaming) error {
	defer lockTwo(r.f.inode, r.t.inode)()
	if r.within() {
		return r.from.settle(op, fs.move(op, r, r.from.call))
	}
	both := func(f func() error) error { return r.from.call(func() error { return r.to.call(f) }) }
	return r.from.settle(op, r.to.settle(op, fs.move(op, r, both)))
}

// move makes the system call through the function call. It sets r.moved and r.victim, which the caller
// puts.
func (fs *FS) move(op *vfs.Op, r *renaming, call func(func() error) error) error {
	r.moved, r.victim = fs.known(r.f, r.fromName), fs.known(r.t, r.toName)
	moved, victim := &r.moved, &r.victim
	// If both names belong to one file, rename does nothing.
	r.from.idle = moved.ok && victim.ok && moved.handle == victim.handle
	r.to.idle = r.from.idle
	moved.before()
	victim.before()
	err := fs.identity.as(op.Cred, func() error {
		return call(func() error {
			return uninterrupted(func() error { return unix.Renameat2(r.f.fd, string(r.fromName), r.t.fd, string(r.toName), 0) })
		})
	})
	changed := err == nil && moved.handle != victim.handle
	moved.after(changed)
	victim.after(changed)
	if err == nil && !r.within() && (moved.n == nil || moved.n.typ == vfs.Directory) {
		devices.moved(fs)
	}
	if changed {
		if victim.ok {
			fs.resolver.Gone(r.t.handle, victim.handle, r.toName, victim.nameless())
		}
		if moved.ok {
			fs.resolver.Note(r.t.handle, moved.handle, r.toName)
		}
	}
	return err
}

// linkCaps returns the capabilities that a thread acting as a caller keeps to make a link. With
// fs.protected_hardlinks the kernel lets a user link only files that it owns, or may read and write,
// to protect local programs from prepared links. An NFS client has such a setting of its own, and
// expects a server to follow POSIX. CAP_FOWNER bypasses only that setting here: the caller still
// needs the right to make a name in the directory.
//
// For set-id programs linkCaps returns none. Otherwise a user could keep a faulty program by a
// link after its owner replaced it.
func linkCaps(st *unix.Stat_t) uint64 {
	const runsAsGroup = unix.S_ISGID | unix.S_IXGRP
	if st.Mode&unix.S_ISUID != 0 || st.Mode&runsAsGroup == runsAsGroup {
		return 0
	}
	return 1 << unix.CAP_FOWNER
}

// LinksForOthers reports whether a caller can make, through this process, links to files that
// other users own, even if fs.protected_hardlinks is set.
func LinksForOthers() bool {
	return CanSwitch() && unswitched.Load().permitted&(1<<unix.CAP_FOWNER) != 0
}

// Link implements vfs.FileSystem.
func (fs *FS) Link(op *vfs.Op, h, dir vfs.Handle, name []byte, a *vfs.Attr) (vfs.Change, error) {
	var ch vfs.Change
	d, err := fs.dirToChange(op, dir, false)
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
	var is look
	if err = fs.look(op, n, &is); err != nil {
		return ch, err
	}
	n.fill(a, &is)
	if n.typ == vfs.Directory {
		return ch, syscall.EISDIR
	}
	c := dirChange{d: d, ch: &ch}
	md, mn := d.mark(), n.mark()
	n.inode.version.before()
	err = c.run(op, func() error {
		return fs.identity.asWith(op.Cred, linkCaps(&is.Stat_t), func() error {
			return c.call(func() error { return fs.link(n.fd, d.fd, name) })
		})
	})
	if n.after(err == nil, &is) == nil {
		n.fill(a, &is)
	}
	if err == syscall.ENOENT && is.Nlink == 0 {
		err = syscall.ESTALE // the file exists only because it is open
	}
	if err != nil {
		return ch, err
	}
	fs.resolver.Note(d.handle, n.handle, name)
	return ch, fs.durableName(op, n, md, mn, false)
}
