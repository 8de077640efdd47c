package local

import (
	"encoding/binary"
	"syscall"
	"weak"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// This file finds out what an entry of a listing looks like: by one system call
// where the name is known, by two where the kernel makes handles of
// names, and by four elsewhere.

// give completes an entry that is remembered; false: it has been removed meanwhile.
func (l *listing) give(e *vfs.DirEntry, known *knownName) bool {
	if !l.plus || l.known(e, known) {
		return true
	}
	_, there := l.attributes(e)
	return there
}

// attributes completes an entry and returns what may be remembered of it; false:
// it is no more. One that cannot be entered (a mount point) or looked at goes
// without, and nothing is remembered of it.
func (l *listing) attributes(e *vfs.DirEntry) (known knownName, ok bool) {
	var st unix.Stat_t
	if known, ok = l.dir.names.find(e.Name, l.looks.Ctim); ok && l.known(e, &known) {
		return known, true
	}
	if h, ok := l.byName(e.Name, &st); ok {
		return l.complete(e, h, &st, l.dir.fd), true
	}
	fd, err := sysOpenat2(l.dir.fd, e.Name, unix.O_PATH, 0, unix.RESOLVE_NO_XDEV)
	if outOfDescriptors(err) {
		l.fs.makeRoom()
		fd, err = sysOpenat2(l.dir.fd, e.Name, unix.O_PATH, 0, unix.RESOLVE_NO_XDEV)
	}
	if err != nil {
		return knownName{}, err != syscall.ENOENT
	}
	defer unix.Close(fd)
	if fstat(fd, &st) != nil {
		return knownName{}, true
	}
	h, err := identify(fd, &st)
	if err != nil {
		return knownName{}, true
	}
	l.fs.resolver.room(false)
	l.fs.resolver.note(l.dir.handle, h, e.Name)
	return l.complete(e, h, &st, fd), true
}

// known completes an entry whose file is known, with one look at the file's
// attributes: those can have changed when the name has not.
func (l *listing) known(e *vfs.DirEntry, known *knownName) bool {
	var st unix.Stat_t
	if n := l.fs.nodes.known(known); n != nil {
		ok := l.fs.kind.fstat(n.fd, &st) == nil && st.Nlink != 0
		if ok {
			l.tell(e, n, &st)
		}
		n.put()
		return ok
	}
	if fstatAt(l.dir.fd, e.Name, &st) != nil || st.Ino != known.ino || st.Dev != l.looks.Dev {
		return false
	}
	l.complete(e, known.handle, &st, l.dir.fd)
	return true
}

// tell fills in what is held open as n.
func (l *listing) tell(e *vfs.DirEntry, n *node, st *unix.Stat_t) {
	e.Handle, e.HasAttr, e.FileID = n.handle, true, n.ino
	n.fill(&e.Attr, st)
}

// byName finds a name's handle and attributes without opening it, which saves
// half of the system calls. The name may change its meaning between the two
// looks: they are taken for one only when the handle names the inode that the
// attributes are of. false: look again by a descriptor.
func (l *listing) byName(name []byte, st *unix.Stat_t) (h vfs.Handle, ok bool) {
	if _, byKernel := l.fs.resolver.(kernelResolver); !byKernel {
		return h, false
	}
	if l.mount == 0 {
		var b [vfs.MaxHandle]byte
		_, _, mount, err := sysNameToHandleAt(l.dir.fd, nil, unix.AT_EMPTY_PATH, b[2:])
		if err != nil {
			return h, false
		}
		l.mount = mount
	}
	h, mount, ok := handleAt(l.dir.fd, name)
	ok = ok && mount == l.mount && fstatAt(l.dir.fd, name, st) == nil && namesInode(h.Bytes()[2:], st.Ino)
	return h, ok
}

// namesInode says whether a kernel's handle holds an inode's number, as those
// of the usual file systems do: 32 bits of it at least, aligned, in the
// machine's order.
func namesInode(handle []byte, ino uint64) bool {
	for ; len(handle) >= 4; handle = handle[4:] {
		if binary.NativeEndian.Uint32(handle) == uint32(ino) {
			return true
		}
	}
	return false
}

// complete fills in an entry's handle and attributes, and returns what may be
// remembered of it. fd is on its file system.
func (l *listing) complete(e *vfs.DirEntry, h vfs.Handle, st *unix.Stat_t, fd int) (known knownName) {
	if st.Dev == l.looks.Dev {
		known = knownName{handle: h, ino: st.Ino}
	}
	if n := l.fs.nodes.cached(&h); n != nil {
		if st.Dev == l.looks.Dev {
			known.node = weak.Make(n)
		}
		l.tell(e, n, st)
		n.put()
		return known
	}
	e.Handle, e.HasAttr, e.FileID = h, true, st.Ino
	fillStat(&e.Attr, st)
	e.Attr.FSID = l.fs.fsid(fd, st.Dev)
	e.Attr.Change = max(stamp(st), inodes.told(inodeKey{st.Dev, h}))
	return known
}
