package vfstest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A fixture is a new file system with a directory in which every user may do everything.
type fixture struct {
	*testing.T
	opt  *Options
	try  bool
	raw  vfs.FileSystem // the file system under test
	fs   vfs.FileSystem // the file system that the tests call: raw, or raw wrapped in a trying
	self *user
	dir  vfs.Handle
	info vfs.Info
}

func newFixture(t *testing.T, fs vfs.FileSystem, opt *Options, try bool) *fixture {
	x := &fixture{T: t, opt: opt, try: try}
	x.use(fs)
	t.Cleanup(func() { x.raw.Close() })
	x.self = x.as(opt.Self)
	var err error
	if x.info, err = fs.Info(x.self.op, fs.Root()); err != nil {
		t.Fatalf("Info: %v", err)
	}
	x.dir = x.self.mkdir(fs.Root(), "work", 0o777)
	return x
}

func (x *fixture) use(fs vfs.FileSystem) {
	x.raw, x.fs = fs, fs
	if x.try {
		x.fs = &trying{FileSystem: fs, t: x.T, check: true}
	}
}

// concurrent turns off those checks of the type trying that need a file system without other
// callers. Tests with several goroutines call it.
func (x *fixture) concurrent() {
	if f, ok := x.fs.(*trying); ok {
		f.check = false
	}
}

// restart replaces the file system by the one that the function how returns. If how is nil,
// restart skips the test.
func (x *fixture) restart(how func(*testing.T, vfs.FileSystem) vfs.FileSystem) {
	x.Helper()
	if how == nil {
		x.Skip("not to be had")
	}
	x.use(how(x.T, x.raw))
}

// users skips the test if the file system does not check credentials.
func (x *fixture) users() {
	x.Helper()
	if !x.opt.CanSwitchUsers {
		x.Skip("one user only")
	}
}

// A user makes calls with one credential. Its methods without an error result fail the test if the
// call fails.
type user struct {
	x  *fixture
	op *vfs.Op
}

func (x *fixture) as(c *vfs.Cred) *user { return &user{x, &vfs.Op{Cred: c}} }

func (x *fixture) user(uid, gid uint32, groups ...uint32) *user {
	return x.as(&vfs.Cred{UID: uid, GID: gid, Groups: groups})
}

func withMode(mode uint32) vfs.SetAttr { return vfs.SetAttr{SetMode: true, Mode: mode} }

func (u *user) create(dir vfs.Handle, name string, mode uint32) vfs.Handle {
	u.x.Helper()
	o, _, err := u.x.fs.Create(u.op, dir, []byte(name), &vfs.CreateHow{Mode: vfs.Guarded, Attr: withMode(mode)})
	u.x.ok(err, "Create", name)
	return u.handle(dir, name, o)
}

func (u *user) mkdir(dir vfs.Handle, name string, mode uint32) vfs.Handle {
	u.x.Helper()
	s := withMode(mode)
	o, _, err := u.x.fs.Mkdir(u.op, dir, []byte(name), &s)
	u.x.ok(err, "Mkdir", name)
	return u.handle(dir, name, o)
}

func (u *user) symlink(dir vfs.Handle, name, text string) vfs.Handle {
	u.x.Helper()
	if !u.x.info.Symlinks {
		u.x.Skip("no symlinks")
	}
	o, _, err := u.x.fs.Symlink(u.op, dir, []byte(name), []byte(text), &vfs.SetAttr{})
	u.x.ok(err, "Symlink", name)
	return u.handle(dir, name, o)
}

// handle returns the handle in o. If o has none, it looks the name up.
func (u *user) handle(dir vfs.Handle, name string, o vfs.Object) vfs.Handle {
	u.x.Helper()
	if !o.Handle.IsZero() {
		return o.Handle
	}
	return u.lookup(dir, name).Handle
}

func (u *user) lookup(dir vfs.Handle, name string) vfs.Object {
	u.x.Helper()
	o, err := u.find(dir, name)
	u.x.ok(err, "Lookup", name)
	return o
}

