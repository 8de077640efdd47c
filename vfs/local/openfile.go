package local

import (
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// An openFile is a descriptor for a file's data that all callers share. Before a caller uses it,
// the caller's rights are checked.
type openFile struct {
	fd       int
	writable bool
	refs     atomic.Int32  // one for each user, and one while openFiles holds it
	used     atomic.Uint32 // round of the sweeper (one a second) at the last use
	pins     int           // number of Files that keep it open; the mu of the node's openFiles protects it
	count    *atomic.Int64
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

// openFiles holds a node's descriptors for data: at most one for reading and one for reading and
// writing.
type openFiles struct {
	mu      sync.Mutex
	ro, rw  *openFile
	writers map[uint32]int // number of Files open for writing, by user
}

// held returns n's open file with a reference, or nil if there is none. If write is set, it returns
// only a writable one.
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

// dropIdle closes n's descriptors for data and listings that are not pinned and were not used for
// this number of rounds of the sweeper (seconds), and returns how many. The writable descriptor
// stays open while a caller uses it or n has unsynced data.
func (n *node) dropIdle(patience uint32) (closed int) {
	o, round := &n.files, n.fs.nodes.round.Load()
	o.mu.Lock()
	idle := func(f *openFile) bool {
		return f != nil && f.pins == 0 && roundsSince(round, f.used.Load()) >= patience
	}
	var ro, rw *openFile
	if idle(o.ro) {
		ro, o.ro = o.ro, nil
	}
	// A writer calls wrote before it releases its reference. So while the writable file is in use,
	// n may soon have unsynced data.
	if idle(o.rw) && o.rw.refs.Load() == 1 && !n.unsynced.listed.Load() {
		rw, o.rw = o.rw, nil
	}
	o.mu.Unlock()
	return putFiles(ro, rw) + n.streams.drop(round, patience)
}

// putFiles releases a reference to each file that is not nil, and returns how many there were.
func putFiles(files ...*openFile) (n int) {
	for _, f := range files {
		if f != nil {
			f.put()
			n++
		}
	}
	return n
}

// closeAll releases n's descriptors for data and listings, even if n has unsynced data. Each file is
// closed when its last user has released it.
func (n *node) closeAll() {
	o := &n.files
	o.mu.Lock()
	ro, rw := o.ro, o.rw
	o.ro, o.rw = nil, nil
	o.mu.Unlock()
	putFiles(ro, rw)
	n.streams.drop(0, 0)
}

// file returns n's open file with a reference, and opens it if needed. If write is set, the file
// is open for writing, too. It opens only regular files, and directories in order to sync them.
func (fs *FS) file(op *vfs.Op, n *node, write bool) (*openFile, error) {
	if f := n.held(write); f != nil {
		return f, nil
	}
	return fs.openFile(op, n, write)
}

// openFile opens n for reading, and also for writing if write is set. It returns the open file with
// a reference.
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
	// With O_NONBLOCK the open fails with EAGAIN if another process first has to give up its lease
	// on the file.
	flags := unix.O_RDONLY | unix.O_NONBLOCK | unix.O_LARGEFILE
	if write {
		flags = unix.O_RDWR | unix.O_NONBLOCK | unix.O_LARGEFILE
	}
	fs.makeRoomToOpen()
	fd, err := fs.reopenWithRoom(n.fd, flags)
	if err == syscall.EACCES || err == syscall.EPERM {
		// The daemon may act as callers, but may not read every file itself. Each caller's rights
		// are checked before it uses a descriptor; so a descriptor that is opened as one caller
		// may serve all callers.
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
	return n.keep(fd, write), nil
}

// openAsOwner opens a file whose mode denies access to its owner, because NFS lets the owner read
// and write it nevertheless. It is for a daemon that cannot override modes: acting as the owner,
// it adds the right to the mode for a moment.
func (fs *FS) openAsOwner(op *vfs.Op, n *node, flags int) (fd int, err error) {
	n.inode.modes.Lock()
	defer n.inode.modes.Unlock()
	var st unix.Stat_t
	if err = unix.Fstat(n.fd, &st); err != nil {
		return -1, err
	}
	if !fs.owns(op.Cred, &st) {
		return -1, syscall.EACCES
	}
	mode := st.Mode & 0o7777
	n.inode.version.before()
	defer n.inode.version.after(true, nil)
	err = fs.as(op.Cred, func() error {
		err := fs.chmod(n.fd, mode|unix.S_IRUSR|unix.S_IWUSR)
		if err != nil {
			return syscall.EACCES
		}
		if fd, err = fs.reopen(n.fd, flags); err != nil {
			fd = -1
		}
		if back := fs.chmod(n.fd, mode); back != nil && err == nil {
			unix.Close(fd)
			fd, err = -1, back
		}
		return err
	})
	return fd, err
}

// letGo closes the descriptors of a file that lost a name, possibly its last, so that the file
// system can free the file's space when the last call or caller that uses the file has finished.
func (fs *FS) letGo(v *named) {
	n := v.n
	if v.nameless() {
		fs.nodes.drop(n)
	} else {
		n.dropIdle(0)
	}
}

// closing closes descriptors on a goroutine of its own, because a call with Op.Try must not wait.
// The last close of a file may wait: for the disk, if it frees a removed file's blocks, or for a
// file server in user space.
type closing struct {
	mu      sync.Mutex
	queue   []func()
	running bool           // true while the closing goroutine runs
	ended   sync.WaitGroup // waits until that goroutine has called every queued function
}

// add queues f for the closing goroutine. It never waits.
func (c *closing) add(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = append(c.queue, f)
	if !c.running {
		c.running = true
		c.ended.Go(c.run)
	}
}

func (c *closing) run() {
	for {
		c.mu.Lock()
		queue := c.queue
		c.queue = nil
		c.running = len(queue) > 0
		c.mu.Unlock()
		if len(queue) == 0 {
			return
		}
		for _, f := range queue {
			f()
		}
	}
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
