package local_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// newPipe is an empty pipe, and its end.
func newPipe(t testing.TB) *mem.Pipe {
	t.Helper()
	p, err := mem.NewPool(mem.Config{Ceiling: 16 << 20, Pipes: 4})
	if err != nil {
		t.Fatal(err)
	}
	b, ok := p.NewShare().TryGet(mem.PipeSize)
	if !ok {
		t.Fatal("no memory")
	}
	k := b.Pipe()
	b.Release()
	t.Cleanup(func() { k.Release(); p.Close() })
	return k
}

// A read into a pipe is judged as one into memory is, and errs as that does.
func TestReadsIntoPipesAreJudged(t *testing.T) {
	w := newWorld(t, local.Config{})
	f := w.create(w.fs.Root(), "f")
	w.ok(w.write(f, "text"), "Write")
	read := func(c *vfs.Cred, h vfs.Handle, offset uint64, n int) (int, bool, error) {
		var a vfs.Attr
		k := newPipe(t)
		got, eof, err := w.fs.ReadPipe(&vfs.Op{Cred: c}, h, offset, n, k, &a)
		if err == nil && (k.Left() != got || a.Size != 4) {
			t.Errorf("%d bytes from %d on: %d, and %d in the pipe, of a file of %d", n, offset, got, k.Left(), a.Size)
		}
		return got, eof, err
	}
	for _, c := range []struct {
		offset uint64
		n, got int
		eof    bool
	}{{0, 4, 4, true}, {0, 3, 3, false}, {1, 100, 3, true}, {4, 4, 0, true}, {1 << 40, 4, 0, true}, {0, 0, 0, false}, {4, 0, 0, true}} {
		got, eof, err := read(w.op.Cred, f, c.offset, c.n)
		w.ok(err, "ReadPipe")
		if got != c.got || eof != c.eof {
			t.Errorf("%d bytes from %d on: %d, eof %v", c.n, c.offset, got, eof)
		}
	}
	_, _, err := read(w.op.Cred, w.fs.Root(), 0, 4)
	w.want(err, syscall.EISDIR, "ReadPipe of a directory")
	for _, c := range []struct {
		offset uint64
		n      int
	}{{1<<63 - 4, 5}, {1 << 63, 4}, {1<<64 - 1, 4}, {1, mem.PipeSize}, {0, mem.PipeSize + 1}} {
		_, _, err := read(w.op.Cred, f, c.offset, c.n)
		w.want(err, vfs.ErrNotPiped, "ReadPipe of what the pipe or the kernel does not take")
	}
	if os.Geteuid() == 0 {
		other := &vfs.Cred{UID: 4321, GID: 4321}
		w.ok(os.Chmod(w.path("f"), 0o600), "chmod")
		_, _, err = read(other, f, 0, 4)
		w.want(err, syscall.EACCES, "ReadPipe by another user")
	}

	o, err := w.fs.Open(w.op, f, vfs.OpenWrite)
	w.ok(err, "Open")
	_, _, err = o.(vfs.PipeFile).ReadPipe(w.op, 0, 4, newPipe(t), &vfs.Attr{})
	w.want(err, syscall.EBADF, "ReadPipe of a file that is open for writing")
	o.Close()
	o, err = w.fs.Open(w.op, f, vfs.OpenRead)
	w.ok(err, "Open")
	got, eof, err := o.(vfs.PipeFile).ReadPipe(w.op, 0, 100, newPipe(t), &vfs.Attr{})
	w.ok(err, "ReadPipe of an open file")
	if got != 4 || !eof {
		t.Errorf("of an open file: %d bytes, eof %v", got, eof)
	}
	o.Close()
	_, _, err = o.(vfs.PipeFile).ReadPipe(w.op, 0, 4, newPipe(t), &vfs.Attr{})
	w.want(err, syscall.EBADF, "ReadPipe of a file that is closed")
}

// An attempt to read into a pipe is made where the file system is memory, and nowhere else:
// the kernel would wait for the disk.
func TestAttemptsReadIntoPipesFromMemoryOnly(t *testing.T) {
	for _, c := range []struct {
		dir   string
		magic int64
		want  error
	}{
		{"/dev/shm", unix.TMPFS_MAGIC, nil},
		{t.TempDir(), unix.EXT4_SUPER_MAGIC, vfs.ErrWouldBlock},
	} {
		var s unix.Statfs_t
		if err := unix.Statfs(c.dir, &s); err != nil || s.Type != c.magic {
			t.Logf("%s is another file system", c.dir)
			continue
		}
		dir, err := os.MkdirTemp(c.dir, "nfsrdmad-test-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		if err := os.WriteFile(filepath.Join(dir, "f"), []byte("text"), 0o644); err != nil {
			t.Fatal(err)
		}
		fs, err := local.New(local.Config{Root: dir, StateDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		defer fs.Close()
		op := &vfs.Op{Cred: &vfs.Cred{UID: uint32(os.Getuid())}}
		f, err := fs.Lookup(op, fs.Root(), []byte("f"), &vfs.Attr{})
		if err != nil {
			t.Fatal(err)
		}
		settle(t, fs, op.Cred, f.Handle)
		op.Try = true
		k := newPipe(t)
		if _, _, err := fs.ReadPipe(op, f.Handle, 0, 4, k, &vfs.Attr{}); err != c.want {
			t.Errorf("on %s: %v, want %v", c.dir, err, c.want)
		}
		if c.want != nil && k.Left() != 0 {
			t.Errorf("on %s: %d bytes are in the pipe", c.dir, k.Left())
		}
	}
}
