package local_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest"
)

// foreignFile is the environment variable with the path of the file that the child process locks.
const foreignFile = "LOCAL_TEST_FOREIGN_FILE"

// foreign starts a child process that makes POSIX locks on the file at path.
func foreign(t *testing.T, path string) vfstest.ForeignClaim {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^TestForeignProcess$")
	cmd.Env = append(os.Environ(), foreignFile+"="+path)
	ask, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	answers, told, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.ExtraFiles = []*os.File{told}
	if err = cmd.Start(); err != nil {
		t.Fatal(err)
	}
	told.Close()
	t.Cleanup(func() {
		ask.Close()
		answers.Close()
		_ = cmd.Wait()
	})
	from := bufio.NewReader(answers)
	return func(start, length uint64, mode vfs.ClaimMode) error {
		fmt.Fprintln(ask, start, length, mode)
		var e uint
		if _, err := fmt.Fscanln(from, &e); err != nil {
			t.Fatalf("the other process: %v", err)
		}
		if e == 0 {
			return nil
		}
		return syscall.Errno(e)
	}
}

// TestForeignProcess is the child process of foreign. It makes POSIX locks, as most programs do.
func TestForeignProcess(t *testing.T) {
	path := os.Getenv(foreignFile)
	if path == "" {
		t.Skip("not the child")
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	answers := os.NewFile(3, "answers")
	for {
		var start, length uint64
		var mode vfs.ClaimMode
		if _, err := fmt.Fscanln(os.Stdin, &start, &length, &mode); err != nil {
			return
		}
		l := unix.Flock_t{Type: []int16{unix.F_UNLCK, unix.F_RDLCK, unix.F_WRLCK}[mode], Whence: io.SeekStart, Start: int64(start)}
		if length != vfs.ToEnd {
			l.Len = int64(length)
		}
		var e syscall.Errno
		if err := unix.FcntlFlock(file.Fd(), unix.F_SETLK, &l); err != nil {
			e = err.(syscall.Errno)
		}
		fmt.Fprintln(answers, uint(e))
	}
}

// foreignOf returns the vfstest.Options.Foreign for the file systems in configs.
func foreignOf(configs map[vfs.FileSystem]local.Config) func(*testing.T, vfs.FileSystem, vfs.Handle, string) vfstest.ForeignClaim {
	return func(t *testing.T, fs vfs.FileSystem, _ vfs.Handle, path string) vfstest.ForeignClaim {
		return foreign(t, filepath.Join(configs[fs].Root, path))
	}
}

// All claims on a file use one descriptor. It is pinned only while there are claims, and closed when it
// was idle for some seconds.
func TestClaimsHoldOneDescriptor(t *testing.T) {
	w := newWorld(t, local.Config{})
	h := w.used("f")
	w.fs.Sweep(5)
	held := func(when string, want int64) {
		t.Helper()
		w.fs.Sweep(5)
		if st := w.fs.Stats(); st.OpenFiles != want || st.Pinned != 2*want { // the node is pinned, too
			t.Errorf("%s: %+v", when, st)
		}
	}
	held("before", 0)
	for i := range uint64(100) {
		w.ok(w.fs.Claim(h, 10*i, 5, vfs.ClaimRead+vfs.ClaimMode(i%2)), "Claim")
	}
	held("with a hundred claims", 1)
	w.ok(w.fs.Claim(h, 5, vfs.ToEnd, vfs.ClaimNone), "Claim of nothing")
	held("with one claim", 1)
	w.ok(w.fs.Claim(h, 0, 5, vfs.ClaimNone), "Claim of nothing")
	if st := w.fs.Stats(); st.OpenFiles != 1 || st.Pinned != 0 {
		t.Errorf("just after the last claim: %+v", st)
	}
	held("with none", 0)
	w.ok(w.fs.Claim(h, 0, 5, vfs.ClaimWrite), "Claim")
	w.fs.DropClaims(h)
	held("with all dropped", 0)
	w.fs.Sweep(100) // the sweeper looks at the node seldom by now
	w.ok(w.fs.Claim(h, 0, 5, vfs.ClaimWrite), "Claim")
	w.ok(w.fs.Claim(h, 0, 5, vfs.ClaimNone), "Claim of nothing")
	if w.fs.Sweep(2); w.fs.Stats().OpenFiles != 0 {
		t.Error("the idle descriptor is open after two rounds")
	}
	other := foreign(t, w.path("f"))
	w.ok(other(0, 1, vfs.ClaimRead), "the other's claim")
	w.want(w.fs.Claim(h, 0, 5, vfs.ClaimWrite), syscall.EAGAIN, "Claim of what another process has")
	held("with none that came about", 0)
	w.ok(w.fs.Claim(h, 0, 5, vfs.ClaimRead), "Claim")
	w.ok(w.fs.Close(), "Close")
	w.ok(other(0, 5, vfs.ClaimWrite), "the other's claim after Close")
	if left := holding(t, w.path()); len(left) != 0 {
		t.Errorf("left open: %v", left)
	}
}

// claimed makes a claim on h and ends it.
func (w *world) claimed(h vfs.Handle, mode vfs.ClaimMode) {
	w.Helper()
	w.ok(w.fs.Claim(h, 0, 5, mode), "Claim")
	w.fs.DropClaims(h)
}

// After the last claim on a file, the next one uses the same descriptor, and other processes' locks
// still conflict with it.
func TestTheNextClaimUsesTheIdleDescriptor(t *testing.T) {
	w := newWorld(t, local.Config{})
	h := w.create(w.fs.Root(), "f")
	other := foreign(t, w.path("f"))
	defer w.fs.HoldSweeps(t)()
	w.ok(w.fs.Claim(h, 0, 5, vfs.ClaimRead), "Claim")
	fd, err := w.fs.DupClaims(h)
	w.ok(err, "dup")
	// The copy shares its flags with the descriptor. So it is the same one if the flag is there again.
	_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, unix.O_APPEND)
	w.ok(err, "F_SETFL")
	unix.Close(fd)
	w.fs.DropClaims(h)
	w.ok(other(0, 1, vfs.ClaimWrite), "the other's claim")
	w.want(w.fs.Claim(h, 0, 5, vfs.ClaimWrite), syscall.EAGAIN, "Claim of what another process has")
	w.ok(w.fs.Claim(h, 1, 5, vfs.ClaimWrite), "Claim")
	w.want(other(1, 1, vfs.ClaimRead), syscall.EAGAIN, "the other's claim of what is claimed")
	fd, err = w.fs.DupClaims(h)
	w.ok(err, "dup")
	defer unix.Close(fd)
	if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err != nil || flags&unix.O_APPEND == 0 {
		t.Errorf("another descriptor: flags %#o, %v", flags, err)
	}
}

