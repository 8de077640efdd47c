package disk

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A round is one disk with one fault. Its seed determines the kind of fault, the request at which
// the fault happens, the writes that survive, and each writer's calls.
type round struct {
	t          testing.TB
	seed       uint64
	filesystem *filesystem
	fault      *fault
	device     *Device
	random     *rand.Rand
	survivors  survivors
	mounted    *mounted
	server     server
	writers    []*writer
	shared     *object // the file that all writers share, with all of its slots

	answered  atomic.Int64 // number of answered calls
	verifiers atomic.Int64 // number of COMMITs whose verifier had changed
	failed    int          // number of the kernel's requests that failed; the device's lock guards it
	written   sync.WaitGroup
	worked    chan struct{} // closed when the writers have ended
	calling   sync.RWMutex  // each call read-locks it; fillUp locks it to stop calls
	observers sync.WaitGroup
	hangUp    context.CancelFunc // cancels the writers' calls

	mu    sync.Mutex
	wrong []string
}

// acts is the greatest number of times that a writer calls fault.act in a round.
const acts = 40

// report records an error of the server.
func (r *round) report(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wrong = append(r.wrong, fmt.Sprintf(format, args...))
}

// An outcome is the result of a round. Answered is the number of answered calls, and Told the
// number of them that got an error other than NFS4ERR_DELAY. Verifiers is the number of COMMITs
// whose verifier had changed. Failed is the number of the kernel's requests that the Device failed.
// Wrong are the errors of the server.
type outcome struct {
	Answered, Told, Verifiers, Failed int
	Wrong                             []string
	// Unmountable is the reason why the file system cannot be mounted after the fault. The round
	// then has no result.
	Unmountable string
}

// A starter starts the server under test on a file system of the disk. The parameter state is the
// server's state directory.
type starter func(t testing.TB, f *filesystem, m *mounted, d *Device, state string) server

// play runs one round: it runs the writers, makes the fault happen, cuts the power, and checks what
// the disk has then.
func play(t testing.TB, d *Device, f *filesystem, formatted *platter, start starter, kind *fault, seed uint64) (out outcome) {
	r := &round{
		t: t, seed: seed, filesystem: f, fault: kind, device: d,
		random: rand.New(rand.NewPCG(seed, 0)),
	}
	r.survivors = pickSurvivors(r.random)
	at := 1 + r.random.IntN(250)
	if kind.early {
		at = 1 + at/4 // early, so that many calls follow
	}
	d.insert(formatted.clone())
	begin := kernelLog()
	r.mounted = f.mount(t, d)
	state := t.TempDir()
	r.prepare()
	if kind.slow {
		r.mounted.narrow()
	}
	r.server = start(t, f, r.mounted, d, state)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	calling, hangUp := context.WithCancel(ctx)
	defer hangUp()
	r.hangUp = hangUp
	r.connect(calling)
	d.strikeIn(at, func() { kind.strike(r, d) })
	r.load()
	d.heal()
	if kind.name == "power after idleness" {
		r.survivors = nothing
	}
	left := d.cut(r.survivors, r.random)
	d.thaw()
	if !r.server.Alive() {
		r.report("the server ended:\n%s", r.server.Said())
	}
	if len(r.wrong) > 0 {
		_, said, _ := strings.Cut(kernelLog(), begin[max(0, len(begin)-200):])
		r.report("meanwhile the kernel said:\n%s", said)
	}
	for _, w := range r.writers {
		w.call.Close()
	}
	r.server.Kill()
	r.mounted.unmount(d)
	out.Failed = r.failed
	d.insert(left.clone())
	if again, err := f.tryMount(t, d); err != nil {
		out.Unmountable = err.Error()
	} else {
		r.mounted = again
		r.check()
		r.server = start(t, f, again, d, state)
		r.checkServed(ctx)
		r.server.Kill()
		again.unmount(d)
	}
	for _, w := range r.writers {
		out.Told += w.told
	}
	out.Answered, out.Verifiers, out.Wrong = int(r.answered.Load()), int(r.verifiers.Load()), r.wrong
	return out
}

// kernelLog returns the kernel's log. It may name failures of which the Device has no record.
func kernelLog() string {
	b := make([]byte, 1<<20)
	n, err := unix.Klogctl(unix.SYSLOG_ACTION_READ_ALL, b)
	if err != nil {
		return err.Error()
	}
	return string(b[:n])
}

