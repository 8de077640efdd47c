package local

import (
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A file implements vfs.File. It keeps its node in the cache, so that the file's handle works
// after its names are removed. The rights granted at Open need no further check: the node's shared
// descriptors for data stay open while Files need them (see pin), or are opened again with the
// daemon's rights.
type file struct {
	n      *node
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
	return int(fs.holdings.pinned()), int(fs.holdings.mostPinned())
}

// OpenRefused implements vfs.OpenCounter.
func (fs *FS) OpenRefused() { fs.holdings.budget.refuse() }

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
		err = fs.openNode(op, n, access)
		if err != nil {
			fs.giveBack(op, n)
			return nil, err
		}
		f := &file{n: n, access: access, uid: op.Cred.UID}
		f.users.Store(1)
		there, err := fs.nodes.open(n)
		if there {
			return f, nil
		}
		fs.unpin(n, f.uid, access)
		fs.giveBack(op, n)
		if err != nil {
			return nil, err
		}
		// The cache dropped n meanwhile. The next try checks whether the file still exists.
	}
	return nil, vfs.ErrDelay
}

// openNode checks that op may open n, and calls pin.
func (fs *FS) openNode(op *vfs.Op, n *node, access vfs.OpenAccess) error {
	write := access&vfs.OpenWrite != 0
	switch {
	case n.typ == vfs.Directory:
		return syscall.EISDIR
	case n.typ == vfs.Symlink:
		return syscall.ELOOP
	case n.typ != vfs.Regular:
		return syscall.EINVAL
	case write && fs.readOnly:
		return syscall.EROFS
	}
	var is look
	if err := fs.look(op, n, &is); err != nil {
		return err
	}
	if err := fs.mayOpen(op, n, &is, access); err != nil {
		return err
	}
	return fs.pin(op, n, write)
}

// mayOpen checks the caller's rights for an Open of n, whose attributes the caller has just read.
func (fs *FS) mayOpen(op *vfs.Op, n *node, is *look, access vfs.OpenAccess) error {
	if access&vfs.OpenOwner != 0 && fs.identity.owns(op.Cred, &is.Stat_t) {
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

// pin opens n's descriptor for reading, or for reading and writing, and counts one more File that
// needs it. While Files need it, the sweeper does not close it; only a lack of descriptors does. For
// reading, pin never takes the writable descriptor, because that would needlessly prevent leases and
// the execution of programs.
func (fs *FS) pin(op *vfs.Op, n *node, write bool) error {
	for range tries {
		if there, err := n.files.pin(fs, op.Cred.UID, write); there || err != nil {
			return err
		}
		if op.Try {
			return vfs.ErrWouldBlock
		}
		f, err := fs.openFile(op, n, write)
		if err != nil {
			return err
		}
		f.put() // n keeps it, unless it was closed meanwhile
	}
	return vfs.ErrDelay
}

// pin counts one more File of the user uid that needs the writable descriptor if write is set, and
// otherwise the one for reading. It returns false if that descriptor is not open. ErrDelay: it has to
// be kept, and the limit of pinned descriptors is reached.
func (o *openFiles) pin(fs *FS, uid uint32, write bool) (there bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f, files := o.ro, &o.toRead
	if write {
		f, files = o.rw, &o.toWrite
	}
	if f == nil {
		return false, nil
	}
	if *files == 0 && f.kept {
		if err = fs.holdings.pin(&fs.holdings.pinnedData); err != nil {
			return false, err
		}
	}
	f.used.Store(fs.nodes.round.Load())
	*files++
	if write {
		if o.writers == nil {
			o.writers = make(map[uint32]int)
		}
		o.writers[uid]++
	}
	return true, nil
}

// unpin undoes one call of FS.pin for the user uid. If no other File needs the writable descriptor, and
// n has no unsynced data, unpin closes that descriptor and an idle one for claims, so that the file can
// be executed. It never waits.
func (fs *FS) unpin(n *node, uid uint32, access vfs.OpenAccess) {
	o := &n.files
	o.mu.Lock()
	f, files := o.ro, &o.toRead
	var last, claims *openFile
	if access&vfs.OpenWrite != 0 {
		f, files = o.rw, &o.toWrite
		if o.writers[uid]--; o.writers[uid] == 0 {
			delete(o.writers, uid)
		}
	}
	if f != nil {
		f.used.Store(fs.nodes.round.Load())
	}
	if *files--; *files == 0 && f != nil {
		if f.kept {
			fs.holdings.pinnedData.Add(-1)
		}
		if f.writable && n.isStableLocked() {
			last, o.rw, claims = f, nil, o.takeClaimsLocked()
		}
	}
	o.mu.Unlock()
	if last != nil {
		fs.closing.add(func() { putFiles(last, claims) })
	} else if f != nil {
		fs.nodes.hasten(n)
	}
}

// closeLater is the time between a COMMIT of a file that no client has open and the call of closeSoon.
const closeLater = 100 * time.Millisecond

// committed is called after a COMMIT of n. If no File needs the writable descriptor, it has that, and an
// idle one for claims, closed in closeLater, unless the file is written again meanwhile: a file of a
// client of NFSv3, which tells of no close, can then be executed.
func (fs *FS) committed(n *node) {
	o := &n.files
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.rw == nil || o.toWrite > 0 || o.closing {
		return
	}
	o.closing = true
	h := n.handle // no reference, which would keep a removed file
	fs.running.Add(1)
	time.AfterFunc(closeLater, func() {
		defer fs.running.Done()
		if n := fs.nodes.cached(&h); n != nil {
			n.closeSoon()
			n.put()
		}
	})
}

// closeSoon closes the writable descriptor, and an idle one for claims, if nothing needs it.
func (n *node) closeSoon() {
	o := &n.files
	o.mu.Lock()
	o.closing = false
	var f, claims *openFile
	if o.rw != nil && o.toWrite == 0 && n.isStableLocked() {
		f, o.rw, claims = o.rw, nil, o.takeClaimsLocked()
	}
	o.mu.Unlock()
	putFiles(f, claims)
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
	fs.unpin(n, f.uid, f.access)
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
	return ch, fs.syncer.durable(op, m)
}
