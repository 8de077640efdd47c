package local

import (
	"sync/atomic"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A file implements vfs.File. It keeps its node in the cache, so that the file's handle works
// after its names are removed. It keeps one of the node's shared descriptors open (see pin), so
// that the rights granted at Open need no further check.
type file struct {
	n      *node
	data   *openFile
	access vfs.OpenAccess
	uid    uint32 // the user that opened it
	closed atomic.Bool
	users  atomic.Int32 // number of running calls, plus one until Close
}

var (
	_ vfs.Opener      = (*FS)(nil)
	_ vfs.OpenCounter = (*FS)(nil)
)

// OpenFiles implements vfs.OpenCounter.
func (fs *FS) OpenFiles() (open, most int) {
	return int(fs.stats.pinned.Load()), int(fs.maxPinned())
}

// Open implements vfs.Opener.
func (fs *FS) Open(op *vfs.Op, h vfs.Handle, access vfs.OpenAccess) (vfs.File, error) {
	if access&(vfs.OpenRead|vfs.OpenWrite) == 0 {
		return nil, syscall.EINVAL
	}
	for range tries {
		n, err := fs.node(op, h)
		if err != nil {
			return nil, err
		}
		data, err := fs.openNode(op, n, access)
		if err != nil {
			fs.giveBack(op, n)
			return nil, err
		}
		if fs.nodes.open(n) {
			f := &file{n: n, data: data, access: access, uid: op.Cred.UID}
			f.users.Store(1)
			return f, nil
		}
		// The cache dropped n meanwhile. The next try checks whether the file still exists.
		fs.unpin(data, n, op.Cred.UID)
		fs.giveBack(op, n)
	}
	return nil, vfs.ErrDelay
}

// openNode checks that op may open n. It returns n's descriptor, pinned by pin.
func (fs *FS) openNode(op *vfs.Op, n *node, access vfs.OpenAccess) (*openFile, error) {
	write := access&vfs.OpenWrite != 0
	switch {
	case n.typ == vfs.Directory:
		return nil, syscall.EISDIR
	case n.typ == vfs.Symlink:
		return nil, syscall.ELOOP
	case n.typ != vfs.Regular:
		return nil, syscall.EINVAL
	case write && fs.readOnly:
		return nil, syscall.EROFS
	}
	var is look
	if err := fs.look(op, n, &is); err != nil {
		return nil, err
	}
	if err := fs.mayOpen(op, n, &is, access); err != nil {
		return nil, err
	}
	return fs.pin(op, n, write)
}

// mayOpen checks the caller's rights for an Open of n, whose attributes the caller has just read.
func (fs *FS) mayOpen(op *vfs.Op, n *node, is *look, access vfs.OpenAccess) error {
	if access&vfs.OpenOwner != 0 && fs.owns(op.Cred, &is.Stat_t) {
		return nil
	}
	const toRead = mayRead | mayExec
	var want right
	if access&vfs.OpenRead != 0 {
		want |= toRead
	}
	if access&vfs.OpenWrite != 0 {
		want |= mayWrite
	}
	has, err := fs.rights(op, n, is, want)
	if err != nil {
		return err
	}
	if want&toRead != 0 && has&toRead == 0 {
		return syscall.EACCES
	}
	if want&mayWrite != 0 && has&mayWrite == 0 {
		return fs.refusal(mayWrite)
	}
	return nil
}

// pin returns n's descriptor for reading, or for reading and writing, with a reference. The
// descriptor stays open until unpin. For reading, pin never takes the writable descriptor, because
// that would needlessly prevent leases and the execution of programs.
func (fs *FS) pin(op *vfs.Op, n *node, write bool) (*openFile, error) {
	for range tries {
		f, err := n.files.pin(fs, op.Cred.UID, write)
		if f != nil || err != nil {
			return f, err
		}
		if op.Try {
			return nil, vfs.ErrWouldBlock
		}
		if fs.stats.pinned.Load() >= fs.maxPinned() {
			return nil, vfs.ErrDelay
		}
		if f, err = fs.openFile(op, n, write); err != nil {
			return nil, err
		}
		f.put() // n keeps it, unless the sweeper closed it meanwhile
	}
	return nil, vfs.ErrDelay
}

// pin returns the writable descriptor if write is set, and otherwise the one for reading, with a
// reference. It counts one more File of the user uid, for which the descriptor has to stay open. It
// returns nil if that descriptor is not open. ErrDelay: the limit of pinned descriptors is reached.
func (o *openFiles) pin(fs *FS, uid uint32, write bool) (*openFile, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f := o.ro
	if write {
		f = o.rw
	}
	if f == nil {
		return nil, nil
	}
	if f.pins == 0 && fs.stats.pinned.Add(1) > fs.maxPinned() {
		fs.stats.pinned.Add(-1)
		return nil, vfs.ErrDelay
	}
	f.pins++
	f.refs.Add(1)
	if write {
		if o.writers == nil {
			o.writers = make(map[uint32]int)
		}
		o.writers[uid]++
	}
	return f, nil
}

// unpin undoes one call of pin for the user uid, which returned n's descriptor f. It never waits.
func (fs *FS) unpin(f *openFile, n *node, uid uint32) {
	f.used.Store(fs.nodes.round.Load())
	n.files.mu.Lock()
	if f.writable {
		if n.files.writers[uid]--; n.files.writers[uid] == 0 {
			delete(n.files.writers, uid)
		}
	}
	if f.pins--; f.pins == 0 {
		fs.stats.pinned.Add(-1)
	}
	n.files.mu.Unlock()
	if f.refs.Add(-1) == 0 {
		fs.closing.add(f.close)
	}
}

// openToWrite reports whether the user uid has the file open for writing.
func (o *openFiles) openToWrite(uid uint32) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.writers[uid] > 0
}

