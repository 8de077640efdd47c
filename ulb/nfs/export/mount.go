package export

import (
	"errors"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Found is a file system that is mounted below an export with CrossMount, or below another
// such mount.
type Found struct {
	// Top is the export whose options hold.
	Top *Export
	// Under is the name of the export or mount whose file system it is mounted on, Dir the
	// absolute path on this machine of that one's root directory, and Point that of the
	// directory which it covers.
	Under, Dir, Point string
	// Name is that of the export that it becomes.
	Name string
	// What it is: the mount's ID, st_dev, the directory of it that is mounted, and its type
	// (proc(5), mountinfo).
	ID           uint64
	Device, Root string
	Kind         string
	// Refused, where not empty, is why it is not served.
	Refused string
}

// same says that what is mounted is the same as before.
func (f *Found) same(as *Found) bool {
	return f.ID == as.ID && f.Device == as.Device && f.Root == as.Root && f.Point == as.Point && f.Kind == as.Kind &&
		f.Name == as.Name && f.Under == as.Under && f.Dir == as.Dir && f.Refused == as.Refused
}

// An Opener opens and closes the file systems of mounts.
type Opener interface {
	// Open may block, for as long as it likes: it is called on a goroutine of its own. An
	// error that is vfs.ErrDelay passes soon; others stand for some time.
	Open(m *Mount) (vfs.FileSystem, error)
	// Refused is told of each call that is refused because the mount is (Found.Refused).
	// It does not block.
	Refused(m *Mount)
	// InUse says that clients hold something of a file system, such as open files. It does
	// not block.
	InUse(fs vfs.FileSystem) bool
	// Close takes away what clients hold, and closes the file system. It may block.
	Close(m *Mount, fs vfs.FileSystem)
}

// Times of a mount.
const (
	// wakeWithin is how long a call waits for the opening of a mount's file system.
	wakeWithin = 250 * time.Millisecond
	// refusedFor is how long one that could not be opened is not tried again, and
	// delayedFor one where the reason passes.
	refusedFor = 10 * time.Second
	delayedFor = time.Second
)

// errRefused: the mount's file system is not served.
var errRefused = errors.New("export: the mount is not served")

// A Mount is a file system that is mounted below an export, and is an export of its own by
// the options of that one. Its file system is open while calls use it, and some time
// beyond (Doze): what is open cannot be unmounted.
type Mount struct {
	Found
	opener Opener
	// id is the export's ID, topName the name of the export that it is below, and topID the
	// ID of that.
	id, topID uint32
	topName   string
	// asleep is the export while the file system is closed: none can enter it.
	asleep atomic.Pointer[Export]
	// awake is the export while the file system is open.
	awake atomic.Pointer[Export]

	mu sync.Mutex
	// work is the opening or closing that is under way, nil where there is none.
	work *work
	// wanted: a call waits for the end of a closing.
	wanted bool
	gone   bool
	// refused is why the last opening failed. The next is not before retry.
	refused error
	retry   time.Time
	// left are the exports that were replaced, while calls of them may run.
	left []<-chan struct{}
	// entries is how many calls there had been when Doze last looked, and rested since when.
	entries uint64
	rested  time.Time
}

// work is an opening or a closing.
type work struct {
	began time.Time
	done  chan struct{}
}

// asleep stands for a file system that is closed. It has a lane, and no root; everything
// else is asked of file systems whose export was entered.
type asleep struct {
	vfs.FileSystem
	m *Mount
}

func (a *asleep) Lane() any        { return a.m }
func (a *asleep) Root() vfs.Handle { return vfs.Handle{} }

func newMount(f Found, opener Opener) *Mount {
	m := &Mount{Found: f, opener: opener, id: idOf(f.Name), topName: f.Top.Name, topID: f.Top.ID}
	m.asleep.Store(m.template())
	return m
}

// template is the export of a mount, asleep.
func (m *Mount) template() *Export { return m.export(m.Top, &asleep{m: m}, true) }

// export is the export of a mount by the options of another one.
func (m *Mount) export(options *Export, fs vfs.FileSystem, retired bool) *Export {
	e := new(Export)
	to, from := reflect.ValueOf(e).Elem(), reflect.ValueOf(options).Elem()
	for i := range to.NumField() {
		if to.Type().Field(i).IsExported() {
			to.Field(i).Set(from.Field(i))
		}
	}
	e.Name, e.ID, e.FS, e.Root, e.mount = m.Name, m.id, fs, false, m
	if retired {
		e.use.idle = make(chan struct{})
		e.use.retired.Store(true)
	}
	return e
}

// now is the mount's export: the one that is awake, or the one that is asleep.
func (m *Mount) now() *Export {
	if e := m.awake.Load(); e != nil {
		return e
	}
	return m.asleep.Load()
}

// Awake is the mount's export while its file system is open, or nil.
func (m *Mount) Awake() *Export { return m.awake.Load() }

// wake returns the mount's export, awake. try: it does not wait, and answers
// vfs.ErrWouldBlock instead. ESTALE: it is unmounted. errRefused: it is not served.
func (m *Mount) wake(try bool) (*Export, error) {
	if e := m.awake.Load(); e != nil {
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

// waking is one step of wake: the export, or why there is none, or what to wait for.
func (m *Mount) waking() (*Export, *work, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.awake.Load(); e != nil {
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

// open opens the file system.
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
		m.rouse(fs)
	case errors.Is(err, vfs.ErrDelay):
		m.refused, m.retry = vfs.ErrDelay, time.Now().Add(delayedFor)
	default:
		m.refused, m.retry = errRefused, time.Now().Add(refusedFor)
	}
	m.end(w)
}

// rouse makes the mount's export one that can be entered. m.mu is held.
func (m *Mount) rouse(fs vfs.FileSystem) {
	e := m.export(m.asleep.Load(), fs, false)
	m.entries, m.rested = 0, time.Now()
	m.awake.Store(e)
}

// end ends an opening or a closing. m.mu is held.
func (m *Mount) end(w *work) {
	m.work, m.wanted = nil, false
	close(w.done)
}

// offer gives the mount the options of an export that has replaced Top, or is Top.
func (m *Mount) offer(top *Export) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Top = top
	e := m.template()
	if e.sameOptions(m.asleep.Load()) {
		return
	}
	m.asleep.Store(e)
	if old := m.awake.Load(); old != nil {
		m.rouse(old.FS)
		m.left = append(m.left, old.Retire())
	}
}

// Doze closes the file system of a mount that no call has entered for a time, unless
// clients hold something of it, and says whether it is awake.
func (m *Mount) Doze(after time.Duration) (awake bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.awake.Load()
	if e == nil {
		return m.work != nil
	}
	now := time.Now()
	if entries, inside := e.use.entries(); inside || entries != m.entries || m.opener.InUse(e.FS) {
		m.entries, m.rested = entries, now
		return true
	}
	if now.Sub(m.rested) < after {
		return true
	}
	m.sleep(e)
	return true
}

// Rested is since when no call has entered the mount, as far as Doze has looked; false
// where it is in use, or asleep.
func (m *Mount) Rested() (since time.Time, idle bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.awake.Load()
	return m.rested, e != nil && m.idle(e)
}

// Rest closes the file system of a mount that is not in use. The channel, where not nil,
// is closed when it is.
func (m *Mount) Rest() (closed <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.awake.Load()
	if e == nil || !m.idle(e) {
		return nil
	}
	m.sleep(e)
	return m.work.done
}

// idle says that nothing uses e, which is awake.
func (m *Mount) idle(e *Export) bool {
	_, inside := e.use.entries()
	return !inside && !m.opener.InUse(e.FS)
}

// sleep closes the file system of e, which is awake, when the last call has left. m.mu is
// held, and no work is under way.
func (m *Mount) sleep(e *Export) {
	m.awake.Store(nil)
	m.work = &work{began: time.Now(), done: make(chan struct{})}
	left := append(m.left, e.Retire())
	m.left = nil
	go m.close(m.work, e.FS, left)
}

// close closes a file system when all have left, unless it is wanted again.
func (m *Mount) close(w *work, fs vfs.FileSystem, left []<-chan struct{}) {
	for _, idle := range left {
		<-idle
	}
	m.mu.Lock()
	if !m.gone && (m.wanted || m.opener.InUse(fs)) {
		defer m.mu.Unlock()
		m.rouse(fs)
		m.end(w)
		return
	}
	m.mu.Unlock()
	m.opener.Close(m, fs)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.end(w)
}

// End lets no further call in, for good: the mount is not there any more. The channel is
// closed when its file system is.
func (m *Mount) End() (closed <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gone = true
	if e := m.awake.Load(); e != nil {
		m.sleep(e)
	}
	if m.work == nil {
		done := make(chan struct{})
		close(done)
		return done
	}
	return m.work.done
}

// Mount is the mount that an export is, or nil.
func (e *Export) Mount() *Mount { return e.mount }

// Lane is with what the calls of the mount may stall.
func (m *Mount) Lane() any { return m.now().FS.Lane() }

// ExportID is the ID of the export that the mount is.
func (m *Mount) ExportID() uint32 { return m.id }

// TopID is the ID of the export that the mount is below.
func (m *Mount) TopID() uint32 { return m.topID }

// Beneath is what the mount's name has beyond that of the export that it is below.
func (m *Mount) Beneath() string {
	return strings.TrimPrefix(m.Name, strings.TrimSuffix(m.topName, "/"))
}

// Awake returns what can be entered in place of e, which cannot be: see Table.Now. try: it
// does not wait, and answers vfs.ErrWouldBlock, of e's lane.
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
		// It was served when its handles were given out: that may come back.
		err = vfs.ErrDelay
	}
	return now, err
}

// Mounted is what is mounted on the directory with an absolute path, which is reached
// through the export at: an export that serves a connection, and can be entered. EXDEV:
// nothing that is served.
func (t *Table) Mounted(c *rpc.Conn, at *Export, path string, try bool) (*Export, error) {
	e, err := t.mountedAt(at, path)
	if err != nil && t.missing != nil {
		// It may have been mounted, or a directory above it renamed, just now.
		switch {
		case try:
			return nil, vfs.ErrWouldBlock
		case !t.missing():
			return nil, vfs.ErrDelay
		}
		e, err = t.mountedAt(at, path)
	}
	switch {
	case err != nil || !e.Serves(c):
		return nil, syscall.EXDEV
	case e.mount == nil:
		return e, nil
	}
	if e, err = e.mount.wake(try); errors.Is(err, errRefused) || errors.Is(err, syscall.ESTALE) {
		err = syscall.EXDEV
	}
	return e, err
}
