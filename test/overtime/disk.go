package overtime

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A disk is a slow file system in memory that can get stuck: its operations then wait (see stick).
// It counts how often it executes each WRITE.
type disk struct {
	vfs.FileSystem
	slow  func() time.Duration
	stuck atomic.Pointer[chan struct{}]

	mu       sync.Mutex
	executed map[any]int // number of executions, by the values that identify an operation
}

func newDisk(fs vfs.FileSystem, slow func() time.Duration) *disk {
	return &disk{FileSystem: fs, slow: slow, executed: make(map[any]int)}
}

// Unwrap implements vfs.Wrapper. It makes opens and locks bypass the disk, so they take no time.
func (d *disk) Unwrap() vfs.FileSystem { return d.FileSystem }

// stick makes operations wait until the function release is called. Operations with Op.Try fail
// instead.
func (d *disk) stick() (release func()) {
	thaw := make(chan struct{})
	d.stuck.Store(&thaw)
	return func() {
		d.stuck.Store(nil)
		close(thaw)
	}
}

// wait waits for the duration of one operation. It returns false if op.Try is set and the
// operation would have to wait.
func (d *disk) wait(op *vfs.Op) bool {
	thaw, slow := d.stuck.Load(), d.slow()
	if op.Try {
		return thaw == nil && slow == 0
	}
	if thaw != nil {
		<-*thaw
	}
	time.Sleep(slow)
	return true
}

func (d *disk) count(what any) {
	d.mu.Lock()
	d.executed[what]++
	d.mu.Unlock()
}

// again returns the number of operations that were executed more than once, and one of these
// operations.
func (d *disk) again() (n int, one any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for what, times := range d.executed {
		if times > 1 {
			n, one = n+1, what
		}
	}
	return n, one
}

// A written identifies a WRITE by its offset and value. No two WRITEs of a run have both in
// common.
type written struct {
	offset uint64
	value  uint64
}

// Write implements vfs.FileSystem.
func (d *disk) Write(op *vfs.Op, h vfs.Handle, off uint64, data [][]byte, s vfs.Stability) (int, vfs.Stability, vfs.Change, error) {
	if !d.wait(op) {
		return 0, 0, vfs.Change{}, vfs.ErrWouldBlock
	}
	var value []byte
	for _, b := range data {
		value = append(value, b...)
	}
	d.count(written{off, register(value)})
	return d.FileSystem.Write(op, h, off, data, s)
}

// Read implements vfs.FileSystem.
func (d *disk) Read(op *vfs.Op, h vfs.Handle, off uint64, buf []byte, a *vfs.Attr) (int, bool, error) {
	if !d.wait(op) {
		return 0, false, vfs.ErrWouldBlock
	}
	return d.FileSystem.Read(op, h, off, buf, a)
}

// SetAttr implements vfs.FileSystem.
func (d *disk) SetAttr(op *vfs.Op, h vfs.Handle, s *vfs.SetAttr, guard *vfs.Time) (vfs.Change, error) {
	if !d.wait(op) {
		return vfs.Change{}, vfs.ErrWouldBlock
	}
	return d.FileSystem.SetAttr(op, h, s, guard)
}

// Create implements vfs.FileSystem.
func (d *disk) Create(op *vfs.Op, dir vfs.Handle, name []byte, how *vfs.CreateHow) (vfs.Object, vfs.Change, error) {
	if !d.wait(op) {
		return vfs.Object{}, vfs.Change{}, vfs.ErrWouldBlock
	}
	return d.FileSystem.Create(op, dir, name, how)
}

// Mkdir implements vfs.FileSystem.
func (d *disk) Mkdir(op *vfs.Op, dir vfs.Handle, name []byte, s *vfs.SetAttr) (vfs.Object, vfs.Change, error) {
	if !d.wait(op) {
		return vfs.Object{}, vfs.Change{}, vfs.ErrWouldBlock
	}
	return d.FileSystem.Mkdir(op, dir, name, s)
}

// Remove implements vfs.FileSystem.
func (d *disk) Remove(op *vfs.Op, dir vfs.Handle, name []byte) (vfs.Change, error) {
	if !d.wait(op) {
		return vfs.Change{}, vfs.ErrWouldBlock
	}
	return d.FileSystem.Remove(op, dir, name)
}

// Rmdir implements vfs.FileSystem.
func (d *disk) Rmdir(op *vfs.Op, dir vfs.Handle, name []byte) (vfs.Change, error) {
	if !d.wait(op) {
		return vfs.Change{}, vfs.ErrWouldBlock
	}
	return d.FileSystem.Rmdir(op, dir, name)
}

// Rename implements vfs.FileSystem.
func (d *disk) Rename(op *vfs.Op, from vfs.Handle, old []byte, to vfs.Handle, name []byte) (_, _ vfs.Change, err error) {
	if !d.wait(op) {
		return vfs.Change{}, vfs.Change{}, vfs.ErrWouldBlock
	}
	return d.FileSystem.Rename(op, from, old, to, name)
}

// Link implements vfs.FileSystem.
func (d *disk) Link(op *vfs.Op, h, dir vfs.Handle, name []byte, a *vfs.Attr) (vfs.Change, error) {
	if !d.wait(op) {
		return vfs.Change{}, vfs.ErrWouldBlock
	}
	return d.FileSystem.Link(op, h, dir, name, a)
}
