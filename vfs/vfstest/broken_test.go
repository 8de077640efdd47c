package vfstest_test

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest"
)

// TestSuiteFindsFaults sets this environment variable in the processes that it starts. It tells
// TestBroken which of the broken file systems to test.
const which = "VFSTEST_BROKEN"

// broken has file systems with one fault each, by the name of the fault. The field "by" has the
// name of the suite's test that must find the fault.
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
	"looks at the file after it was read":       {"block/io/beside_an_appender", func(m *memfs.FS) vfs.FileSystem { return lateLook{m} }},
	"tells new attributes beside old bytes":     {"block/io/not_older_than_its_Change", func(m *memfs.FS) vfs.FileSystem { return lateLook{m} }},
	"loses what emit refused":                   {"block/readdir/each_cookie_resumes", func(m *memfs.FS) vfs.FileSystem { return careless{m} }},
	"lists twice":                               {"block/create/mkdir", func(m *memfs.FS) vfs.FileSystem { return double{m} }},
	"tells yesterday's attributes":              {"block/change/files", func(m *memfs.FS) vfs.FileSystem { return late{m} }},
	"promises less than was asked":              {"block/io/stability", func(m *memfs.FS) vfs.FileSystem { return vague{m} }},
	"keeps its verifier":                        {"block/handles/stable_over_a_restart", func(m *memfs.FS) vfs.FileSystem { return constant{m} }},
	"lists files of another file system":        {"block/identity/the_same_by_every_way", func(m *memfs.FS) vfs.FileSystem { return confused{m} }},
	"judges every user as the superuser":        {"block/access/operations_agree", func(m *memfs.FS) vfs.FileSystem { return trusting{m} }},
	"forgets pieces":                            {"block/io/pieces", func(m *memfs.FS) vfs.FileSystem { return short{m} }},
	"opens for owners whatever the mode":        {"block/open/every_mode_and_class", func(m *memfs.FS) vfs.FileSystem { return generous{m} }},
	"does Open and says that it would block":    {"try/open/a_removed_file_lives", func(m *memfs.FS) vfs.FileSystem { return leaking{m} }},
	"finds no end of data":                      {"block/sparse/seek", func(m *memfs.FS) vfs.FileSystem { return solid{m} }},
	"copies less than it says":                  {"block/copy/ranges", func(m *memfs.FS) vfs.FileSystem { return bragging{m} }},
	"claims what another process has":           {"block/claim/another_process", func(m *memfs.FS) vfs.FileSystem { return grabbing{m} }},
	"lists attributes to anyone":                {"block/xattr/permission", func(m *memfs.FS) vfs.FileSystem { return talkative{m} }},
	"says that it made what it found":           {"block/create/says_what_it_made", func(m *memfs.FS) vfs.FileSystem { return boasting{m} }},
}

func TestSuiteFindsFaults(t *testing.T) {
	for name, b := range broken {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Run only that test, because the whole suite would take a minute for each fault.
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
		CanSwitchUsers: true, Devices: true, SpecialFiles: true, Entries: 200, Birth: true,
		Foreign: func(_ *testing.T, fs vfs.FileSystem, h vfs.Handle, _ string) vfstest.ForeignClaim {
			m := fs.(interface {
				ForeignClaim(vfs.Handle, uint64, uint64, vfs.ClaimMode) error
			})
			return func(start, length uint64, mode vfs.ClaimMode) error { return m.ForeignClaim(h, start, length, mode) }
		},
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

type confused struct{ *memfs.FS }

func (f confused) ReadDir(op *vfs.Op, dir vfs.Handle, cookie uint64, plus bool, a *vfs.Attr, emit func(*vfs.DirEntry) bool) (bool, error) {
	return f.FS.ReadDir(op, dir, cookie, plus, a, func(e *vfs.DirEntry) bool {
		e.Attr.FSID++
		return emit(e)
	})
}

// lateLook is a file system that reads the attributes after the bytes. It waits a little for a change
// in between.
type lateLook struct{ *memfs.FS }

func (f lateLook) Read(op *vfs.Op, h vfs.Handle, off uint64, buf []byte, a *vfs.Attr) (int, bool, error) {
	n, eof, err := f.FS.Read(op, h, off, buf, a)
	for change, i := a.Change, 0; err == nil && a.Change == change && i < 1000; i++ {
		runtime.Gosched()
		err = f.FS.GetAttr(op, h, a)
	}
	return n, eof, err
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

type generous struct{ *memfs.FS }

func (f generous) Open(op *vfs.Op, h vfs.Handle, access vfs.OpenAccess) (vfs.File, error) {
	return f.FS.Open(op, h, access|vfs.OpenOwner)
}

// leaking is a file system whose Open with Op.Try opens the file, returns ErrWouldBlock, and never
// closes the file.
type leaking struct{ *memfs.FS }

func (f leaking) Open(op *vfs.Op, h vfs.Handle, access vfs.OpenAccess) (vfs.File, error) {
	file, err := f.FS.Open(op, h, access)
	if op.Try {
		return nil, vfs.ErrWouldBlock
	}
	return file, err
}

type boasting struct{ *memfs.FS }

func (f boasting) Create(op *vfs.Op, dir vfs.Handle, name []byte, how *vfs.CreateHow) (vfs.Object, vfs.Change, error) {
	o, ch, err := f.FS.Create(op, dir, name, how)
	o.Created = true
	return o, ch, err
}

type solid struct{ *memfs.FS }

func (f solid) Seek(op *vfs.Op, file vfs.File, off uint64, what vfs.SeekWhat) (uint64, bool, error) {
	at, eof, err := f.FS.Seek(op, file, off, what)
	return at, eof && what == vfs.SeekHole, err
}

type bragging struct{ *memfs.FS }

func (f bragging) CopyRange(op *vfs.Op, from vfs.File, fromOff uint64, to vfs.File, toOff, count uint64) (uint64, error) {
	_, err := f.FS.CopyRange(op, from, fromOff, to, toOff, count)
	return count, err
}

type grabbing struct{ *memfs.FS }

func (f grabbing) Claim(h vfs.Handle, start, length uint64, mode vfs.ClaimMode) error {
	if err := f.FS.Claim(h, start, length, mode); err != syscall.EAGAIN {
		return err
	}
	return nil
}

type talkative struct{ *memfs.FS }

func (f talkative) ListXattrs(op *vfs.Op, h vfs.Handle, buf []byte) (int, error) {
	super := *op
	super.Cred = &vfs.Cred{}
	return f.FS.ListXattrs(&super, h, buf)
}
