package local

import (
	"encoding/binary"
	"syscall"
	"weak"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// This file reads the handle and the attributes of an entry of a listing. That takes one system
// call if the FS remembers which file the name belongs to, two if the kernel can make a handle
// from the name, and otherwise four.

// attributes fills in the handle and the attributes of an entry. It returns false if the entry
// does not exist any more. If the entry cannot be opened, for example because it is a mount point,
// or if its attributes cannot be read, it gets neither handle nor attributes.
func (l *listing) attributes(e *vfs.DirEntry) (there bool) {
	known, ok := l.dir.findName(e.Name)
	if !ok || !l.known(e, &known) {
		if known, ok = l.byName(e); !ok {
			if known, ok = l.byDescriptor(e); !ok {
				return false
			}
		}
	}
	if l.settled && !known.listed && !known.handle.IsZero() {
		known.listed = true
		l.fs.rememberName(l.dir, &l.looks, e.Name, known)
	}
	return true
}

// known fills in the entry of a remembered name. It returns false if it cannot, or if the name
// belongs to another file now.
func (l *listing) known(e *vfs.DirEntry, known *knownName) bool {
	var is look
	if n := l.fs.nodes.known(known); n != nil {
		defer n.put()
		ok := known.listed && n.stat(&is) == nil && is.Nlink > 0 || !known.listed && n.statAt(l.dir.fd, e.Name, &is)
		if ok {
			tell(e, n.handle, n.fsid, &is)
		}
		return ok
	}
	ok := known.listed && l.sight(known.handle, l.dir.fd, e.Name, &is) && is.Ino == known.ino && is.Dev == l.looks.Dev
	if ok {
		tell(e, known.handle, l.dir.fsid, &is)
	}
	return ok
}

// byDescriptor opens the file of an entry to fill it in. It returns false if the entry does not
// exist any more, and otherwise what to remember of it. This is zero if the file cannot be opened or
// its attributes cannot be read.
func (l *listing) byDescriptor(e *vfs.DirEntry) (known knownName, there bool) {
	fd, err := sysOpenat2(l.dir.fd, e.Name, unix.O_PATH, 0, unix.RESOLVE_NO_XDEV)
	if outOfDescriptors(err) {
		l.fs.makeRoom()
		fd, err = sysOpenat2(l.dir.fd, e.Name, unix.O_PATH, 0, unix.RESOLVE_NO_XDEV)
	}
	if err != nil {
		return known, err != syscall.ENOENT
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if fstat(fd, &st) != nil {
		return known, true
	}
	h, err := identify(fd, &st)
	if err != nil {
		return known, true
	}
	l.fs.resolver.Room(false)
	l.fs.resolver.Note(l.dir.handle, h, e.Name)
	known, _ = l.complete(e, h, fd, nil)
	return known, true
}

// byName fills in an entry by its name without opening the file, which saves half of the system
// calls. Between the call for the handle and the call for the attributes, another file may get the
// name; so the result counts only if the handle contains the inode number in the attributes. If
// byName returns false, the caller opens the file instead.
func (l *listing) byName(e *vfs.DirEntry) (known knownName, ok bool) {
	if _, byKernel := l.fs.resolver.(kernelResolver); !byKernel {
		return known, false
	}
	if l.mount == 0 {
		var b [vfs.MaxHandle]byte
		_, _, mount, err := sysNameToHandleAt(l.dir.fd, nil, unix.AT_EMPTY_PATH, b[2:])
		if err != nil {
			return known, false
		}
		l.mount = mount
	}
	h, mount, ok := handleAt(l.dir.fd, e.Name)
	if !ok || mount != l.mount {
		return known, false
	}
	return l.complete(e, h, l.dir.fd, e.Name)
}

// namesInode reports whether a kernel's handle contains an inode number. The handles of the usual
// file systems contain at least the low 32 bits of the number, aligned, in the machine's byte
// order.
func namesInode(handle []byte, ino uint64) bool {
	for ; len(handle) >= 4; handle = handle[4:] {
		if binary.NativeEndian.Uint32(handle) == uint32(ino) {
			return true
		}
	}
	return false
}

// complete fills in the attributes of an entry with the handle h, and returns what to remember of
// it. The file is the one called name in the directory dir; if name is empty, dir is a descriptor
// of the file itself. complete returns false if the attributes cannot be read, or if they do not
// belong to the handle.
func (l *listing) complete(e *vfs.DirEntry, h vfs.Handle, dir int, name []byte) (known knownName, ok bool) {
	var is look
	if n := l.fs.nodes.cached(&h); n != nil {
		defer n.put()
		if n.stat(&is) != nil {
			return known, false
		}
		known.node = weak.Make(n)
	} else if !l.sight(h, dir, name, &is) || len(name) > 0 && !namesInode(h.Bytes()[2:], is.Ino) {
		return known, false
	}
	tell(e, h, l.fs.fsid(dir, is.Dev), &is)
	if is.Dev == l.looks.Dev {
		known.handle, known.ino = h, is.Ino
	}
	return known, true
}

// sight reads the attributes of the file h, which has no node, into its last argument. The file is
// found by dir and name, as in complete.
func (l *listing) sight(h vfs.Handle, dir int, name []byte, is *look) bool {
	g := inodes.sight(&h)
	if fstatAt(dir, name, &is.Stat_t) != nil {
		return false
	}
	key := inodeKey{is.Dev, h}
	if is.change = stamp(&is.Stat_t); g.ctimeSays(key) {
		return true
	}
	i := inodes.acquire(key, &is.Stat_t, l.fs.device)
	defer inodes.giveBack(i)
	i.version.beginLook(is)
	if fstatAt(dir, name, &is.Stat_t) != nil || is.Dev != key.dev {
		return false
	}
	i.version.tell(is)
	return true
}

// tell fills in the handle and the attributes of an entry.
func tell(e *vfs.DirEntry, h vfs.Handle, fsid uint64, is *look) {
	e.Handle, e.HasAttr, e.FileID = h, true, is.Ino
	fill(&e.Attr, fsid, is)
}
