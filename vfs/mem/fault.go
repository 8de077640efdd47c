package memfs

import (
	"slices"
	"sync"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Method names a method of vfs.FileSystem, or of one of its optional interfaces, that takes an Op.
type Method uint8

// The methods of vfs.FileSystem.
const (
	Info Method = iota
	Usage
	GetAttr
	SetAttr
	Access
	Lookup
	ReadLink
	Read
	Write
	Commit
	Create
	Mkdir
	Symlink
	Mknod
	Remove
	Rmdir
	Rename
	Link
	ReadDir
	// Open is the method of vfs.Opener. The methods of vfs.File have no constants of their own: a
	// call of one of them counts as a call of the FileSystem method with the same name, and SetSize
	// counts as SetAttr.
	Open
	// The methods of vfs.Sparse, vfs.Copier and vfs.Xattrs.
	Allocate
	Deallocate
	Seek
	CopyRange
	CloneRange
	GetXattr
	SetXattr
	ListXattrs
	RemoveXattr
	methods
)

var methodNames = [...]string{"Info", "Usage", "GetAttr", "SetAttr", "Access", "Lookup", "ReadLink", "Read", "Write",
	"Commit", "Create", "Mkdir", "Symlink", "Mknod", "Remove", "Rmdir", "Rename", "Link", "ReadDir", "Open",
	"Allocate", "Deallocate", "Seek", "CopyRange", "CloneRange", "GetXattr", "SetXattr", "ListXattrs", "RemoveXattr"}

// String names the method.
func (m Method) String() string {
	if m < methods {
		return methodNames[m]
	}
	return "?"
}

// faults holds the faults that a test has requested. If there are none, a call only loads one
// pointer.
type faults struct {
	mu      sync.Mutex
	changed sync.Cond        // signals a change of stalled or waiting
	stalled [methods]int     // number of calls of Stall whose release was not called yet, by method
	waiting int              // number of calls that wait in meet
	errs    [methods][]error // errors of the next calls, by method
	syncs   []error          // errors of the next syncs
}

// enter begins a call of m. If it succeeds, the caller ends the call with leave.
func (f *FS) enter(op *vfs.Op, m Method) error {
	if p := f.faults.Load(); p != nil {
		if err := p.meet(op, m); err != nil {
			return err
		}
	}
	if f.opt.Unsynced {
		f.world.RLock()
	}
	return nil
}

func (f *FS) leave() {
	if f.opt.Unsynced {
		f.world.RUnlock()
	}
}

func (p *faults) meet(op *vfs.Op, m Method) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stalled[m] > 0 {
		if op.Try {
			return vfs.ErrWouldBlock
		}
		p.waiting++
		p.changed.Broadcast()
		for p.stalled[m] > 0 {
			p.changed.Wait()
		}
		p.waiting--
		p.changed.Broadcast()
	}
	return next(&p.errs[m])
}

func next(errs *[]error) error {
	if len(*errs) == 0 {
		return nil
	}
	err := (*errs)[0]
	*errs = slices.Delete(*errs, 0, 1)
	return err
}

// wishes returns f.faults and creates it on first use.
func (f *FS) wishes() *faults {
	f.failing.Lock()
	defer f.failing.Unlock()
	p := f.faults.Load()
	if p == nil {
		p = new(faults)
		p.changed.L = &p.mu
		f.faults.Store(p)
	}
	return p
}

// Stall makes calls of the given methods wait until release is called. Without methods, all calls
// wait. A call with Op.Try returns vfs.ErrWouldBlock instead. If several calls of Stall name the
// same method, calls of that method wait until each Stall's release was called. release may be
// called more than once.
func (f *FS) Stall(ms ...Method) (release func()) {
	if len(ms) == 0 {
		for m := range methods {
			ms = append(ms, m)
		}
	}
	p := f.wishes()
	p.add(ms, 1)
	var once sync.Once
	return func() { once.Do(func() { p.add(ms, -1) }) }
}

func (p *faults) add(ms []Method, n int) {
	p.mu.Lock()
	for _, m := range ms {
		p.stalled[m] += n
	}
	p.changed.Broadcast()
	p.mu.Unlock()
}

// AwaitStalled returns when at least n calls wait for a release.
func (f *FS) AwaitStalled(n int) {
	p := f.wishes()
	p.mu.Lock()
	for p.waiting < n {
		p.changed.Wait()
	}
	p.mu.Unlock()
}

// Fail makes the next calls of m fail without doing anything, one call for each error in errs.
func (f *FS) Fail(m Method, errs ...error) {
	p := f.wishes()
	p.mu.Lock()
	p.errs[m] = append(p.errs[m], errs...)
	p.mu.Unlock()
}

// FailSync makes the next syncs fail, one for each error in errs. A Commit is a sync, and so is
// a Write that asks for stable storage. A failed sync changes Verifier. With Options.Unsynced,
// the file also loses the data that was not synced.
func (f *FS) FailSync(errs ...error) {
	p := f.wishes()
	p.mu.Lock()
	p.syncs = append(p.syncs, errs...)
	p.mu.Unlock()
}

func (f *FS) syncFault() error {
	p := f.faults.Load()
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return next(&p.syncs)
}
