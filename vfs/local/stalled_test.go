package local_test

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest/stalled"
)

// bound is the time limit for calls that must not hang. It is long enough for a busy machine.
const bound = 20 * time.Second

// A fixture holds the objects for the calls of one step.
type fixture struct {
	*world
	dir, sub, file, link vfs.Handle
	// opened is file, open; other is another open file. Both are nil if the files are not open.
	opened, other vfs.File
}

// open opens the files for the calls in ofFiles; close closes them.
func (x *fixture) open() {
	x.Helper()
	var err error
	x.opened, err = x.fs.Open(x.op, x.file, vfs.OpenRead|vfs.OpenWrite)
	x.ok(err, "Open")
	x.other, err = x.fs.Open(x.op, x.create(x.dir, "other"), vfs.OpenRead|vfs.OpenWrite)
	x.ok(err, "Open")
}

func (x *fixture) close() {
	if x.opened != nil {
		x.opened.Close()
		x.other.Close()
		x.opened, x.other = nil, nil
	}
}

// A call makes one call of a method of package vfs.
type call struct {
	method string
	make   func(x *fixture, op *vfs.Op) error
}

// ofFiles are the methods that need open files.
var ofFiles = map[string]bool{"File.Read": true, "File.Write": true, "File.Commit": true, "File.SetSize": true,
	"Allocate": true, "Deallocate": true, "Seek": true, "CopyRange": true, "CloneRange": true}

