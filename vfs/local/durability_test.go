package local_test

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// syncs records the sync calls, and fails or blocks them on demand.
type syncs struct {
	mu    sync.Mutex
	calls []syncCall
	fail  atomic.Bool
	gate  atomic.Pointer[chan struct{}] // the next call waits until this channel is closed
	only  atomic.Uint64                 // inode number of the file whose calls gate stops; 0: all
	ahead chan struct{}                 // receives a value when a call waits
}

type syncCall struct {
	what local.SyncCall
	ino  uint64
}

func newSyncs() *syncs { return &syncs{ahead: make(chan struct{}, 1)} }

func (s *syncs) hook(what local.SyncCall, fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	s.mu.Lock()
	s.calls = append(s.calls, syncCall{what, st.Ino})
	s.mu.Unlock()
	if only := s.only.Load(); only == 0 || only == st.Ino {
		if g := s.gate.Swap(nil); g != nil {
			s.ahead <- struct{}{}
			<-*g
		}
	}
	if s.fail.Load() {
		return errors.New("the disk is gone")
	}
	return nil
}

func (s *syncs) total() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(len(s.calls))
}

// take returns the sync calls since the last take, sorted, because concurrent calls have no order.
// Each has the form "fsync d", with a path below root; root itself is ".". For a file with several
// names it is the shortest.
func (s *syncs) take(t *testing.T, root string) (calls []string) {
	t.Helper()
	names := map[uint64]string{}
	if err := filepath.WalkDir(root, func(p string, _ fs.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil {
			err = unix.Lstat(p, &st)
		}
		if name, _ := filepath.Rel(root, p); names[st.Ino] == "" || len(name) < len(names[st.Ino]) {
			names[st.Ino] = name
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		name := names[c.ino]
		if name == "" {
			name = "an unnamed file"
		}
		calls = append(calls, c.what.String()+" "+name)
	}
	s.calls = nil
	slices.Sort(calls)
	return calls
}

// Callers that change names in a directory at the same time share sync calls: all changes that
// come while one call waits for the disk are left to the next call.
func TestGroupCommit(t *testing.T) {
	t.Run("tmp", func(t *testing.T) { groupCommit(t, t.TempDir(), false) })
	t.Run("ext4 with a journal", func(t *testing.T) { groupCommit(t, newDisk(t, "-J", "size=4").dir, true) })
}

func groupCommit(t *testing.T, dir string, journal bool) {
	s := newSyncs()
	w := newWorld(t, local.Config{Root: dir, Sync: true, SyncHook: s.hook})
	root := w.fs.Root()
	a, err := w.attr(root)
	w.ok(err, "GetAttr")
	s.only.Store(a.FileID)
	gate := make(chan struct{})
	s.gate.Store(&gate)
	const many = 64
	var wg sync.WaitGroup
	wg.Go(func() { w.create(root, "first") })
	<-s.ahead
	for i := range many {
		wg.Go(func() { w.create(root, fmt.Sprint("f", i)) })
	}
	// If a file's inode is not in the directory's transaction, the file needs a sync of its own.
	await.Until(t, "all wait for the next call", func() bool { return w.fs.Syncing(root, many) })
	atGate := s.total()
	close(gate)
	wg.Wait()
	if n := s.total() - atGate; n != 1 && (journal || n > many+1) {
		t.Errorf("%d calls for %d creates in one directory", n, many)
	}
}

// Callers that commit the same file share a sync call.
func TestCommitsShareACall(t *testing.T) {
	s := newSyncs()
	w := newWorld(t, local.Config{SyncHook: s.hook})
	f := w.create(w.fs.Root(), "f")
	w.ok(w.write(f, "x"), "Write")
	gate := make(chan struct{})
	s.gate.Store(&gate)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := w.fs.Commit(w.op, f, 0, 0); err != nil {
				t.Error(err)
			}
		})
	}
	<-s.ahead
	close(gate)
	wg.Wait()
	if n := s.total(); n != 1 {
		t.Errorf("%d calls for 8 commits of one write", n)
	}
	// Data that is written during a sync call does not count as synced by that call.
	gate = make(chan struct{})
	s.gate.Store(&gate)
	w.ok(w.write(f, "y"), "Write")
	wg.Go(func() { w.fs.Commit(w.op, f, 0, 0) })
	<-s.ahead
	w.ok(w.write(f, "z"), "Write")
	wg.Go(func() { w.fs.Commit(w.op, f, 0, 0) })
	close(gate)
	wg.Wait()
	if n := s.total(); n != 3 {
		t.Errorf("%d calls, want one more for the write in between", n)
	}
}

