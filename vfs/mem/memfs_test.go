package memfs_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
)

var root = &vfs.Op{Cred: &vfs.Cred{}}

func create(t testing.TB, fs *memfs.FS, name string) vfs.Handle {
	t.Helper()
	o, _, err := fs.Create(root, fs.Root(), []byte(name), &vfs.CreateHow{Mode: vfs.Guarded, Attr: vfs.SetAttr{SetMode: true, Mode: 0o644}})
	if err != nil {
		t.Fatal(err)
	}
	return o.Handle
}

func write(fs *memfs.FS, h vfs.Handle, off uint64, p string, s vfs.Stability) (int, vfs.Stability, error) {
	n, done, _, err := fs.Write(root, h, off, [][]byte{[]byte(p)}, s)
	return n, done, err
}

func content(t testing.TB, fs *memfs.FS, h vfs.Handle) string {
	t.Helper()
	var a vfs.Attr
	if err := fs.GetAttr(root, h, &a); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, a.Size)
	n, eof, err := fs.Read(root, h, 0, buf, &a)
	if n != len(buf) || !eof || err != nil {
		t.Fatalf("Read: %d of %d, %v, %v", n, len(buf), eof, err)
	}
	return string(buf)
}

func TestTryAllocatesNothing(t *testing.T) {
	fs := memfs.New(memfs.Options{})
	h := create(t, fs, "file")
	if _, _, err := write(fs, h, 0, strings.Repeat("x", 100_000), vfs.FileSync); err != nil {
		t.Fatal(err)
	}
	op := &vfs.Op{Cred: &vfs.Cred{UID: 1, Groups: []uint32{3, 4, 5}}, Try: true}
	var a vfs.Attr
	buf := make([]byte, 65_536)
	name := []byte("file")
	dir := fs.Root()
	for what, do := range map[string]func() error{
		"GetAttr": func() error { return fs.GetAttr(op, h, &a) },
		"Access":  func() error { _, err := fs.Access(op, h, vfs.AccessRead, &a); return err },
		"Lookup":  func() error { _, err := fs.Lookup(op, dir, name, &a); return err },
		"Read":    func() error { _, _, err := fs.Read(op, h, 4096, buf, &a); return err },
		"ReadDir": func() error {
			_, err := fs.ReadDir(op, dir, 0, true, &a, func(*vfs.DirEntry) bool { return true })
			return err
		},
	} {
		if err := do(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if n := testing.AllocsPerRun(200, func() { do() }); n != 0 && what != "ReadDir" || n > 1 {
			t.Errorf("%s allocates %v times", what, n)
		}
	}
	data := [][]byte{buf}
	op = &vfs.Op{Cred: &vfs.Cred{}, Try: true}
	if n := testing.AllocsPerRun(200, func() { fs.Write(op, h, 0, data, vfs.FileSync) }); n != 0 {
		t.Errorf("Write over what is there allocates %v times", n)
	}
}

// A Crash loses the data that was not synced, and nothing else.
func TestCrashForgets(t *testing.T) {
	fs := memfs.New(memfs.Options{Unsynced: true})
	h := create(t, fs, "f")
	old := strings.Repeat("old.", 30_000)
	if _, done, err := write(fs, h, 0, old, vfs.FileSync); err != nil || done != vfs.FileSync {
		t.Fatal(done, err)
	}
	if _, done, err := write(fs, h, 5000, strings.Repeat("X", 100_000), vfs.Unstable); err != nil || done != vfs.Unstable {
		t.Fatal(done, err)
	}
	if _, _, err := write(fs, h, 200_000, "behind", vfs.Unstable); err != nil {
		t.Fatal(err)
	}
	empty := create(t, fs, "empty")
	if _, _, err := write(fs, empty, 0, "never synced", vfs.Unstable); err != nil {
		t.Fatal(err)
	}
	before := fs.Verifier()
	var a, b vfs.Attr
	fs.GetAttr(root, h, &a)
	fs.Crash()
	fs.GetAttr(root, h, &b)
	if content(t, fs, h) != old || content(t, fs, empty) != "" {
		t.Error("what was never synced has survived")
	}
	if fs.Verifier() == before {
		t.Error("the verifier is as before")
	}
	if b.Change <= a.Change {
		t.Errorf("the change counter went from %d to %d", a.Change, b.Change)
	}
	fs.Crash()
	if content(t, fs, h) != old {
		t.Error("a second crash lost what the first did not")
	}
}

// A Commit of a range makes only the pages of that range stable.
func TestCrashAfterCommitOfRange(t *testing.T) {
	fs := memfs.New(memfs.Options{Unsynced: true})
	h := create(t, fs, "f")
	const page = 4096
	write(fs, h, 0, strings.Repeat("a", 4*page), vfs.DataSync)
	write(fs, h, 0, strings.Repeat("b", 6*page), vfs.Unstable)
	if _, err := fs.Commit(root, h, page, page); err != nil {
		t.Fatal(err)
	}
	write(fs, h, 3*page+1, "c", vfs.FileSync)
	fs.Crash()
	want := strings.Repeat("a", page) + strings.Repeat("b", page) + strings.Repeat("a", page) + "bc" + strings.Repeat("b", page-2)
	if got := content(t, fs, h); got != want {
		t.Errorf("after the crash %d bytes, want %d; first difference at %d", len(got), len(want), differ(got, want))
	}
}

func differ(a, b string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

func TestCrashKeepsTruncation(t *testing.T) {
	fs := memfs.New(memfs.Options{Unsynced: true})
	h := create(t, fs, "f")
	write(fs, h, 0, strings.Repeat("a", 10_000), vfs.FileSync)
	write(fs, h, 0, strings.Repeat("b", 10_000), vfs.Unstable)
	for _, size := range []uint64{5000, 6000} {
		if _, err := fs.SetAttr(root, h, &vfs.SetAttr{SetSize: true, Size: size}, nil); err != nil {
			t.Fatal(err)
		}
	}
	fs.Crash()
	if got, want := content(t, fs, h), strings.Repeat("a", 5000)+strings.Repeat("\x00", 1000); got != want {
		t.Errorf("after the crash %d bytes; first difference at %d", len(got), differ(got, want))
	}
}

// A failed sync changes the verifier, and the file loses its unsynced data.
func TestFailSync(t *testing.T) {
	fs := memfs.New(memfs.Options{Unsynced: true})
	h := create(t, fs, "f")
	write(fs, h, 0, "old", vfs.FileSync)
	for name, sync := range map[string]func() error{
		"Commit": func() error { _, err := fs.Commit(root, h, 0, 0); return err },
		"Write":  func() error { _, _, err := write(fs, h, 3, "x", vfs.DataSync); return err },
	} {
		write(fs, h, 0, "new", vfs.Unstable)
		before := fs.Verifier()
		fs.FailSync(syscall.EIO)
		if err := sync(); err != syscall.EIO {
			t.Errorf("%s: %v", name, err)
		}
		if fs.Verifier() == before {
			t.Errorf("%s failed and the verifier is as before", name)
		}
		if got := content(t, fs, h); got != "old" {
			t.Errorf("after a failed %s the content is %q", name, got)
		}
		if _, err := fs.Commit(root, h, 0, 0); err != nil {
			t.Errorf("Commit after that: %v", err)
		}
	}
}

func TestStall(t *testing.T) {
	fs := memfs.New(memfs.Options{})
	h := create(t, fs, "f")
	release := fs.Stall(memfs.GetAttr, memfs.Read)
	both := fs.Stall(memfs.Read)
	var a vfs.Attr
	try := &vfs.Op{Cred: root.Cred, Try: true}
	if err := fs.GetAttr(try, h, &a); err != vfs.ErrWouldBlock {
		t.Errorf("GetAttr with Try: %v", err)
	}
	if _, err := fs.Access(try, h, 0, &a); err != nil {
		t.Errorf("Access, which is not stalled: %v", err)
	}
	var calls sync.WaitGroup
	for range 3 {
		calls.Go(func() {
			var a vfs.Attr
			if err := fs.GetAttr(root, h, &a); err != nil {
				t.Errorf("GetAttr after the release: %v", err)
			}
		})
	}
	fs.AwaitStalled(3)
	release()
	release()
	calls.Wait()
	if _, _, err := fs.Read(try, h, 0, nil, &a); err != vfs.ErrWouldBlock {
		t.Errorf("Read, still stalled by another: %v", err)
	}
	both()
	if _, _, err := fs.Read(try, h, 0, nil, &a); err != nil {
		t.Errorf("Read after both releases: %v", err)
	}
}

func TestFail(t *testing.T) {
	fs := memfs.New(memfs.Options{})
	fs.Fail(memfs.Create, syscall.ENOSPC, vfs.ErrDelay)
	for _, want := range []error{syscall.ENOSPC, vfs.ErrDelay, nil, syscall.EEXIST} {
		_, _, err := fs.Create(root, fs.Root(), []byte("f"), &vfs.CreateHow{Mode: vfs.Guarded})
		if !errors.Is(err, want) {
			t.Errorf("Create: %v, want %v", err, want)
		}
	}
	for m := memfs.Info; m <= memfs.ReadDir; m++ {
		if m.String() == "?" {
			t.Errorf("method %d has no name", m)
		}
	}
}

func TestNoSpace(t *testing.T) {
	const limit = 1 << 20
	fs := memfs.New(memfs.Options{Bytes: limit})
	h := create(t, fs, "f")
	big := strings.Repeat("x", limit+1)
	n, _, err := write(fs, h, 0, big, vfs.FileSync)
	if n != limit || err != nil {
		t.Fatalf("Write of one byte too much: %d, %v", n, err)
	}
	if n, _, err := write(fs, h, limit, "x", vfs.FileSync); n != 0 || err != syscall.ENOSPC {
		t.Errorf("the next byte: %d, %v", n, err)
	}
	if n, _, err := write(fs, h, 5, "over", vfs.FileSync); n != 4 || err != nil {
		t.Errorf("Write over what is there: %d, %v", n, err)
	}
	u, err := fs.Usage(root, h)
	if err != nil || u.FreeBytes != 0 || u.TotalBytes != limit {
		t.Errorf("usage when full: %+v, %v", u, err)
	}
	// A hole takes no storage.
	if _, err := fs.SetAttr(root, h, &vfs.SetAttr{SetSize: true, Size: 1 << 40}, nil); err != nil {
		t.Errorf("truncation to 1 TiB: %v", err)
	}
	if _, err := fs.Remove(root, fs.Root(), []byte("f")); err != nil {
		t.Fatal(err)
	}
	if u, _ := fs.Usage(root, fs.Root()); u.FreeBytes != limit {
		t.Errorf("after the removal %d bytes of %d are free", u.FreeBytes, limit)
	}
}

func TestNoFiles(t *testing.T) {
	fs := memfs.New(memfs.Options{Files: 4})
	for i := range 3 {
		create(t, fs, fmt.Sprint(i))
	}
	if _, _, err := fs.Mkdir(root, fs.Root(), []byte("d"), &vfs.SetAttr{}); err != syscall.ENOSPC {
		t.Errorf("Mkdir of one too many: %v", err)
	}
	fs.Remove(root, fs.Root(), []byte("0"))
	create(t, fs, "again")
}

// After any sequence of writes, truncations and crashes, the space used in the file system is the
// file's Attr.Used. Removing the file frees all of it.
func TestStorageIsCounted(t *testing.T) {
	for _, unsynced := range []bool{false, true} {
		fs := memfs.New(memfs.Options{Unsynced: unsynced})
		h := create(t, fs, "f")
		for i := range 200 {
			off := uint64(i*7919) % 300_000
			write(fs, h, off, string(bytes.Repeat([]byte{1}, i*37)), vfs.Stability(i%2))
			if i%7 == 0 {
				fs.SetAttr(root, h, &vfs.SetAttr{SetSize: true, Size: off}, nil)
			}
			if i%31 == 0 {
				fs.Crash()
			}
			var a vfs.Attr
			fs.GetAttr(root, h, &a)
			u, _ := fs.Usage(root, h)
			if used := u.TotalBytes - u.FreeBytes; used != a.Used {
				t.Fatalf("step %d: the file takes %d, the file system says %d", i, a.Used, used)
			}
		}
		fs.Remove(root, fs.Root(), []byte("f"))
		if u, _ := fs.Usage(root, fs.Root()); u.FreeBytes != u.TotalBytes || u.TotalFiles-u.FreeFiles != 1 {
			t.Errorf("after the removal: %+v", u)
		}
	}
}

func TestForeignHandles(t *testing.T) {
	a, b := memfs.New(memfs.Options{}), memfs.New(memfs.Options{})
	var attr vfs.Attr
	if err := a.GetAttr(root, b.Root(), &attr); err != vfs.ErrBadHandle {
		t.Errorf("GetAttr of another file system's root: %v", err)
	}
}

func BenchmarkGetAttr(b *testing.B) {
	fs := memfs.New(memfs.Options{})
	h := create(b, fs, "f")
	op := &vfs.Op{Cred: &vfs.Cred{}, Try: true}
	b.RunParallel(func(p *testing.PB) {
		var a vfs.Attr
		for p.Next() {
			fs.GetAttr(op, h, &a)
		}
	})
}

func BenchmarkLookup(b *testing.B) {
	fs := memfs.New(memfs.Options{})
	create(b, fs, "f")
	op := &vfs.Op{Cred: &vfs.Cred{}, Try: true}
	dir, name := fs.Root(), []byte("f")
	b.RunParallel(func(p *testing.PB) {
		var a vfs.Attr
		for p.Next() {
			fs.Lookup(op, dir, name, &a)
		}
	})
}

func BenchmarkRead1M(b *testing.B) {
	fs := memfs.New(memfs.Options{})
	h := create(b, fs, "f")
	buf := make([]byte, 1<<20)
	fs.Write(root, h, 0, [][]byte{buf}, vfs.FileSync)
	b.SetBytes(1 << 20)
	var a vfs.Attr
	for b.Loop() {
		fs.Read(root, h, 0, buf, &a)
	}
}

func BenchmarkWrite1M(b *testing.B) {
	fs := memfs.New(memfs.Options{})
	h := create(b, fs, "f")
	buf := [][]byte{make([]byte, 1<<20)}
	b.SetBytes(1 << 20)
	for b.Loop() {
		fs.Write(root, h, 0, buf, vfs.FileSync)
	}
}

func BenchmarkCreateRemove(b *testing.B) {
	fs := memfs.New(memfs.Options{})
	how := &vfs.CreateHow{Mode: vfs.Guarded}
	for b.Loop() {
		fs.Create(root, fs.Root(), []byte("f"), how)
		fs.Remove(root, fs.Root(), []byte("f"))
	}
}

// GetAttr accepts only the root's handle. For any other bytes that a client may send it returns
// ESTALE or ErrBadHandle.
func FuzzHandle(f *testing.F) {
	fs := memfs.New(memfs.Options{})
	top := fs.Root()
	f.Add(top.Bytes())
	f.Add(make([]byte, 16))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, ok := vfs.MakeHandle(b)
		if !ok {
			return
		}
		var a vfs.Attr
		switch err := fs.GetAttr(root, h, &a); {
		case err == nil:
			if h != top {
				t.Errorf("%x is a handle", b)
			}
		case err != syscall.ESTALE && err != vfs.ErrBadHandle:
			t.Errorf("%x: %v", b, err)
		}
	})
}