func (u *user) find(dir vfs.Handle, name string) (vfs.Object, error) {
	var a vfs.Attr
	return u.x.fs.Lookup(u.op, dir, []byte(name), &a)
}

func (u *user) attr(h vfs.Handle) vfs.Attr {
	u.x.Helper()
	var a vfs.Attr
	u.x.ok(u.x.fs.GetAttr(u.op, h, &a), "GetAttr")
	return a
}

func (u *user) set(h vfs.Handle, s vfs.SetAttr) error {
	_, err := u.x.fs.SetAttr(u.op, h, &s, nil)
	return err
}

func (u *user) write(h vfs.Handle, off uint64, p string) error {
	n, _, _, err := u.x.fs.Write(u.op, h, off, [][]byte{[]byte(p)}, vfs.Unstable)
	if err == nil && n != len(p) {
		err = fmt.Errorf("%d of %d bytes written", n, len(p))
	}
	return err
}

func (u *user) mustWrite(h vfs.Handle, off uint64, p string) {
	u.x.Helper()
	u.x.ok(u.write(h, off, p), "Write")
}

// read reads n bytes, or fewer if the file ends.
func (u *user) read(h vfs.Handle, off uint64, n int) (string, error) {
	var a vfs.Attr
	buf := make([]byte, n)
	got := 0
	for got < n {
		m, eof, err := u.x.fs.Read(u.op, h, off+uint64(got), buf[got:], &a)
		if err != nil {
			return "", err
		}
		got += m
		if eof || m == 0 {
			break
		}
	}
	return string(buf[:got]), nil
}

func (u *user) content(h vfs.Handle, want string) {
	u.x.Helper()
	got, err := u.read(h, 0, len(want)+1)
	u.x.ok(err, "Read")
	if got != want {
		u.x.Errorf("content is %.200q, want %.200q", got, want)
	}
}

func (u *user) remove(dir vfs.Handle, name string) error {
	_, err := u.x.fs.Remove(u.op, dir, []byte(name))
	return err
}

func (u *user) rmdir(dir vfs.Handle, name string) error {
	_, err := u.x.fs.Rmdir(u.op, dir, []byte(name))
	return err
}

func (u *user) rename(from vfs.Handle, a string, to vfs.Handle, b string) error {
	_, _, err := u.x.fs.Rename(u.op, from, []byte(a), to, []byte(b))
	return err
}

func (u *user) link(h, dir vfs.Handle, name string) error {
	var a vfs.Attr
	_, err := u.x.fs.Link(u.op, h, dir, []byte(name), &a)
	return err
}

// names lists the whole directory and returns the file number of each name except "." and "..".
func (u *user) names(dir vfs.Handle) map[string]uint64 {
	u.x.Helper()
	seen := map[string]uint64{}
	var cookie uint64
	for {
		var a vfs.Attr
		eof, err := u.x.fs.ReadDir(u.op, dir, cookie, false, &a, func(e *vfs.DirEntry) bool {
			if _, twice := seen[string(e.Name)]; twice {
				u.x.Errorf("%q listed twice", e.Name)
			}
			seen[string(e.Name)] = e.FileID
			cookie = e.Cookie
			return true
		})
		u.x.ok(err, "ReadDir")
		if eof {
			break
		}
	}
	for _, name := range []string{".", ".."} {
		if _, ok := seen[name]; !ok {
			u.x.Errorf("%q not listed", name)
		}
		delete(seen, name)
	}
	return seen
}

// ok fails the test on an error.
func (x *fixture) ok(err error, what ...any) {
	x.Helper()
	if err != nil {
		x.Fatalf("%v: %v", fmt.Sprint(what...), err)
	}
}

// x.is(err, ...) fails the test unless err is one of the errors in want.
func (x *fixture) is(err error, what string, want ...error) {
	x.Helper()
	for _, w := range want {
		if errors.Is(err, w) {
			return
		}
	}
	x.Errorf("%s: %v, want %v", what, err, want)
}
