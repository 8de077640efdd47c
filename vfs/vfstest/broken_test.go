package vfstest_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest"
)

// which names the broken file system that a process of its own runs a test of the
// suite on.
const which = "VFSTEST_BROKEN"

// broken are file systems with one fault each, and a test that must find it.
var broken = map[string]struct {
	by   string
	make func(*memfs.FS) vfs.FileSystem
}{
	"does SetAttr and says that it would block": {"try/attributes/mode", func(m *memfs.FS) vfs.FileSystem { return hasty{m, "SetAttr"} }},
	"does Write and says that it would block":   {"try/io/edges_of_a_read", func(m *memfs.FS) vfs.FileSystem { return hasty{m, "Write"} }},
	"does Create and says that it would block":  {"try/create/guarded", func(m *memfs.FS) vfs.FileSystem { return hasty{m, "Create"} }},
	"does Mkdir and says that it would block":   {"try/create/mkdir", func(m *memfs.FS) vfs.FileSystem { return hasty{m, "Mkdir"} }},
	"does Symlink and says that it would block": {"try/symlink/is_not_followed", func(m *memfs.FS) vfs.FileSystem { return hasty{m, "Symlink"} }},
	"does Mknod and says that it would block":   {"try/mknod/kinds", func(m *memfs.FS) vfs.FileSystem { return hasty{m, "Mknod"} }},
	"does Remove and says that it would block":  {"try/remove/kinds", func(m *memfs.FS) vfs.FileSystem { return hasty{m, "Remove"} }},
	"does Rmdir and says that it would block":   {"try/remove/kinds", func(m *memfs.FS) vfs.FileSystem { return hasty{m, "Rmdir"} }},
	"does Rename and says that it would block":  {"try/rename/between_directories", func(m *memfs.FS) vfs.FileSystem { return hasty{m, "Rename"} }},
	"does Link and says that it would block":    {"try/link/counts", func(m *memfs.FS) vfs.FileSystem { return hasty{m, "Link"} }},
	"does ReadDir and says that it would block": {"try/readdir/each_cookie_resumes", func(m *memfs.FS) vfs.FileSystem { return hasty{m, "ReadDir"} }},
	"cuts a file and says that it would block":  {"try/create/unchecked", func(m *memfs.FS) vfs.FileSystem { return cutting{m} }},
	"says that it would block, anyway":          {"try/create/guarded", func(m *memfs.FS) vfs.FileSystem { return stubborn{m} }},
	"sees the end too early":                    {"block/io/edges_of_a_read", func(m *memfs.FS) vfs.FileSystem { return early{m} }},
	"loses what emit refused":                   {"block/readdir/each_cookie_resumes", func(m *memfs.FS) vfs.FileSystem { return careless{m} }},
	"lists twice":                               {"block/create/mkdir", func(m *memfs.FS) vfs.FileSystem { return double{m} }},
	"tells yesterday's attributes":              {"block/change/files", func(m *memfs.FS) vfs.FileSystem { return late{m} }},
	"promises less than was asked":              {"block/io/stability", func(m *memfs.FS) vfs.FileSystem { return vague{m} }},
	"keeps its verifier":                        {"block/handles/stable_over_a_restart", func(m *memfs.FS) vfs.FileSystem { return constant{m} }},
	"judges everybody as the superuser":         {"block/access/operations_agree", func(m *memfs.FS) vfs.FileSystem { return trusting{m} }},
	"forgets pieces":                            {"block/io/pieces", func(m *memfs.FS) vfs.FileSystem { return short{m} }},
}

func TestSuiteFindsFaults(t *testing.T) {
	for name, b := range broken {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// That test alone: the whole suite of each would take a minute.
			one := "^TestBroken$"
			for _, part := range strings.Split(b.by, "/") {
				one += "/^" + part + "$"
			}
			cmd := exec.Command(os.Args[0], "-test.run="+one, "-test.v")
			cmd.Env = append(os.Environ(), which+"="+name)
			out, err := cmd.CombinedOutput()
			if want := "--- FAIL: TestBroken/" + b.by; err == nil || !strings.Contains(string(out), want) {
				t.Errorf("%s did not fail (%v):\n%s", b.by, err, out)
			}
		})
	}
}