// calls has every method of package vfs that takes an Op. Methods with several code paths appear
// more than once.
var calls = []call{
	{"Info", func(x *fixture, op *vfs.Op) error { _, err := x.fs.Info(op, x.dir); return err }},
	{"Usage", func(x *fixture, op *vfs.Op) error { _, err := x.fs.Usage(op, x.dir); return err }},
	{"GetAttr", func(x *fixture, op *vfs.Op) error { return x.fs.GetAttr(op, x.file, new(vfs.Attr)) }},
	{"SetAttr", func(x *fixture, op *vfs.Op) error {
		s := mode(0o640)
		_, err := x.fs.SetAttr(op, x.file, &s, nil)
		return err
	}},
	{"SetAttr, size", func(x *fixture, op *vfs.Op) error {
		_, err := x.fs.SetAttr(op, x.file, &vfs.SetAttr{SetSize: true, Size: 10}, nil)
		return err
	}},
	{"Access", func(x *fixture, op *vfs.Op) error {
		_, err := x.fs.Access(op, x.file, vfs.AccessRead|vfs.AccessModify, new(vfs.Attr))
		return err
	}},
	{"Lookup", func(x *fixture, op *vfs.Op) error {
		_, err := x.fs.Lookup(op, x.dir, []byte("file"), new(vfs.Attr))
		return err
	}},
	{"Lookup, nothing there", func(x *fixture, op *vfs.Op) error {
		_, err := x.fs.Lookup(op, x.dir, []byte("nothing"), new(vfs.Attr))
		return unless(err, syscall.ENOENT)
	}},
	{"Lookup, ..", func(x *fixture, op *vfs.Op) error {
		_, err := x.fs.Lookup(op, x.sub, []byte(".."), new(vfs.Attr))
		return err
	}},
	{"ReadLink", func(x *fixture, op *vfs.Op) error {
		_, err := x.fs.ReadLink(op, x.link, make([]byte, 100), new(vfs.Attr))
		return err
	}},
	{"Read", func(x *fixture, op *vfs.Op) error {
		_, _, err := x.fs.Read(op, x.file, 0, make([]byte, 100), new(vfs.Attr))
		return err
	}},
	{"Read, nothing", func(x *fixture, op *vfs.Op) error {
		_, _, err := x.fs.Read(op, x.file, 0, nil, new(vfs.Attr))
		return err
	}},
	{"Write, unstable", func(x *fixture, op *vfs.Op) error { return writeAs(x, op, vfs.Unstable) }},
	{"Write, data", func(x *fixture, op *vfs.Op) error { return writeAs(x, op, vfs.DataSync) }},
	{"Write, file", func(x *fixture, op *vfs.Op) error { return writeAs(x, op, vfs.FileSync) }},
	{"Commit", func(x *fixture, op *vfs.Op) error { _, err := x.fs.Commit(op, x.file, 0, 0); return err }},
	{"Create", func(x *fixture, op *vfs.Op) error { return create(x, op, "new", vfs.CreateHow{Mode: vfs.Guarded}) }},
	{"Create, unchecked", func(x *fixture, op *vfs.Op) error {
		return create(x, op, "file", vfs.CreateHow{Attr: vfs.SetAttr{SetSize: true}})
	}},
	{"Create, exclusive", func(x *fixture, op *vfs.Op) error { return create(x, op, "new", vfs.CreateHow{Mode: vfs.Exclusive}) }},
	{"Mkdir", func(x *fixture, op *vfs.Op) error {
		_, _, err := x.fs.Mkdir(op, x.dir, []byte("new"), &vfs.SetAttr{})
		return err
	}},
	{"Symlink", func(x *fixture, op *vfs.Op) error {
		_, _, err := x.fs.Symlink(op, x.dir, []byte("new"), []byte("text"), &vfs.SetAttr{})
		return err
	}},
	{"Mknod", func(x *fixture, op *vfs.Op) error {
		_, _, err := x.fs.Mknod(op, x.dir, []byte("new"), vfs.FIFO, &vfs.SetAttr{}, 0, 0)
		return err
	}},
	{"Remove", func(x *fixture, op *vfs.Op) error { _, err := x.fs.Remove(op, x.dir, []byte("file")); return err }},
	{"Rmdir", func(x *fixture, op *vfs.Op) error { _, err := x.fs.Rmdir(op, x.dir, []byte("sub")); return err }},
	{"Rename", func(x *fixture, op *vfs.Op) error {
		_, _, err := x.fs.Rename(op, x.dir, []byte("file"), x.sub, []byte("new"))
		return err
	}},
	{"Link", func(x *fixture, op *vfs.Op) error {
		_, err := x.fs.Link(op, x.file, x.dir, []byte("new"), new(vfs.Attr))
		return err
	}},
	{"ReadDir", func(x *fixture, op *vfs.Op) error { return readDir(x, op, false) }},
	{"ReadDir, plus", func(x *fixture, op *vfs.Op) error { return readDir(x, op, true) }},
	{"Open", func(x *fixture, op *vfs.Op) error {
		f, err := x.fs.Open(op, x.file, vfs.OpenRead|vfs.OpenWrite)
		if err == nil {
			f.Close()
		}
		return err
	}},
	{"File.Read", func(x *fixture, op *vfs.Op) error {
		_, _, err := x.opened.Read(op, 0, make([]byte, 100), new(vfs.Attr))
		return err
	}},
	{"File.Write", func(x *fixture, op *vfs.Op) error {
		_, _, _, err := x.opened.Write(op, 0, [][]byte{[]byte("more")}, vfs.FileSync)
		return err
	}},
	{"File.Commit", func(x *fixture, op *vfs.Op) error { _, err := x.opened.Commit(op, 0, 0); return err }},
	{"File.SetSize", func(x *fixture, op *vfs.Op) error { _, err := x.opened.SetSize(op, 5); return err }},
	{"Allocate", func(x *fixture, op *vfs.Op) error { return supported(x.fs.Allocate(op, x.opened, 0, 100)) }},
	{"Deallocate", func(x *fixture, op *vfs.Op) error { return supported(x.fs.Deallocate(op, x.opened, 0, 100)) }},
	{"Seek", func(x *fixture, op *vfs.Op) error { _, _, err := x.fs.Seek(op, x.opened, 0, vfs.SeekData); return err }},
	{"CopyRange", func(x *fixture, op *vfs.Op) error {
		_, err := x.fs.CopyRange(op, x.opened, 0, x.other, 0, 4)
		return err
	}},
	{"CloneRange", func(x *fixture, op *vfs.Op) error { return supported(x.fs.CloneRange(op, x.opened, 0, x.other, 0, 0)) }},
	{"GetXattr", func(x *fixture, op *vfs.Op) error {
		_, err := x.fs.GetXattr(op, x.file, []byte("name"), nil)
		return unless(supported(err), syscall.ENODATA)
	}},
	{"SetXattr", func(x *fixture, op *vfs.Op) error {
		_, err := x.fs.SetXattr(op, x.file, []byte("name"), []byte("value"), vfs.XattrEither)
		return supported(err)
	}},
	{"ListXattrs", func(x *fixture, op *vfs.Op) error {
		_, err := x.fs.ListXattrs(op, x.file, make([]byte, vfs.MaxXattr))
		return supported(err)
	}},
	{"RemoveXattr", func(x *fixture, op *vfs.Op) error {
		_, err := x.fs.RemoveXattr(op, x.file, []byte("name"))
		return unless(supported(err), syscall.ENODATA)
	}},
}

