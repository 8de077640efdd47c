package vfstest

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

var ioTests = []Test{
	{"io/edges of a read", testReadEdges},
	{"io/pieces", testPieces},
	{"io/kinds", testKinds},
	{"io/large offsets", testLargeOffsets},
	{"io/too large", testTooLarge},
	{"io/nothing written", testEmptyWrite},
	{"io/stability", testStability},
}

func testReadEdges(x *fixture) {
	u := x.self
	h := u.create(x.dir, "f", 0o644)
	u.mustWrite(h, 0, "0123456789")
	for _, c := range []struct {
		off  uint64
		n    int
		want string
		eof  bool
	}{
		{0, 10, "0123456789", true},
		{0, 11, "0123456789", true},
		{0, 9, "012345678", false},
		{9, 1, "9", true},
		{9, 100, "9", true},
		{10, 1, "", true},
		{11, 1, "", true},
		{1 << 40, 1, "", true},
		{1<<63 - 1, 1, "", true},
		{1<<64 - 1, 10, "", true},
		{3, 4, "3456", false},
	} {
		var a vfs.Attr
		buf := bytes.Repeat([]byte{'!'}, c.n)
		n, eof, err := x.fs.Read(u.op, h, c.off, buf, &a)
		if err != nil || string(buf[:n]) != c.want || eof != c.eof {
			x.Errorf("Read(%d, %d): %q, %v, %v; want %q, %v", c.off, c.n, buf[:n], eof, err, c.want, c.eof)
		}
		if a.Size != 10 {
			x.Errorf("Read(%d, %d): size %d in the attributes", c.off, c.n, a.Size)
		}
	}
	empty := u.create(x.dir, "empty", 0o644)
	u.content(empty, "")
}

// After writes of many pieces at odd offsets, the file's content equals a byte slice with the same
// writes.
func testPieces(x *fixture) {
	u := x.self
	h := u.create(x.dir, "f", 0o644)
	random := rand.New(rand.NewPCG(1, 2))
	model := []byte{}
	const most = 300_000
	for i := range 60 {
		off := random.IntN(most)
		var data [][]byte
		for range random.IntN(6) {
			piece := make([]byte, []int{0, 1, 3, 4096, random.IntN(70_000)}[random.IntN(5)])
			for j := range piece {
				piece[j] = byte(random.Uint32())
			}
			data = append(data, piece)
		}
		whole := bytes.Join(data, nil)
		stable := vfs.Stability(i % 3)
		n, done, ch, err := x.fs.Write(u.op, h, uint64(off), data, stable)
		if err != nil || n != len(whole) || done < stable && !x.opt.NoSync {
			x.Fatalf("Write of %d pieces at %d: %d of %d, %v asked %v, %v", len(data), off, n, len(whole), done, stable, err)
		}
		if len(whole) > 0 {
			if end := off + len(whole); end > len(model) {
				model = append(model, make([]byte, end-len(model))...)
			}
			copy(model[off:], whole)
		}
		if ch.HasAfter && ch.After.Size != uint64(len(model)) {
			x.Fatalf("size after the write is %d, want %d", ch.After.Size, len(model))
		}
		from := random.IntN(len(model) + 1)
		length := random.IntN(100_000)
		got, err := u.read(h, uint64(from), length)
		x.ok(err, "Read")
		if want := model[from:min(from+length, len(model))]; got != string(want) {
			x.Fatalf("after %d writes, %d bytes at %d differ", i+1, length, from)
		}
	}
	u.content(h, string(model))
	if _, err := x.fs.Commit(u.op, h, 0, 0); err != nil {
		x.Errorf("Commit: %v", err)
	}
	if _, err := x.fs.Commit(u.op, h, 1<<63, 10); err != nil {
		x.is(err, "Commit behind the end", syscall.EINVAL)
	}
}

// READ, WRITE and truncation of a directory, a symlink or a FIFO return errors, and so do ReadLink
// and ReadDir of a file.
func testKinds(x *fixture) {
	u := x.self
	try := func(what string, h vfs.Handle, want ...error) {
		x.Helper()
		_, err := u.read(h, 0, 10)
		x.is(err, "Read of "+what, want...)
		x.is(u.write(h, 0, "x"), "Write to "+what, want...)
		x.is(u.set(h, vfs.SetAttr{SetSize: true}), "truncation of "+what, want...)
	}
	try("a directory", x.dir, syscall.EISDIR)
	if x.info.Symlinks {
		try("a symlink", u.symlink(x.dir, "link", "text"), syscall.EINVAL)
	}
	if x.opt.SpecialFiles {
		s := withMode(0o666)
		o, _, err := x.fs.Mknod(u.op, x.dir, []byte("fifo"), vfs.FIFO, &s, 0, 0)
		x.ok(err, "Mknod")
		try("a fifo", u.handle(x.dir, "fifo", o), syscall.EINVAL)
	}
	f := u.create(x.dir, "f", 0o644)
	var a vfs.Attr
	_, err := x.fs.ReadLink(u.op, f, make([]byte, 100), &a)
	x.is(err, "ReadLink of a file", syscall.EINVAL)
	_, err = x.fs.ReadDir(u.op, f, 0, false, &a, func(*vfs.DirEntry) bool { return true })
	x.is(err, "ReadDir of a file", syscall.ENOTDIR)
	x.is(u.write(f, 0, strings.Repeat("x", 10)), "Write", nil)
}