// closeNode undoes one call of nodeCache.open for n and releases a reference to n. It never waits.
func (fs *FS) closeNode(n *node) {
	switch {
	case fs.nodes.close(n):
		fs.closing.add(func() {
			fs.nodes.drop(n)
			n.put()
		})
	case n.release():
		fs.closing.add(n.close)
	}
}

// acquire starts a call that needs the given access, or none if access is 0. EBADF: f was not opened
// for that access, or is closed. The caller ends the call with giveUp.
func (f *file) acquire(access vfs.OpenAccess) error {
	if access != 0 && f.access&access == 0 || f.closed.Load() || !countUp(&f.users) {
		return syscall.EBADF
	}
	return nil
}

func (f *file) giveUp() {
	if f.users.Add(-1) > 0 {
		return
	}
	fs, n := f.n.fs, f.n
	fs.unpin(f.data, n, f.uid)
	fs.closeNode(n)
}

// Close implements vfs.File.
func (f *file) Close() {
	if !f.closed.Swap(true) {
		f.giveUp()
	}
}

// Read implements vfs.File.
func (f *file) Read(op *vfs.Op, offset uint64, buf []byte, a *vfs.Attr) (int, bool, error) {
	if err := f.acquire(vfs.OpenRead); err != nil {
		return 0, false, err
	}
	defer f.giveUp()
	return f.n.fs.read(op, f.n, offset, buf, a, true)
}

// Write implements vfs.File.
func (f *file) Write(op *vfs.Op, offset uint64, data [][]byte, stable vfs.Stability) (int, vfs.Stability, vfs.Change, error) {
	if err := f.acquire(vfs.OpenWrite); err != nil {
		return 0, 0, vfs.Change{}, err
	}
	defer f.giveUp()
	return f.n.fs.writeAndSync(op, f.n, offset, data, stable, true)
}

// Commit implements vfs.File.
func (f *file) Commit(op *vfs.Op, _ uint64, _ uint32) (vfs.Change, error) {
	if err := f.acquire(0); err != nil {
		return vfs.Change{}, err
	}
	defer f.giveUp()
	return f.n.fs.commit(op, f.n, true)
}

// SetSize implements vfs.File.
func (f *file) SetSize(op *vfs.Op, size uint64) (ch vfs.Change, err error) {
	if err = f.acquire(vfs.OpenWrite); err != nil {
		return ch, err
	}
	defer f.giveUp()
	if op.Try {
		return ch, vfs.ErrWouldBlock
	}
	fs, m := f.n.fs, f.n.mark()
	if err = fs.setAttr(op, f.n, &vfs.SetAttr{SetSize: true, Size: size}, nil, &ch, true); err != nil {
		return ch, err
	}
	return ch, fs.durable(op, m)
}
