package export

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Found describes a file system that is mounted below an export with CrossMount, or below such a mount.
type Found struct {
	Top  *Export // the export whose options apply to the mount
	Name string  // of the export that the mount becomes
	// Under is the name of the export or mount in which this file system is mounted. Dir is the path on
	// this machine of the root directory of Under, and Point that of the directory that the mount covers.
	Under, Dir, Point string
	// ID, Device, Root and Kind identify the mount: its mount ID, its st_dev, the directory of the
	// file system that is mounted, and the file system's type (proc(5), mountinfo).
	ID                 uint64
	Device, Root, Kind string
	Owner              string // the user whose process answers for the file system; "" for the kernel and user 0
	Refused            string // the reason why the mount is not served; "" if it is served
}

// same reports whether two Found describe the same mount, perhaps below a replaced Top.
func (f Found) same(as *Found) bool {
	f.Top = as.Top
	return f == *as
}

// An Opener opens and closes the file systems of mounts.
type Opener interface {
	// Open runs on a goroutine of its own. After vfs.ErrDelay the next attempt is delayedFor later, after
	// other errors refusedFor. Close revokes the state that clients hold, and closes the file system.
	// Both may block for any time.
	Open(m *Mount) (vfs.FileSystem, error)
	Close(m *Mount, fs vfs.FileSystem)
	// The Mount calls Refused for each call that it refuses because of Found.Refused. InUse reports
	// whether clients hold state in a file system, such as open files. Both do not block.
	Refused(m *Mount)
	InUse(fs vfs.FileSystem) bool
}

// Time limits of a mount.
const (
	wakeWithin = 250 * time.Millisecond // how long a call waits for the file system of a mount to open
	refusedFor = 10 * time.Second       // the time until the next attempt after a failed Open
	delayedFor = time.Second            // the same if Open returned vfs.ErrDelay
)

// errRefused: the mount's file system is not served.
var errRefused = errors.New("export: the mount is not served")

// A Mount is a file system that is mounted below an export. It is an export of its own with the
// options of that export. The first call opens its file system. When no call has used the file
// system for some time, the server closes it (Rest), because an open file system cannot be unmounted.
type Mount struct {
	Found
	opener Opener
	// ExportID is the ID of the mount's own export. TopID and topName are of the export above it.
	ExportID, TopID uint32
	topName         string
	// now is the mount's export. While the file system is closed, no call can enter it.
	now atomic.Pointer[Export]

	mu   sync.Mutex
	work *work // the running Open or Close, or nil
	// wanted is true if a call waits for the end of work: close then keeps the file system open.
	wanted bool
	gone   bool
	// refused is the error of the last Open, or nil. The next Open is not before the time retry.
	refused error
	retry   time.Time
	// scope is the Scope of the file system when it was last open. opened is false before that.
	scope  vfs.Scope
	opened bool
	// left holds the channels that Retire returned for replaced exports of the mount.
	left []<-chan struct{}
	// entries is the number of calls that had entered the open export when Rested last ran
	// (use.entries). rested is the time since which the mount seems unused: see Rested.
	entries uint64
	rested  time.Time
}

// work is a running Open or Close.
type work struct {
	began time.Time
	done  chan struct{}
}

// asleep takes the place of a mount's file system while that is closed. It has only the methods Lane
// and Root: calls use the other methods only after Enter, which fails.
type asleep struct {
	vfs.FileSystem
	m *Mount
}

func (a *asleep) Lane() any        { return a.m }
func (a *asleep) Root() vfs.Handle { return vfs.Handle{} }

func newMount(f Found, opener Opener) *Mount {
	m := &Mount{Found: f, opener: opener, ExportID: idOf(f.Name), topName: f.Top.Name, TopID: f.Top.ID}
	m.now.Store(m.closed())
	return m
}

// export returns a new export of the mount, with the options of Mount.Top.
func (m *Mount) export(fs vfs.FileSystem) *Export {
	e := &Export{
		Name: m.Name, ID: m.ExportID, FS: fs, Options: m.Top.Options,
		Clients: m.Top.Clients, Security: m.Top.Security, Networks: m.Top.Networks, mount: m, account: m.Top.account,
		scope: m.scope, unknown: !m.opened,
	}
	e.Root = false
	return e
}

// closed returns a new export of the mount for the time while the file system is closed. The caller
// holds m.mu, or m is new.
func (m *Mount) closed() *Export {
	e := m.export(&asleep{m: m})
	e.use.idle = make(chan struct{})
	e.use.retired.Store(true)
	return e
}

