package local

import (
	"math"
	"sync"
	"syscall"
	"unsafe"

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
	var in, is look
	if err = fs.look(op, d, &in); err != nil {
		return o, err
	}
	d.fill(dirAttr, &in)
	if err = vfs.CheckName(name, maxName); err != nil {
		return o, err
	}
	if err = fs.require(op, d, &in, mayExec); err != nil {
		return o, err
	}
	n := fs.remembered(op, d, name, &is)
	if n == nil {
		if n, err = fs.child(op, d, name, &is); err != nil {
			return o, err
		}
		fs.rememberName(d, &in, name, n.handle)
	}
	o.Handle = n.handle
	n.fill(&o.Attr, &is)
	o.HasAttr = true
	if op.Want != 0 {
		err = fs.tellWanted(op, n, &o.Attr)
	}
	fs.giveBack(op, n)
	return o, err
}

// A dirMemory is what the FS remembers of a directory while the directory has the Change in the field
// change: names that Lookup found, and the beginning of the kernel's listing.
type dirMemory struct {
	mu     sync.Mutex
	change uint64
	// names are the files found under names. Before each use, FS.remembered asks the kernel whether the
	// name is still the file's, because a change may set the directory's ctime long before it takes effect.
	names map[string]vfs.Handle
	list  rememberedList
	bytes int64 // memory that names and list take (FS.takeNames)
}

// maxDirNames is the largest number of names, and of entries of the list, in a dirMemory.
const maxDirNames = 1 << 14

// findName returns the file remembered for name in d. The caller has just read d's attributes.
func (d *node) findName(name []byte) (h vfs.Handle, ok bool) {
	m := &d.memory
	m.mu.Lock()
	if d.inode.version.still(m.change) {
		h, ok = m.names[string(name)]
	}
	m.mu.Unlock()
	return h, ok
}

// rememberName remembers that name in d is the file h. in holds d's attributes, which were read
// before the name was looked up; unless they are still, rememberName does nothing. Nor does it beyond
// the limits of names; the names remembered before stay.
func (fs *FS) rememberName(d *node, in *look, name []byte, h vfs.Handle) {
	if !in.still {
		return
	}
	m, bytes := &d.memory, int64(nameOverhead+len(name))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.renewLocked(in.change, fs)
	if in.change < m.change {
		return
	}
	if _, known := m.names[string(name)]; !known {
		if len(m.names) >= maxDirNames || !fs.takeNames(bytes) {
			return
		}
		m.bytes += bytes
	}
	if m.names == nil {
		m.names = make(map[string]vfs.Handle)
	}
	m.names[string(name)] = h
}

// renewLocked empties m if it is about an earlier Change of the directory than the argument.
func (m *dirMemory) renewLocked(change uint64, fs *FS) {
	if m.change < change {
		fs.giveNames(m.bytes)
		if len(m.names) > 64 {
			m.names = nil // an empty map keeps its memory, which is not counted any more
		}
		clear(m.names)
		m.change, m.bytes, m.list = change, 0, rememberedList{}
	}
}

// forget empties m when the cache drops its node.
func (m *dirMemory) forget(fs *FS) {
	m.mu.Lock()
	m.renewLocked(math.MaxUint64, fs)
	m.mu.Unlock()
}

// remembered returns the node that is remembered for name in d, with a reference, or nil. A call with
// Op.Try may ask the kernel, too: d has not changed since, so the kernel has the name in memory.
func (fs *FS) remembered(op *vfs.Op, d *node, name []byte, is *look) *node {
	h, ok := d.findName(name)
	if !ok || !fs.kind.memory {
		return nil
	}
	n := fs.nodes.cached(&h)
	if n == nil {
		return nil
	}
	if !n.statAt(d.fd, name, is) {
		fs.giveBack(op, n)
		return nil
	}
	n.liesIn(d)
	return n
}

// liesIn is called when n has just been found by a name in the directory d. If d lies below the
// root, so does n; therefore n gets d's confinedAt.
func (n *node) liesIn(d *node) {
	if n.typ == vfs.Directory {
		n.confinedAt.Store(d.confinedAt.Load())
	}
}

// statAt reads n's attributes by name in the directory dir, or returns false if that is another file.
func (n *node) statAt(dir int, name []byte, l *look) bool {
	n.inode.version.beginLook(l)
	if fstatAt(dir, name, &l.Stat_t) != nil || l.Ino != n.ino || l.Dev != n.inode.key.dev {
		return false
	}
	n.inode.version.tell(l)
	return true
}

const maxName = 255 // maxName is in bytes; every Linux file system's NAME_MAX is at most this

