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

// All claims on a file use one descriptor, which is open only while there are claims.
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
	held("with none", 0)
	w.ok(w.fs.Claim(h, 0, 5, vfs.ClaimWrite), "Claim")
	w.fs.DropClaims(h)
	held("with all dropped", 0)
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
}