// unproven returns a new export of the mount, which has not been open yet, for a handle that could
// not be checked.
func (m *Mount) unproven(o *opened) *Export {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.closed()
	e.unknown, e.proof = true, o
	return e
}

// Awake returns the mount's export while its file system is open, or nil.
func (m *Mount) Awake() *Export {
	e := m.now.Load()
	if _, closed := e.FS.(*asleep); closed {
		return nil
	}
	return e
}

// wake opens the file system if it is closed, and returns the mount's export. It returns
// vfs.ErrWouldBlock if try is true and the file system is closed, ESTALE if the mount is gone,
// errRefused if Found.Refused is set or the latest Open failed, and vfs.ErrDelay if the file system is
// not open within wakeWithin.
func (m *Mount) wake(try bool) (*Export, error) {
	if e := m.Awake(); e != nil {
		return e, nil
	}
	switch {
	case m.Refused != "":
		m.opener.Refused(m)
		return nil, errRefused
	case try:
		return nil, vfs.ErrWouldBlock
	}
	late := time.NewTimer(wakeWithin)
	defer late.Stop()
	for {
		e, w, err := m.waking()
		if w == nil {
			return e, err
		}
		select {
		case <-w.done:
		case <-late.C:
			return nil, vfs.ErrDelay
		}
	}
}

// waking returns the open export, or an error, or else the Open or Close for which wake has to wait.
func (m *Mount) waking() (*Export, *work, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.Awake(); e != nil {
		return e, nil, nil
	}
	switch {
	case m.gone:
		return nil, nil, syscall.ESTALE
	case m.work != nil && time.Since(m.work.began) >= wakeWithin:
		return nil, nil, vfs.ErrDelay
	case m.work != nil:
		m.wanted = true
	case m.refused != nil && time.Now().Before(m.retry):
		return nil, nil, m.refused
	default:
		m.work = &work{began: time.Now(), done: make(chan struct{})}
		go m.open(m.work)
	}
	return nil, m.work, nil
}

// open opens the file system, or closes it again if the mount is gone meanwhile, and ends the work w.
func (m *Mount) open(w *work) {
	fs, err := m.opener.Open(m)
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err == nil && m.gone:
		go m.close(w, fs, nil)
		return
	case err == nil:
		m.refused = nil
		m.rouseLocked(fs)
	case errors.Is(err, vfs.ErrDelay):
		m.refused, m.retry = vfs.ErrDelay, time.Now().Add(delayedFor)
	default:
		m.refused, m.retry = errRefused, time.Now().Add(refusedFor)
	}
	m.finishWorkLocked(w)
}

// rouseLocked opens the mount for calls: it makes an export with the open file system fs.
func (m *Mount) rouseLocked(fs vfs.FileSystem) {
	m.entries, m.rested = 0, time.Now()
	m.scope, m.opened = scopeOf(fs), true
	m.now.Store(m.export(fs))
}

// finishWorkLocked ends the work w, an Open or Close.
func (m *Mount) finishWorkLocked(w *work) {
	m.work, m.wanted = nil, false
	close(w.done)
}

// offer gives the mount the options of the export top: Mount.Top, or the export that replaced it.
func (m *Mount) offer(top *Export) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Top = top
	closed, old := m.closed(), m.Awake()
	switch {
	case closed.sameOptions(m.now.Load()):
	case old == nil:
		m.now.Store(closed)
	default:
		m.rouseLocked(old.FS)
		m.left = append(m.left, old.Retire())
	}
}

// Rested returns the time since which the mount seems to be unused: when its file system was opened or,
// later, when Rested last found a sign of use; the caller calls it from time to time. idle is true if
// the file system is open and neither calls nor clients use it.
func (m *Mount) Rested() (since time.Time, idle bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.Awake()
	if e == nil {
		return m.rested, false
	}
	idle = m.idleLocked(e)
	if entries, _ := e.use.entries(); !idle || entries != m.entries {
		m.entries, m.rested = entries, time.Now()
	}
	return m.rested, idle
}

// Rest begins to close the file system of a mount that is not in use. The channel is closed when that
// has ended; the file system may then be open again, because a call needed it. The channel is nil if
// calls or clients use the file system, or if it is closed already.
func (m *Mount) Rest() (closed <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.Awake()
	if e == nil || !m.idleLocked(e) {
		return nil
	}
	m.sleepLocked(e)
	return m.work.done
}

