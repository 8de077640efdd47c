package vfstest

import (
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

var changeTests = []Test{
	{"change/files", testChangeFiles},
	{"change/directories", testChangeDirectories},
	{"change/failures", testChangeFailures},
}

// around holds the attributes that GetAttr returned for a file before a call. The method check
// compares them with the call's vfs.Change.
type around struct {
	x      *fixture
	h      vfs.Handle
	before vfs.Attr
}

func (x *fixture) around(h vfs.Handle) around {
	x.Helper()
	return around{x, h, x.self.attr(h)}
}

// check compares ch, which a call returned, with r.before and with the file's present attributes.
// ch may lack the attributes before or after, but those that it has must be right, even if Atomic
// is false, because no other goroutine uses the file system. changed is true if the call must have
// changed the file.
func (r around) check(what string, ch vfs.Change, changed bool) {
	x := r.x
	x.Helper()
	after := x.self.attr(r.h)
	same := func(a, b vfs.Attr) bool {
		a.Atime, b.Atime = vfs.Time{}, vfs.Time{}
		a.Used, b.Used = 0, 0 // the file system may allocate storage later
		return a == b
	}
	if ch.HasBefore && !same(ch.Before, r.before) {
		x.Errorf("%s: before was\n%+v, the change says\n%+v", what, r.before, ch.Before)
	}
	if ch.HasAfter && !same(ch.After, after) {
		x.Errorf("%s: after is\n%+v, the change says\n%+v", what, after, ch.After)
	}
	if ch.Atomic && !(ch.HasBefore && ch.HasAfter) {
		x.Errorf("%s: atomic with a half missing", what)
	}
	if changed && !grown(r.before, after) {
		x.Errorf("%s: the change counter went from %d to %d", what, r.before.Change, after.Change)
	}
	if !changed && (after.Change != r.before.Change || after.Mtime != r.before.Mtime) {
		x.Errorf("%s: %+v became %+v", what, r.before, after)
	}
	if changed && !ch.HasAfter {
		x.Errorf("%s: no attributes after it", what)
	}
}

func testChangeFiles(x *fixture) {
	u := x.self
	h := u.create(x.dir, "f", 0o644)
	for i := range 3 {
		r := x.around(h)
		_, _, ch, err := x.fs.Write(u.op, h, uint64(i)*5000, [][]byte{[]byte("content")}, vfs.Stability(i))
		x.ok(err, "Write")
		r.check("Write", ch, true)
	}
	r := x.around(h)
	ch, err := x.fs.Commit(u.op, h, 0, 0)
	x.ok(err, "Commit")
	r.check("Commit", ch, false)
	r = x.around(h)
	ch, err = x.fs.SetAttr(u.op, h, &vfs.SetAttr{SetSize: true, Size: 3}, nil)
	x.ok(err, "SetAttr of the size")
	r.check("SetAttr of the size", ch, true)
	if !x.opt.NoOwnership {
		r = x.around(h)
		s := withMode(0o600)
		ch, err = x.fs.SetAttr(u.op, h, &s, nil)
		x.ok(err, "SetAttr of the mode")
		r.check("SetAttr of the mode", ch, true)
	}
	if !x.opt.NoTimes {
		r = x.around(h)
		ch, err = x.fs.SetAttr(u.op, h, &vfs.SetAttr{MtimeHow: vfs.ClientTime, Mtime: vfs.Time{Sec: 1e9}}, nil)
		x.ok(err, "SetAttr of a time")
		r.check("SetAttr of a time", ch, true)
	}
}

func testChangeDirectories(x *fixture) {
	u := x.self
	d, e := u.mkdir(x.dir, "d", 0o755), u.mkdir(x.dir, "e", 0o755)
	step := func(what string, do func() (vfs.Change, error)) {
		x.Helper()
		r := x.around(d)
		ch, err := do()
		x.ok(err, what)
		r.check(what, ch, true)
	}
	step("Create", func() (vfs.Change, error) {
		_, ch, err := x.fs.Create(u.op, d, []byte("f"), &vfs.CreateHow{Attr: withMode(0o644)})
		return ch, err
	})
	step("Mkdir", func() (vfs.Change, error) {
		s := withMode(0o755)
		_, ch, err := x.fs.Mkdir(u.op, d, []byte("sub"), &s)
		return ch, err
	})
	f := u.lookup(d, "f").Handle
	if x.info.Symlinks {
		step("Symlink", func() (vfs.Change, error) {
			_, ch, err := x.fs.Symlink(u.op, d, []byte("s"), []byte("text"), &vfs.SetAttr{})
			return ch, err
		})
	}
	if x.opt.SpecialFiles {
		step("Mknod", func() (vfs.Change, error) {
			_, ch, err := x.fs.Mknod(u.op, d, []byte("fifo"), vfs.FIFO, &vfs.SetAttr{}, 0, 0)
			return ch, err
		})
	}
	if x.info.HardLinks {
		step("Link", func() (vfs.Change, error) {
			var a vfs.Attr
			ch, err := x.fs.Link(u.op, f, d, []byte("l"), &a)
			if got := u.attr(f); err == nil && (a.FileID != got.FileID || a.Nlink != got.Nlink || a.Change != got.Change) {
				x.Errorf("Link's attributes of the file are\n%+v, GetAttr's\n%+v", a, got)
			}
			return ch, err
		})
	}
	step("Rename within", func() (vfs.Change, error) {
		from, to, err := x.fs.Rename(u.op, d, []byte("f"), d, []byte("g"))
		if from.HasAfter && to.HasAfter && from.After != to.After {
			x.Errorf("the two halves of a rename within a directory differ:\n%+v\n%+v", from, to)
		}
		return from, err
	})
	other := x.around(e)
	step("Rename to elsewhere", func() (vfs.Change, error) {
		from, to, err := x.fs.Rename(u.op, d, []byte("g"), e, []byte("h"))
		other.check("Rename to here", to, true)
		return from, err
	})
	other = x.around(e)
	step("Rename from elsewhere", func() (vfs.Change, error) {
		from, to, err := x.fs.Rename(u.op, e, []byte("h"), d, []byte("f"))
		other.check("Rename from here", from, true)
		return to, err
	})
	step("Remove", func() (vfs.Change, error) { return x.fs.Remove(u.op, d, []byte("f")) })
	step("Rmdir", func() (vfs.Change, error) { return x.fs.Rmdir(u.op, d, []byte("sub")) })
}

// A failed call changes nothing, and the attributes that it returns are right.
func testChangeFailures(x *fixture) {
	u := x.self
	u.create(x.dir, "f", 0o644)
	full := u.make(x.dir, "full", aFilledDir)
	f := u.lookup(x.dir, "f").Handle
	step := func(what string, do func() (vfs.Change, error), want ...error) {
		x.Helper()
		r := x.around(x.dir)
		ch, err := do()
		x.is(err, what, want...)
		r.check("failed "+what, ch, false)
	}
	step("Create", func() (vfs.Change, error) {
		_, ch, err := x.fs.Create(u.op, x.dir, []byte("f"), &vfs.CreateHow{Mode: vfs.Guarded})
		return ch, err
	}, syscall.EEXIST)
	step("Mkdir", func() (vfs.Change, error) {
		_, ch, err := x.fs.Mkdir(u.op, x.dir, []byte("f"), &vfs.SetAttr{})
		return ch, err
	}, syscall.EEXIST)
	step("Remove", func() (vfs.Change, error) { return x.fs.Remove(u.op, x.dir, []byte("missing")) }, syscall.ENOENT)
	step("Rmdir", func() (vfs.Change, error) { return x.fs.Rmdir(u.op, x.dir, []byte("full")) }, syscall.ENOTEMPTY, syscall.EEXIST)
	step("Rename", func() (vfs.Change, error) {
		from, to, err := x.fs.Rename(u.op, x.dir, []byte("f"), full, []byte("."))
		if to.HasAfter && to.After.FileID != u.attr(full).FileID {
			x.Errorf("a failed Rename's second half is of another directory")
		}
		return from, err
	}, syscall.EINVAL, syscall.EEXIST)
	if x.info.HardLinks {
		step("Link", func() (vfs.Change, error) {
			var a vfs.Attr
			return x.fs.Link(u.op, f, x.dir, []byte("full"), &a)
		}, syscall.EEXIST)
	}
	r := x.around(f)
	ch, err := x.fs.SetAttr(u.op, f, &vfs.SetAttr{SetSize: true, Size: 9}, &vfs.Time{Sec: 1})
	x.is(err, "SetAttr with a wrong guard", vfs.ErrNotSync)
	r.check("failed SetAttr", ch, false)
	r = x.around(f)
	_, _, ch, err = x.fs.Write(u.op, f, 1<<64-1, [][]byte{[]byte("x")}, vfs.Unstable)
	x.is(err, "Write at 2^64-1", syscall.EFBIG, syscall.EINVAL)
	r.check("failed Write", ch, false)
}
