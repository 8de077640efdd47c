package local_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// fewDescriptors is the environment variable with the working directory of a child process.
const fewDescriptors = "LOCAL_TEST_FEW_DESCRIPTORS"

// A client that writes to many files and never commits leaves enough descriptors for other exports
// and for its own further calls. The test runs in a child process with 1,000 descriptors.
func TestUncommittedFilesLeaveDescriptorsToOthers(t *testing.T) {
	child(t, "TestFewDescriptorsChild")
}

// child runs one test in a child process, with a working directory for it.
func child(t *testing.T, test string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^"+test+"$", "-test.v", "-test.timeout=100s")
	cmd.Env = append(os.Environ(), fewDescriptors+"="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+test) {
		t.Errorf("%v\n%s", err, out)
	}
}

// asChild limits this process to limit descriptors and returns its working directory. It skips the
// test if this is not a child process.
func asChild(t *testing.T, limit uint64) string {
	t.Helper()
	base := os.Getenv(fewDescriptors)
	if base == "" {
		t.Skip("not the child")
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
		t.Fatal(err)
	}
	return base
}

// If the process runs out of descriptors before the budget is used up, the FS syncs and
// closes the oldest uncommitted file for each new one.
func TestUncommittedFilesMakeRoomInAFullProcess(t *testing.T) { child(t, "TestFullProcessChild") }

// TestFullProcessChild is the child process of TestUncommittedFilesMakeRoomInAFullProcess.
func TestFullProcessChild(t *testing.T) {
	base := asChild(t, 201)
	w := newWorld(t, local.Config{Root: base, Descriptors: local.NewDescriptors(8000)})
	// A new file needs two descriptors. With one of these limits, the first of them uses up the
	// last free descriptor; with the other limit the second does.
	for _, limit := range []uint64{200, 201} {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: 201}); err != nil {
			t.Fatal(err)
		}
		for i := range 300 {
			w.ok(w.write(w.create(w.fs.Root(), fmt.Sprint("f", limit, i)), "x"), "Write ", i)
			// An exclusive create stores its verifier even if it first has to close another file.
			name, how := fmt.Append(nil, "e", limit, i), &vfs.CreateHow{Mode: vfs.Exclusive, Verifier: [8]byte{7, byte(i)}}
			for range 2 {
				_, _, err := w.fs.Create(w.op, w.fs.Root(), name, how)
				w.ok(err, "exclusive Create ", i)
			}
		}
	}
}

// TestFewDescriptorsChild is the child process of TestUncommittedFilesLeaveDescriptorsToOthers.
func TestFewDescriptorsChild(t *testing.T) {
	base := asChild(t, 1000)
	var worlds [2]*world
	for i := range worlds {
		dir := filepath.Join(base, fmt.Sprint("export", i))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		worlds[i] = newWorld(t, local.Config{Root: dir})
	}
	greedy, other := worlds[0], worlds[1]
	var files []vfs.Handle
	for i := range 700 {
		f := greedy.create(greedy.fs.Root(), fmt.Sprint("f", i))
		greedy.ok(greedy.write(f, "x"), "Write ", i)
		files = append(files, f)
	}
	if n := len(holding(t, base)); n > 600 {
		t.Errorf("%d of 1000 descriptors are held", n)
	}
	for i := range 100 {
		other.used(fmt.Sprint("o", i))
	}
	for i, f := range files {
		if a, err := greedy.attr(f); err != nil || a.Size != 1 {
			t.Fatalf("file %d: %+v, %v", i, a, err)
		}
	}
}

// The FS syncs uncommitted data 30 seconds after the last write, even if clients request the
// file's attributes all the time.
func TestLookingDoesNotPutTheSyncOff(t *testing.T) {
	w := newWorld(t, local.Config{})
	f := w.create(w.fs.Root(), "f")
	w.ok(w.write(f, "x"), "Write")
	for range 35 {
		w.fs.Sweep(1)
		_, err := w.attr(f)
		w.ok(err, "GetAttr")
	}
	if st := w.fs.Stats(); st.Unsynced != 0 || st.OpenFiles != 0 || st.Syncs == 0 {
		t.Errorf("%+v", st)
	}
	// Each write delays the sync.
	for range 35 {
		w.ok(w.write(f, "x"), "Write")
		w.fs.Sweep(1)
	}
	if st := w.fs.Stats(); st.Unsynced != 1 {
		t.Errorf("a file that is being written: %+v", st)
	}
}

// awaited receives from c. Its time limit is long enough for slow machines, but shorter than the
// 30 seconds after which the FS syncs data itself.
func awaited[T any](t *testing.T, c <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(20 * time.Second):
		t.Fatalf("waited 20 s for %s", what)
	}
	return v
}

