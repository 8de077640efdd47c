package vfstest

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

var sparseTests = []Test{
	{"sparse/allocate", testAllocate},
	{"sparse/deallocate", testDeallocate},
	{"sparse/seek", testSeek},
	{"sparse/holes agree with content", testHolesAgree},
	{"sparse/what it takes", testSparseRefused},
}

// sparse returns the file system as a vfs.Sparse, and an empty open file.
func (x *fixture) sparse() (vfs.Sparse, *opened) {
	x.Helper()
	s, ok := vfs.As[vfs.Sparse](x.raw)
	if !ok {
		x.Skip("no sparse files")
	}
	return s, x.self.mustOpen(x.self.create(x.dir, "f", 0o644), readWrite)
}

// change calls the function do, which changes the content of o, and checks that the file's Change
// grows.
func (o *opened) change(what string, do func(op *vfs.Op) error) {
	x := o.u.x
	x.Helper()
	before := o.u.attr(o.h)
	var err error
	x.attempt(o.u.op, func(op *vfs.Op) error { err = do(op); return err }, o.h)
	if err == vfs.ErrNotSupported {
		x.Skip(what + " is not supported")
	}
	x.ok(err, what)
	if after := o.u.attr(o.h); !grown(before, after) {
		x.Errorf("%s: change from %d to %d", what, before.Change, after.Change)
	}
}

func testAllocate(x *fixture) {
	s, o := x.sparse()
	allocate := func(offset, length uint64) {
		x.Helper()
		o.change("Allocate", func(op *vfs.Op) error { return s.Allocate(op, o.File, offset, length) })
	}
	_, err := o.write(0, "content")
	x.ok(err, "Write")
	allocate(0, 5)
	o.content("content")
	allocate(3, 7)
	o.content("content\x00\x00\x00")
	allocate(100_000, 100_000)
	a := x.self.attr(o.h)
	if a.Size != 200_000 || a.Used < 100_000 {
		x.Errorf("size is %d, want 200,000; %d bytes of storage", a.Size, a.Used)
	}
	o.content("content" + strings.Repeat("\x00", 200_000-7))
	usage, err := x.fs.Usage(x.self.op, x.dir)
	x.ok(err, "Usage")
	if most := usage.TotalBytes * 2; most+1<<20 < x.info.MaxFileSize {
		x.is(s.Allocate(x.self.op, o.File, 0, most+1<<20), "Allocate of more than there is", syscall.ENOSPC, syscall.EFBIG)
	}
}

func testDeallocate(x *fixture) {
	s, o := x.sparse()
	model := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // 1 MiB
	_, err := o.write(0, string(model))
	x.ok(err, "Write")
	x.ok(o.commit(), "Commit")
	before := x.self.attr(o.h)
	for _, r := range [][2]uint64{{5, 10}, {4096, 4096}, {100_000, 500_000}, {1<<20 - 7, 100}} {
		o.change("Deallocate", func(op *vfs.Op) error { return s.Deallocate(op, o.File, r[0], r[1]) })
		clear(model[r[0]:min(r[0]+r[1], 1<<20)])
		o.content(string(model))
	}
	after := x.self.attr(o.h)
	if after.Size != 1<<20 {
		x.Errorf("size is %d, was 1 MiB", after.Size)
	}
	if x.opt.Crash == nil && after.Used >= before.Used {
		x.Errorf("half of the file is given back, %d bytes of storage are left of %d", after.Used, before.Used)
	}
	for _, r := range [][2]uint64{{1 << 20, 100}, {1 << 40, 1 << 40}, {1<<63 - 1, 1 << 63}, {1<<64 - 1, 1}} {
		x.is(s.Deallocate(x.self.op, o.File, r[0], r[1]), "Deallocate behind the end", nil)
	}
	o.content(string(model))
	if a := x.self.attr(o.h); a.Size != 1<<20 {
		x.Errorf("size is %d, was 1 MiB", a.Size)
	}
}

func (o *opened) seek(s vfs.Sparse, offset uint64, what vfs.SeekWhat) (at uint64, eof bool, err error) {
	o.u.x.attempt(o.u.op, func(op *vfs.Op) error { at, eof, err = s.Seek(op, o.File, offset, what); return err }, o.h)
	return at, eof, err
}