// supported returns nil if err only means that the file system does not support the operation, and
// err otherwise.
func supported(err error) error {
	if errors.Is(err, vfs.ErrNotSupported) {
		return nil
	}
	return err
}

// atOnce are the methods without an Op. They access no file, or close something.
var atOnce = map[string]bool{"Root": true, "Lane": true, "Verifier": true, "Close": true, "File.Close": true, "KeepsXattrs": true}

func unless(err error, expected syscall.Errno) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

func writeAs(x *fixture, op *vfs.Op, stable vfs.Stability) error {
	_, _, _, err := x.fs.Write(op, x.file, 0, [][]byte{[]byte("more")}, stable)
	return err
}

func create(x *fixture, op *vfs.Op, name string, how vfs.CreateHow) error {
	_, _, err := x.fs.Create(op, x.dir, []byte(name), &how)
	return err
}

func readDir(x *fixture, op *vfs.Op, plus bool) error {
	_, err := x.fs.ReadDir(op, x.dir, 0, plus, new(vfs.Attr), func(*vfs.DirEntry) bool { return true })
	return err
}

func TestStalledCallsAreAllMethods(t *testing.T) {
	has := map[string]bool{}
	for _, c := range calls {
		var name string
		fmt.Sscanf(c.method, "%s", &name)
		if name[len(name)-1] == ',' {
			name = name[:len(name)-1]
		}
		has[name] = true
	}
	for _, seam := range []reflect.Type{reflect.TypeFor[vfs.FileSystem](), reflect.TypeFor[vfs.Opener](), reflect.TypeFor[vfs.File](),
		reflect.TypeFor[vfs.Sparse](), reflect.TypeFor[vfs.Copier](), reflect.TypeFor[vfs.Xattrs]()} {
		for m := range seam.Methods() {
			name := m.Name
			if seam == reflect.TypeFor[vfs.File]() {
				name = "File." + name
			}
			if !has[name] && !atOnce[name] {
				t.Errorf("no call of %s is made while the file system stalls", name)
			}
		}
	}
}

var fixtures int

// fixtureAt makes the objects for the calls in a new directory. If warm is set, it leaves them in
// the caches.
func fixtureAt(w *world, warm bool) *fixture {
	w.Helper()
	fixtures++
	x := &fixture{world: w, dir: w.mkdir(w.fs.Root(), fmt.Sprint(fixtures))}
	x.sub, x.file = w.mkdir(x.dir, "sub"), w.create(x.dir, "file")
	o, _, err := w.fs.Symlink(w.op, x.dir, []byte("link"), []byte("text"), &vfs.SetAttr{})
	w.ok(err, "Symlink")
	x.link = o.Handle
	w.ok(w.write(x.file, "some text"), "Write")
	_, err = w.fs.Commit(w.op, x.file, 0, 0)
	w.ok(err, "Commit")
	w.readSome(x.file)
	w.ok(readDir(x, w.op, true), "ReadDir")
	if !warm {
		w.fs.EvictAll()
	}
	return x
}

