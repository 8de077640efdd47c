package billy_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	gobilly "github.com/go-git/go-billy/v5"
	billymem "github.com/go-git/go-billy/v5/memfs"
	nfs "github.com/willscott/go-nfs"
	nfsmem "github.com/willscott/go-nfs/helpers/memfs"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/billy"
)

var op = &vfs.Op{Cred: &vfs.Cred{}}

// files is a file system under test with helper methods.
type files struct {
	*testing.T
	*billy.FS
}

func open(t *testing.T, h nfs.Handler, opt billy.Options) files {
	t.Helper()
	fs, err := billy.New(h, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fs.Close() })
	return files{t, fs}
}

func (f files) create(name string) vfs.Handle {
	f.Helper()
	o, _, err := f.Create(op, f.Root(), []byte(name), &vfs.CreateHow{Mode: vfs.Guarded, Attr: vfs.SetAttr{SetMode: true, Mode: 0o644}})
	if err != nil {
		f.Fatal(err)
	}
	return o.Handle
}

func (f files) write(h vfs.Handle, p string, s vfs.Stability) vfs.Stability {
	f.Helper()
	n, done, _, err := f.FS.Write(op, h, 0, [][]byte{[]byte(p)}, s)
	if n != len(p) || err != nil {
		f.Fatalf("Write: %d, %v", n, err)
	}
	return done
}

func (f files) read(h vfs.Handle) (string, error) {
	var a vfs.Attr
	buf := make([]byte, 1000)
	n, _, err := f.FS.Read(op, h, 0, buf, &a)
	return string(buf[:n]), err
}

func (f files) want(h vfs.Handle, content string) {
	f.Helper()
	if got, err := f.read(h); got != content || err != nil {
		f.Errorf("content is %q, %v; want %q", got, err, content)
	}
}

func (f files) stale(h vfs.Handle) {
	f.Helper()
	var a vfs.Attr
	if err := f.GetAttr(op, h, &a); err != syscall.ESTALE {
		f.Errorf("GetAttr: %+v, %v; want ESTALE", a, err)
	}
}

func (f files) find(name string) (vfs.Handle, error) {
	var a vfs.Attr
	o, err := f.Lookup(op, f.Root(), []byte(name), &a)
	return o.Handle, err
}

func (f files) rename(a, b string) {
	f.Helper()
	if _, _, err := f.Rename(op, f.Root(), []byte(a), f.Root(), []byte(b)); err != nil {
		f.Fatal(err)
	}
}

func (f files) names() (names []string) {
	f.Helper()
	var a vfs.Attr
	_, err := f.ReadDir(op, f.Root(), 0, false, &a, func(e *vfs.DirEntry) bool {
		names = append(names, string(e.Name))
		return true
	})
	if err != nil {
		f.Fatal(err)
	}
	return names
}

func TestReadOnly(t *testing.T) {
	d := newDisk(t)
	os.WriteFile(d.at("file"), []byte("content"), 0o644)
	f := open(t, handler(readOnly{d}), billy.Options{})
	h, err := f.find("file")
	if err != nil {
		t.Fatal(err)
	}
	f.want(h, "content")
	if i, err := f.Info(op, h); !i.ReadOnly || err != nil {
		t.Errorf("Info: %+v, %v", i, err)
	}
	name, root := []byte("x"), f.Root()
	var a vfs.Attr
	for what, do := range map[string]func() error{
		"Write": func() error {
			_, _, _, err := f.FS.Write(op, h, 0, [][]byte{name}, vfs.Unstable)
			return err
		},
		"SetAttr": func() error {
			_, err := f.SetAttr(op, h, &vfs.SetAttr{SetSize: true}, nil)
			return err
		},
		"Create": func() error {
			_, _, err := f.Create(op, root, name, &vfs.CreateHow{})
			return err
		},
		"Mkdir":   func() error { _, _, err := f.Mkdir(op, root, name, &vfs.SetAttr{}); return err },
		"Symlink": func() error { _, _, err := f.Symlink(op, root, name, name, &vfs.SetAttr{}); return err },
		"Mknod": func() error {
			_, _, err := f.Mknod(op, root, name, vfs.FIFO, &vfs.SetAttr{}, 0, 0)
			return err
		},
		"Remove": func() error { _, err := f.Remove(op, root, []byte("file")); return err },
		"Rename": func() error { _, _, err := f.Rename(op, root, []byte("file"), root, name); return err },
		"Link":   func() error { _, err := f.Link(op, h, root, name, &a); return err },
	} {
		if err := do(); err != syscall.EROFS {
			t.Errorf("%s: %v", what, err)
		}
	}
	if got, err := f.Access(op, root, 0x3f, &a); got != vfs.AccessRead|vfs.AccessLookup || err != nil {
		t.Errorf("Access: %#x, %v", got, err)
	}
}

type readOnly struct{ disk }

func (readOnly) Capabilities() gobilly.Capability {
	return gobilly.ReadCapability | gobilly.SeekCapability
}