// A failed sync changes the verifier once, before any caller gets the error. Clients then write
// the uncommitted data again, and can commit it.
func TestFailedSync(t *testing.T) {
	s := newSyncs()
	w := newWorld(t, local.Config{Sync: true, SyncHook: s.hook})
	root := w.fs.Root()
	f := w.create(root, "f")
	d := w.mkdir(root, "d")
	attr := mode(0o700)
	for what, call := range map[string]func() error{
		"Commit": func() error {
			s.fail.Store(false)
			w.ok(w.write(f, "x"), "Write")
			s.fail.Store(true)
			_, err := w.fs.Commit(w.op, f, 0, 0)
			return err
		},
		"Write": func() error {
			_, _, _, err := w.fs.Write(w.op, f, 0, [][]byte{[]byte("x")}, vfs.FileSync)
			return err
		},
		"Create":  func() error { _, _, err := w.fs.Create(w.op, d, []byte("c"), &vfs.CreateHow{}); return err },
		"SetAttr": func() error { _, err := w.fs.SetAttr(w.op, d, &attr, nil); return err },
		"Rename": func() error {
			s.fail.Store(false)
			w.create(root, "from")
			s.fail.Store(true)
			_, _, err := w.fs.Rename(w.op, root, []byte("from"), d, []byte("to"))
			return err
		},
	} {
		s.fail.Store(true)
		before := w.fs.Verifier()
		w.want(call(), syscall.EIO, what)
		after := w.fs.Verifier()
		if after == before {
			t.Errorf("%s failed and the verifier stayed", what)
		}
		s.fail.Store(false)
		// The caller has received the error. A further COMMIT succeeds: the client knows by the
		// new verifier that data from before the failure may be lost.
		_, err := w.fs.Commit(w.op, f, 0, 0)
		w.ok(err, "Commit after "+what)
		w.ok(w.write(f, "again"), "Write after "+what)
		_, err = w.fs.Commit(w.op, f, 0, 0)
		w.ok(err, "Commit after "+what)
		if w.fs.Verifier() != after {
			t.Errorf("the verifier changed without a failure")
		}
	}
}

// If a sync call fails, every caller that waits for it gets the error, and sees a new
// verifier.
func TestFailedSyncIsToldToEveryWaitingCaller(t *testing.T) {
	s := newSyncs()
	w := newWorld(t, local.Config{SyncHook: s.hook})
	f := w.create(w.fs.Root(), "f")
	w.ok(w.write(f, "x"), "Write")
	before := w.fs.Verifier()
	gate := make(chan struct{})
	s.gate.Store(&gate)
	var wg sync.WaitGroup
	var told atomic.Int64
	commit := func() {
		if _, err := w.fs.Commit(w.op, f, 0, 0); errors.Is(err, syscall.EIO) && w.fs.Verifier() != before {
			told.Add(1)
		}
	}
	wg.Go(commit)
	<-s.ahead
	for range 7 {
		wg.Go(commit)
	}
	await.Until(t, "seven wait for one sync", func() bool { return w.fs.Syncing(f, 7) })
	s.fail.Store(true)
	close(gate)
	wg.Wait()
	if n := told.Load(); n != 8 {
		t.Errorf("%d of 8 were told", n)
	}
}

// Two instances of an FS have different verifiers.
func TestVerifierOfAnInstance(t *testing.T) {
	w := newWorld(t, local.Config{})
	before := w.fs.Verifier()
	w.again(w.cfg)
	if w.fs.Verifier() == before {
		t.Error("a restart left the verifier")
	}
}