// If too many files have uncommitted data, the flusher syncs and closes the file that has waited
// longest. If the flusher is busy, a writer does so.
func TestTooManyUncommittedFiles(t *testing.T) {
	s := newSyncs()
	budget := local.NewDescriptors(100)
	// Use a tmpfs, because a write with Op.Try succeeds there.
	dir := places(t)["tmpfs"]
	if dir == nil {
		t.Skip("tmpfs cannot be mounted here")
	}
	w := newWorld(t, local.Config{Root: dir(t), Descriptors: budget, SyncHook: s.hook})
	// Block the flusher at its first file, as a slow disk would.
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(open)
	s.gate.Store(&gate)
	try := *w.op
	try.Try = true
	write := func(op *vfs.Op, f vfs.Handle, offset uint64) error {
		_, _, _, err := w.fs.Write(op, f, offset, [][]byte{[]byte("x")}, vfs.Unstable)
		return err
	}
	var files []vfs.Handle
	most := w.fs.MostUnsynced()
	for i := range most {
		f := w.create(w.fs.Root(), fmt.Sprint("f", i))
		w.ok(write(&try, f, 0), "Write")
		files = append(files, f)
	}
	awaited(t, s.ahead, "the flusher's first sync")
	if st := w.fs.Stats(); st.Unsynced != int64(most) {
		t.Fatalf("%+v, want %d unsynced", st, most)
	}
	one := w.create(w.fs.Root(), "one more")
	tried := make(chan error, 1)
	go func() { tried <- write(&try, one, 0) }()
	w.want(awaited(t, tried, "a Try"), vfs.ErrWouldBlock, "Write that would have to wait for a sync")
	if a, err := w.attr(one); err != nil || a.Size != 0 {
		t.Errorf("what answered ErrWouldBlock left %d bytes, %v", a.Size, err)
	}
	w.ok(write(&try, files[5], 1), "Write to a file that waits already")
	before := s.total()
	done := make(chan error)
	go func() { done <- write(w.op, one, 0) }()
	open()
	w.ok(awaited(t, done, "the writer"), "Write")
	for i := range 3 * most {
		f := w.create(w.fs.Root(), fmt.Sprint("g", i))
		w.ok(write(w.op, f, 0), "Write")
		if st := w.fs.Stats(); st.Unsynced > int64(most) {
			t.Fatalf("%d unsynced, want at most %d", st.Unsynced, most)
		}
	}
	if s.total() == before {
		t.Error("nothing was synced")
	}
	for _, f := range files {
		a, err := w.attr(f)
		w.ok(err, "GetAttr")
		if a.Size == 0 {
			t.Error("a file is empty")
		}
	}
	w.fs.Sweep(1)
	if n := budget.Held(); n > budget.Limit() {
		t.Errorf("%d held of %d", n, budget.Limit())
	}
}

// Open listings, even those that clients abandoned, count towards the budget together with files
// open for data.
func TestListingsAreWithinTheBudget(t *testing.T) {
	budget := local.NewDescriptors(100)
	w := newWorld(t, local.Config{Descriptors: budget})
	const most = (100 - 4) / 2
	var list func(d vfs.Handle, more int)
	list = func(d vfs.Handle, more int) {
		var a vfs.Attr
		_, err := w.fs.ReadDir(w.op, d, 2, false, &a, func(e *vfs.DirEntry) bool {
			if more > 0 {
				list(d, more-1) // the listing of the outer call stays in use
			}
			return false
		})
		w.ok(err, "ReadDir")
	}
	listed := int64(0)
	for i := range 16 {
		d := w.mkdir(w.fs.Root(), fmt.Sprint("d", i))
		w.ok(os.WriteFile(w.path(fmt.Sprint("d", i), "a"), nil, 0o600))
		list(d, 3)
		listed = max(listed, w.fs.Stats().Listings)
		if st := w.fs.Stats(); st.Listings > most {
			t.Fatalf("%d listings: %+v", i+1, st)
		}
	}
	if listed < most/2 {
		t.Fatalf("the test had %d listings open at most", listed)
	}
	for i := range 30 {
		w.create(w.fs.Root(), fmt.Sprint("f", i))
		if st := w.fs.Stats(); st.Listings+st.OpenFiles > most {
			t.Fatalf("%d files: %+v", i+1, st)
		}
	}
	if n := budget.Held(); n > budget.Limit() {
		t.Errorf("%d held of %d", n, budget.Limit())
	}
}

// Each FS has an equal part of the budget. When another FS joins, the others close their surplus.
func TestPartsOfTheBudget(t *testing.T) {
	budget := local.NewDescriptors(160)
	w := newWorld(t, local.Config{Descriptors: budget})
	for i := range 200 {
		w.used(fmt.Sprint("f", i))
	}
	alone := budget.Held()
	if alone < 80 || alone > 160 {
		t.Errorf("one file system holds %d of 160", alone)
	}
	newWorld(t, local.Config{Descriptors: budget})
	w.fs.Sweep(1)
	if n := budget.Held(); n > 80+16 {
		t.Errorf("with a second one it holds %d of 160", n)
	}
	for range 3 {
		newWorld(t, local.Config{Descriptors: budget})
	}
	_, err := local.New(local.Config{Root: t.TempDir(), StateDir: t.TempDir(), Descriptors: budget})
	if err == nil || !strings.Contains(err.Error(), "LimitNOFILE") {
		t.Errorf("a sixth of 160: %v", err)
	}
}
