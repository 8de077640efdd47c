package billy_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	gobilly "github.com/go-git/go-billy/v5"
	billymem "github.com/go-git/go-billy/v5/memfs"
	"github.com/go-git/go-billy/v5/osfs"
	nfs "github.com/willscott/go-nfs"
	"github.com/willscott/go-nfs/helpers"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/billy"
)

var op = &vfs.Op{Cred: &vfs.Cred{}}

// A files is a file system under test, and what every test does with one.
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

// paths is a handler whose handles are paths: they outlive a process.
type paths struct{ nfs.Handler }

func (paths) ToHandle(_ gobilly.Filesystem, path []string) []byte {
	return []byte("/" + strings.Join(path, "/"))
}

func (paths) FromHandle(h []byte) (gobilly.Filesystem, []string, error) {
	if h[0] != '/' {
		return nil, nil, errors.New("no handle of ours")
	}
	return nil, strings.FieldsFunc(string(h), func(r rune) bool { return r == '/' }), nil
}

func TestHandlesOfTheHandlerOutliveARestart(t *testing.T) {
	d := newDisk(t)
	h := paths{helpers.NewNullAuthHandler(d)}
	f := open(t, h, billy.Options{})
	root, kept, moved, gone, replaced := f.Root(), f.create("kept"), f.create("moved"), f.create("gone"), f.create("replaced")
	long := f.create(strings.Repeat("n", 200)) // its path does not fit
	f.write(kept, "kept", vfs.FileSync)
	f.write(moved, "moved", vfs.FileSync)
	f.rename("moved", "elsewhere")
	again := f.create("moved") // where another file's handle leads
	if again == moved {
		t.Fatal("a file has the handle that another had before a rename")
	}
	f.write(again, "again", vfs.FileSync)
	f.want(moved, "moved")
	f.want(again, "again")
	f.Remove(op, root, []byte("gone"))

	// A restart, with changes meanwhile.
	if err := os.Remove(d.at("replaced")); err != nil {
		t.Fatal(err)
	}
	os.WriteFile(d.at("spare"), nil, 0o644) // keeps the inode number from being used again
	os.WriteFile(d.at("replaced"), []byte("other"), 0o644)
	f = open(t, h, billy.Options{})
	if f.Root() != root {
		t.Error("the root has another handle")
	}
	f.want(kept, "kept")
	f.stale(gone)
	f.stale(replaced)
	f.stale(moved) // and not the file that is there now
	f.stale(long)
	if h, err := f.find("kept"); h != kept || err != nil {
		t.Errorf("Lookup: %v, %v; want %v", h, err, kept)
	}
}