// prepare creates the first files of the round, with values in all of their slots.
func (r *round) prepare() {
	r.t.Helper()
	r.shared = newObject(sharedTag, writers*sharedFor)
	must := func(err error) {
		r.t.Helper()
		if err != nil {
			r.t.Fatal(err)
		}
	}
	store := func(o *object, path string) {
		r.t.Helper()
		var b []byte
		for i, s := range o.slots {
			s.settled = value(writers+1)<<32 | value(i+1)
			b = append(b, s.settled.slot(o.number, i)...)
		}
		must(os.WriteFile(path, b, firstMode))
		var st syscall.Stat_t
		must(syscall.Stat(path, &st))
		o.fileID, o.exists = st.Ino, true
	}
	store(r.shared, filepath.Join(r.mounted.dir, "shared"))
	r.written.Add(writers)
	for i := range writers {
		w := &writer{
			round: r, number: i, version: []int{3, 41, 42}[i%3], random: rand.New(rand.NewPCG(r.seed, uint64(i)+1)),
			entries: make(names), names: make(map[*object]string),
			shared: &object{number: sharedTag, slots: r.shared.slots[i*sharedFor : (i+1)*sharedFor], fileID: r.shared.fileID, changes: make(map[string]int)},
		}
		dir := filepath.Join(r.mounted.dir, w.name())
		must(os.Mkdir(dir, 0o755))
		for j := range ownFiles {
			o := newObject(100*(i+1)+j, ownSlots)
			at := fmt.Sprint("file", j)
			store(o, filepath.Join(dir, at))
			w.entries[at] = &name{settled: o}
			w.names[o] = at
			w.files = append(w.files, o)
		}
		r.writers = append(r.writers, w)
	}
	must(syncfs(r.mounted.dir))
}

// connect connects each writer to the server.
func (r *round) connect(ctx context.Context) {
	r.t.Helper()
	for _, w := range r.writers {
		var err error
		if w.call, w.root, err = r.server.Dial(ctx, w.version, w.number%5 == 4); err != nil {
			r.t.Fatal(err)
		}
		w.ctx = ctx
		if w.dir, err = w.call.Lookup(ctx, w.root, w.name()); err != nil {
			r.t.Fatal(err)
		}
		for _, o := range w.files {
			if o.handle, err = w.call.Lookup(ctx, w.dir, w.names[o]); err != nil {
				r.t.Fatal(err)
			}
		}
		if w.shared.handle, err = w.call.Lookup(ctx, w.root, "shared"); err != nil {
			r.t.Fatal(err)
		}
	}
}

// load runs the writers until they have finished or the power was cut. Meanwhile it runs the
// observers, and r.fault.then after the fault.
func (r *round) load() {
	ctx := r.writers[0].ctx
	n := acts
	if r.fault.slow || r.fault.long {
		n /= 2
	}
	var working sync.WaitGroup
	for _, w := range r.writers {
		working.Go(func() { w.work(n) })
	}
	r.worked = make(chan struct{})
	go func() { working.Wait(); close(r.worked) }()
	ended := make(chan struct{})
	for i := range 2 {
		r.observers.Go(func() { r.observe(ctx, i, ended) })
	}
	defer r.observers.Wait()
	defer close(ended)
	if r.fault.then != nil {
		select {
		case <-r.device.struck:
			r.fault.then(r)
		case <-r.worked:
		}
	}
	for asked := time.NewTicker(10 * time.Millisecond); ; {
		select {
		case <-r.worked:
			asked.Stop()
			return
		case <-asked.C:
			if r.device.off.Load() {
				r.hangUp() // cancels the calls under way, because no answer counts after the power cut
			}
		}
	}
}

// observe looks up names while writers create and remove them, so that the server caches them.
// The server must not serve such a cache after the names have changed.
func (r *round) observe(ctx context.Context, number int, ended <-chan struct{}) {
	call, root, err := r.server.Dial(ctx, 3, false)
	if err != nil {
		return // the power is off
	}
	defer call.Close()
	random := rand.New(rand.NewPCG(r.seed, uint64(100+number)))
	for {
		select {
		case <-ended:
			return
		default:
		}
		w := r.writers[random.IntN(len(r.writers))]
		dir, err := call.Lookup(ctx, root, w.name())
		if err == nil {
			_, err = call.Lookup(ctx, dir, fmt.Sprint("n", 1+random.Int64N(w.serial.Load()+1)))
		}
		if _, told := statusOf(err); !told {
			return
		}
	}
}

// check compares the disk with the replies that the writers got.
func (r *round) check() {
	for _, w := range r.writers {
		w.entries.check(filepath.Join(r.mounted.dir, w.name()), func(format string, args ...any) { w.report(format, args...) })
	}
	path := filepath.Join(r.mounted.dir, "shared")
	info, err := os.Lstat(path)
	if err != nil {
		r.report("%v", err)
		return
	}
	r.shared.mode = 0
	r.shared.check(path, info, func(format string, args ...any) { r.report("shared: "+format, args...) })
}

// checkServed checks with a new server that each handle refers to its file, and that new content
// has a new change attribute.
func (r *round) checkServed(ctx context.Context) {
	by := make(map[int]caller)
	for _, w := range r.writers {
		call := by[w.version]
		if call == nil {
			var err error
			if call, _, err = r.server.Dial(ctx, w.version, false); err != nil {
				r.report("after the power came back: %v", err)
				return
			}
			by[w.version] = call
			defer call.Close()
		}
		for o, at := range w.names {
			if !o.exists {
				continue
			}
			a, err := call.Getattr(ctx, o.handle)
			if err != nil {
				w.report("GETATTR by the handle of %s, %s, after the power came back: %v", o, at, err)
				continue
			}
			if o.fileID != 0 && a.fileID != o.fileID {
				w.report("the handle of %s, %s, leads to inode %d", o, at, a.fileID)
			}
			if was, told := o.changes[a.change]; told && o.settled == o.version && o.version > 0 && was < o.version {
				w.report("the change attribute of %s is %s, which stood for an older content (change %d of %d)", o, a.change, was, o.version)
			}
		}
	}
}
