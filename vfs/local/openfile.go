package local

import (
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// An openFile is a descriptor for a file's data. All callers share it, after a check of their rights.
type openFile struct {
	fd       int
	writable bool
	refs     atomic.Int32  // one for each user, and one while openFiles holds it
	used     atomic.Uint32 // round of the sweeper (one a second) at the last use
	pins     int           // number of Files that keep it open; the mu of the node's openFiles protects it
	count    *atomic.Int64
	// What checkFlags needs, of its last check or of the opening: the sweeper's round, and the inode's
	// version.foreign.
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

// openFiles holds a node's descriptors for data: at most one to read and one to read and write.
type openFiles struct {
	mu      sync.Mutex
	ro, rw  *openFile
	writers map[uint32]int // number of Files open for writing, by user
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

// keep makes fd an open file of n and returns it with a reference. If n has an open file of the
// same kind (writable or not) already, keep closes fd and returns that file.
func (n *node) keep(fd int, writable bool) *openFile {
	o, count := &n.files, &n.fs.stats.open
	f := &openFile{fd: fd, writable: writable, count: count}
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
	o.mu.Unlock()
	return f
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
	if err == syscall.EACCES || err == syscall.EPERM {
		// The daemon may act as callers, but may not read every file itself. A descriptor opened as one
		// caller may serve all, because each caller's rights are checked before it uses a descriptor.
		again, asErr := callAs(fs, op.Cred, func() (int, error) { return fs.reopen(n.fd, flags) })
		if asErr == nil {
			fd, err = again, nil
		} else if err == syscall.EACCES {
			fd, err = fs.openAsOwner(op, n, flags)
		}
	}
	if err != nil {
		return nil, err
	}
	return n.keep(fd, write), nil
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

// Half of an FS's part of the budget is for nodes (files open with O_PATH), half for files open
// for data. Of the second half, files with unsynced data may take an eighth before the FS syncs the
// oldest of them, and a quarter before a writer has to wait for such a sync. Files that clients have
// open may take five eighths. The FS can close only the files in the rest to make room.

func (fs *FS) part() int64 { return fs.descriptors.part.Load() - fixedDescriptors }

// maxNodes returns the limit of nodes, each of which has an O_PATH descriptor.
func (fs *FS) maxNodes() int64 { return fs.part() / 2 }

// maxOpen returns the limit of descriptors that are open for data or for listings.
func (fs *FS) maxOpen() int64 { return fs.part() / 2 }

// If more than manyUnsynced files have data that is not on stable storage, the flusher syncs the
// oldest. If mostUnsynced files have such data, a writer syncs some of the oldest before it
// writes to a file that has none (makeRoomForData).
func (fs *FS) manyUnsynced() int64 { return fs.maxOpen() / 8 }
func (fs *FS) mostUnsynced() int64 { return fs.maxOpen() / 4 }

// maxPinned returns the limit of descriptors that vfs.Files, which can share one, and claims keep open.
func (fs *FS) maxPinned() int64 { return fs.maxOpen() * 5 / 8 }

// opened returns the number of descriptors that are open for data or for listings.
func (fs *FS) opened() int64 { return fs.stats.open.Load() + fs.stats.streams.Load() }
