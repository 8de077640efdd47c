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

// give fills in the handle and the attributes of a remembered entry, if l.plus is set. It returns
// false if the entry has been removed meanwhile.
func (l *listing) give(e *vfs.DirEntry, known *knownName) bool {
	if !l.plus || l.known(e, known) {
		return true
	}
	_, there := l.attributes(e)
	return there
}

// attributes fills in the handle and the attributes of an entry, and returns what to remember of
// it. It returns false if the entry does not exist any more. If the entry cannot be opened, for
// example because it is a mount point, or if its attributes cannot be read, it gets neither handle
// nor attributes, and nothing is remembered of it.
func (l *listing) attributes(e *vfs.DirEntry) (known knownName, ok bool) {
	if known, ok = l.dir.findName(e.Name); ok && l.open(e, &known) {
		return known, true
	}
	if known, ok = l.byName(e); ok {
		return known, true
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
	var st unix.Stat_t
	if fstat(fd, &st) != nil {
		return knownName{}, true
	}
	h, err := identify(fd, &st)
	if err != nil {
		return knownName{}, true
	}
	l.fs.resolver.Room(false)
	l.fs.resolver.Note(l.dir.handle, h, e.Name)
	known, _ = l.complete(e, h, fd, nil)
	return known, true
}

// known fills in a remembered entry, and returns false if it cannot. It reads the file's present
// attributes, because these can change while the name does not. If a node holds the file open,
// known reads them through the node and not by name. The node's file still has the name, because
// the directory has not changed since the listing was remembered.
func (l *listing) known(e *vfs.DirEntry, known *knownName) bool {
	var is look
	if n := l.fs.nodes.known(known); n != nil {
		defer n.put()
		if n.stat(&is) != nil || is.Nlink == 0 {
			return false
		}
		l.tell(e, n, &is)
		return true
	}
	return l.sight(e, known.handle, l.dir.fd, e.Name, &is) && is.Ino == known.ino && is.Dev == l.looks.Dev
}

// open fills in an entry through the node that is remembered for its name. It returns false if
// there is no such node, or if the name belongs to another file now.
func (l *listing) open(e *vfs.DirEntry, known *knownName) bool {
	n := l.fs.nodes.known(known)
	if n == nil {
		return false
	}
	defer n.put()
	var is look
	ok := n.statAt(l.dir.fd, e.Name, &is)
	if ok {
		l.tell(e, n, &is)
	}
	return ok
}

// tell fills in the entry of the file of node n. The last argument holds n's attributes.
func (l *listing) tell(e *vfs.DirEntry, n *node, is *look) {
	e.Handle, e.HasAttr, e.FileID = n.handle, true, n.ino
	n.fill(&e.Attr, is)
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
	known.handle = h
	if n := l.fs.nodes.cached(&h); n != nil {
		defer n.put()
		if n.stat(&is) != nil {
			return knownName{}, false
		}
		known.node = weak.Make(n)
		l.tell(e, n, &is)
	} else if !l.sight(e, h, dir, name, &is) || len(name) > 0 && !namesInode(h.Bytes()[2:], is.Ino) {
		return knownName{}, false
	}
	if known.ino = is.Ino; is.Dev != l.looks.Dev {
		known = knownName{}
	}
	return known, true
}

// sight fills in e for a file without a node. The file is found by dir and name, as in complete.
// sight reads the file's attributes into its last argument; if it cannot, it returns false.
func (l *listing) sight(e *vfs.DirEntry, h vfs.Handle, dir int, name []byte, is *look) bool {
	g := inodes.sight(&h)
	if fstatAt(dir, name, &is.Stat_t) != nil {
		return false
	}
	key := inodeKey{is.Dev, h}
	if is.change = stamp(&is.Stat_t); !g.ctimeSays(key) {
		i := inodes.acquire(key, &is.Stat_t, l.fs.device)
		defer inodes.giveBack(i)
		i.version.beginLook(is)
		if fstatAt(dir, name, &is.Stat_t) != nil || is.Dev != key.dev {
			return false
		}
		i.version.tell(is)
	}
	e.Handle, e.HasAttr, e.FileID = h, true, is.Ino
	fillStat(&e.Attr, &is.Stat_t)
	e.Attr.FSID, e.Attr.Change = l.fs.fsid(dir, is.Dev), is.change
	return true
}