// If the program changes its files itself, clients see the changes, and handles of files that the
// program removed or replaced are stale.
func TestChangesFromOutside(t *testing.T) {
	d := newDisk(t)
	f := open(t, handler(d), billy.Options{})
	a, b := f.create("a"), f.create("b")
	f.write(a, "content", vfs.FileSync)
	if n := len(f.names()); n != 4 {
		t.Fatalf("%d names", n)
	}
	var before, after vfs.Attr
	f.GetAttr(op, a, &before)
	if err := os.WriteFile(d.at("a"), []byte("other content"), 0o644); err != nil {
		t.Fatal(err)
	}
	f.GetAttr(op, a, &after)
	if after.Change <= before.Change || after.Size != 13 {
		t.Errorf("a change from outside: %+v to %+v", before, after)
	}
	f.want(a, "other content")
	os.Remove(d.at("b"))
	os.WriteFile(d.at("c"), []byte("c"), 0o644)
	f.stale(b)
	if got := strings.Join(f.names(), " "); got != ". .. a c" {
		t.Errorf("names: %s", got)
	}
	os.WriteFile(d.at("e"), nil, 0o644)
	f.names()
	os.Remove(d.at("e"))
	if got := strings.Join(f.names(), " "); got != ". .. a c" {
		t.Errorf("names after a removal that only the listing shows: %s", got)
	}
	os.Rename(d.at("c"), d.at("a"))
	f.stale(a)
	h, err := f.find("a")
	if err != nil || h == a {
		t.Fatalf("Lookup of what replaced a file: %v", err)
	}
	f.want(h, "c")
	// If a directory is replaced by a file, the handles of the directory and of files in it are
	// stale.
	o, _, err := f.Mkdir(op, f.Root(), []byte("d"), &vfs.SetAttr{})
	if err != nil {
		t.Fatal(err)
	}
	inside, _, err := f.Create(op, o.Handle, []byte("inside"), &vfs.CreateHow{})
	if err != nil {
		t.Fatal(err)
	}
	os.RemoveAll(d.at("d"))
	os.WriteFile(d.at("d"), nil, 0o644)
	f.stale(inside.Handle)
	f.stale(o.Handle)
	if h, err := f.find("d"); err != nil || h == o.Handle {
		t.Errorf("Lookup: %v, %v", h, err)
	}
}

// If the program's file system panics, the panic reaches the caller (package rpc answers it), and
// later calls work.
func TestAfterAPanic(t *testing.T) {
	f := open(t, handler(explosive{newDisk(t)}), billy.Options{})
	h := f.create("file")
	f.write(h, "there is something to read", vfs.FileSync)
	for what, do := range map[string]func(){
		"Lookup": func() { f.find("boom") },
		"Create": func() { f.Create(op, f.Root(), []byte("boom"), &vfs.CreateHow{}) },
		"Read":   func() { f.read(h) },
	} {
		func() {
			defer func() {
				if recover() != "boom" {
					t.Errorf("%s did not panic", what)
				}
			}()
			do()
		}()
		f.write(h, "goes on", vfs.FileSync)
	}
	if got := strings.Join(f.names(), " "); got != ". .. file" {
		t.Errorf("names: %s", got)
	}
}

type explosive struct{ disk }

func (e explosive) Lstat(name string) (os.FileInfo, error) {
	if strings.HasSuffix(name, "boom") {
		panic("boom")
	}
	return e.disk.Lstat(name)
}

func (e explosive) OpenFile(name string, flag int, perm os.FileMode) (gobilly.File, error) {
	if flag == os.O_RDONLY {
		panic("boom")
	}
	return e.disk.OpenFile(name, flag, perm)
}

// A write or truncation beyond DefaultMaxFileSize fails with EFBIG on a file system in memory, so
// that a client cannot make the program allocate so much.
func TestMemoryFilesAreBounded(t *testing.T) {
	f := open(t, handler(billymem.New()), billy.Options{})
	h := f.create("file")
	if _, _, _, err := f.FS.Write(op, h, 1<<40, [][]byte{[]byte("x")}, vfs.Unstable); err != syscall.EFBIG {
		t.Errorf("Write at 1 TiB: %v", err)
	}
	if _, err := f.SetAttr(op, h, &vfs.SetAttr{SetSize: true, Size: 1 << 40}, nil); err != syscall.EFBIG {
		t.Errorf("truncation to 1 TiB: %v", err)
	}
	if i, _ := f.Info(op, h); i.MaxFileSize != billy.DefaultMaxFileSize {
		t.Errorf("the largest file is said to be %d", i.MaxFileSize)
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		err  error
		want error
	}{
		{os.ErrNotExist, syscall.ENOENT},
		{&os.PathError{Err: syscall.ENOSPC}, syscall.ENOSPC},
		{&os.PathError{Err: syscall.ENOSYS}, vfs.ErrNotSupported},
		{gobilly.ErrReadOnly, syscall.EROFS},
		{gobilly.ErrNotSupported, vfs.ErrNotSupported},
		{gobilly.ErrCrossedBoundary, syscall.EACCES},
		{context.DeadlineExceeded, vfs.ErrDelay},
		{&nfs.NFSStatusError{NFSStatus: nfs.NFSStatusDQuot}, syscall.EDQUOT},
		{&nfs.NFSStatusError{NFSStatus: nfs.NFSStatusJukebox}, vfs.ErrDelay},
		{&nfs.NFSStatusError{NFSStatus: nfs.NFSStatusAccess}, syscall.EACCES},
		{&nfs.NFSStatusError{NFSStatus: nfs.NFSStatusServerFault}, syscall.EIO},
		{errors.New("whatever"), syscall.EIO},
	} {
		f := open(t, failing{handler(newDisk(t)), c.err}, billy.Options{})
		if _, err := f.Usage(op, f.Root()); err != c.want {
			t.Errorf("%v became %v, want %v", c.err, err, c.want)
		}
	}
}

