package local

import (
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// An openFile is a descriptor for data that all callers share: what a caller
// may do was judged before.
type openFile struct {
	fd       int
	writable bool
	refs     atomic.Int32  // users, and one while the node holds it
	used     atomic.Uint32 // the sweeper's round of the last use
	pins     int           // Files by which callers hold it open; its node's openFiles.mu guards it
	count    *atomic.Int64
}

// put gives a reference back. The last one closes the descriptor, which may
// block: attempts use FS.giveBackFile.
func (f *openFile) put() {
	if f.refs.Add(-1) == 0 {
		f.close()
	}
}

func (f *openFile) close() {
	unix.Close(f.fd)
	f.count.Add(-1)
}

// openFiles are a node's: at most one to read and one to read and write.
type openFiles struct {
	mu      sync.Mutex
	ro, rw  *openFile
	writers map[uint32]int // how many Files each user has open for writing
}

// held returns the open file, for writing where write says so, with a reference,
// or nil.
func (o *openFiles) held(write bool, round uint32) *openFile {
	o.mu.Lock()
	f := o.rw
	if f == nil && !write {
		f = o.ro
	}
	if f != nil {
		f.refs.Add(1)
		f.used.Store(round)
	}
	o.mu.Unlock()
	return f
}

// keep makes fd the node's open file and returns it with a reference. Where
// another was quicker it returns that one and closes fd.
func (o *openFiles) keep(fd int, writable bool, round uint32, count *atomic.Int64) *openFile {
	f := &openFile{fd: fd, writable: writable, count: count}
	f.refs.Store(2)
	f.used.Store(round)
	count.Add(1)
	place := &o.ro
	if writable {
		place = &o.rw
	}
	o.mu.Lock()
	if *place != nil {
		was := *place
		was.refs.Add(1)
		o.mu.Unlock()
		f.put()
		f.put()
		return was
	}
	*place = f
	o.mu.Unlock()
	return f
}

// dropIdle closes n's files that no caller holds open, and that none has used for
// at least patience rounds, and returns how many those were. The one for writing
// stays while there is something to sync through it.
func (n *node) dropIdle(round, patience uint32) (closed int) {
	o := &n.files
	o.mu.Lock()
	idle := func(f *openFile) bool {
		return f != nil && f.pins == 0 && roundsSince(round, f.used.Load()) >= patience
	}
	var ro, rw *openFile
	if idle(o.ro) {
		ro, o.ro = o.ro, nil
	}
	// A writer says that it wrote before it gives its reference back: what is
	// in use may be about to have something to sync.
	if idle(o.rw) && o.rw.refs.Load() == 1 && !n.unsynced.listed.Load() {
		rw, o.rw = o.rw, nil
	}
	o.mu.Unlock()
	return putFiles(ro, rw)
}

// putFiles gives references back, of those that are not nil, and returns how many those were.
func putFiles(files ...*openFile) (n int) {
	for _, f := range files {
		if f != nil {
			f.put()
			n++
		}
	}
	return n
}

// closeAll closes the files whatever is to be synced, once their users are done.
func (o *openFiles) closeAll() {
	o.mu.Lock()
	ro, rw := o.ro, o.rw
	o.ro, o.rw = nil, nil
	o.mu.Unlock()
	putFiles(ro, rw)
}

// file returns n's open file with a reference, opening it where needed. The
// node's type was seen through O_PATH: nothing but a regular file or, to be
// made durable, a directory is ever opened.
func (fs *FS) file(op *vfs.Op, n *node, write bool) (*openFile, error) {
	if f := n.files.held(write, fs.nodes.round.Load()); f != nil {
		return f, nil
	}
	return fs.openFile(op, n, write)
}

// openFile opens n, for writing too where write says so, with a reference.
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
	// When EAGAIN comes, another process's lease is being broken.
	flags := unix.O_RDONLY | unix.O_NONBLOCK | unix.O_LARGEFILE
	if write {
		flags = unix.O_RDWR | unix.O_NONBLOCK | unix.O_LARGEFILE
	}
	fs.makeRoomToOpen()
	fd, err := fs.reopenWithRoom(n.fd, flags)
	if err == syscall.EACCES || err == syscall.EPERM {
		// A daemon that may switch but may not read everything: the caller's
		// rights have been judged, so that its descriptor serves as well.
		if asErr := fs.as(op.Cred, func() error {
			var again error
			fd, again = fs.reopen(n.fd, flags)
			return again
		}); asErr == nil {
			err = nil
		} else if err == syscall.EACCES {
			fd, err = fs.openAsOwner(op, n, flags)
		}
	}
	switch {
	case err == syscall.EAGAIN:
		return nil, vfs.ErrDelay
	case err == syscall.ENOENT:
		return nil, syscall.ESTALE
	case err != nil:
		return nil, err
	}
	return n.files.keep(fd, write, fs.nodes.round.Load(), &fs.stats.open), nil
}

// openAsOwner opens a file whose mode keeps out its owner, which may read and
// write it nevertheless, for a daemon that has no way around modes: the owner
// gives itself the right for a moment.
func (fs *FS) openAsOwner(op *vfs.Op, n *node, flags int) (fd int, err error) {
	n.inode.modes.Lock()
	defer n.inode.modes.Unlock()
	var st unix.Stat_t
	if err = fstat(n.fd, &st); err != nil {
		return -1, err
	}
	if !fs.owns(op.Cred, &st) {
		return -1, syscall.EACCES
	}
	mode := st.Mode & 0o7777
	n.inode.version.before()
	defer n.inode.version.after(true, nil)
	err = fs.as(op.Cred, func() error {
		err := sysChmod(fs.proc, n.fd, mode|unix.S_IRUSR|unix.S_IWUSR)
		if err != nil {
			return syscall.EACCES
		}
		if fd, err = fs.reopen(n.fd, flags); err != nil {
			fd = -1
		}
		if back := sysChmod(fs.proc, n.fd, mode); back != nil && err == nil {
			unix.Close(fd)
			fd, err = -1, back
		}
		return err
	})
	return fd, err
}

// letGo is for files whose last or only name may have gone: nothing keeps the
// space but a caller in the middle of a call, or one that holds the file open.
func (fs *FS) letGo(v *named) {
	n := v.n
	if v.nameless() {
		fs.nodes.drop(n)
	} else {
		n.dropIdle(0, 0)
	}
}