// The idle descriptor of claims gives way when descriptors are short.
func TestIdleClaimsGiveWay(t *testing.T) {
	budget := local.NewDescriptors(100)
	w := newWorld(t, local.Config{Descriptors: budget})
	for i := range 200 {
		w.claimed(w.create(w.fs.Root(), fmt.Sprint("f", i)), vfs.ClaimWrite)
		if st := w.fs.Stats(); st.OpenFiles > (100-4)/2 || st.Pinned != 0 {
			t.Fatalf("%d files: %+v", i+1, st)
		}
	}
	if n := budget.Held(); n > budget.Limit() {
		t.Errorf("%d held of %d", n, budget.Limit())
	}
}

// The idle descriptor of claims does not keep the space of a removed file.
func TestIdleClaimsLetGo(t *testing.T) {
	w := newWorld(t, local.Config{})
	root := w.fs.Root()
	remove := func(h vfs.Handle) { w.remove(root, "f") }
	for how, remove := range map[string]func(vfs.Handle){
		"removed": remove,
		"one of two names removed": func(h vfs.Handle) {
			w.ok(os.Link(w.path("f"), w.path("second")))
			remove(h)
		},
		"renamed over": func(vfs.Handle) {
			_, _, err := w.fs.Rename(w.op, root, []byte("other"), root, []byte("f"))
			w.ok(err, "Rename")
		},
		"removed while it is claimed": func(h vfs.Handle) {
			w.ok(w.fs.Claim(h, 0, 5, vfs.ClaimRead), "Claim")
			remove(h)
			w.fs.DropClaims(h)
		},
		"removed by another process": func(h vfs.Handle) {
			w.ok(os.Remove(w.path("f")))
			_, err := w.attr(h)
			w.want(err, syscall.ESTALE, "GetAttr")
		},
	} {
		h := w.create(root, "f")
		w.create(root, "other")
		w.fs.Sweep(5)
		sweep := w.fs.HoldSweeps(t)
		w.claimed(h, vfs.ClaimWrite)
		if n := w.fs.Stats().OpenFiles; n != 1 {
			t.Errorf("%s: %d descriptors before, want 1", how, n)
		}
		remove(h)
		await.Until(t, "the descriptor of the file "+how+" is closed", func() bool { return w.fs.Stats().OpenFiles == 0 })
		sweep()
		for _, name := range []string{"f", "second", "other"} {
			_ = os.Remove(w.path(name))
		}
	}
}

