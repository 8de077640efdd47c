package vfstest

import (
	"fmt"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

var handleTests = []Test{
	{"handles/stale after removal", testStale},
	{"handles/stable over renames", testHandlesRename},
	{"handles/stable over a restart", testHandlesRestart},
	{"handles/not used again", testHandlesNotReused},
}

// every calls each method that takes a handle, except Info and Usage, with the handle h, and
// passes the method's name and error to f.
func (u *user) every(h vfs.Handle, f func(what string, err error)) {
	x, op, a, n := u.x, u.op, vfs.Attr{}, []byte("name")
	file := u.create(x.dir, "beside", 0o644)
	defer u.remove(x.dir, "beside")
	f("GetAttr", x.fs.GetAttr(op, h, &a))
	_, err := x.fs.SetAttr(op, h, &vfs.SetAttr{SetMode: true, Mode: 0o600}, nil)
	f("SetAttr", err)
	_, err = x.fs.Access(op, h, allAccess, &a)
	f("Access", err)
	_, err = x.fs.Lookup(op, h, n, &a)
	f("Lookup", err)
	_, err = x.fs.ReadLink(op, h, make([]byte, 5000), &a)
	f("ReadLink", err)
	_, _, err = x.fs.Read(op, h, 0, make([]byte, 10), &a)
	f("Read", err)
	_, _, _, err = x.fs.Write(op, h, 0, [][]byte{n}, vfs.FileSync)
	f("Write", err)
	_, err = x.fs.Commit(op, h, 0, 0)
	f("Commit", err)
	_, _, err = x.fs.Create(op, h, n, &vfs.CreateHow{})
	f("Create", err)
	_, _, err = x.fs.Mkdir(op, h, n, &vfs.SetAttr{})
	f("Mkdir", err)
	if x.info.Symlinks {
		_, _, err = x.fs.Symlink(op, h, n, n, &vfs.SetAttr{})
		f("Symlink", err)
	}
	if x.opt.SpecialFiles {
		_, _, err = x.fs.Mknod(op, h, n, vfs.FIFO, &vfs.SetAttr{}, 0, 0)
		f("Mknod", err)
	}
	_, err = x.fs.Remove(op, h, n)
	f("Remove", err)
	_, err = x.fs.Rmdir(op, h, n)
	f("Rmdir", err)
	_, _, err = x.fs.Rename(op, h, n, x.dir, n)
	f("Rename from", err)
	_, _, err = x.fs.Rename(op, x.dir, []byte("beside"), h, n)
	f("Rename to", err)
	if x.info.HardLinks {
		_, err = x.fs.Link(op, h, x.dir, n, &a)
		f("Link of", err)
		_, err = x.fs.Link(op, file, h, n, &a)
		f("Link in", err)
	}
	_, err = x.fs.ReadDir(op, h, 0, true, &a, func(*vfs.DirEntry) bool { return true })
	f("ReadDir", err)
}

func testStale(x *fixture) {
	u := x.self
	file := u.create(x.dir, "f", 0o644)
	u.mustWrite(file, 0, "content") // makes the file system open descriptors, which must not keep the file after its removal
	u.content(file, "content")
	dir := u.make(x.dir, "d", anEmptyDir)
	u.names(dir)
	x.ok(u.remove(x.dir, "f"), "Remove")
	x.ok(u.rmdir(x.dir, "d"), "Rmdir")
	u.every(file, func(what string, err error) {
		x.is(err, what+" with the handle of a removed file", syscall.ESTALE)
	})
	u.every(dir, func(what string, err error) {
		x.is(err, what+" with the handle of a removed directory", syscall.ESTALE)
	})
	// A new file with the same name is another file.
	again := u.create(x.dir, "f", 0o644)
	if again == file {
		x.Errorf("a new file has a removed file's handle")
	}
	u.content(again, "")
}

func testHandlesRename(x *fixture) {
	u := x.self
	a, b := u.mkdir(x.dir, "a", 0o755), u.mkdir(x.dir, "b", 0o755)
	sub := u.mkdir(a, "sub", 0o755)
	f := u.create(sub, "f", 0o644)
	u.mustWrite(f, 0, "content")
	id := u.attr(f).FileID
	for i, move := range []func() error{
		func() error { return u.rename(sub, "f", sub, "g") },
		func() error { return u.rename(sub, "g", b, "f") },
		func() error { return u.rename(b, "f", sub, "h") },
		func() error { return u.rename(a, "sub", b, "other") },
		func() error { return u.rename(x.dir, "b", a, "b") },
		func() error { return u.rename(x.dir, "a", x.dir, "z") },
	} {
		x.ok(move(), "Rename ", i)
		u.content(f, "content")
		if got := u.attr(f).FileID; got != id {
			x.Errorf("after rename %d the file's number is %d, was %d", i, got, id)
		}
	}
	if u.lookup(sub, "h").Handle != f || u.lookup(sub, "..").Handle != b || u.lookup(b, "..").Handle != a {
		x.Errorf("after renames the tree is not where it was moved")
	}
	u.mustWrite(f, 7, "!")
	u.content(u.lookup(sub, "h").Handle, "content!")
}

func testHandlesRestart(x *fixture) {
	u := x.self
	root := x.fs.Root()
	d := u.mkdir(x.dir, "d", 0o755)
	f := u.create(d, "f", 0o644)
	u.mustWrite(f, 0, "content")
	x.ok(u.commit(f), "Commit")
	gone := u.create(d, "gone", 0o644)
	moved := u.create(d, "moved", 0o644)
	x.ok(u.remove(d, "gone"), "Remove")
	x.ok(u.rename(d, "moved", x.dir, "there"), "Rename")
	before := u.attr(f)
	all, _, err := u.list(x.dir, 0, 100, false)
	x.ok(err, "ReadDir")
	verifier := x.raw.Verifier()
	x.restart(x.opt.Restart)
	if x.raw.Verifier() == verifier {
		x.Errorf("a restart did not change the verifier")
	}
	if x.fs.Root() != root {
		x.Fatalf("after a restart the root has another handle")
	}
	u.content(f, "content")
	if after := u.attr(f); after.FileID != before.FileID || after.FSID != before.FSID || after.Change < before.Change || after.Mode != before.Mode {
		x.Errorf("after a restart a file is\n%+v, was\n%+v", after, before)
	}
	if u.lookup(d, "f").Handle != f || u.lookup(x.dir, "there").Handle != moved || u.lookup(d, "..").Handle != x.dir {
		x.Errorf("after a restart files have other handles")
	}
	var a vfs.Attr
	x.is(x.fs.GetAttr(u.op, gone, &a), "GetAttr of what was removed before the restart", syscall.ESTALE)
	// A listing that began before the restart continues after it.
	for i, e := range all {
		rest, eof, err := u.list(x.dir, e.Cookie, 100, false)
		if err != nil || !eof || len(rest) != len(all)-i-1 {
			x.Errorf("after a restart, %d entries follow entry %d of %d, %v", len(rest), i, len(all), err)
		}
	}
}

func testHandlesNotReused(x *fixture) {
	u := x.self
	seen := map[vfs.Handle]int{}
	for i := range 200 {
		h := u.create(x.dir, "f", 0o644)
		if at, ok := seen[h]; ok {
			x.Fatalf("file %d has the handle of file %d", i, at)
		}
		seen[h] = i
		x.ok(u.remove(x.dir, "f"), "Remove")
	}
	for h, i := range seen {
		var a vfs.Attr
		x.is(x.fs.GetAttr(u.op, h, &a), fmt.Sprintf("GetAttr of removed file %d", i), syscall.ESTALE)
	}
}
