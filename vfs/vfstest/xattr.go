package vfstest

import (
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

var xattrTests = []Test{
	{"xattr/set and get", testXattrs},
	{"xattr/modes", testXattrModes},
	{"xattr/names", testXattrNames},
	{"xattr/lists", testXattrLists},
	{"xattr/room", testXattrRoom},
	{"xattr/kinds", testXattrKinds},
	{"xattr/permission", testXattrPermission},
	{"xattr/stay", testXattrsStay},
}

// xattrs returns the file system as a vfs.Xattrs, and the handle of a file.
func (x *fixture) xattrs() (vfs.Xattrs, vfs.Handle) {
	x.Helper()
	fs, ok := vfs.As[vfs.Xattrs](x.raw)
	if !ok {
		x.Skip("no extended attributes")
	}
	if !fs.KeepsXattrs() {
		x.Skip("no extended attributes")
	}
	return fs, x.self.create(x.dir, "f", 0o644)
}

func (u *user) getXattr(fs vfs.Xattrs, h vfs.Handle, name string) (value string, err error) {
	buf := make([]byte, vfs.MaxXattr)
	n := 0
	u.x.attempt(u.op, func(op *vfs.Op) error { n, err = fs.GetXattr(op, h, []byte(name), buf); return err }, h)
	return string(buf[:n]), err
}

func (u *user) setXattr(fs vfs.Xattrs, h vfs.Handle, name, value string, mode vfs.XattrMode) (ch vfs.Change, err error) {
	u.x.attempt(u.op, func(op *vfs.Op) error {
		ch, err = fs.SetXattr(op, h, []byte(name), []byte(value), mode)
		return err
	}, h)
	return ch, err
}

func (u *user) removeXattr(fs vfs.Xattrs, h vfs.Handle, name string) (ch vfs.Change, err error) {
	u.x.attempt(u.op, func(op *vfs.Op) error { ch, err = fs.RemoveXattr(op, h, []byte(name)); return err }, h)
	return ch, err
}

// listXattrs returns the names of h's extended attributes, sorted.
func (u *user) listXattrs(fs vfs.Xattrs, h vfs.Handle) (names []string, err error) {
	buf := make([]byte, vfs.MaxXattr)
	n := 0
	u.x.attempt(u.op, func(op *vfs.Op) error { n, err = fs.ListXattrs(op, h, buf); return err }, h)
	if n > 0 {
		if buf[n-1] != 0 {
			u.x.Errorf("the list of names ends with %q", buf[n-1])
		}
		names = strings.Split(string(buf[:n-1]), "\x00")
		slices.Sort(names)
	}
	return names, err
}

func testXattrs(x *fixture) {
	fs, h := x.xattrs()
	u := x.self
	changed := func(what string, ch vfs.Change, err error) {
		x.Helper()
		x.ok(err, what)
		if !ch.HasBefore || !ch.HasAfter || !grown(ch.Before, ch.After) || ch.After.Mtime != ch.Before.Mtime {
			x.Errorf("%s changed %+v", what, ch)
		}
		if a := u.attr(h); a.Change < ch.After.Change {
			x.Errorf("%s: change is %d, %d was told", what, a.Change, ch.After.Change)
		}
	}
	for _, value := range []string{"value", "", "a\x00b\xff", strings.Repeat("long", 500), "short"} {
		ch, err := u.setXattr(fs, h, "name", value, vfs.XattrEither)
		changed("SetXattr", ch, err)
		if got, err := u.getXattr(fs, h, "name"); got != value || err != nil {
			x.Errorf("GetXattr: %q, %v; want %q", got, err, value)
		}
	}
	var small [4]byte
	_, err := fs.GetXattr(u.op, h, []byte("name"), small[:])
	x.is(err, "GetXattr to a short buffer", syscall.ERANGE)
	_, err = fs.GetXattr(u.op, h, []byte("name"), nil)
	x.is(err, "GetXattr to no buffer", syscall.ERANGE)
	ch, err := u.removeXattr(fs, h, "name")
	changed("RemoveXattr", ch, err)
	_, err = u.getXattr(fs, h, "name")
	x.is(err, "GetXattr of what was removed", syscall.ENODATA)
	_, err = u.removeXattr(fs, h, "name")
	x.is(err, "RemoveXattr of what was removed", syscall.ENODATA)
	_, err = u.getXattr(fs, vfs.Handle{}, "name")
	x.is(err, "GetXattr of no handle", vfs.ErrBadHandle, syscall.ESTALE)
	// A removed file that is open keeps its extended attributes.
	_, err = u.setXattr(fs, h, "name", "value", vfs.XattrEither)
	x.ok(err, "SetXattr")
	if _, ok := vfs.As[vfs.Opener](x.raw); ok {
		o := u.mustOpen(h, vfs.OpenRead)
		x.ok(u.remove(x.dir, "f"), "Remove")
		if got, err := u.getXattr(fs, h, "name"); got != "value" || err != nil {
			x.Errorf("GetXattr of a removed file: %q, %v", got, err)
		}
		o.Close()
	} else {
		x.ok(u.remove(x.dir, "f"), "Remove")
	}
	_, err = u.getXattr(fs, h, "name")
	x.is(err, "GetXattr of a file that is gone", syscall.ESTALE)
	_, err = u.setXattr(fs, h, "name", "value", vfs.XattrEither)
	x.is(err, "SetXattr of a file that is gone", syscall.ESTALE)
}

func testXattrModes(x *fixture) {
	fs, h := x.xattrs()
	u := x.self
	for _, c := range []struct {
		mode  vfs.XattrMode
		value string
		want  error
		has   string
	}{
		{vfs.XattrReplace, "a", syscall.ENODATA, ""},
		{vfs.XattrCreate, "b", nil, "b"},
		{vfs.XattrCreate, "c", syscall.EEXIST, "b"},
		{vfs.XattrReplace, "d", nil, "d"},
		{vfs.XattrEither, "e", nil, "e"},
	} {
		_, err := u.setXattr(fs, h, "name", c.value, c.mode)
		x.is(err, fmt.Sprintf("SetXattr of %q with mode %d", c.value, c.mode), c.want)
		if got, _ := u.getXattr(fs, h, "name"); got != c.has {
			x.Errorf("the value is %q, want %q", got, c.has)
		}
	}
}

func testXattrNames(x *fixture) {
	fs, h := x.xattrs()
	u := x.self
	for _, c := range []struct {
		name string
		want error
	}{{"", syscall.EINVAL}, {"a\x00b", syscall.EINVAL}, {strings.Repeat("n", 251), syscall.ENAMETOOLONG}} {
		_, err := u.getXattr(fs, h, c.name)
		x.is(err, "GetXattr of a bad name", c.want)
		_, err = u.setXattr(fs, h, c.name, "value", vfs.XattrEither)
		x.is(err, "SetXattr of a bad name", c.want)
		_, err = u.removeXattr(fs, h, c.name)
		x.is(err, "RemoveXattr of a bad name", c.want)
	}
	// Any other name is valid, also one that looks like a system attribute.
	odd := []string{strings.Repeat("n", 250), "security.capability", "user.x", "a b/\xff", "trusted.x", "."}
	for _, name := range odd {
		_, err := u.setXattr(fs, h, name, name[:1], vfs.XattrCreate)
		x.is(err, "SetXattr of "+name, nil)
	}
	got, err := u.listXattrs(fs, h)
	slices.Sort(odd)
	if !slices.Equal(got, odd) || err != nil {
		x.Errorf("listed are %q, %v; want %q", got, err, odd)
	}
	if got, err := u.getXattr(fs, h, "user.x"); got != "u" || err != nil {
		x.Errorf("GetXattr: %q, %v", got, err)
	}
}

func testXattrLists(x *fixture) {
	fs, h := x.xattrs()
	u := x.self
	var want []string
	for i := range 20 {
		got, err := u.listXattrs(fs, h)
		if !slices.Equal(got, want) || err != nil {
			x.Fatalf("listed are %q, %v; want %q", got, err, want)
		}
		want = append(want, fmt.Sprintf("name%02d", i))
		_, err = u.setXattr(fs, h, want[i], "v", vfs.XattrCreate)
		x.ok(err, "SetXattr")
	}
	_, err := u.removeXattr(fs, h, "name07")
	x.ok(err, "RemoveXattr")
	want = slices.Delete(want, 7, 8)
	got, err := u.listXattrs(fs, h)
	if !slices.Equal(got, want) || err != nil {
		x.Errorf("listed are %q, %v; want %q", got, err, want)
	}
	whole := 19 * len("name00\x00")
	for size, enough := range map[int]bool{0: false, 1: false, whole - 1: false, whole: true} {
		n, err := fs.ListXattrs(u.op, h, make([]byte, size))
		if enough && (n != whole || err != nil) || !enough && err != syscall.ERANGE {
			x.Errorf("ListXattrs to %d bytes of %d: %d, %v", size, whole, n, err)
		}
	}
}

func testXattrRoom(x *fixture) {
	fs, h := x.xattrs()
	u := x.self
	_, err := u.setXattr(fs, h, "large", strings.Repeat("x", vfs.MaxXattr+1), vfs.XattrEither)
	x.is(err, "SetXattr of what is too long", syscall.E2BIG)
	fit := 0
	for ; fit < 100; fit++ {
		_, err = u.setXattr(fs, h, fmt.Sprint("name", fit), strings.Repeat("x", 10_000), vfs.XattrCreate)
		if err != nil {
			x.is(err, "SetXattr of what does not fit", syscall.ENOSPC, syscall.E2BIG)
			break
		}
	}
	if names, err := u.listXattrs(fs, h); len(names) != fit || err != nil {
		x.Errorf("%d attributes fit, %d are listed, %v", fit, len(names), err)
	}
}

func testXattrKinds(x *fixture) {
	fs, _ := x.xattrs()
	u := x.self
	_, err := u.setXattr(fs, x.dir, "name", "value", vfs.XattrEither)
	x.is(err, "SetXattr of a directory", nil)
	if got, err := u.getXattr(fs, x.dir, "name"); got != "value" || err != nil {
		x.Errorf("GetXattr of a directory: %q, %v", got, err)
	}
	var others []vfs.Handle
	if x.info.Symlinks {
		others = append(others, u.symlink(x.dir, "link", "f"))
	}
	if x.opt.SpecialFiles {
		s := withMode(0o666)
		o, _, err := x.fs.Mknod(u.op, x.dir, []byte("fifo"), vfs.FIFO, &s, 0, 0)
		x.ok(err, "Mknod")
		others = append(others, u.handle(x.dir, "fifo", o))
	}
	const xattrs = vfs.AccessXattrRead | vfs.AccessXattrWrite | vfs.AccessXattrList
	for _, h := range others {
		_, err := u.setXattr(fs, h, "name", "value", vfs.XattrEither)
		x.is(err, "SetXattr of another kind", syscall.EPERM)
		_, err = u.getXattr(fs, h, "name")
		x.is(err, "GetXattr of another kind", syscall.ENODATA)
		_, err = u.removeXattr(fs, h, "name")
		x.is(err, "RemoveXattr of another kind", syscall.EPERM)
		if names, err := u.listXattrs(fs, h); len(names) != 0 || err != nil {
			x.Errorf("ListXattrs of another kind: %q, %v", names, err)
		}
		var a vfs.Attr
		if got, err := x.fs.Access(u.op, h, xattrs, &a); got != 0 || err != nil {
			x.Errorf("Access of another kind: %#x, %v", got, err)
		}
	}
}

func testXattrPermission(x *fixture) {
	fs, _ := x.xattrs()
	x.users()
	file, dir := x.owned("file", false), x.owned("dir", true)
	for _, h := range []vfs.Handle{file, dir} {
		_, err := x.self.setXattr(fs, h, "there", "value", vfs.XattrEither)
		x.ok(err, "SetXattr")
		for bits := uint32(0); bits <= 7; bits++ {
			for _, c := range x.classes() {
				mode := bits << c.shift
				x.ok(x.self.set(h, withMode(mode)), "chmod")
				check := func(what string, err error, right vfs.Access, may bool) {
					x.Helper()
					want := error(syscall.EACCES)
					if may {
						want = nil
					}
					what = fmt.Sprintf("%s by the %s, mode %o", what, c.name, mode)
					x.is(err, what, want)
					var a vfs.Attr
					got, err := x.fs.Access(c.user.op, h, right, &a)
					if err != nil || (got == right) != may {
						x.Errorf("%s: Access answers %#x, %v", what, got, err)
					}
				}
				r, w := bits&4 != 0, bits&2 != 0
				_, err := c.user.getXattr(fs, h, "there")
				check("GetXattr", err, vfs.AccessXattrRead, r)
				_, err = c.user.listXattrs(fs, h)
				check("ListXattrs", err, vfs.AccessXattrList, r)
				_, err = c.user.setXattr(fs, h, "new", "value", vfs.XattrEither)
				check("SetXattr", err, vfs.AccessXattrWrite, w)
				if err == nil {
					_, err = c.user.removeXattr(fs, h, "new")
					check("RemoveXattr", err, vfs.AccessXattrWrite, w)
				}
			}
		}
	}
}

func testXattrsStay(x *fixture) {
	fs, h := x.xattrs()
	u := x.self
	_, err := u.setXattr(fs, h, "name", "value", vfs.XattrEither)
	x.ok(err, "SetXattr")
	x.ok(u.rename(x.dir, "f", x.dir, "g"), "Rename")
	x.ok(u.write(h, 0, "content"), "Write")
	x.restart(x.opt.Restart)
	fs, _ = vfs.As[vfs.Xattrs](x.raw)
	if got, err := u.getXattr(fs, h, "name"); got != "value" || err != nil {
		x.Errorf("GetXattr after a restart: %q, %v", got, err)
	}
}