// idleLocked reports whether no call and no client state uses the open export e.
func (m *Mount) idleLocked(e *Export) bool {
	_, inside := e.use.entries()
	return !inside && !m.opener.InUse(e.FS)
}

// sleepLocked begins to close the file system of the open export e. No work is running.
func (m *Mount) sleepLocked(e *Export) {
	m.now.Store(m.closed())
	m.work = &work{began: time.Now(), done: make(chan struct{})}
	left := append(m.left, e.Retire())
	m.left = nil
	go m.close(m.work, e.FS, left)
}

// close waits until all calls have left, and closes the file system. If then another call waits for the
// mount, or clients hold state in it, close makes it available to calls again instead.
func (m *Mount) close(w *work, fs vfs.FileSystem, left []<-chan struct{}) {
	for _, idle := range left {
		<-idle
	}
	m.mu.Lock()
	if !m.gone && (m.wanted || m.opener.InUse(fs)) {
		defer m.mu.Unlock()
		m.rouseLocked(fs)
		m.finishWorkLocked(w)
		return
	}
	m.mu.Unlock()
	m.opener.Close(m, fs)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.finishWorkLocked(w)
}

// End removes the mount for good. The channel is closed when the file system is closed.
func (m *Mount) End() (closed <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gone = true
	if e := m.Awake(); e != nil {
		m.sleepLocked(e)
	}
	if m.work == nil {
		done := make(chan struct{})
		close(done)
		return done
	}
	return m.work.done
}

// Lane returns the executor's lane (rpc.Call.Resume) for calls to the mount that may wait.
func (m *Mount) Lane() any { return m.now.Load().FS.Lane() }

// Beneath returns the rest of the mount's name after the name of the export that it is below.
func (m *Mount) Beneath() string {
	return strings.TrimPrefix(m.Name, strings.TrimSuffix(m.topName, "/"))
}

// Awake returns the export to use in place of e, whose Enter has failed: the export that replaced e or,
// for a mount, its export with the open file system. It returns ESTALE if there is none. If try is true
// and the file system is closed, Awake returns vfs.ErrWouldBlock, and the caller moves its call to e's
// lane of the executor (rpc.Call.Resume).
func (t *Table) Awake(e *Export, try bool) (*Export, error) {
	now := t.ByID(e.ID)
	if now == nil {
		return nil, syscall.ESTALE
	}
	if now.mount == nil {
		return now, nil
	}
	now, err := now.mount.wake(try)
	if errors.Is(err, errRefused) {
		// The mount was served when the server sent its handles, and may be served again.
		err = vfs.ErrDelay
	}
	return now, err
}

// AwakeFor is like Awake, for a call with a handle of e, from Find or from e's file system. It also returns
// ESTALE if the handle is not one of the export that takes e's place: another directory or another file
// system is exported now.
func (t *Table) AwakeFor(e *Export, try bool) (*Export, error) {
	now, err := t.Awake(e, try)
	switch {
	case err != nil:
		return nil, err
	case e.proof != nil && t.seal.check(e.proof, &now.scope) != nil, e.proof == nil && e.scope != now.scope:
		return nil, syscall.ESTALE
	}
	return now, nil
}

// Mounted returns the export that is mounted on the directory with this absolute path on this machine;
// at is the export through which the caller reached the directory. If no export is mounted there that
// serves the caller, Mounted returns EXDEV. If it has to look for new mounts or to open a file system,
// it returns vfs.ErrWouldBlock if try is true, and vfs.ErrDelay if it cannot do so now.
func (t *Table) Mounted(c *rpc.Conn, cred *rpc.Cred, at *Export, path string, try bool) (*Export, error) {
	e, err := t.mountedAt(at, path)
	if err != nil && t.OnMissing != nil {
		// The table may be out of date: the mount is new, or a directory above it was renamed.
		switch {
		case try:
			return nil, vfs.ErrWouldBlock
		case !t.OnMissing():
			return nil, vfs.ErrDelay
		}
		e, err = t.mountedAt(at, path)
	}
	switch {
	case err != nil || !e.Serves(c, cred):
		return nil, syscall.EXDEV
	case e.mount == nil:
		return e, nil
	}
	if e, err = e.mount.wake(try); errors.Is(err, errRefused) || errors.Is(err, syscall.ESTALE) {
		err = syscall.EXDEV
	}
	return e, err
}
