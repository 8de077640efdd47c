package local

import (
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// An openFile is a descriptor for a file's data, or for its claims. All callers share it, after a check
// of their rights.
type openFile struct {
	fd       int
	writable bool
	// kept is true if the descriptor stays open while Files need it, because the daemon may not be able
	// to open the file again (FS.reopens), or opened it with a caller's rights.
	kept  bool
	refs  atomic.Int32  // one for each user, and one while openFiles holds it
	used  atomic.Uint32 // round of the sweeper (one a second) at the last use
	count *atomic.Int64
	// checked is the sweeper's round, and foreign the inode's version.foreign, at the last check of
	// checkFlags; before the first check, at the opening.
	checked atomic.Uint32
	foreign atomic.Uint64
}

// put releases a reference. If it was the last one, put closes the descriptor, which may block;
// calls with Op.Try use FS.giveBackFile instead.
func (f *openFile) put() {
	if f.refs.Add(-1) == 0 {
		f.close()
	}
}

func (f *openFile) close() {
	unix.Close(f.fd)
	f.count.Add(-1)
}

// idle reports whether f is a descriptor that nothing but its openFiles uses.
func (f *openFile) idle() bool { return f != nil && f.refs.Load() == 1 }

// openFiles holds a node's descriptors: for data at most one to read and one to read and write, and at
// most one for claims (claim.go).
type openFiles struct {
	mu     sync.Mutex
	ro, rw *openFile
	claims *openFile
	// toRead and toWrite are the numbers of Files that need ro and rw.
	toRead, toWrite int
	writers         map[uint32]int // number of Files open for writing, by user
	closing         bool           // true while a call of closeSoon is to come
}

// held returns n's open file, a writable one if write is set, with a reference, or nil if it has none.
func (n *node) held(write bool) *openFile {
	o := &n.files
	o.mu.Lock()
	f := o.rw
	if f == nil && !write {
		f = o.ro
	}
	if f != nil {
		f.refs.Add(1)
		f.used.Store(n.fs.nodes.round.Load())
	}
	o.mu.Unlock()
	return f
}

// keep makes fd an open file of n and returns it with a reference. own is true if the daemon opened it
// with its own rights. If n has an open file of the same kind (writable or not) already, keep closes fd
// and returns that file.
func (n *node) keep(fd int, writable, own bool) *openFile {
	o, count := &n.files, &n.fs.holdings.data
	f := &openFile{fd: fd, writable: writable, kept: !own || !n.fs.reopens, count: count}
	f.refs.Store(2)
	f.used.Store(n.fs.nodes.round.Load())
	f.checked.Store(n.fs.nodes.round.Load())
	f.foreign.Store(n.inode.version.foreign.Load())
	count.Add(1)
	place := &o.ro
	if writable {
		place = &o.rw
	}
	o.mu.Lock()
	if was := *place; was != nil {
		was.refs.Add(1)
		o.mu.Unlock()
		f.close()
		return was
	}
	*place = f
	if f.kept && (!writable && o.toRead > 0 || writable && o.toWrite > 0) {
		n.fs.holdings.pinnedData.Add(1) // Files need it, whose descriptor was closed
	}
	o.mu.Unlock()
	n.fs.nodes.hasten(n)
	return f
}

// opened reports whether n has descriptors that the sweeper closes when they are idle, and whether Files
// need n.
func (n *node) opened() (idle, needed bool) {
	o := &n.files
	o.mu.Lock()
	needed = o.toRead+o.toWrite > 0
	idle = o.ro != nil && o.toRead == 0 || o.rw != nil && o.toWrite == 0 || o.claims.idle()
	o.mu.Unlock()
	return idle || n.streams.any(), needed
}

// file returns n's open file with a reference, and opens it if needed. If write is set, the file
// is open for writing, too. It opens only regular files, and directories in order to sync them.
func (fs *FS) file(op *vfs.Op, n *node, write bool) (*openFile, error) {
	if f := n.held(write); f != nil {
		return f, nil
	}
	return fs.openFile(op, n, write)
}

// openFile opens n to read, and also to write if write is set. It returns it with a reference.
func (fs *FS) openFile(op *vfs.Op, n *node, write bool) (*openFile, error) {
	switch {
	case n.typ == vfs.Directory && !write:
	case n.typ == vfs.Directory:
		return nil, syscall.EISDIR
	case n.typ != vfs.Regular:
		return nil, syscall.EINVAL
	}
	if op.Try {
		return nil, vfs.ErrWouldBlock
	}
	flags := unix.O_RDONLY | unix.O_NONBLOCK | unix.O_LARGEFILE
	if write {
		flags = unix.O_RDWR | unix.O_NONBLOCK | unix.O_LARGEFILE
	}
	fs.makeRoomToOpen()
	fd, err := fs.reopenWithRoom(n.fd, flags)
	own := err == nil
	if err == syscall.EACCES || err == syscall.EPERM {
		// The daemon may act as callers, but may not read every file itself. A descriptor opened as one
		// caller may serve all, because each caller's rights are checked before it uses a descriptor.
		again, asErr := callAs(&fs.identity, op.Cred, func() (int, error) { return fs.reopen(n.fd, flags) })
		if asErr == nil {
			fd, err = again, nil
		} else if err == syscall.EACCES {
			fd, err = fs.openAsOwner(op, n, flags)
		}
	}
	if err != nil {
		return nil, err
	}
	return n.keep(fd, write, own), nil
}

// giveBack releases a reference to n. If that is the last one and op.Try is set, the closing
// goroutine closes n, because closing may block.
func (fs *FS) giveBack(op *vfs.Op, n *node) {
	if !op.Try {
		n.put()
	} else if n.release() {
		fs.closing.add(n.close)
	}
}

// giveBackFile releases a reference to f, as giveBack does to a node.
func (fs *FS) giveBackFile(op *vfs.Op, f *openFile) {
	if !op.Try {
		f.put()
	} else if f.refs.Add(-1) == 0 {
		fs.closing.add(f.close)
	}
}
