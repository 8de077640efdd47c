package vfstest

import (
	"errors"
	"strings"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

var linkTests = []Test{
	{"link/counts", testLinkCounts},
	{"link/refused", testLinkRefused},
	{"link/not to be had", testNoLinks},
	{"symlink/text", testSymlinkText},
	{"symlink/is not followed", testSymlinkNotFollowed},
	{"mknod/kinds", testMknod},
	{"mknod/numbers", testMknodNumbers},
	{"mknod/permission", testMknodPermission},
}

func testLinkCounts(x *fixture) {
	if !x.info.HardLinks {
		x.Skip("no hard links")
	}
	u := x.self
	d := u.mkdir(x.dir, "d", 0o755)
	h := u.create(x.dir, "a", 0o644)
	u.mustWrite(h, 0, "content")
	var a vfs.Attr
	ch, err := x.fs.Link(u.op, h, d, []byte("b"), &a)
	x.ok(err, "Link")
	if a.Nlink != 2 || u.attr(h).Nlink != 2 {
		x.Errorf("after Link there are %d links, GetAttr says %d", a.Nlink, u.attr(h).Nlink)
	}
	if ch.HasAfter && ch.After.FileID != u.attr(d).FileID {
		x.Errorf("Link's change is not of the directory")
	}
	other := u.lookup(d, "b")
	if other.Handle != h {
		x.Errorf("the link is another file")
	}
	u.mustWrite(other.Handle, 0, "CON")
	u.content(h, "CONtent")
	x.ok(u.remove(x.dir, "a"), "Remove")
	if got := u.attr(h).Nlink; got != 1 {
		x.Errorf("after Remove there are %d links", got)
	}
	u.content(h, "CONtent")
	x.ok(u.remove(d, "b"), "Remove")
	x.is(x.fs.GetAttr(u.op, h, &a), "GetAttr after the last Remove", syscall.ESTALE)
}

func testLinkRefused(x *fixture) {
	if !x.info.HardLinks {
		x.Skip("no hard links")
	}
	u := x.self
	h := u.create(x.dir, "a", 0o644)
	d := u.mkdir(x.dir, "d", 0o755)
	x.is(u.link(h, x.dir, "a"), "Link over a file", syscall.EEXIST)
	x.is(u.link(h, h, "x"), "Link in a file", syscall.ENOTDIR)
	x.is(u.link(d, x.dir, "x"), "Link to a directory", syscall.EPERM, syscall.EISDIR)
	x.is(u.link(x.dir, x.dir, "x"), "Link of a directory in itself", syscall.EPERM, syscall.EISDIR)
	x.ok(u.remove(x.dir, "a"), "Remove")
	x.is(u.link(h, x.dir, "x"), "Link to a removed file", syscall.ESTALE)
}

func testNoLinks(x *fixture) {
	u := x.self
	refused := []error{vfs.ErrNotSupported, syscall.EOPNOTSUPP, syscall.EPERM}
	if !x.info.HardLinks {
		x.is(u.link(u.create(x.dir, "f", 0o644), x.dir, "l"), "Link", refused...)
	}
	if !x.info.Symlinks {
		_, _, err := x.fs.Symlink(u.op, x.dir, []byte("l"), []byte("text"), &vfs.SetAttr{})
		x.is(err, "Symlink", refused...)
	}
	if !x.opt.SpecialFiles {
		_, _, err := x.fs.Mknod(u.op, x.dir, []byte("l"), vfs.FIFO, &vfs.SetAttr{}, 0, 0)
		x.is(err, "Mknod", refused...)
	}
	if _, err := u.find(x.dir, "l"); err != syscall.ENOENT {
		x.Errorf("what is refused leaves something: %v", err)
	}
}

func testSymlinkText(x *fixture) {
	u := x.self
	for _, text := range []string{"x", "a/b/../c", "/an/absolute/one", strings.Repeat("deep/", 204) + "end", strings.Repeat("n", 4095)} {
		h := u.symlink(x.dir, "link", text)
		var a vfs.Attr
		buf := make([]byte, 8192)
		n, err := x.fs.ReadLink(u.op, h, buf, &a)
		if err != nil || string(buf[:n]) != text {
			x.Errorf("ReadLink of %d bytes: %d, %v", len(text), n, err)
		}
		if a.Type != vfs.Symlink || a.Size != uint64(len(text)) {
			x.Errorf("a symlink of %d bytes: %v of size %d", len(text), a.Type, a.Size)
		}
		if n, err := x.fs.ReadLink(u.op, h, buf[:len(text)], &a); n != len(text) || err != nil {
			x.Errorf("ReadLink to a buffer just large enough: %d, %v", n, err)
		}
		_, err = x.fs.ReadLink(u.op, h, buf[:len(text)-1], &a)
		x.is(err, "ReadLink to a buffer too small", syscall.ENAMETOOLONG)
		x.ok(u.remove(x.dir, "link"), "Remove")
	}
	_, _, err := x.fs.Symlink(u.op, x.dir, []byte("link"), []byte(strings.Repeat("n", 70_000)), &vfs.SetAttr{})
	x.is(err, "Symlink with a text too long", syscall.ENAMETOOLONG, syscall.EINVAL)
	_, _, err = x.fs.Symlink(u.op, x.dir, []byte("link"), []byte("a\x00b"), &vfs.SetAttr{})
	x.is(err, "Symlink with NUL in its text", syscall.EINVAL)
}

func testSymlinkNotFollowed(x *fixture) {
	u := x.self
	d := u.mkdir(x.dir, "d", 0o755)
	f := u.create(d, "f", 0o644)
	link := u.symlink(x.dir, "link", "d")
	if o := u.lookup(x.dir, "link"); o.Handle != link || u.attr(o.Handle).Type != vfs.Symlink {
		x.Errorf("Lookup followed a symlink")
	}
	_, err := u.find(link, "f")
	x.is(err, "Lookup in a symlink to a directory", syscall.ENOTDIR)
	u.symlink(x.dir, "tofile", "d/f")
	_, _, err = x.fs.Create(u.op, x.dir, []byte("tofile"), &vfs.CreateHow{Mode: vfs.Unchecked, Attr: vfs.SetAttr{SetSize: true}})
	x.is(err, "unchecked Create of a symlink", syscall.EEXIST, syscall.EINVAL)
	outside := u.symlink(x.dir, "outside", "/etc")
	_, err = u.find(outside, "passwd")
	x.is(err, "Lookup in a symlink to outside", syscall.ENOTDIR)
	u.content(f, "")
}

func testMknod(x *fixture) {
	if !x.opt.SpecialFiles {
		x.Skip("no special files")
	}
	u := x.self
	kinds := map[string]vfs.Type{"socket": vfs.Socket, "fifo": vfs.FIFO}
	if x.opt.Devices {
		kinds["block"], kinds["char"] = vfs.BlockDevice, vfs.CharDevice
	}
	for name, kind := range kinds {
		s := withMode(0o640)
		o, _, err := x.fs.Mknod(u.op, x.dir, []byte(name), kind, &s, 259, 65_537)
		x.ok(err, "Mknod of a ", kind)
		a := u.attr(u.handle(x.dir, name, o))
		if a.Type != kind || a.Mode != 0o640 || a.Nlink != 1 {
			x.Errorf("Mknod of a %v made %+v", kind, a)
		}
		if device := kind == vfs.BlockDevice || kind == vfs.CharDevice; device && (a.Major != 259 || a.Minor != 65_537) {
			x.Errorf("a %v of 259, 65537 has %d, %d", kind, a.Major, a.Minor)
		}
		x.is(u.remove(x.dir, name), "Remove", nil)
	}
	for _, kind := range []vfs.Type{vfs.Regular, vfs.Directory, vfs.Symlink, 0, 99} {
		_, _, err := x.fs.Mknod(u.op, x.dir, []byte("x"), kind, &vfs.SetAttr{}, 0, 0)
		x.is(err, "Mknod of a "+kind.String(), syscall.EINVAL, vfs.ErrNotSupported)
	}
}

// A device has the numbers that were asked for, or is not made. Some file systems hold smaller numbers than
// the kernel does.
func testMknodNumbers(x *fixture) {
	if !x.opt.Devices {
		x.Skip("no devices")
	}
	u := x.self
	for _, kind := range []vfs.Type{vfs.BlockDevice, vfs.CharDevice} {
		for _, c := range []struct{ major, minor uint32 }{
			{0, 1}, {1, 3}, {255, 256}, {4095, 1<<20 - 1}, {4096, 3}, {4097, 3}, {1, 1 << 20}, {1, 1<<20 + 3}, {1<<32 - 1, 1<<32 - 1},
		} {
			o, _, err := x.fs.Mknod(u.op, x.dir, []byte("dev"), kind, &vfs.SetAttr{}, c.major, c.minor)
			if err != nil {
				if c.major < 256 && c.minor < 1<<16 || !errors.Is(err, syscall.EINVAL) {
					x.Errorf("Mknod of %d, %d: %v", c.major, c.minor, err)
				}
				continue
			}
			if a := u.attr(u.handle(x.dir, "dev", o)); a.Major != c.major || a.Minor != c.minor {
				x.Errorf("Mknod of %d, %d made %d, %d", c.major, c.minor, a.Major, a.Minor)
			}
			x.ok(u.remove(x.dir, "dev"), "Remove")
		}
	}
}

func testMknodPermission(x *fixture) {
	x.users()
	if !x.opt.Devices {
		x.Skip("no devices")
	}
	bob := x.user(bobID, guestsID)
	_, _, err := x.fs.Mknod(bob.op, x.dir, []byte("null"), vfs.CharDevice, &vfs.SetAttr{}, 1, 3)
	x.is(err, "Mknod of a device by a user", syscall.EPERM)
	_, _, err = x.fs.Mknod(bob.op, x.dir, []byte("fifo"), vfs.FIFO, &vfs.SetAttr{}, 0, 0)
	x.is(err, "Mknod of a fifo by a user", nil)
}
