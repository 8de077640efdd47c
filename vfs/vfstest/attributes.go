package vfstest

import (
	"strings"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

var attributeTests = []Test{
	{"attributes/mode", testMode},
	{"attributes/size", testSize},
	{"attributes/times", testTimes},
	{"attributes/times follow changes", testTimesFollow},
	{"attributes/guard", testGuard},
	{"attributes/facts", testFacts},
	{"attributes/wanted", testWanted},
}

func testMode(x *fixture) {
	if x.opt.NoOwnership {
		x.Skip("modes need not be kept")
	}
	u := x.self
	f, d := u.create(x.dir, "f", 0o600), u.mkdir(x.dir, "d", 0o700)
	for _, h := range []vfs.Handle{f, d} {
		for _, mode := range []uint32{0, 0o777, 0o751, 0o644} {
			x.ok(u.set(h, withMode(mode)), "SetAttr")
			if a := u.attr(h); a.Mode != mode {
				x.Errorf("mode is %o, want %o", a.Mode, mode)
			}
		}
		before := u.attr(h)
		x.ok(u.set(h, vfs.SetAttr{}), "SetAttr of nothing")
		if after := u.attr(h); after.Mode != before.Mode || after.Mtime != before.Mtime || after.Size != before.Size {
			x.Errorf("SetAttr of nothing made %+v of %+v", after, before)
		}
	}
}

func testSize(x *fixture) {
	u := x.self
	h := u.create(x.dir, "f", 0o644)
	size := func(n uint64) {
		x.Helper()
		x.ok(u.set(h, vfs.SetAttr{SetSize: true, Size: n}), "truncation")
		if a := u.attr(h); a.Size != n {
			x.Fatalf("size is %d, want %d", a.Size, n)
		}
	}
	u.mustWrite(h, 0, strings.Repeat("abc", 50_000))
	size(100_001)
	size(7)
	u.content(h, "abcabca")
	size(10)
	u.content(h, "abcabca\x00\x00\x00")
	size(200_000)
	u.content(h, "abcabca"+strings.Repeat("\x00", 200_000-7))
	u.mustWrite(h, 150_000, "tail")
	u.content(h, "abcabca"+strings.Repeat("\x00", 150_000-7)+"tail"+strings.Repeat("\x00", 49_996))
	size(0)
	u.content(h, "")
	u.mustWrite(h, 3, "x")
	u.content(h, "\x00\x00\x00x")
}

func testTimes(x *fixture) {
	if x.opt.NoTimes {
		x.Skip("times cannot be set")
	}
	u := x.self
	f, d := u.create(x.dir, "f", 0o644), u.mkdir(x.dir, "d", 0o755)
	grain := max(int64(x.info.TimeGranularity.Sec)*1e9+int64(x.info.TimeGranularity.Nsec), 1)
	near := func(a, b vfs.Time) bool {
		diff := (b.Sec-a.Sec)*1e9 + int64(b.Nsec) - int64(a.Nsec)
		return diff >= 0 && diff < grain
	}
	for _, h := range []vfs.Handle{f, d} {
		for _, t := range []vfs.Time{{Sec: 1_000_000_000, Nsec: 123_456_789}, {Sec: 0, Nsec: 1}, {Sec: 2_000_000_000, Nsec: 999_999_999}} {
			other := vfs.Time{Sec: t.Sec + 5, Nsec: t.Nsec}
			x.ok(u.set(h, vfs.SetAttr{AtimeHow: vfs.ClientTime, Atime: other, MtimeHow: vfs.ClientTime, Mtime: t}), "SetAttr of both times")
			if a := u.attr(h); !near(a.Mtime, t) || !near(a.Atime, other) {
				x.Errorf("times are %v and %v, want %v and %v", a.Atime, a.Mtime, other, t)
			}
		}
		before := u.attr(h)
		t := vfs.Time{Sec: 1_234_567_890}
		x.ok(u.set(h, vfs.SetAttr{MtimeHow: vfs.ClientTime, Mtime: t}), "SetAttr of the modification time")
		if a := u.attr(h); a.Mtime != t || a.Atime != before.Atime {
			x.Errorf("times are %v and %v, want %v and %v", a.Atime, a.Mtime, before.Atime, t)
		}
		x.ok(u.set(h, vfs.SetAttr{AtimeHow: vfs.ServerTime, MtimeHow: vfs.ServerTime}), "SetAttr of now")
		if a := u.attr(h); a.Mtime.Before(t) || a.Atime.Before(t) || a.Atime == before.Atime {
			x.Errorf("times are %v and %v, want now", a.Atime, a.Mtime)
		}
	}
}

// grown reports whether the later attributes a have a larger Change than b.
func grown(b, a vfs.Attr) bool { return a.Change > b.Change }

func testTimesFollow(x *fixture) {
	u := x.self
	f := u.create(x.dir, "f", 0o644)
	step := func(what string, do func() error, content, own vfs.Handle) {
		x.Helper()
		var h vfs.Handle
		if h = content; h.IsZero() {
			h = own
		}
		if !x.opt.NoTimes {
			x.ok(u.set(h, vfs.SetAttr{MtimeHow: vfs.ClientTime, Mtime: vfs.Time{Sec: 1e9}}), "SetAttr of a time")
		}
		before := u.attr(h)
		x.is(do(), what, nil)
		after := u.attr(h)
		if !x.opt.NoTimes && !content.IsZero() && !before.Mtime.Before(after.Mtime) {
			x.Errorf("after %s mtime is still %v", what, after.Mtime)
		}
		if !grown(before, after) || after.Ctime.Before(before.Ctime) {
			x.Errorf("after %s: change from %d to %d, ctime from %v to %v", what, before.Change, after.Change, before.Ctime, after.Ctime)
		}
		if !content.IsZero() && after.Mtime.Before(before.Mtime) {
			x.Errorf("after %s: mtime from %v to %v", what, before.Mtime, after.Mtime)
		}
		if content.IsZero() && after.Mtime != before.Mtime {
			x.Errorf("after %s mtime has changed from %v to %v", what, before.Mtime, after.Mtime)
		}
	}
	none := vfs.Handle{}
	step("Write", func() error { return u.write(f, 0, "content") }, f, none)
	step("the same Write", func() error { return u.write(f, 0, "content") }, f, none)
	step("truncation", func() error { return u.set(f, vfs.SetAttr{SetSize: true, Size: 3}) }, f, none)
	if !x.opt.NoOwnership {
		step("chmod", func() error { return u.set(f, withMode(0o600)) }, none, f)
	}
	step("Create", func() error { u.create(x.dir, "g", 0o644); return nil }, x.dir, none)
	step("Rename", func() error { return u.rename(x.dir, "g", x.dir, "h") }, x.dir, none)
	step("Remove", func() error { return u.remove(x.dir, "h") }, x.dir, none)
	step("Mkdir", func() error { u.mkdir(x.dir, "d", 0o755); return nil }, x.dir, none)
	step("Rmdir", func() error { return u.rmdir(x.dir, "d") }, x.dir, none)
	if x.info.HardLinks {
		step("Link", func() error { return u.link(f, x.dir, "l") }, none, f)
		step("Remove of a link", func() error { return u.remove(x.dir, "l") }, none, f)
	}
	if x.info.Symlinks {
		step("Symlink", func() error { u.symlink(x.dir, "s", "text"); return nil }, x.dir, none)
	}
	// Calls that only read leave Change and ctime as they are.
	before, dirBefore := u.attr(f), u.attr(x.dir)
	u.content(f, "con")
	u.lookup(x.dir, "f")
	u.names(x.dir)
	if a := u.attr(f); a.Change != before.Change || a.Ctime != before.Ctime {
		x.Errorf("reading a file changed it: %+v to %+v", before, a)
	}
	if a := u.attr(x.dir); a.Change != dirBefore.Change {
		x.Errorf("reading a directory changed it: %+v to %+v", dirBefore, a)
	}
}

// SetAttr with a guard that is not the file's ctime fails with ErrNotSync and changes nothing (RFC
// 1813 §3.3.2).
func testGuard(x *fixture) {
	u := x.self
	h := u.create(x.dir, "f", 0o644)
	u.mustWrite(h, 0, "content")
	a := u.attr(h)
	s := vfs.SetAttr{SetSize: true, Size: 3}
	second, nanosecond := a.Ctime, a.Ctime
	second.Sec--
	nanosecond.Nsec ^= 1
	for what, wrong := range map[string]*vfs.Time{"another second": &second, "another nanosecond": &nanosecond} {
		_, err := x.fs.SetAttr(u.op, h, &s, wrong)
		x.is(err, "SetAttr with a guard of "+what, vfs.ErrNotSync)
		u.content(h, "content")
	}
	_, err := x.fs.SetAttr(u.op, h, &s, &a.Ctime)
	x.is(err, "SetAttr with the right guard", nil)
	u.content(h, "con")
}

func testFacts(x *fixture) {
	u := x.self
	i := x.info
	if i.MaxName == 0 || i.MaxFileSize < 1<<20 || i.TimeGranularity == (vfs.Time{}) {
		x.Errorf("facts: %+v", i)
	}
	usage, err := x.fs.Usage(u.op, x.dir)
	x.ok(err, "Usage")
	if usage.FreeBytes > usage.TotalBytes || usage.AvailableBytes > usage.FreeBytes ||
		usage.FreeFiles > usage.TotalFiles || usage.AvailableFiles > usage.FreeFiles {
		x.Errorf("usage: %+v", usage)
	}
	lane := map[any]bool{x.raw.Lane(): true}
	if x.raw.Lane() == nil || !lane[x.raw.Lane()] {
		x.Errorf("the lane is %v", x.raw.Lane())
	}
	if before := x.raw.Verifier(); before != x.raw.Verifier() {
		x.Errorf("the verifier changes by itself")
	}
	if before := x.fs.Root(); before != x.fs.Root() {
		x.Errorf("the root's handle changes by itself")
	}
	h := u.create(x.dir, "f", 0o644)
	var a vfs.Attr
	x.is(x.fs.GetAttr(u.op, h, &a), "GetAttr", nil)
	if a.FSID != u.attr(x.fs.Root()).FSID {
		x.Errorf("a file and its directory are on two file systems")
	}
	u.mustWrite(h, 0, strings.Repeat("x", 100_000))
	x.ok(u.commit(h), "Commit")
	if a := u.attr(h); a.Used == 0 {
		x.Errorf("100,000 bytes take no storage")
	}
	_, err = x.fs.Info(u.op, vfs.Handle{})
	x.is(err, "Info of no handle", vfs.ErrBadHandle, syscall.ESTALE)
}

func (u *user) commit(h vfs.Handle) error {
	_, err := u.x.fs.Commit(u.op, h, 0, 0)
	return err
}

// GetAttr, Lookup and ReadDir return the same Birth, HasBirth and MountedOn if op.Want asks for
// them. Otherwise these attributes are zero.
func testWanted(x *fixture) {
	u := x.self
	before := u.attr(x.dir)
	h := u.create(x.dir, "f", 0o644)
	wanted := *u.op
	wanted.Want = vfs.WantBirth | vfs.WantMountedOn
	get := func() (a vfs.Attr) {
		x.Helper()
		x.ok(x.fs.GetAttr(&wanted, h, &a), "GetAttr")
		return a
	}
	a := get()
	if a.HasBirth != x.opt.Birth || a.HasBirth && (a.Birth.Before(before.Ctime) || a.Ctime.Before(a.Birth)) {
		x.Errorf("born %v: %v, between %v and %v", a.HasBirth, a.Birth, before.Ctime, a.Ctime)
	}
	if a.MountedOn != a.FileID && a.MountedOn != 0 {
		x.Errorf("file %d is mounted on %d", a.FileID, a.MountedOn)
	}
	u.mustWrite(h, 0, "content")
	if !x.opt.NoTimes {
		x.ok(u.set(h, vfs.SetAttr{MtimeHow: vfs.ClientTime, Mtime: vfs.Time{Sec: 1e9}}), "SetAttr")
	}
	after := get()
	if after.Birth != a.Birth || after.HasBirth != a.HasBirth {
		x.Errorf("born %v, and later %v", a.Birth, after.Birth)
	}
	a = after
	var d vfs.Attr
	o, err := x.fs.Lookup(&wanted, x.dir, []byte("f"), &d)
	x.ok(err, "Lookup")
	if o.HasAttr && o.Attr != a {
		x.Errorf("Lookup tells\n%+v, GetAttr\n%+v", o.Attr, a)
	}
	for range 2 { // the second listing may come from a cache
		_, err = x.fs.ReadDir(&wanted, x.dir, 0, true, &d, func(e *vfs.DirEntry) bool {
			if string(e.Name) == "f" && e.HasAttr && e.Attr != a {
				x.Errorf("ReadDir tells\n%+v, GetAttr\n%+v", e.Attr, a)
			}
			if e.HasAttr && e.Attr.HasBirth != a.HasBirth {
				x.Errorf("ReadDir tells of %q\n%+v", e.Name, e.Attr)
			}
			return true
		})
		x.ok(err, "ReadDir")
	}
	if a.HasBirth {
		wanted.Want = vfs.WantMountedOn
		if a := get(); a.HasBirth || a.Birth != (vfs.Time{}) {
			x.Errorf("born %v, which was not asked for", a.Birth)
		}
	}
	wanted.Want = 0
	if a := get(); a.HasBirth || a.Birth != (vfs.Time{}) || a.MountedOn != 0 {
		x.Errorf("attributes that were not asked for: %+v", a)
	}
}