// ends fails the test unless f returns within bound.
func ends(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(bound):
		buf := make([]byte, 1<<20)
		t.Fatalf("%s does not end while the file system stalls\n%s", what, buf[:runtime.Stack(buf, true)])
	}
}

// While a file system stalls, no method blocks the process, even with one processor. A call with
// Op.Try returns an answer or ErrWouldBlock. A call without it hangs in the kernel, but neither
// other goroutines nor the garbage collector wait for it. The test stalls each request that the
// kernel makes to the file system during a call: the first one, then the second one, and so on.
func TestStalledFUSE(t *testing.T) {
	if !stalled.Alone(t, 1) {
		return
	}
	for _, index := range []bool{false, true} {
		m := stalled.Mount(t)
		w := newWorld(t, local.Config{Root: m.Dir, Sync: true, IndexHandles: index})
		if got := w.fs.Scheme(); (got == "index") != index {
			t.Fatalf("handles are found by %s", got)
		}
		for _, warm := range []bool{false, true} {
			if index && warm {
				continue // with warm caches the index is not used
			}
			for _, c := range calls {
				hung := 0
				for stallAt(w, m, c, warm, hung) {
					hung++
				}
				if hung == 0 {
					t.Errorf("%s asked the file system nothing: this was no stall", c.method)
				}
				t.Logf("%s: hung in %d places", c.method, hung)
			}
		}
		stalled.Step("Close")
		w.ok(w.fs.Close(), "Close")
	}
}

// stallAt makes a call with and without Op.Try while the file system hangs after the given number
// of requests. It reports whether the call without Op.Try hung.
func stallAt(w *world, m *stalled.FileSystem, c call, warm bool, after int) (hung bool) {
	t := w.T
	t.Helper()
	stalled.Step("%s, hanging after %d requests, in the caches: %v, by %s", c.method, after, warm, w.fs.Scheme())
	x := fixtureAt(w, warm)
	if ofFiles[c.method] {
		x.open()
	}
	m.Stall()
	var err error
	ends(t, "the attempt of "+c.method, func() { err = c.make(x, &vfs.Op{Cred: w.op.Cred, Try: true}) })
	if err != nil && !errors.Is(err, vfs.ErrWouldBlock) {
		t.Errorf("%s, tried: %v", c.method, err)
	}
	m.StallAfter(after)
	ended := make(chan error, 1)
	go func() { ended <- c.make(x, w.op) }()
	hung = hangs(t, m, ended)
	x.othersEnd(c)
	m.LetGo()
	x.succeeds(c, ended)
	x.close()
	return hung
}

// othersEnd fails the test unless all calls with Op.Try, and a garbage collection, end while the
// call beside hangs.
func (x *fixture) othersEnd(beside call) {
	x.Helper()
	try := &vfs.Op{Cred: x.op.Cred, Try: true}
	for _, c := range calls {
		if ofFiles[c.method] && x.opened == nil {
			continue
		}
		ends(x.T, "the attempt of "+c.method+" beside "+beside.method, func() { _ = c.make(x, try) })
	}
	ends(x.T, "a garbage collection beside "+beside.method, runtime.GC)
}

// succeeds waits for the end of a call that may have hung, and fails the test if the call failed.
func (x *fixture) succeeds(c call, ended chan error) {
	x.Helper()
	select {
	case err := <-ended:
		if err != nil {
			x.Errorf("%s, after the stall: %v", c.method, err)
		}
	case <-time.After(bound):
		x.Fatalf("%s does not end after the stall", c.method)
	}
}

// hangs waits until a call hangs in the kernel or has ended. It returns true if the call hangs.
func hangs(t *testing.T, m *stalled.FileSystem, ended chan error) bool {
	t.Helper()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	limit := time.After(bound)
	for {
		select {
		case err := <-ended:
			ended <- err
			return false
		case <-look.C:
			if m.Hanging() > 0 {
				return true
			}
		case <-limit:
			t.Fatal("a call neither hangs nor ends")
		}
	}
}
