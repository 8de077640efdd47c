package vfstest

import (
	"strings"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

var lookupTests = []Test{
	{"lookup/found", testLookup},
	{"lookup/dots", testDots},
	{"lookup/errors", testLookupErrors},
	{"lookup/handles that are none", testBadHandle},
	{"lookup/longest names", testLongestNames},
}

func testLookup(x *fixture) {
	u := x.self
	h := u.create(x.dir, "f", 0o644)
	var dirAttr vfs.Attr
	o, err := x.fs.Lookup(u.op, x.dir, []byte("f"), &dirAttr)
	x.ok(err, "Lookup")
	if o.Handle != h {
		x.Errorf("handle %v, want %v", o.Handle, h)
	}
	if a := u.attr(h); o.HasAttr && o.Attr != a {
		x.Errorf("Lookup answered\n%+v, GetAttr\n%+v", o.Attr, a)
	}
	if a := u.attr(x.dir); a.FileID != dirAttr.FileID || a.Change != dirAttr.Change {
		x.Errorf("Lookup's attributes of the directory\n%+v, GetAttr's\n%+v", dirAttr, a)
	}
	dirAttr = vfs.Attr{}
	_, err = x.fs.Lookup(u.op, x.dir, []byte("F"), &dirAttr)
	if !x.info.CaseInsensitive {
		x.is(err, "Lookup of a name that is not there", syscall.ENOENT)
		if a := u.attr(x.dir); a.FileID != dirAttr.FileID || a.Type != vfs.Directory {
			x.Errorf("a failed Lookup's attributes of the directory: %+v", dirAttr)
		}
	}
}

func testDots(x *fixture) {
	u := x.self
	d := u.mkdir(x.dir, "d", 0o755)
	root := x.fs.Root()
	for _, c := range []struct {
		in   vfs.Handle
		name string
		want vfs.Handle
	}{{d, ".", d}, {d, "..", x.dir}, {x.dir, "..", root}, {root, ".", root}, {root, "..", root}} {
		if o := u.lookup(c.in, c.name); o.Handle != c.want {
			x.Errorf("%q of %v is %v, want %v", c.name, c.in, o.Handle, c.want)
		}
	}
	if u.attr(root).Type != vfs.Directory {
		x.Errorf("the root is no directory")
	}
}

func testLookupErrors(x *fixture) {
	u := x.self
	f := u.create(x.dir, "f", 0o644)
	_, err := u.find(f, "x")
	x.is(err, "Lookup in a file", syscall.ENOTDIR)
	for _, n := range badNames {
		_, err := u.find(x.dir, n)
		x.is(err, "Lookup of "+n, syscall.EINVAL)
	}
	_, err = u.find(x.dir, strings.Repeat("n", int(x.info.MaxName)+1))
	x.is(err, "Lookup of a long name", syscall.ENAMETOOLONG)
}

func testBadHandle(x *fixture) {
	root := x.fs.Root()
	if root.Len() > vfs.MaxHandle || root.IsZero() {
		x.Fatalf("the root's handle has %d bytes", root.Len())
	}
	bad := map[string]vfs.Handle{"none": {}}
	for name, b := range map[string][]byte{
		"a byte":   {1},
		"nonsense": []byte("this was never a handle of anything"),
		"zeros":    make([]byte, root.Len()),
		"cut":      root.Bytes()[:root.Len()-1],
		"longest":  []byte(strings.Repeat("\xff", vfs.MaxHandle)),
	} {
		if h, ok := vfs.MakeHandle(b); ok {
			bad[name] = h
		}
	}
	for name, h := range bad {
		var a vfs.Attr
		x.is(x.fs.GetAttr(x.self.op, h, &a), "GetAttr of a bad handle: "+name, vfs.ErrBadHandle, syscall.ESTALE)
		_, err := x.fs.Lookup(x.self.op, h, []byte("x"), &a)
		x.is(err, "Lookup in a bad handle: "+name, vfs.ErrBadHandle, syscall.ESTALE)
	}
}

// A name of Info.MaxName bytes can be made, found, listed, renamed and removed. No call takes a name that
// is one byte longer.
func testLongestNames(x *fixture) {
	u := x.self
	most := int(x.info.MaxName)
	name := func(first string, n int) string { return first + strings.Repeat("n", n-1) }
	file, dir, other, long := name("f", most), name("d", most), name("o", most), name("x", most+1)
	f := u.create(x.dir, file, 0o644)
	d := u.mkdir(x.dir, dir, 0o755)
	if o := u.lookup(x.dir, file); o.Handle != f {
		x.Errorf("Lookup of the longest name finds another file")
	}
	listed := u.names(x.dir)
	for _, n := range []string{file, dir} {
		if _, ok := listed[n]; !ok {
			x.Errorf("a name of %d bytes is not listed", len(n))
		}
	}
	plus := map[string]bool{}
	var a vfs.Attr
	_, err := x.fs.ReadDir(u.op, x.dir, 0, true, &a, func(e *vfs.DirEntry) bool { plus[string(e.Name)] = true; return true })
	if x.ok(err, "ReadDir"); !plus[file] || !plus[dir] {
		x.Errorf("a name of %d bytes is not listed with attributes", most)
	}
	x.ok(u.rename(x.dir, file, d, other), "Rename to the longest name")
	if x.info.HardLinks {
		x.ok(u.link(f, x.dir, file), "Link")
		x.is(u.link(f, x.dir, long), "Link", syscall.ENAMETOOLONG)
		x.ok(u.remove(x.dir, file), "Remove")
	}
	attr := withMode(0o644)
	_, err = u.find(x.dir, long)
	x.is(err, "Lookup", syscall.ENAMETOOLONG)
	_, _, err = x.fs.Create(u.op, x.dir, []byte(long), &vfs.CreateHow{Attr: attr})
	x.is(err, "Create", syscall.ENAMETOOLONG)
	_, _, err = x.fs.Mkdir(u.op, x.dir, []byte(long), &attr)
	x.is(err, "Mkdir", syscall.ENAMETOOLONG)
	_, _, err = x.fs.Symlink(u.op, x.dir, []byte(long), []byte("text"), &vfs.SetAttr{})
	x.is(err, "Symlink", syscall.ENAMETOOLONG)
	if x.opt.SpecialFiles {
		_, _, err = x.fs.Mknod(u.op, x.dir, []byte(long), vfs.FIFO, &attr, 0, 0)
		x.is(err, "Mknod", syscall.ENAMETOOLONG)
	}
	x.is(u.rename(d, other, x.dir, long), "Rename", syscall.ENAMETOOLONG)
	x.is(u.rename(x.dir, long, x.dir, file), "Rename", syscall.ENAMETOOLONG)
	x.is(u.remove(x.dir, long), "Remove", syscall.ENAMETOOLONG)
	x.is(u.rmdir(x.dir, long), "Rmdir", syscall.ENAMETOOLONG)
	x.ok(u.remove(d, other), "Remove")
	x.ok(u.rmdir(x.dir, dir), "Rmdir")
}
