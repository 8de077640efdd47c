package memfs

import (
	"encoding/binary"
	"sync"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A node is a file of any kind.
//
// Lock order: a directory before the files in it. A goroutine that locks two directories holds
// FS.renames and locks the ancestor first. A rename locks the moved file and the replaced file in
// the order of their file numbers.
type node struct {
	mu   sync.RWMutex
	attr vfs.Attr
	gone bool // true if the file has no name any more and is not open
	// opens counts how often this node is open; nil if it is not. A file with claims counts as open
	// once more, so that it stays alive; then claimedBy is the counter, and otherwise nil. A Crash
	// sets both to nil.
	opens, claimedBy *opens
	claims           *claims // nil: no range claimed since the last Crash
	// attr.Type decides which one of data, dir and text is set. Special files have none of them.
	data *fileData
	dir  *directory
	text []byte
	// exclusive is true if an Exclusive Create made the file; verifier is the verifier of that
	// call.
	verifier  [8]byte
	exclusive bool
	birth     vfs.Time
	// xattrs holds the extended attributes by name, without the prefix "user.". xattrBytes is the
	// storage that they take, in bytes.
	xattrs     map[string][]byte
	xattrBytes int
}

// tell copies n's attributes to a, including those that op.Want requests. The caller holds n.mu.
func (n *node) tell(op *vfs.Op, a *vfs.Attr) {
	*a = n.attr
	if op.Want&vfs.WantBirth != 0 {
		a.Birth, a.HasBirth = n.birth, true
	}
	if op.Want&vfs.WantMountedOn != 0 {
		a.MountedOn = a.FileID // nothing is mounted
	}
}

func (f *FS) newNode(t vfs.Type, mode, uid, gid uint32, now vfs.Time) *node {
	return &node{attr: vfs.Attr{
		Type: t, Mode: mode & 0o7777, Nlink: 1, UID: uid, GID: gid,
		FSID: f.opt.FSID, FileID: f.lastID.Add(1),
		Atime: now, Mtime: now, Ctime: now, Change: 1,
	}, birth: now}
}

// touch records a change of n, and of its content if content is set. The ctime always grows, so
// that a client can recognize every change by the ctime.
func (n *node) touch(now vfs.Time, content bool) {
	if !n.attr.Ctime.Before(now) {
		now = n.attr.Ctime
		if now.Nsec++; now.Nsec == 1e9 {
			now.Sec, now.Nsec = now.Sec+1, 0
		}
	}
	n.attr.Ctime = now
	if content {
		n.attr.Mtime = now
	}
	n.attr.Change++
}

// alter runs the function do, which changes the file h, as a call of m. The file's node is locked
// meanwhile. The result holds the attributes before and after, also if do fails.
func (f *FS) alter(op *vfs.Op, m Method, h vfs.Handle, do func(n *node) error) (ch vfs.Change, err error) {
	if err := f.enter(op, m); err != nil {
		return ch, err
	}
	defer f.leave()
	n, err := f.lock(h)
	if err != nil {
		return ch, err
	}
	defer n.mu.Unlock()
	return n.alter(do)
}

// alterDir is alter for the directory h.
func (f *FS) alterDir(op *vfs.Op, m Method, h vfs.Handle, do func(d *node) error) (ch vfs.Change, err error) {
	if err := f.enter(op, m); err != nil {
		return ch, err
	}
	defer f.leave()
	d, err := f.lockDir(h)
	if err != nil {
		return ch, err
	}
	defer d.mu.Unlock()
	return d.alter(do)
}

// alter runs the function do, which changes n. The caller holds n.mu.
func (n *node) alter(do func(n *node) error) (ch vfs.Change, err error) {
	ch = n.before()
	err = do(n)
	n.after(&ch)
	return ch, err
}

// before returns a Change whose Before holds the present attributes of n. After the change, the
// caller calls the method after, which sets After. The caller holds n.mu.
func (n *node) before() vfs.Change {
	return vfs.Change{Before: n.attr, HasBefore: true, Atomic: true}
}

func (n *node) after(c *vfs.Change) { c.After, c.HasAfter = n.attr, true }

const handleLen = 16

func (f *FS) handle(n *node) vfs.Handle {
	var b [handleLen]byte
	binary.LittleEndian.PutUint64(b[:], f.key)
	binary.LittleEndian.PutUint64(b[8:], n.attr.FileID)
	h, _ := vfs.MakeHandle(b[:])
	return h
}

// find returns the node of a handle without locking it.
func (f *FS) find(h vfs.Handle) (*node, error) {
	b := h.Bytes()
	if len(b) != handleLen || binary.LittleEndian.Uint64(b) != f.key {
		return nil, vfs.ErrBadHandle
	}
	id := binary.LittleEndian.Uint64(b[8:])
	if n := f.nodes.get(id); n != nil {
		return n, nil
	}
	// Numbers are never used again: a number given out earlier belongs to a removed file.
	if id == 0 || id > f.lastID.Load() {
		return nil, vfs.ErrBadHandle
	}
	return nil, syscall.ESTALE
}

// lock returns the node of a handle, locked.
func (f *FS) lock(h vfs.Handle) (*node, error) {
	n, err := f.find(h)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	if n.gone {
		n.mu.Unlock()
		return nil, syscall.ESTALE
	}
	return n, nil
}

// rlock returns the node of a handle, locked for reading.
func (f *FS) rlock(h vfs.Handle) (*node, error) {
	n, err := f.find(h)
	if err != nil {
		return nil, err
	}
	n.mu.RLock()
	if n.gone {
		n.mu.RUnlock()
		return nil, syscall.ESTALE
	}
	return n, nil
}

// lockDir returns the node of a directory's handle, locked.
func (f *FS) lockDir(h vfs.Handle) (*node, error) {
	n, err := f.lock(h)
	if err != nil {
		return nil, err
	}
	if n.dir == nil {
		n.mu.Unlock()
		return nil, syscall.ENOTDIR
	}
	return n, nil
}

func (n *node) object(f *FS) vfs.Object {
	return vfs.Object{Handle: f.handle(n), Attr: n.attr, HasAttr: true}
}

// drop records the removal of one name of n. If that was the last name and n is not open, drop
// calls forget. The caller holds n.mu.
func (f *FS) drop(n *node, now vfs.Time) {
	n.touch(now, false)
	if n.dir != nil {
		n.attr.Nlink = 0
	} else {
		n.attr.Nlink--
	}
	if n.attr.Nlink == 0 && n.opens == nil {
		f.forget(n)
	}
}

// forget removes n and frees its space. The caller holds n.mu.
func (f *FS) forget(n *node) {
	n.gone = true
	f.nodes.remove(n.attr.FileID)
	f.files.Add(-1)
	if n.data != nil {
		f.bytes.Add(-int64(n.attr.Used))
		n.data = &fileData{}
	}
	f.bytes.Add(-int64(n.xattrBytes))
	n.xattrs, n.xattrBytes = nil, 0
}

const shards = 64

// nodeTable maps file numbers to nodes, in shards with one lock each.
type nodeTable [shards]struct {
	mu sync.RWMutex
	m  map[uint64]*node
}

func (t *nodeTable) get(id uint64) *node {
	s := &t[id%shards]
	s.mu.RLock()
	n := s.m[id]
	s.mu.RUnlock()
	return n
}

func (t *nodeTable) put(n *node) {
	s := &t[n.attr.FileID%shards]
	s.mu.Lock()
	if s.m == nil {
		s.m = make(map[uint64]*node)
	}
	s.m[n.attr.FileID] = n
	s.mu.Unlock()
}

func (t *nodeTable) remove(id uint64) {
	s := &t[id%shards]
	s.mu.Lock()
	delete(s.m, id)
	s.mu.Unlock()
}

// all calls the function do for each node. Nodes made or removed meanwhile may be missing.
func (t *nodeTable) all(do func(*node)) {
	for i := range t {
		s := &t[i]
		s.mu.RLock()
		nodes := make([]*node, 0, len(s.m))
		for _, n := range s.m {
			nodes = append(nodes, n)
		}
		s.mu.RUnlock()
		for _, n := range nodes {
			do(n)
		}
	}
}
