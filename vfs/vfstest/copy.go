package vfstest

import (
	"bytes"
	"strings"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

var copyTests = []Test{
	{"copy/ranges", testCopyRanges},
	{"copy/much", testCopyMuch},
	{"copy/within a file", testCopyWithin},
	{"copy/what it takes", testCopyRefused},
	{"copy/clones", testClone},
}

// copier returns the file system as a vfs.Copier, and two open files.
func (x *fixture) copier() (c vfs.Copier, from, to *opened) {
	x.Helper()
	c, ok := vfs.As[vfs.Copier](x.raw)
	if !ok {
		x.Skip("does not copy")
	}
	u := x.self
	return c, u.mustOpen(u.create(x.dir, "from", 0o644), readWrite), u.mustOpen(u.create(x.dir, "to", 0o644), readWrite)
}

// copyAll calls CopyRange until count bytes are copied, or a call copies nothing.
func (o *opened) copyAll(c vfs.Copier, from *opened, fromOffset, toOffset, count uint64) (copied uint64) {
	x := o.u.x
	x.Helper()
	for {
		var n uint64
		var err error
		x.attempt(o.u.op, func(op *vfs.Op) error {
			n, err = c.CopyRange(op, from.File, fromOffset+copied, o.File, toOffset+copied, count-copied)
			return err
		}, o.h)
		x.ok(err, "CopyRange")
		if copied += n; n == 0 || copied == count {
			return copied
		}
	}
}

func testCopyRanges(x *fixture) {
	c, from, to := x.copier()
	_, err := from.write(0, "0123456789")
	x.ok(err, "Write")
	for _, r := range []struct {
		from, to, count, copied uint64
		want                    string
	}{
		{2, 0, 3, 3, "234"},
		{0, 1, 4, 4, "20123"},
		{8, 7, 100, 2, "20123\x00\x0089"},
		{10, 0, 5, 0, "20123\x00\x0089"},
		{1 << 40, 0, 5, 0, "20123\x00\x0089"},
		{0, 0, 10, 10, "0123456789"},
	} {
		before := x.self.attr(to.h)
		if n := to.copyAll(c, from, r.from, r.to, r.count); n != r.copied {
			x.Errorf("%d bytes copied of %d at %d, want %d", n, r.count, r.from, r.copied)
		}
		to.content(r.want)
		if after := x.self.attr(to.h); r.copied > 0 && !grown(before, after) {
			x.Errorf("CopyRange: change from %d to %d", before.Change, after.Change)
		}
	}
	x.is(to.commit(), "Commit", nil)
	from.content("0123456789")
	_, err = to.setSize(0)
	x.ok(err, "SetSize")
	n, err := c.CopyRange(x.self.op, from.File, 4, to.File, 0, 0)
	if n != 6 || err != nil {
		x.Errorf("CopyRange to the end: %d, %v", n, err)
	}
	to.content("456789")
}

// A copy that needs several calls is complete, and zeros stay zeros.
func testCopyMuch(x *fixture) {
	c, from, to := x.copier()
	const size = 20 << 20
	model := make([]byte, size)
	for _, at := range []int{0, 5 << 20, 19 << 20} {
		piece := bytes.Repeat([]byte{byte(at>>20) + 1, 7, 9}, 100_000)
		copy(model[at:], piece)
		_, err := from.write(uint64(at), string(piece))
		x.ok(err, "Write")
	}
	_, err := from.setSize(size)
	x.ok(err, "SetSize")
	if n := to.copyAll(c, from, 0, 3, size); n != size {
		x.Errorf("%d bytes copied of %d", n, size)
	}
	to.content("\x00\x00\x00" + string(model))
}

func testCopyWithin(x *fixture) {
	c, from, _ := x.copier()
	_, err := from.write(0, "0123456789")
	x.ok(err, "Write")
	again := x.self.mustOpen(from.h, vfs.OpenRead)
	if n := from.copyAll(c, again, 0, 10, 5); n != 5 {
		x.Errorf("%d bytes copied of 5", n)
	}
	from.content("012345678901234")
	for _, r := range [][3]uint64{{0, 4, 5}, {4, 0, 5}, {3, 3, 1}} {
		_, err := c.CopyRange(x.self.op, again.File, r[0], from.File, r[1], r[2])
		x.is(err, "CopyRange of what overlaps", syscall.EINVAL)
	}
	from.content("012345678901234")
}

func testCopyRefused(x *fixture) {
	c, from, to := x.copier()
	u := x.self
	_, err := from.write(0, "content")
	x.ok(err, "Write")
	r, w := u.mustOpen(to.h, vfs.OpenRead), u.mustOpen(from.h, vfs.OpenWrite)
	_, err = c.CopyRange(u.op, from.File, 0, r.File, 0, 5)
	x.is(err, "CopyRange to a File to read", syscall.EBADF)
	_, err = c.CopyRange(u.op, w.File, 0, to.File, 0, 5)
	x.is(err, "CopyRange from a File to write", syscall.EBADF)
	_, err = c.CopyRange(u.op, strange{from.File}, 0, to.File, 0, 5)
	x.is(err, "CopyRange from a File of no FileSystem", syscall.EXDEV)
	x.is(c.CloneRange(u.op, from.File, 0, r.File, 0, 0), "CloneRange to a File to read", syscall.EBADF)
	x.is(c.CloneRange(u.op, strange{from.File}, 0, to.File, 0, 0), "CloneRange from a File of no FileSystem", syscall.EXDEV)
	_, err = c.CopyRange(u.op, from.File, 0, to.File, 1<<63, 5)
	x.is(err, "CopyRange behind the largest size", syscall.EFBIG)
	to.content("")
	from.Close()
	_, err = c.CopyRange(u.op, from.File, 0, to.File, 0, 5)
	x.is(err, "CopyRange from a File that is closed", syscall.EBADF)
}

// strange is a File that belongs to no file system.
type strange struct{ vfs.File }

func testClone(x *fixture) {
	c, from, to := x.copier()
	u := x.self
	const block = 1 << 16
	text := strings.Repeat("0123456789abcdef", block/16)
	_, err := from.write(0, text+text+"tail")
	x.ok(err, "Write")
	_, err = to.write(0, "other")
	x.ok(err, "Write")
	clone := func(fromOffset, toOffset, count uint64) (err error) {
		x.attempt(u.op, func(op *vfs.Op) error {
			err = c.CloneRange(op, from.File, fromOffset, to.File, toOffset, count)
			return err
		}, to.h)
		return err
	}
	if err = clone(0, 0, block); err == vfs.ErrNotSupported {
		to.content("other")
		x.Skip("no clones")
	}
	x.ok(err, "CloneRange")
	to.content(text)
	x.ok(clone(block, 2*block, 0), "CloneRange to the end")
	to.content(text + strings.Repeat("\x00", block) + text + "tail")
	// Later writes to one file do not change the other.
	_, err = from.write(block, "changed")
	x.ok(err, "Write")
	_, err = to.write(0, "mine")
	x.ok(err, "Write")
	to.content("mine" + text[4:] + strings.Repeat("\x00", block) + text + "tail")
	from.content(text + "changed" + text[7:] + "tail")
	before := u.attr(to.h)
	for _, r := range [][3]uint64{{1, 0, block}, {0, 1, block}, {0, 0, 100}, {block, 0, 3 * block}, {1 << 40, 0, block}} {
		x.is(clone(r[0], r[1], r[2]), "CloneRange of what is not aligned, or not there", syscall.EINVAL)
	}
	if after := u.attr(to.h); after.Size != before.Size {
		x.Errorf("what was refused made %+v of %+v", after, before)
	}
}