// cname copies name to buf and appends a NUL. The caller has checked the name with vfs.CheckName.
func cname(buf *[maxName + 1]byte, name []byte) *byte {
	buf[copy(buf[:maxName], name)] = 0
	return &buf[0]
}

// fstatAt reads the attributes of name in dir, or of dir itself if name is empty; it follows no symlink.
func fstatAt(dir int, name []byte, st *unix.Stat_t) error {
	var path [maxName + 1]byte
	_, _, e := syscall.Syscall6(unix.SYS_NEWFSTATAT, uintptr(dir), uintptr(unsafe.Pointer(cname(&path, name))),
		uintptr(unsafe.Pointer(st)), unix.AT_SYMLINK_NOFOLLOW|unix.AT_EMPTY_PATH, 0, 0)
	return errnoErr(e)
}

// child returns the node of name in d with a reference, and its attributes. It checks no rights.
func (fs *FS) child(op *vfs.Op, d *node, name []byte, is *look) (*node, error) {
	if vfs.IsDot(name) {
		return fs.dotChild(op, d, name, is)
	}
	var fd int
	var err error
	if op.Try {
		if fs.nodes.full() || !fs.resolver.Room(true) {
			return nil, vfs.ErrWouldBlock // making room closes files or waits for the index to be written
		}
		fd, err = sysOpenat2(d.fd, name, unix.O_PATH, 0, unix.RESOLVE_NO_XDEV|resolveCached)
		if err == syscall.EAGAIN || err == syscall.EINVAL || outOfDescriptors(err) {
			err = vfs.ErrWouldBlock // EINVAL: the kernel is older than Linux 5.12 and lacks RESOLVE_CACHED
		}
	} else {
		fd, err = fs.openName(d, name)
	}
	if err != nil {
		return nil, err
	}
	return fs.settle(d, name, fd, is)
}

// settle makes a node of fd, a new O_PATH descriptor for name in d, and reads its attributes. It
// also tells the resolver that the name belongs to this file.
func (fs *FS) settle(d *node, name []byte, fd int, is *look) (*node, error) {
	n, err := fs.nodeOf(fd, is, d)
	if n != nil {
		fs.resolver.Note(d.handle, n.handle, name)
		n.liesIn(d)
	}
	return n, err
}

// nodeOf makes a node of fd, a new O_PATH descriptor, and reads its attributes. near is an open node,
// probably of the same device.
func (fs *FS) nodeOf(fd int, is *look, near *node) (*node, error) {
	n, err := fs.adopt(fd, near)
	if err != nil {
		return nil, err
	}
	if err = n.stat(is); err != nil {
		n.put()
		return nil, err
	}
	return n, nil
}

// adopt makes a node of fd, a new O_PATH descriptor. near is an open node, probably of the same device.
func (fs *FS) adopt(fd int, near *node) (*node, error) {
	var st unix.Stat_t
	var h vfs.Handle
	err := sysFstat(fd, &st)
	if err == nil {
		h, err = fs.handles.identify(fd, &st)
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return fs.keepNode(fd, &st, h, near), nil
}

func (fs *FS) dotChild(op *vfs.Op, d *node, name []byte, is *look) (*node, error) {
	if string(name) == ".." && d != fs.root && d.handle != fs.root.handle {
		if op.Try {
			return nil, vfs.ErrWouldBlock
		}
		fd, err := fs.parent(d)
		if err != nil {
			return nil, err
		}
		return fs.nodeOf(fd, is, d)
	}
	if err := fs.look(op, d, is); err != nil {
		return nil, err
	}
	d.refs.Add(1)
	return d, nil
}

// parent opens the directory above d, which is not the root. ESTALE: that directory is not in the tree.
func (fs *FS) parent(d *node) (int, error) {
	fd, err := sysOpenParent(d.fd, 1)
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err = sysFstat(fd, &st); err != nil || fs.below(fd, &st) != nil {
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
	var is look
	if err = fs.look(op, n, &is); err != nil {
		return 0, err
	}
	n.fill(a, &is)
	if len(buf) == 0 {
		return 0, syscall.ENAMETOOLONG
	}
	got, err := sysReadlinkat(n.fd, "", buf)
	if err != nil {
		return 0, err
	}
	if got == len(buf) {
		// The kernel truncates without an error. Check whether the text is longer.
		var longer [unix.PathMax + 1]byte
		if all, err := sysReadlinkat(n.fd, "", longer[:]); err == nil && all > got {
			return 0, syscall.ENAMETOOLONG
		}
	}
	return got, nil
}