// Handles are not taken from whoever made them up.
func TestInventedHandles(t *testing.T) {
	d := newDisk(t)
	os.WriteFile(d.at("file"), []byte("x"), 0o644)
	f := open(t, paths{helpers.NewNullAuthHandler(d)}, billy.Options{})
	for _, path := range []string{"/file", "/../etc", "/", "file", "/none", "/file/below"} {
		h, _ := vfs.MakeHandle(append([]byte("h12345678"), path...))
		f.stale(h)
	}
	mute := open(t, helpers.NewNullAuthHandler(d), billy.Options{})
	h, _ := vfs.MakeHandle([]byte("h12345678/file"))
	var a vfs.Attr
	if err := mute.GetAttr(op, h, &a); err != vfs.ErrBadHandle {
		t.Errorf("a handler that makes no handles was asked for one: %v", err)
	}
	mute.create("works")
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

// counted counts what happens to its files, and fails syncs on demand.
type counted struct {
	disk
	syncs, closes, opens atomic.Int32
	fail                 atomic.Bool
}

type countedFile struct {
	gobilly.File
	c *counted
}

func (c *counted) OpenFile(name string, flag int, perm os.FileMode) (gobilly.File, error) {
	f, err := c.disk.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	c.opens.Add(1)
	return countedFile{f, c}, nil
}

func (f countedFile) Close() error {
	f.c.closes.Add(1)
	return f.File.Close()
}

// syncedFile is a countedFile that can be synced.
type syncedFile struct{ countedFile }

func (f syncedFile) Sync() error {
	f.c.syncs.Add(1)
	if f.c.fail.Load() {
		return syscall.EIO
	}
	return nil
}

type synced struct{ *counted }

func (s synced) OpenFile(name string, flag int, perm os.FileMode) (gobilly.File, error) {
	f, err := s.counted.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return syncedFile{f.(countedFile)}, nil
}

func TestSync(t *testing.T) {
	c := &counted{disk: newDisk(t)}
	f := open(t, handler(synced{c}), billy.Options{})
	h := f.create("file")
	step := func(what string, syncs int32, do func()) {
		t.Helper()
		before := c.syncs.Load()
		do()
		if got := c.syncs.Load() - before; got != syncs {
			t.Errorf("%s synced %d times, want %d", what, got, syncs)
		}
	}
	stable := func(s, want vfs.Stability) func() {
		return func() {
			t.Helper()
			if got := f.write(h, "content", s); got != want {
				t.Errorf("Write asked to be %d is %d, want %d", s, got, want)
			}
		}
	}
	step("an unstable Write", 0, stable(vfs.Unstable, vfs.Unstable))
	step("a Write to be stable", 1, stable(vfs.DataSync, vfs.FileSync))
	step("a Write to be stable", 1, stable(vfs.FileSync, vfs.FileSync))
	step("a Commit", 1, func() { f.Commit(op, h, 0, 0) })
	if n := c.opens.Load(); n != 1 {
		t.Errorf("the file was opened %d times", n)
	}

	c.fail.Store(true)
	for what, do := range map[string]func() error{
		"Commit": func() error { _, err := f.Commit(op, h, 0, 0); return err },
		"Write": func() error {
			_, _, _, err := f.FS.Write(op, h, 0, [][]byte{[]byte("x")}, vfs.FileSync)
			return err
		},
	} {
		before := f.Verifier()
		if err := do(); err != syscall.EIO {
			t.Errorf("%s whose sync fails: %v", what, err)
		}
		if f.Verifier() == before {
			t.Errorf("%s whose sync failed left the verifier", what)
		}
	}
}

// Without a Sync nothing is said to be stable, and a file is closed, which is
// what go-nfs makes of it.
func TestNoSync(t *testing.T) {
	c := &counted{disk: newDisk(t)}
	f := open(t, handler(c), billy.Options{})
	h := f.create("file")
	f.write(h, "content", vfs.Unstable)
	if c.closes.Load() != 0 {
		t.Error("an unstable Write closed the file")
	}
	if got := f.write(h, "content", vfs.FileSync); got != vfs.Unstable {
		t.Errorf("Write without a Sync is %d", got)
	}
	if c.closes.Load() != 1 {
		t.Error("a Write to be stable did not close the file")
	}
	f.write(h, "content", vfs.Unstable)
	if _, err := f.Commit(op, h, 0, 0); err != nil || c.closes.Load() != 2 {
		t.Errorf("Commit: %v, after %d closes", err, c.closes.Load())
	}
	// The program may know how.
	var asked int
	g := open(t, handler(c), billy.Options{Sync: func(gobilly.File) error { asked++; return nil }})
	other := g.create("other")
	if got := g.write(other, "content", vfs.FileSync); got != vfs.FileSync || asked != 1 {
		t.Errorf("Write with Options.Sync is %d, asked %d times", got, asked)
	}
}

func TestOpenFilesAreBounded(t *testing.T) {
	c := &counted{disk: newDisk(t)}
	f := open(t, handler(c), billy.Options{OpenFiles: 3})
	for i := range 20 {
		f.write(f.create(fmt.Sprint(i)), "x", vfs.Unstable)
		if n := c.opens.Load() - c.closes.Load(); n > 3 {
			t.Fatalf("%d files are open", n)
		}
	}
	f.Remove(op, f.Root(), []byte("19"))
	if n := c.opens.Load() - c.closes.Load(); n != 2 {
		t.Errorf("after a removal %d files are open", n)
	}
	if err := f.Close(); err != nil || c.opens.Load() != c.closes.Load() {
		t.Errorf("Close: %v, %d files are open", err, c.opens.Load()-c.closes.Load())
	}
}

// The program may change its files as well.
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
	os.Rename(d.at("c"), d.at("a"))
	f.stale(a)
	h, err := f.find("a")
	if err != nil || h == a {
		t.Fatalf("Lookup of what replaced a file: %v", err)
	}
	f.want(h, "c")
	// A directory replaced by a file, with what was known below it.
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

func TestPanicsAreTheCallersOnly(t *testing.T) {
	var told atomic.Int32
	f := open(t, handler(explosive{newDisk(t)}), billy.Options{Panicked: func(v any, stack []byte) {
		if v == "boom" && len(stack) > 0 {
			told.Add(1)
		}
	}})
	h := f.create("file")
	if _, err := f.find("boom"); err != syscall.EIO {
		t.Errorf("Lookup that panics: %v", err)
	}
	if _, _, err := f.Create(op, f.Root(), []byte("boom"), &vfs.CreateHow{}); err != syscall.EIO {
		t.Errorf("Create that panics: %v", err)
	}
	f.write(h, "goes on", vfs.FileSync)
	f.want(h, "goes on")
	if f.Panics() != 2 || told.Load() != 2 {
		t.Errorf("%d panics, %d told of", f.Panics(), told.Load())
	}
}

type explosive struct{ disk }

func (e explosive) Lstat(name string) (os.FileInfo, error) {
	if strings.HasSuffix(name, "boom") {
		panic("boom")
	}
	return e.disk.Lstat(name)
}

// A client does not make the program allocate what it names.
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

// refusing lets some paths be mounted, from some places.
type refusing struct {
	nfs.Handler
	fs gobilly.Filesystem
}

func (r refusing) Mount(_ context.Context, conn net.Conn, req nfs.MountRequest) (nfs.MountStatus, gobilly.Filesystem, []nfs.AuthFlavor) {
	switch {
	case string(req.Dirpath) != "/data":
		return nfs.MountStatusErrNoEnt, nil, nil
	case conn.RemoteAddr().(*net.TCPAddr).IP.String() == "192.0.2.1":
		return nfs.MountStatusErrAcces, nil, nil
	case conn.RemoteAddr().(*net.TCPAddr).IP.String() == "192.0.2.3":
		return nfs.MountStatusOk, osfs.New("/"), nil
	}
	return nfs.MountStatusOk, r.fs, nil
}

type conn struct {
	net.Conn
	from string
}

func (c conn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(c.from)} }

