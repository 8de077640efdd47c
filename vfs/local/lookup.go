package local

import (
	"sync"
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
	var in, is look
	if err = fs.look(op, d, &in); err != nil {
		return o, err
	}
	d.fill(dirAttr, &in)
	if err = vfs.CheckName(name, maxName); err != nil {
		return o, err
	}
	has, err := fs.rights(op, d, &in, mayExec)
	if err != nil {
		return o, err
	}
	if has == 0 {
		return o, syscall.EACCES
	}
	n := fs.remembered(op, d, name, &is)
	if n == nil {
		if n, err = fs.child(op, d, name, &is); err != nil {
			return o, err
		}
		fs.rememberName(d, &in, name, knownName{handle: n.handle, ino: n.ino, node: weak.Make(n)})
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

// rememberedNames maps names in a directory to the files found under them. The field change is the
// directory's Change at the time when they were found.
type rememberedNames struct {
	mu     sync.Mutex
	change uint64
	m      map[string]knownName
}

// A knownName is the file that was found under a name. Before each use, FS.remembered or
// listing.named asks the kernel whether the name still belongs to that file, because a change of the
// name may set the directory's ctime long before it takes effect.
type knownName struct {
	handle vfs.Handle
	ino    uint64
	// node is the file's node, if it still exists; this weak pointer does not keep it in memory.
	// While the node exists, no other file gets the same inode number.
	node weak.Pointer[node]
}

const (
	maxDirNames = 1 << 14 // names in one directory
	maxAllNames = 1 << 16 // names in all directories together
)

// findName returns the file that is remembered for name in d. The caller has just read d's
// attributes.
func (d *node) findName(name []byte) (n knownName, ok bool) {
	r := &d.names
	r.mu.Lock()
	if d.inode.version.still(r.change) {
		n, ok = r.m[string(name)]
	}
	r.mu.Unlock()
	return n, ok
}

// rememberName remembers that name in d is the file n. in holds d's attributes, which were read
// before the name was looked up; unless they are still, rememberName does nothing. Nor does it beyond
// the limits of names; the names remembered before stay, so that the next listing of a directory with
// too many names finds some of them.
func (fs *FS) rememberName(d *node, in *look, name []byte, n knownName) {
	if !in.still {
		return
	}
	r := &d.names
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.change != in.change {
		fs.stats.names.Add(-int64(len(r.m)))
		clear(r.m)
		r.change = in.change
	}
	if len(r.m) >= maxDirNames || fs.stats.names.Load() >= maxAllNames {
		return
	}
	if r.m == nil {
		r.m = make(map[string]knownName)
	}
	was := len(r.m)
	r.m[string(name)] = n
	fs.stats.names.Add(int64(len(r.m) - was))
}

func (fs *FS) forgetNames(d *node) {
	r := &d.names
	r.mu.Lock()
	fs.stats.names.Add(-int64(len(r.m)))
	r.m = nil
	r.mu.Unlock()
}

// remembered returns the node that is remembered for name in d, with a reference, or nil. A call
// with Op.Try may ask the kernel, too: d has not changed since the name was found, so the kernel
// has the name in memory.
func (fs *FS) remembered(op *vfs.Op, d *node, name []byte, is *look) *node {
	known, ok := d.findName(name)
	if !ok || !fs.kind.memory {
		return nil
	}
	n := fs.nodes.known(&known)
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

// statAt reads n's attributes by name in the directory dir. It returns false if the name belongs
// to another file.
func (n *node) statAt(dir int, name []byte, l *look) bool {
	n.inode.version.beginLook(l)
	if fstatAt(dir, name, &l.Stat_t) != nil || l.Ino != n.ino || l.Dev != n.inode.key.dev {
		return false
	}
	n.inode.version.tell(l)
	return true
}

// child returns the node of name in d, with a reference, and reads its attributes. It does not
// check the caller's rights.
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
	n, err := fs.nodeOf(fd, is)
	if n != nil {
		fs.resolver.Note(d.handle, n.handle, name)
		n.liesIn(d)
	}
	return n, err
}

// nodeOf makes a node of fd, a new O_PATH descriptor, and reads its attributes.
func (fs *FS) nodeOf(fd int, is *look) (*node, error) {
	n, err := fs.adopt(fd)
	if err != nil {
		return nil, err
	}
	if err = n.stat(is); err != nil {
		n.put()
		return nil, err
	}
	return n, nil
}

// adopt makes a node of fd, a new O_PATH descriptor.
func (fs *FS) adopt(fd int) (*node, error) {
	var st unix.Stat_t
	var h vfs.Handle
	err := unix.Fstat(fd, &st)
	if err == nil {
		h, err = identify(fd, &st)
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return fs.nodes.adopt(fd, &st, h), nil
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
		return fs.nodeOf(fd, is)
	}
	if err := fs.look(op, d, is); err != nil {
		return nil, err
	}
	d.refs.Add(1)
	return d, nil
}

// parent opens the directory above d. ESTALE: that directory is not in the tree. The caller makes
// sure that d is not the root.
func (fs *FS) parent(d *node) (int, error) {
	fd, err := sysOpenParent(d.fd, 1)
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err != nil || fs.below(fd, &st) != nil {
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
	got, err := unix.Readlinkat(n.fd, "", buf)
	if err != nil {
		return 0, err
	}
	if got == len(buf) {
		// The kernel truncates without an error. Check whether the text is longer.
		var longer [unix.PathMax + 1]byte
		if all, err := unix.Readlinkat(n.fd, "", longer[:]); err == nil && all > got {
			return 0, syscall.ENAMETOOLONG
		}
	}
	return got, nil
}