// The idle descriptor of claims is closed with the one for writing, so that a file that was locked while it
// was written can be executed as soon as one that was not.
func TestIdleClaimsEndWithTheWriting(t *testing.T) {
	w := newWorld(t, local.Config{})
	commit := func(h vfs.Handle) {
		_, err := w.fs.Commit(w.op, h, 0, 0)
		w.ok(err, "Commit")
	}
	for how, end := range map[string]func(vfs.Handle){
		"COMMIT": commit,
		"Close": func(h vfs.Handle) {
			f := w.open(h, vfs.OpenWrite)
			commit(h)
			f.Close()
		},
	} {
		h := w.create(w.fs.Root(), how)
		sweep := w.fs.HoldSweeps(t)
		w.ok(w.write(h, "x"), "Write")
		w.claimed(h, vfs.ClaimWrite)
		if n := w.fs.Stats().OpenFiles; n != 2 {
			t.Errorf("%s: %d descriptors before, want 2", how, n)
		}
		end(h)
		await.Until(t, "a "+how+" closes the descriptors", func() bool { return w.fs.Stats().OpenFiles == 0 })
		sweep()
	}
}

// DropClaims ends claims even if a process that is being started still has a copy of their
// descriptor.
func TestClaimsEndThoughAProcessIsBeingStarted(t *testing.T) {
	w := newWorld(t, local.Config{})
	h := w.used("f")
	w.ok(w.fs.Claim(h, 0, 5, vfs.ClaimWrite), "Claim")
	fd, err := w.fs.DupClaims(h)
	w.ok(err, "dup")
	defer unix.Close(fd)
	w.fs.DropClaims(h)
	w.ok(foreign(t, w.path("f"))(0, vfs.ToEnd, vfs.ClaimWrite), "the other's claim")
}

// Claims stay while nothing else uses the file. The number of files with claims is limited like
// that of open files.
func TestClaimsAreBounded(t *testing.T) {
	w := newWorld(t, local.Config{Descriptors: local.NewDescriptors(200)})
	claimed := 0
	for ; claimed < 200; claimed++ {
		h := w.create(w.fs.Root(), fmt.Sprint("f", claimed))
		if err := w.fs.Claim(h, 0, 1, vfs.ClaimWrite); err != nil {
			w.want(err, vfs.ErrDelay, "Claim beyond the bound")
			break
		}
	}
	if claimed < 20 || claimed == 200 {
		t.Errorf("%d files could be claimed", claimed)
	}
	w.fs.Sweep(100)
	w.fs.EvictAll()
	if err := foreign(t, w.path("f0"))(0, 1, vfs.ClaimRead); err != syscall.EAGAIN {
		t.Errorf("the other's claim: %v", err)
	}
}