// Offsets beyond 2 GiB and 4 GiB work, and holes read as zeros.
func testLargeOffsets(x *fixture) {
	u := x.self
	h := u.create(x.dir, "f", 0o644)
	var size uint64
	for _, off := range []uint64{1<<31 - 3, 1 << 31, 1<<32 - 5, 1<<32 + 4095, 1<<33 + 1, 1 << 40} {
		if x.opt.Sparse != 0 && off+10 > x.opt.Sparse || off+10 > x.info.MaxFileSize {
			break
		}
		u.mustWrite(h, off, "0123456789")
		size = off + 10
		if a := u.attr(h); a.Size != size {
			x.Errorf("size is %d, want %d", a.Size, size)
		}
		for _, c := range []struct {
			off  uint64
			want string
		}{{off - 2, "\x00\x00012"}, {off + 1, "123456789"}, {off + 10, ""}} {
			if c.off < off && off == 1<<31 {
				continue // the previous write covers this offset
			}
			got, err := u.read(h, c.off, len(c.want))
			if err != nil || got != c.want {
				x.Errorf("Read of %d bytes at %d: %q, %v; want %q", len(c.want), c.off, got, err, c.want)
			}
		}
		if _, err := x.fs.Commit(u.op, h, off, 10); err != nil {
			x.Errorf("Commit at %d: %v", off, err)
		}
	}
	if size == 0 {
		x.Skip("no sparse files")
	}
	if a := u.attr(h); a.Used > 1<<30 {
		x.Errorf("a file of a few bytes takes %d of storage", a.Used)
	}
	x.ok(u.set(h, vfs.SetAttr{SetSize: true, Size: size - 5}), "truncation")
	got, err := u.read(h, size-10, 10)
	if err != nil || got != "01234" {
		x.Errorf("after a truncation at %d: %q, %v", size-5, got, err)
	}
}

func testTooLarge(x *fixture) {
	u := x.self
	h := u.create(x.dir, "f", 0o644)
	u.mustWrite(h, 0, "content")
	most := x.info.MaxFileSize
	for _, off := range []uint64{most, most + 1, 1<<63 - 1, 1 << 63, 1<<64 - 4, 1<<64 - 1} {
		n, _, _, err := x.fs.Write(u.op, h, off, [][]byte{[]byte("0123456789")}, vfs.Unstable)
		if n != 0 {
			x.Errorf("%d bytes were written at %d", n, off)
		}
		x.is(err, "Write behind the largest size", syscall.EFBIG, syscall.EINVAL)
	}
	if most < 1<<64-1 {
		x.is(u.set(h, vfs.SetAttr{SetSize: true, Size: most + 1}), "truncation to more than the largest size", syscall.EFBIG, syscall.EINVAL)
	}
	x.is(u.set(h, vfs.SetAttr{SetSize: true, Size: 1<<64 - 1}), "truncation to 2^64-1", syscall.EFBIG, syscall.EINVAL)
	u.content(h, "content")
}

func testEmptyWrite(x *fixture) {
	u := x.self
	h := u.create(x.dir, "f", 0o644)
	u.mustWrite(h, 0, "content")
	before := u.attr(h)
	for _, data := range [][][]byte{nil, {}, {nil}, {{}, nil}} {
		for _, off := range []uint64{0, 7, 1000} {
			n, _, _, err := x.fs.Write(u.op, h, off, data, vfs.FileSync)
			if n != 0 || err != nil {
				x.Errorf("Write of nothing at %d: %d, %v", off, n, err)
			}
		}
	}
	if after := u.attr(h); after.Size != 7 || after.Mtime != before.Mtime {
		x.Errorf("Write of nothing made %+v of %+v", after, before)
	}
	var a vfs.Attr
	for off, want := range map[uint64]bool{0: false, 7: true, 8: true} {
		n, eof, err := x.fs.Read(u.op, h, off, nil, &a)
		if n != 0 || err != nil || eof != want {
			x.Errorf("Read of nothing at %d: %d, %v, %v", off, n, eof, err)
		}
	}
}

// A write is at least as stable as requested.
func testStability(x *fixture) {
	u := x.self
	h := u.create(x.dir, "f", 0o644)
	for s := vfs.Unstable; s <= vfs.FileSync; s++ {
		n, done, _, err := x.fs.Write(u.op, h, uint64(s)*10, [][]byte{[]byte("0123456789")}, s)
		if n != 10 || done < s && !x.opt.NoSync || done > vfs.FileSync || err != nil {
			x.Errorf("Write asked to be %d: %d, %d, %v", s, n, done, err)
		}
	}
	before := x.raw.Verifier()
	if _, err := x.fs.Commit(u.op, h, 0, 5); err != nil {
		x.Errorf("Commit of a part: %v", err)
	}
	x.is(u.commit(h), "Commit", nil)
	if x.raw.Verifier() != before {
		x.Errorf("a Commit changed the verifier")
	}
	_, err := x.fs.Commit(u.op, x.dir, 0, 0)
	x.is(err, "Commit of a directory", nil, syscall.EISDIR, syscall.EINVAL)
}