type failing struct {
	nfs.Handler
	err error
}

func (f failing) FSStat(context.Context, gobilly.Filesystem, *nfs.FSStat) error { return f.err }

// Times move at a write and only then, even if a file system in memory never updates them
// (go-billy) or returns the present time at each Lstat (go-nfs).
func TestTimesOfMemoryFiles(t *testing.T) {
	for name, bfs := range map[string]gobilly.Filesystem{"go-billy": billymem.New(), "go-nfs": nfsmem.New()} {
		f := open(t, handler(bfs), billy.Options{})
		h := f.create("file")
		var before, looked, after vfs.Attr
		f.GetAttr(op, h, &before)
		f.GetAttr(op, h, &looked)
		f.write(h, "content", vfs.FileSync)
		f.GetAttr(op, h, &after)
		if looked != before {
			t.Errorf("%s: %+v became %+v", name, before, looked)
		}
		if !before.Mtime.Before(after.Mtime) || !before.Ctime.Before(after.Ctime) || after.Change <= before.Change {
			t.Errorf("%s: after a write %+v, before it %+v", name, after, before)
		}
	}
}

// A write, a truncation and a Create that truncates clear the set-id bits, even if the program
// runs as the superuser.
func TestSetIDGoesWithAWrite(t *testing.T) {
	f := open(t, handler(newDisk(t)), billy.Options{})
	h := f.create("file")
	mode := func(want uint32) {
		t.Helper()
		var a vfs.Attr
		if err := f.GetAttr(op, h, &a); err != nil || a.Mode != want {
			t.Errorf("mode is %o, %v; want %o", a.Mode, err, want)
		}
	}
	for _, change := range []func(){
		func() { f.write(h, "content", vfs.Unstable) },
		func() { f.SetAttr(op, h, &vfs.SetAttr{SetSize: true, Size: 3}, nil) },
		func() {
			f.Create(op, f.Root(), []byte("file"), &vfs.CreateHow{Attr: vfs.SetAttr{SetSize: true}})
		},
	} {
		if _, err := f.SetAttr(op, h, &vfs.SetAttr{SetMode: true, Mode: 0o6755}, nil); err != nil {
			t.Fatal(err)
		}
		mode(0o6755)
		change()
		mode(0o755)
	}
}

// A client may write to a file that it created with a read-only mode, even if the program is not
// the superuser. It may not write to a read-only file that the program made.
func TestWriteToAFileCreatedReadOnly(t *testing.T) {
	d := newDisk(t)
	os.WriteFile(d.at("program's"), []byte("content"), 0o444)
	f := open(t, handler(judging{d}), billy.Options{})
	o, _, err := f.Create(op, f.Root(), []byte("client's"), &vfs.CreateHow{Attr: vfs.SetAttr{SetMode: true, Mode: 0o444}})
	if err != nil {
		t.Fatal(err)
	}
	f.write(o.Handle, "content", vfs.FileSync)
	f.want(o.Handle, "content")
	var a vfs.Attr
	if f.GetAttr(op, o.Handle, &a); a.Mode != 0o444 {
		t.Errorf("mode is %o after a write", a.Mode)
	}
	h, _ := f.find("program's")
	if _, _, _, err := f.FS.Write(op, h, 0, [][]byte{[]byte("x")}, vfs.Unstable); err != syscall.EACCES {
		t.Errorf("Write to a read-only file of the program: %v", err)
	}
}

// judging refuses to open a file for writing if its mode forbids that, as a kernel does for all
// users but the superuser.
type judging struct{ disk }

func (j judging) OpenFile(name string, flag int, perm os.FileMode) (gobilly.File, error) {
	info, err := j.Lstat(name)
	if err == nil && flag != os.O_RDONLY && info.Mode()&0o200 == 0 {
		return nil, os.ErrPermission
	}
	return j.disk.OpenFile(name, flag, perm)
}