func TestMountIsTheHandlers(t *testing.T) {
	bfs := osfs.New(t.TempDir())
	h := refusing{handler(bfs), bfs}
	if _, err := billy.New(h, billy.Options{}); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("New of a path that is not served: %v", err)
	}
	fs, err := billy.New(h, billy.Options{Path: "/data"})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	for from, want := range map[string]error{"192.0.2.1": syscall.EACCES, "192.0.2.2": nil, "192.0.2.3": syscall.EACCES} {
		if err := fs.Ask(ctx, conn{from: from}); err != want {
			t.Errorf("Ask for %s: %v, want %v", from, err, want)
		}
	}
}

func TestNewFilesystem(t *testing.T) {
	fs, err := billy.NewFilesystem(newDisk(t), billy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f := files{t, fs}
	h := f.create("file")
	var a vfs.Attr
	if _, err := f.Link(op, h, f.Root(), []byte("link"), &a); err != nil || a.Nlink != 2 {
		t.Errorf("Link: %v, %d links", err, a.Nlink)
	}
	f.Remove(op, f.Root(), []byte("file"))
	f.write(h, "by its other name", vfs.FileSync)
	f.want(h, "by its other name")
	if u, err := f.Usage(op, h); err != nil || u.TotalBytes == 0 {
		t.Errorf("Usage: %+v, %v", u, err)
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

// Whoever writes takes the set-id bits away, though the program be the
// superuser's.
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

// Handles are bytes that a client may have made up.
func FuzzHandle(f *testing.F) {
	bfs := billymem.New()
	fs, err := billy.New(paths{helpers.NewNullAuthHandler(bfs)}, billy.Options{})
	if err != nil {
		f.Fatal(err)
	}
	root := fs.Root()
	f.Add(root.Bytes())
	f.Add([]byte("h12345678/a/../b"))
	f.Add([]byte("o1234567812345678"))
	f.Add([]byte("h12345678"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, ok := vfs.MakeHandle(b)
		if !ok {
			return
		}
		var a vfs.Attr
		switch err := fs.GetAttr(op, h, &a); {
		case err == nil:
			if h != root {
				t.Errorf("%q is a handle", b)
			}
		case err != syscall.ESTALE && err != vfs.ErrBadHandle:
			t.Errorf("%q: %v", b, err)
		}
	})
}
