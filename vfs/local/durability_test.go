package local_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// syncs counts the calls that make something durable, and fails or holds them
// on demand.
type syncs struct {
	n     [4]atomic.Int64
	fail  atomic.Bool
	gate  atomic.Pointer[chan struct{}] // the next call waits for it
	ahead chan struct{}                 // told that one waits
}

func newSyncs() *syncs { return &syncs{ahead: make(chan struct{}, 1)} }

func (s *syncs) hook(what local.SyncCall) error {
	s.n[what].Add(1)
	if g := s.gate.Swap(nil); g != nil {
		s.ahead <- struct{}{}
		<-*g
	}
	if s.fail.Load() {
		return errors.New("the disk is gone")
	}
	return nil
}

func (s *syncs) total() (n int64) {
	for i := range s.n {
		n += s.n[i].Load()
	}
	return n
}

// Each change of names or attributes is durable before it returns, where the
// file system was asked for that; data is as it was promised in any case.
func TestWhatIsSynced(t *testing.T) {
	for _, durable := range []bool{false, true} {
		t.Run(fmt.Sprint("sync=", durable), func(t *testing.T) {
			s := newSyncs()
			w := newWorld(t, local.Config{Sync: durable, SyncHook: s.hook})
			root := w.fs.Root()
			step := func(what string, want bool, f func() error) {
				t.Helper()
				before := s.total()
				w.ok(f(), what)
				if synced := s.total() > before; synced != want {
					t.Errorf("%s: synced %v", what, synced)
				}
			}
			attr := mode(0o755)
			var a vfs.Attr
			var f, d vfs.Handle
			step("Create", durable, func() error { f = w.create(root, "f"); return nil })
			step("Mkdir", durable, func() error { d = w.mkdir(root, "d"); return nil })
			step("Symlink", durable, func() error {
				_, _, err := w.fs.Symlink(w.op, root, []byte("s"), []byte("to"), &vfs.SetAttr{})
				return err
			})
			step("Mknod", durable, func() error {
				_, _, err := w.fs.Mknod(w.op, root, []byte("p"), vfs.FIFO, &attr, 0, 0)
				return err
			})
			step("Link", durable, func() error { _, err := w.fs.Link(w.op, f, d, []byte("l"), &a); return err })
			step("Rename", durable, func() error {
				_, _, err := w.fs.Rename(w.op, d, []byte("l"), root, []byte("m"))
				return err
			})
			step("SetAttr", durable, func() error { _, err := w.fs.SetAttr(w.op, f, &attr, nil); return err })
			step("SetAttr of a directory", durable, func() error { _, err := w.fs.SetAttr(w.op, d, &attr, nil); return err })
			step("SetAttr of nothing", false, func() error { _, err := w.fs.SetAttr(w.op, f, &vfs.SetAttr{}, nil); return err })
			step("Remove", durable, func() error { _, err := w.fs.Remove(w.op, root, []byte("m")); return err })
			step("Rmdir", durable, func() error { _, err := w.fs.Rmdir(w.op, root, []byte("d")); return err })
			step("Write, unstable", false, func() error { return w.write(f, "x") })
			step("Commit", true, func() error { _, err := w.fs.Commit(w.op, f, 0, 0); return err })
			step("Commit of nothing new", false, func() error { _, err := w.fs.Commit(w.op, f, 0, 0); return err })
			for _, stable := range []vfs.Stability{vfs.DataSync, vfs.FileSync} {
				step(fmt.Sprint("Write, stability ", stable), true, func() error {
					_, got, _, err := w.fs.Write(w.op, f, 0, [][]byte{[]byte("y")}, stable)
					if got < stable {
						t.Errorf("done %v of %v", got, stable)
					}
					return err
				})
			}
			step("Create of what exists", false, func() error {
				_, _, err := w.fs.Create(w.op, root, []byte("f"), &vfs.CreateHow{Attr: mode(0o600)})
				return err
			})
			step("Create that truncates", durable, func() error {
				_, _, err := w.fs.Create(w.op, root, []byte("f"), &vfs.CreateHow{Attr: vfs.SetAttr{SetSize: true}})
				return err
			})
		})
	}
}

// Callers that change names at the same time share a round: while the first
// one's is at the disk, all the others gather in the next.
func TestGroupCommit(t *testing.T) {
	t.Run("tmp", func(t *testing.T) { groupCommit(t, t.TempDir(), false) })
	t.Run("ext4 with a journal", func(t *testing.T) { groupCommit(t, newDisk(t, "-J", "size=4").dir, true) })
}

func groupCommit(t *testing.T, dir string, journal bool) {
	s := newSyncs()
	w := newWorld(t, local.Config{Root: dir, Sync: true, SyncHook: s.hook})
	root := w.fs.Root()
	gate := make(chan struct{})
	s.gate.Store(&gate)
	before := w.fs.Stats().CommitRounds
	const many = 64
	var wg sync.WaitGroup
	wg.Go(func() { w.create(root, "first") })
	<-s.ahead
	for i := range many {
		wg.Go(func() { w.create(root, fmt.Sprint("f", i)) })
	}
	w.fs.WaitQueued(many)
	atGate := s.total()
	close(gate)
	wg.Wait()
	if n := w.fs.Stats().CommitRounds - before; n != 2 {
		t.Errorf("%d rounds for 1 + %d creates", n, many)
	}
	// Where a file's inode is not in its directory's transaction there is one
	// call for each file.
	if n := s.total() - atGate; n != 1 && (journal || n != many+1) {
		t.Errorf("%d calls for %d creates in one directory", n, many)
	}
}

// Writers that ask for the same file's data share a call.
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
	// What is written while a call runs is not held for synced by it.
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

// A failed sync changes the verifier before anyone hears of it, once; then
// everything that was not committed is to be written again, and can be.
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
		// The loss was told. What is committed now was written before it,
		// which the client sees by the verifier.
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

// Everybody who waits for a call that fails hears of it, and finds the verifier
// changed.
func TestFailedSyncIsToldToAllWhoWait(t *testing.T) {
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
	w.fs.WaitForSync(f, 7)
	s.fail.Store(true)
	close(gate)
	wg.Wait()
	if n := told.Load(); n != 8 {
		t.Errorf("%d of 8 were told", n)
	}
}

// A verifier tells instances apart.
func TestVerifierOfAnInstance(t *testing.T) {
	w := newWorld(t, local.Config{})
	before := w.fs.Verifier()
	w.again(w.cfg)
	if w.fs.Verifier() == before {
		t.Error("a restart left the verifier")
	}
}
