package vfstest

import (
	"fmt"
	"strings"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// removed opens a file twice, to write and to read, and then calls the function gone, which
// removes the file's only name. It returns both open files.
func (x *fixture) removed(h vfs.Handle, gone func() error) (w, r *opened) {
	x.Helper()
	u := x.self
	w, r = u.mustOpen(h, readWrite), u.mustOpen(h, vfs.OpenRead)
	_, err := w.write(0, "content")
	x.ok(err, "Write")
	before := u.attr(h)
	x.ok(gone(), "removal")
	after := u.attr(h)
	if after.Nlink != 0 || after.FileID != before.FileID || after.Size != 7 || !grown(before, after) {
		x.Errorf("a removed file that is open is\n%+v, was\n%+v", after, before)
	}
	return w, r
}

// lives checks that the removed file still works through its handle h and the open files w and r.
func (x *fixture) lives(h vfs.Handle, w, r *opened) {
	x.Helper()
	u := x.self
	_, err := w.write(7, "!")
	x.is(err, "Write to a removed file", nil)
	r.content("content!")
	u.content(h, "content!")
	x.is(u.write(h, 0, "C"), "Write by the handle", nil)
	x.is(u.set(h, vfs.SetAttr{SetSize: true, Size: 4}), "truncation by the handle", nil)
	x.is(w.commit(), "Commit", nil)
	x.is(u.commit(h), "Commit by the handle", nil)
	r.content("Cont")
	if !x.opt.NoOwnership {
		x.is(u.set(h, withMode(0o600)), "chmod by the handle", nil)
	}
	if got := u.access(h); got&vfs.AccessRead == 0 {
		x.Errorf("Access of a removed file: %#x", got)
	}
	again := u.mustOpen(h, readWrite)
	again.content("Cont")
	again.Close()
	if x.info.HardLinks {
		x.is(u.link(h, x.dir, "linked"), "Link of a removed file", syscall.ESTALE)
	}
}

// dies closes w and r and checks that the file does not exist any more.
func (x *fixture) dies(h vfs.Handle, w, r *opened) {
	x.Helper()
	w.Close()
	r.content("Cont")
	x.self.attr(h)
	r.Close()
	var a vfs.Attr
	x.is(x.fs.GetAttr(x.self.op, h, &a), "GetAttr of a removed file after the last Close", syscall.ESTALE)
	_, err := x.self.open(h, vfs.OpenRead)
	x.is(err, "Open of a removed file after the last Close", syscall.ESTALE)
}

func testOpenRemoved(x *fixture) {
	u := x.self
	h := u.create(x.dir, "f", 0o644)
	w, r := x.removed(h, func() error { return u.remove(x.dir, "f") })
	_, err := u.find(x.dir, "f")
	x.is(err, "Lookup of a removed file", syscall.ENOENT)
	other := u.create(x.dir, "f", 0o644)
	if other == h {
		x.Fatalf("a new file is the one that was removed")
	}
	u.mustWrite(other, 0, "other")
	x.lives(h, w, r)
	x.dies(h, w, r)
	u.content(other, "other")
	// If a file with two hard links loses one of them, it exists even after the last Close.
	if !x.info.HardLinks {
		return
	}
	x.ok(u.link(other, x.dir, "second"), "Link")
	o := u.mustOpen(other, vfs.OpenRead)
	x.ok(u.remove(x.dir, "f"), "Remove")
	o.content("other")
	o.Close()
	u.content(other, "other")
}

func testOpenReplaced(x *fixture) {
	u := x.self
	h := u.create(x.dir, "f", 0o644)
	u.create(x.dir, "g", 0o644)
	w, r := x.removed(h, func() error { return u.rename(x.dir, "g", x.dir, "f") })
	x.lives(h, w, r)
	x.dies(h, w, r)
}

// A removed file that is open keeps its space: new files do not overwrite its data.
func testOpenRemovedData(x *fixture) {
	u := x.self
	h := u.create(x.dir, "f", 0o644)
	o := u.mustOpen(h, readWrite)
	x.ok(u.remove(x.dir, "f"), "Remove")
	text := strings.Repeat("0123456789", 30_000)
	_, err := o.write(0, text)
	x.ok(err, "Write")
	for i := range 20 {
		other := u.create(x.dir, fmt.Sprint("g", i), 0o644)
		u.mustWrite(other, 0, strings.Repeat("x", 10_000))
	}
	o.content(text)
	if a := u.attr(h); a.Size != uint64(len(text)) {
		x.Errorf("size is %d, want %d", a.Size, len(text))
	}
}