func TestBroken(t *testing.T) {
	b, ok := broken[os.Getenv(which)]
	if !ok {
		t.Skip("for processes of TestSuiteFindsFaults")
	}
	vfstest.Run(t, func(*testing.T) vfs.FileSystem { return b.make(memfs.New(memfs.Options{})) }, vfstest.Options{
		CanSwitchUsers: true, Devices: true, SpecialFiles: true, Entries: 200,
		Restart: func(_ *testing.T, fs vfs.FileSystem) vfs.FileSystem {
			fs.(interface{ Crash() }).Crash()
			return fs
		},
	})
}

func TestNamesAreDistinct(t *testing.T) {
	seen := map[string]bool{}
	for _, test := range vfstest.Tests() {
		if seen[test.Name] {
			t.Errorf("two tests are called %q", test.Name)
		}
		seen[test.Name] = true
	}
}

type stubborn struct{ *memfs.FS }

func (f stubborn) Read(*vfs.Op, vfs.Handle, uint64, []byte, *vfs.Attr) (int, bool, error) {
	return 0, false, vfs.ErrWouldBlock
}

type early struct{ *memfs.FS }

func (f early) Read(op *vfs.Op, h vfs.Handle, off uint64, buf []byte, a *vfs.Attr) (int, bool, error) {
	n, eof, err := f.FS.Read(op, h, off, buf, a)
	return n, eof || off+uint64(n)+1 == a.Size, err
}

type careless struct{ *memfs.FS }

func (f careless) ReadDir(op *vfs.Op, dir vfs.Handle, cookie uint64, plus bool, a *vfs.Attr, emit func(*vfs.DirEntry) bool) (bool, error) {
	skip := cookie != 0
	return f.FS.ReadDir(op, dir, cookie, plus, a, func(e *vfs.DirEntry) bool {
		if skip {
			skip = false
			return true
		}
		return emit(e)
	})
}

type double struct{ *memfs.FS }

func (f double) ReadDir(op *vfs.Op, dir vfs.Handle, cookie uint64, plus bool, a *vfs.Attr, emit func(*vfs.DirEntry) bool) (bool, error) {
	return f.FS.ReadDir(op, dir, cookie, plus, a, func(e *vfs.DirEntry) bool {
		once := emit(e)
		return once && emit(e)
	})
}

type late struct{ *memfs.FS }

func (f late) Write(op *vfs.Op, h vfs.Handle, off uint64, data [][]byte, s vfs.Stability) (int, vfs.Stability, vfs.Change, error) {
	n, done, ch, err := f.FS.Write(op, h, off, data, s)
	ch.After = ch.Before
	return n, done, ch, err
}

type vague struct{ *memfs.FS }

func (f vague) Write(op *vfs.Op, h vfs.Handle, off uint64, data [][]byte, s vfs.Stability) (int, vfs.Stability, vfs.Change, error) {
	n, _, ch, err := f.FS.Write(op, h, off, data, s)
	return n, vfs.Unstable, ch, err
}

type constant struct{ *memfs.FS }

func (constant) Verifier() [8]byte { return [8]byte{1} }

type trusting struct{ *memfs.FS }

func (f trusting) ReadDir(op *vfs.Op, dir vfs.Handle, cookie uint64, plus bool, a *vfs.Attr, emit func(*vfs.DirEntry) bool) (bool, error) {
	super := *op
	super.Cred = &vfs.Cred{}
	return f.FS.ReadDir(&super, dir, cookie, plus, a, emit)
}

type short struct{ *memfs.FS }

func (f short) Write(op *vfs.Op, h vfs.Handle, off uint64, data [][]byte, s vfs.Stability) (int, vfs.Stability, vfs.Change, error) {
	if len(data) > 3 {
		data = data[:3]
	}
	return f.FS.Write(op, h, off, data, s)
}