// On a read-only mount, a Claim with ClaimWrite fails with EROFS.
func TestClaimsOfAReadOnlyMount(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("local-test", dir, "tmpfs", 0, ""); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	if err := os.WriteFile(filepath.Join(dir, "f"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, local.Config{Root: dir})
	h, err := w.lookup(w.fs.Root(), "f")
	w.ok(err, "Lookup")
	w.want(w.fs.Claim(h, 0, 1, vfs.ClaimWrite), syscall.EROFS, "Claim to write")
	w.ok(w.fs.Claim(h, 0, 1, vfs.ClaimRead), "Claim to read")
	w.want(w.fs.Claim(h, 0, 1, vfs.ClaimWrite), syscall.EROFS, "Claim to write what is claimed to read")
	w.fs.DropClaims(h)
	w.want(w.fs.Claim(h, 0, 1, vfs.ClaimWrite), syscall.EROFS, "Claim to write what was claimed to read")
	w.claimed(h, vfs.ClaimRead)
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT, ""); err != nil {
		t.Fatal(err)
	}
	w.claimed(h, vfs.ClaimWrite) // the idle descriptor was opened for reading only
	w.claimed(h, vfs.ClaimRead)
	if st := w.fs.Stats(); st.OpenFiles != 1 || st.Pinned != 0 {
		t.Errorf("%+v", st)
	}
}

// Prompt claims without opening the file. While it lasts, the descriptor does not give way, and no other call changes the
// file's claims.
func TestPromptClaimsOpenNothing(t *testing.T) {
	w := newWorld(t, local.Config{})
	h := w.used("f")
	other := foreign(t, w.path("f"))
	refused := func(when string, most vfs.ClaimMode) {
		t.Helper()
		if c, ok := w.fs.Prompt(h, most); ok {
			c.Release()
			t.Errorf("%s, a claim does not wait", when)
		}
	}
	refused("before any claim", vfs.ClaimRead)
	w.claimed(h, vfs.ClaimWrite)
	c, ok := w.fs.Prompt(h, vfs.ClaimWrite)
	if !ok {
		t.Fatal("with an idle descriptor, a claim would wait")
	}
	w.fs.Sweep(100)
	if n := w.fs.Stats().OpenFiles; n != 1 {
		t.Errorf("%d descriptors of a file about to be claimed", n)
	}
	refused("while another call is under way", vfs.ClaimNone)
	w.ok(c.Claim(h, 0, 5, vfs.ClaimWrite), "Claim")
	w.want(other(4, 1, vfs.ClaimRead), syscall.EAGAIN, "the other's claim of what is claimed")
	c.Release()
	if st := w.fs.Stats(); st.OpenFiles != 1 || st.Pinned != 2 {
		t.Errorf("with a claim: %+v", st)
	}
	w.fs.Sweep(100)
	if c, ok = w.fs.Prompt(h, vfs.ClaimWrite); !ok {
		t.Fatal("with a claim, another one would wait")
	}
	w.ok(c.Claim(h, 10, 5, vfs.ClaimRead), "a second Claim")
	c.DropClaims(h)
	w.want(c.Claim(h, 0, 5, vfs.ClaimRead), vfs.ErrWouldBlock, "Claim that needs a descriptor that was not asked for")
	c.Release()
	w.ok(other(0, vfs.ToEnd, vfs.ClaimWrite), "the other's claim after all are dropped")
	w.fs.Sweep(100)
	if st := w.fs.Stats(); st.OpenFiles != 0 || st.Pinned != 0 {
		t.Errorf("with no claim: %+v", st)
	}
	refused("after the idle descriptor is closed", vfs.ClaimWrite)
	w.remove(w.fs.Root(), "f")
	refused("of a removed file", vfs.ClaimWrite)
	if left := holding(t, w.path()); len(left) != 0 {
		t.Errorf("left open: %v", left)
	}
}