func testSeek(x *fixture) {
	s, o := x.sparse()
	refused := func(offset uint64) {
		x.Helper()
		for _, what := range []vfs.SeekWhat{vfs.SeekData, vfs.SeekHole} {
			_, _, err := o.seek(s, offset, what)
			x.is(err, "Seek behind the end", syscall.ENXIO)
		}
	}
	refused(0)
	const mib = 1 << 20
	_, err := o.write(mib, strings.Repeat("x", mib))
	x.ok(err, "Write")
	_, err = o.setSize(3 * mib)
	x.ok(err, "SetSize")
	if _, _, err := o.seek(s, 0, vfs.SeekData); err == vfs.ErrNotSupported {
		x.Skip("no Seek")
	}
	if at, _, _ := o.seek(s, 0, vfs.SeekHole); at != 0 {
		x.Skip("holes are kept as data")
	}
	for _, c := range []struct {
		offset uint64
		what   vfs.SeekWhat
		at     uint64
		eof    bool
	}{
		{0, vfs.SeekHole, 0, false},
		{0, vfs.SeekData, mib, false},
		{mib - 1, vfs.SeekData, mib, false},
		{mib + 5, vfs.SeekData, mib + 5, false},
		{mib + 5, vfs.SeekHole, 2 * mib, false},
		{2*mib - 1, vfs.SeekHole, 2 * mib, false},
		{2*mib + 5, vfs.SeekHole, 2*mib + 5, false},
		{2*mib + 5, vfs.SeekData, 3 * mib, true}, // RFC 7862 §15.11.3
		{3*mib - 1, vfs.SeekData, 3 * mib, true},
	} {
		at, eof, err := o.seek(s, c.offset, c.what)
		if at != c.at || eof != c.eof || err != nil {
			x.Errorf("Seek(%d, %d): %d, %v, %v; want %d, %v", c.offset, c.what, at, eof, err, c.at, c.eof)
		}
	}
	refused(3 * mib)
	refused(1 << 40)
	refused(1<<64 - 1)
	// The end of a file counts as a hole.
	_, err = o.setSize(2 * mib)
	x.ok(err, "SetSize")
	if at, eof, err := o.seek(s, mib, vfs.SeekHole); at != 2*mib || !eof || err != nil {
		x.Errorf("Seek of the hole at the end: %d, %v, %v", at, eof, err)
	}
}

// After many writes and deallocations, holes read as zeros, and Seek finds data and holes in turn.
func testHolesAgree(x *fixture) {
	s, o := x.sparse()
	const size = 2 << 20
	_, err := o.setSize(size)
	x.ok(err, "SetSize")
	if _, _, err := o.seek(s, 0, vfs.SeekData); err == vfs.ErrNotSupported {
		x.Skip("no Seek")
	}
	random := rand.New(rand.NewPCG(1, 3))
	model := make([]byte, size)
	for range 40 {
		at := random.IntN(size - 1)
		n := 1 + random.IntN(min(size-at, 200_000))
		if random.IntN(3) == 0 {
			err = s.Deallocate(x.self.op, o.File, uint64(at), uint64(n))
			clear(model[at : at+n])
		} else {
			piece := bytes.Repeat([]byte{byte(1 + random.IntN(255))}, n)
			_, err = o.write(uint64(at), string(piece))
			copy(model[at:], piece)
		}
		if err == vfs.ErrNotSupported {
			x.Skip("no Deallocate")
		}
		x.ok(err, "change")
	}
	o.content(string(model))
	if first, second := o.layout(s, model), o.layout(s, model); !slices.Equal(first, second) {
		x.Errorf("one file at rest: runs that end at %d, and then at %d", first, second)
	}
}

// layout returns the ends of the file's runs: of a hole that may be empty, of data, and so on in turn. model is
// the file's content.
func (o *opened) layout(s vfs.Sparse, model []byte) (ends []uint64) {
	x := o.u.x
	x.Helper()
	what, at, size := vfs.SeekData, uint64(0), uint64(len(model))
	for at < size {
		next, eof, err := o.seek(s, at, what)
		if err != nil || next < at || eof != (next == size) {
			x.Fatalf("Seek(%d, %d): %d, %v, %v", at, what, next, eof, err)
		}
		if what == vfs.SeekData && len(bytes.Trim(model[at:next], "\x00")) > 0 {
			x.Errorf("data between %d and %d is told for a hole", at, next)
		}
		ends = append(ends, next)
		at, what = next, vfs.SeekHole-what
	}
	return ends
}

func testSparseRefused(x *fixture) {
	s, o := x.sparse()
	u := x.self
	x.ok(u.write(o.h, 0, "content"), "Write")
	r, w := u.mustOpen(o.h, vfs.OpenRead), u.mustOpen(o.h, vfs.OpenWrite)
	x.is(s.Allocate(u.op, r.File, 0, 10), "Allocate by a File to read", syscall.EBADF)
	x.is(s.Deallocate(u.op, r.File, 0, 10), "Deallocate by a File to read", syscall.EBADF)
	_, _, err := s.Seek(u.op, w.File, 0, vfs.SeekData)
	x.is(err, "Seek by a File to write", syscall.EBADF)
	x.is(s.Allocate(u.op, o.File, 0, 0), "Allocate of nothing", syscall.EINVAL)
	x.is(s.Deallocate(u.op, o.File, 0, 0), "Deallocate of nothing", syscall.EINVAL)
	for _, r := range [][2]uint64{{1 << 63, 1}, {1<<63 - 1, 10}, {1<<64 - 1, 1<<64 - 1}} {
		x.is(s.Allocate(u.op, o.File, r[0], r[1]), "Allocate behind the largest size", syscall.EFBIG)
	}
	o.Close()
	x.is(s.Allocate(u.op, o.File, 0, 10), "Allocate by a File that is closed", syscall.EBADF)
	u.content(o.h, "content")
	// A change by a user other than the owner clears the set-id bits.
	if !x.opt.CanSwitchUsers {
		return
	}
	h := x.owned("set-id", false)
	x.ok(x.self.write(h, 0, "content"), "Write")
	bob := x.user(bobID, guestsID)
	b := bob.mustOpen(h, vfs.OpenWrite)
	x.ok(x.self.set(h, withMode(0o6777)), "chmod")
	b.change("Allocate", func(op *vfs.Op) error { return s.Allocate(op, b.File, 0, 100) })
	if a := x.self.attr(h); a.Mode != 0o777 {
		x.Errorf("after Allocate the mode is %o, want 777", a.Mode)
	}
}
