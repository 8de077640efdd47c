package vfstest

import (
	"fmt"
	"sync"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

var openTests = []Test{
	{"open/kinds", testOpenKinds},
	{"open/reads and writes", testOpenData},
	{"open/only what it is opened for", testOpenAccess},
	{"open/every mode and class", testOpenMatrix},
	{"open/judged once", testOpenJudgedOnce},
	{"open/for its opener alone", testOpenForItsOpener},
	{"open/a removed file lives", testOpenRemoved},
	{"open/a replaced file lives", testOpenReplaced},
	{"open/a removed file's data is kept apart", testOpenRemovedData},
	{"open/set-id bits go", testOpenSetID},
	{"open/after a restart", testOpenRestart},
	{"open/everything at once", testOpenAtOnce},
}

// attempt calls the function do, directly or, in the runs that set Op.Try first, through
// trying.attempt.
func (x *fixture) attempt(op *vfs.Op, do func(op *vfs.Op) error, hs ...vfs.Handle) {
	if f, ok := x.fs.(*trying); ok {
		f.attempt(op, do, hs...)
		return
	}
	_ = do(op)
}

// An opened is a vfs.File that user u has open.
type opened struct {
	u *user
	h vfs.Handle
	vfs.File
}

// open opens h. It skips the test if the file system has no open files.
func (u *user) open(h vfs.Handle, access vfs.OpenAccess) (o *opened, err error) {
	u.x.Helper()
	fs, ok := vfs.As[vfs.Opener](u.x.raw)
	if !ok {
		u.x.Skip("no open files")
	}
	o = &opened{u: u, h: h}
	u.x.attempt(u.op, func(op *vfs.Op) error { o.File, err = fs.Open(op, h, access); return err }, h)
	if err != nil {
		return nil, err
	}
	u.x.Cleanup(o.Close)
	return o, nil
}

func (u *user) mustOpen(h vfs.Handle, access vfs.OpenAccess) *opened {
	u.x.Helper()
	o, err := u.open(h, access)
	u.x.ok(err, "Open")
	return o
}

func (o *opened) read(off uint64, n int) (got string, eof bool, err error) {
	buf := make([]byte, n)
	o.u.x.attempt(o.u.op, func(op *vfs.Op) error {
		var a vfs.Attr
		n, eof, err = o.Read(op, off, buf, &a)
		return err
	})
	return string(buf[:n]), eof, err
}

func (o *opened) write(off uint64, p string) (ch vfs.Change, err error) {
	var n int
	o.u.x.attempt(o.u.op, func(op *vfs.Op) error {
		n, _, ch, err = o.Write(op, off, [][]byte{[]byte(p)}, vfs.Unstable)
		return err
	}, o.h)
	if err == nil && n != len(p) {
		err = fmt.Errorf("%d of %d bytes written", n, len(p))
	}
	return ch, err
}

func (o *opened) setSize(size uint64) (ch vfs.Change, err error) {
	o.u.x.attempt(o.u.op, func(op *vfs.Op) error { ch, err = o.SetSize(op, size); return err }, o.h)
	return ch, err
}

func (o *opened) commit() (err error) {
	o.u.x.attempt(o.u.op, func(op *vfs.Op) error { _, err = o.Commit(op, 0, 0); return err }, o.h)
	return err
}

func (o *opened) content(want string) {
	o.u.x.Helper()
	got, eof, err := o.read(0, len(want)+1)
	if err != nil || got != want || !eof {
		o.u.x.Errorf("content is %.200q, %v, %v; want %.200q", got, eof, err, want)
	}
}

const readWrite = vfs.OpenRead | vfs.OpenWrite

func testOpenKinds(x *fixture) {
	u := x.self
	refused := func(what string, h vfs.Handle, access vfs.OpenAccess, want ...error) {
		x.Helper()
		_, err := u.open(h, access)
		x.is(err, "Open of "+what, want...)
	}
	for _, access := range []vfs.OpenAccess{vfs.OpenRead, vfs.OpenWrite, readWrite, readWrite | vfs.OpenOwner} {
		refused("a directory", x.dir, access, syscall.EISDIR)
		if x.info.Symlinks {
			refused("a symlink", u.symlink(x.dir, fmt.Sprint("link", access), "text"), access, syscall.ELOOP)
		}
		if x.opt.SpecialFiles {
			s := withMode(0o666)
			name := fmt.Sprint("fifo", access)
			o, _, err := x.fs.Mknod(u.op, x.dir, []byte(name), vfs.FIFO, &s, 0, 0)
			x.ok(err, "Mknod")
			refused("a fifo", u.handle(x.dir, name, o), access, syscall.EINVAL)
		}
	}
	f := u.create(x.dir, "f", 0o644)
	refused("a file for nothing", f, 0, syscall.EINVAL)
	refused("a file for its owner alone", f, vfs.OpenOwner, syscall.EINVAL)
	refused("no handle", vfs.Handle{}, vfs.OpenRead, vfs.ErrBadHandle, syscall.ESTALE)
	x.ok(u.remove(x.dir, "f"), "Remove")
	refused("a removed file", f, vfs.OpenRead, syscall.ESTALE)
}

func testOpenData(x *fixture) {
	u := x.self
	h := u.create(x.dir, "f", 0o644)
	o := u.mustOpen(h, readWrite)
	ch, err := o.write(0, "0123456789")
	x.ok(err, "Write")
	if !ch.HasAfter || ch.After.Size != 10 || ch.HasBefore && !grown(ch.Before, ch.After) {
		x.Errorf("Write changed %+v", ch)
	}
	u.content(h, "0123456789")
	u.mustWrite(h, 8, "abc")
	o.content("01234567abc")
	for _, c := range []struct {
		off  uint64
		n    int
		want string
		eof  bool
	}{{0, 5, "01234", false}, {8, 3, "abc", true}, {10, 10, "c", true}, {11, 1, "", true}, {1 << 40, 4, "", true}} {
		if got, eof, err := o.read(c.off, c.n); err != nil || got != c.want || eof != c.eof {
			x.Errorf("Read(%d, %d): %q, %v, %v; want %q, %v", c.off, c.n, got, eof, err, c.want, c.eof)
		}
	}
	for stable := vfs.Unstable; stable <= vfs.FileSync; stable++ {
		n, done, _, err := o.Write(u.op, 20, [][]byte{[]byte("x"), []byte("y")}, stable)
		if n != 2 || done < stable || err != nil {
			x.Errorf("Write asked to be %v: %d, %v, %v", stable, n, done, err)
		}
	}
	x.is(o.commit(), "Commit", nil)
	ch, err = o.setSize(4)
	if err != nil || !ch.HasAfter || ch.After.Size != 4 {
		x.Errorf("SetSize: %+v, %v", ch, err)
	}
	o.content("0123")
	_, err = o.setSize(6)
	x.ok(err, "SetSize")
	u.content(h, "0123\x00\x00")
	_, err = o.setSize(1<<64 - 1)
	x.is(err, "SetSize of 2^64-1", syscall.EFBIG, syscall.EINVAL)
	_, err = o.write(1<<63, "x")
	x.is(err, "Write behind the largest size", syscall.EFBIG, syscall.EINVAL)
	var a vfs.Attr
	_, _, err = o.Read(u.op, 0, nil, &a)
	if err != nil || a.Size != 6 || a.FileID != u.attr(h).FileID {
		x.Errorf("Read's attributes: %+v, %v", a, err)
	}
	o.Close()
	o.Close()
	_, _, err = o.read(0, 1)
	x.is(err, "Read by a File that is closed", syscall.EBADF)
	_, err = o.write(0, "x")
	x.is(err, "Write by a File that is closed", syscall.EBADF)
	x.is(o.commit(), "Commit by a File that is closed", syscall.EBADF)
	_, err = o.setSize(0)
	x.is(err, "SetSize by a File that is closed", syscall.EBADF)
	u.content(h, "0123\x00\x00")
}

func testOpenAccess(x *fixture) {
	u := x.self
	h := u.create(x.dir, "f", 0o644)
	r, w := u.mustOpen(h, vfs.OpenRead), u.mustOpen(h, vfs.OpenWrite)
	_, err := w.write(0, "content")
	x.is(err, "Write", nil)
	r.content("content")
	_, err = r.write(0, "x")
	x.is(err, "Write by a File to read", syscall.EBADF)
	_, err = r.setSize(0)
	x.is(err, "SetSize by a File to read", syscall.EBADF)
	x.is(r.commit(), "Commit by a File to read", nil)
	_, _, err = w.read(0, 1)
	x.is(err, "Read by a File to write", syscall.EBADF)
	u.content(h, "content")
	// The Close of one File does not close another.
	w.Close()
	r.content("content")
}

func testOpenMatrix(x *fixture) {
	x.users()
	h := x.owned("f", false)
	classes := x.classes()
	for bits := uint32(0); bits <= 7; bits++ {
		for _, c := range classes {
			mode := bits << c.shift
			x.ok(x.self.set(h, withMode(mode)), "chmod")
			r, w := bits&5 != 0, bits&2 != 0 // a user that may execute may also read
			owner := c.shift == 6
			for access, may := range map[vfs.OpenAccess]bool{
				vfs.OpenRead: r, vfs.OpenWrite: w, readWrite: r && w,
				vfs.OpenRead | vfs.OpenOwner: r || owner, vfs.OpenWrite | vfs.OpenOwner: w || owner, readWrite | vfs.OpenOwner: r && w || owner,
			} {
				o, err := c.user.open(h, access)
				what := fmt.Sprintf("Open for %b, by the %s, mode %o", access, c.name, mode)
				if may {
					x.is(err, what, nil)
				} else {
					x.is(err, what, syscall.EACCES)
				}
				if err == nil {
					o.Close()
				}
			}
		}
		x.ok(x.self.set(h, withMode(0)), "chmod")
		x.user(0, 0).mustOpen(h, readWrite).Close()
	}
}

func testOpenJudgedOnce(x *fixture) {
	x.users()
	alice := x.user(aliceID, staffID)
	h := x.owned("f", false)
	x.ok(x.self.set(h, withMode(0o666)), "chmod")
	o := alice.mustOpen(h, readWrite)
	for _, s := range []vfs.SetAttr{withMode(0), {SetUID: true, UID: bobID, SetGID: true, GID: crewID}} {
		x.ok(x.self.set(h, s), "SetAttr")
		_, err := o.write(0, "content")
		x.is(err, "Write after the mode changed", nil)
		_, err = o.setSize(3)
		x.is(err, "SetSize after the mode changed", nil)
		x.is(o.commit(), "Commit after the mode changed", nil)
		x.is(alice.commit(h), "Commit by the handle after the mode changed", nil)
		o.content("con")
	}
	for _, access := range []vfs.OpenAccess{vfs.OpenRead, vfs.OpenWrite, readWrite | vfs.OpenOwner} {
		_, err := alice.open(h, access)
		x.is(err, "Open after the mode changed", syscall.EACCES)
	}
	_, err := alice.read(h, 0, 1)
	x.is(err, "Read by the handle after the mode changed", syscall.EACCES)
}

// A file that one user has open gives other users no rights to it, and takes none from them: the
// file's mode and owner decide about their calls by handle.
func testOpenForItsOpener(x *fixture) {
	x.users()
	alice, bob := x.user(aliceID, staffID), x.user(bobID, guestsID)
	h := x.owned("f", false)
	x.ok(x.self.set(h, withMode(0o666)), "chmod")
	o := alice.mustOpen(h, readWrite)
	_, err := o.write(0, "content")
	x.is(err, "Write", nil)
	size := vfs.SetAttr{SetSize: true, Size: 7}
	by := map[string]func() error{
		"Read":    func() error { _, err := bob.read(h, 0, 1); return err },
		"Write":   func() error { return bob.write(h, 0, "c") },
		"SetAttr": func() error { return bob.set(h, size) },
		"Open": func() error {
			f, err := bob.open(h, readWrite)
			if err == nil {
				f.Close()
			}
			return err
		},
	}
	for _, mode := range []uint32{0o666, 0o600, 0o660, 0o666} {
		x.ok(x.self.set(h, withMode(mode)), "chmod")
		for what, do := range by {
			if mode == 0o666 {
				x.is(do(), fmt.Sprintf("%s by another user, mode %o", what, mode), nil)
			} else {
				x.is(do(), fmt.Sprintf("%s by another user, mode %o", what, mode), syscall.EACCES)
			}
		}
		o.content("content")
	}
}

func testOpenSetID(x *fixture) {
	x.users()
	bob := x.user(bobID, guestsID)
	h := x.owned("f", false)
	o := bob.mustOpen(h, vfs.OpenWrite)
	for what, change := range map[string]func() error{
		"Write":   func() error { _, err := o.write(0, "content"); return err },
		"SetSize": func() error { _, err := o.setSize(3); return err },
	} {
		x.ok(x.self.set(h, withMode(0o6777)), "chmod")
		x.is(change(), what, nil)
		if a := x.self.attr(h); a.Mode != 0o777 {
			x.Errorf("after %s the mode is %o, want 777", what, a.Mode)
		}
	}
}

// After a restart no file is open. A file that was open and had no name is gone.
func testOpenRestart(x *fixture) {
	u := x.self
	kept, gone := u.create(x.dir, "kept", 0o644), u.create(x.dir, "gone", 0o644)
	for _, h := range []vfs.Handle{kept, gone} {
		o := u.mustOpen(h, readWrite)
		if x.opt.Crash == nil {
			defer o.Close()
			o.Close()
		}
	}
	x.ok(u.remove(x.dir, "gone"), "Remove")
	how := x.opt.Restart
	if x.opt.Crash != nil {
		how = x.opt.Crash
	}
	x.restart(how)
	u.mustOpen(kept, readWrite).Close()
	var a vfs.Attr
	x.is(x.fs.GetAttr(u.op, gone, &a), "GetAttr of a file that was open", syscall.ESTALE)
}

// Many goroutines open, use, remove and close files at once.
func testOpenAtOnce(x *fixture) {
	x.concurrent()
	u := x.self
	if _, ok := vfs.As[vfs.Opener](x.raw); !ok {
		x.Skip("no open files")
	}
	for round := range 10 {
		name := fmt.Sprint("f", round)
		h := u.create(x.dir, name, 0o644)
		u.mustWrite(h, 0, "content")
		keeper := u.mustOpen(h, vfs.OpenRead)
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				for j := range 10 {
					access := vfs.OpenRead
					if (i+j)%2 == 0 {
						access = readWrite
					}
					o, err := u.open(h, access)
					if err != nil {
						x.Errorf("Open of a file that is open: %v", err)
						return
					}
					if got, _, err := o.read(0, 10); err != nil || got != "content" {
						x.Errorf("Read: %q, %v", got, err)
					}
					all.Go(o.Close)
					if _, _, err := o.read(0, 10); err != nil {
						x.is(err, "Read beside a Close", syscall.EBADF)
					}
					o.Close()
				}
			})
		}
		all.Go(func() { x.is(u.remove(x.dir, name), "Remove", nil) })
		all.Wait()
		keeper.content("content")
		keeper.Close()
		var a vfs.Attr
		x.is(x.fs.GetAttr(u.op, h, &a), "GetAttr after the last Close", syscall.ESTALE)
	}
}
