package nfs4_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest"
)

// plus executes a READ_PLUS. It returns the bytes that its segments represent, and the number
// of segments that are holes. The test fails if the segments are wrong: see tryPlus.
func (f *filer) plus(fh []byte, id wire.StateID4, offset uint64, count uint32) (data []byte, holes int, eof bool) {
	f.t.Helper()
	data, holes, eof, err := f.tryPlus(fh, id, offset, count)
	if err != nil {
		f.t.Fatal(err)
	}
	return data, holes, eof
}

// tryPlus is plus, but returns an error if the segments leave a gap, if two of the same kind follow each
// other, or if they are longer than a Linux client has room for.
func (f *filer) tryPlus(fh []byte, id wire.StateID4, offset uint64, count uint32) (data []byte, holes int, eof bool, err error) {
	o := opReadPlus(id, offset, count)
	r := f.want(wire.NFS4OK, putFH(fh), o)
	if room, _ := nfs4test.LinuxRoom(o); r.Ops[1].Size > room {
		return nil, 0, false, fmt.Errorf("READ_PLUS of %d bytes from %d on: a result of %d bytes", count, offset, r.Ops[1].Size)
	}
	var res wire.ReadPlus4Res
	r.Ops[1].Into(f.t, &res)
	last := wire.DataContent4(-1)
	var c wire.ReadPlusContent
	for res.ResOK.Contents.Next(&c) {
		at, behind := c.Data.Offset, offset+uint64(len(data))
		if c.Content == wire.NFS4ContentHole {
			at = c.Hole.Offset
			data = append(data, make([]byte, c.Hole.Length)...)
			holes++
		} else {
			data = append(data, c.Data.Data...)
		}
		if at != behind || len(data) > int(count) || c.Content == last {
			return nil, 0, false, fmt.Errorf("READ_PLUS of %d bytes from %d on: a segment %v at %d behind one %v", count, offset, c.Content, at, last)
		}
		last = c.Content
	}
	return data, holes, res.ResOK.EOF, nil
}

// seeking counts the calls of Seek.
type seeking struct {
	vfs.FileSystem
	vfs.Sparse
	seeks *int
}

func (s seeking) Unwrap() vfs.FileSystem { return s.FileSystem }

func (s seeking) Seek(op *vfs.Op, f vfs.File, offset uint64, what vfs.SeekWhat) (uint64, bool, error) {
	*s.seeks++
	return s.Sparse.Seek(op, f, offset, what)
}

// If a file has no holes, READ_PLUS reads it without a Seek, because a file system may have to
// search all of a large file for a hole.
func TestReadPlusOfAFileWithoutHoles(t *testing.T) {
	for name, fs := range map[string]vfs.FileSystem{"in memory": memfs.New(memfs.Options{RootMode: 0o777}), "a directory": directory(t)} {
		t.Run(name, func(t *testing.T) {
			seeks := 0
			f := newFiler(t, openSiteOver(t, seeking{fs, fs.(vfs.Sparse), &seeks}), 2)
			o := f.create("file", "me", both, 0)
			content := bytes.Repeat([]byte("0123456789abcdef"), 1000)
			f.want(wire.NFS4OK, putFH(o.fh), opWrite(o.Stateid, 0, string(content)))
			for _, c := range []struct {
				offset uint64
				count  uint32
				eof    bool
			}{{0, 4096, false}, {4000, 8000, false}, {8000, 8000, true}, {15990, 4096, true}, {16000, 1, true}} {
				data, holes, eof := f.plus(o.fh, o.Stateid, c.offset, c.count)
				want := content[c.offset:min(c.offset+uint64(c.count), 16000)]
				if !bytes.Equal(data, want) || holes != 0 || eof != c.eof {
					t.Errorf("%d bytes from %d on: %d bytes, %d holes, eof %v", c.count, c.offset, len(data), holes, eof)
				}
			}
			if seeks != 0 {
				t.Errorf("%d times a hole was looked for", seeks)
			}
			f.want(wire.NFS4OK, putFH(o.fh), opWrite(o.Stateid, 10<<20, "behind a hole"))
			if _, holes, _ := f.plus(o.fh, o.Stateid, 0, 1<<20); holes != 1 || seeks == 0 {
				t.Errorf("with a hole: %d holes, %d looked for", holes, seeks)
			}
		})
	}
}

// READ_PLUS returns the same bytes as READ, whatever parts of the file are holes.
func TestReadPlusReadsAsRead(t *testing.T) {
	for name, s := range map[string]*nfs4test.Site{"answering": openSite(t), "a directory": openSiteOver(t, directory(t)), "hesitant": openSiteOver(t, vfstest.Hesitant(memfs.New(memfs.Options{RootMode: 0o777})))} {
		t.Run(name, func(t *testing.T) {
			f := newFiler(t, s, 2)
			o := f.create("file", "me", both, 0)
			const size = 700 << 10
			content := bytes.Repeat([]byte{1, 2, 3, 4, 5, 6, 7}, size/7+1)[:size]
			f.want(wire.NFS4OK, putFH(o.fh), opWrite(o.Stateid, 0, string(content)))
			rng := rand.New(rand.NewPCG(1, 2))
			holes := 0
			for range 100 {
				at, n := rng.IntN(size), rng.IntN(200<<10)+1
				n = min(n, size-at)
				f.want(wire.NFS4OK, putFH(o.fh), opDeallocate(o.Stateid, uint64(at), uint64(n)))
				clear(content[at : at+n])
				if rng.IntN(2) == 0 {
					at = rng.IntN(size - 1000)
					f.want(wire.NFS4OK, putFH(o.fh), opWrite(o.Stateid, uint64(at), string(bytes.Repeat([]byte{9}, 1000))))
					copy(content[at:], bytes.Repeat([]byte{9}, 1000))
				}
				from, count := rng.IntN(size+100), rng.IntN(size)+1
				got, h, eof := f.plus(o.fh, o.Stateid, uint64(from), uint32(count))
				holes += h
				want := content[min(from, size):min(from+count, size)]
				if !bytes.Equal(got, want[:min(len(got), len(want))]) {
					t.Fatalf("%d bytes from %d on differ", count, from)
				}
				whole := len(got) == len(want)
				if !whole && (eof || len(got) == 0) || whole && eof != (from+count >= size) {
					t.Fatalf("%d bytes from %d on: %d bytes, eof %v", count, from, len(got), eof)
				}
			}
			if holes == 0 {
				t.Error("nothing was told to be a hole")
			}
			f.close(o)
			nothingLeft(t, s)
		})
	}
}

// laidOut is a file system whose files have a given layout. As on ext4 and XFS, some holes may be
// preallocated: a look reports such a hole as data if the hole's pages happen to be in memory.
type laidOut struct {
	vfs.FileSystem
	vfs.Sparse
	runs    *[]laidRun
	changed *uint64 // added to the change attribute; nil means 0
}

// A laidRun is a hole or data up to the offset end. A hole is reported as data if inMemory says so.
type laidRun struct {
	end      uint64
	hole     bool
	inMemory func() bool // nil: never
}

func (l laidOut) Unwrap() vfs.FileSystem { return l.FileSystem }

func (l laidOut) GetAttr(op *vfs.Op, h vfs.Handle, a *vfs.Attr) error {
	err := l.FileSystem.GetAttr(op, h, a)
	a.Used = 0
	if l.changed != nil {
		a.Change += *l.changed
	}
	return err
}

func (l laidOut) Seek(_ *vfs.Op, _ vfs.File, offset uint64, what vfs.SeekWhat) (uint64, bool, error) {
	runs := *l.runs
	size := runs[len(runs)-1].end
	if offset >= size {
		return 0, false, syscall.ENXIO
	}
	for _, r := range runs {
		if offset >= r.end {
			continue
		}
		hole := r.hole && (r.inMemory == nil || !r.inMemory())
		if hole == (what == vfs.SeekHole) {
			return offset, false, nil
		}
		offset = r.end
	}
	return size, true, nil
}

// Whatever the layout of a file, and whatever part of it is in memory at each look: READ_PLUS
// returns the file's bytes, from the first one on, and never more than fits. filer.plus checks the segments.
func TestReadPlusOfAnyLayout(t *testing.T) {
	fs := memfs.New(memfs.Options{RootMode: 0o777})
	var runs []laidRun
	f := newFiler(t, openSiteOver(t, laidOut{fs, fs, &runs, nil}), 2)
	holes := 0
	rapid.Check(t, func(t *rapid.T) {
		runs = runs[:0]
		pages := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "pages"), 0))
		var content []byte
		for range rapid.IntRange(1, 80).Draw(t, "runs") {
			r := laidRun{hole: rapid.Bool().Draw(t, "hole")}
			n := rapid.OneOf(rapid.IntRange(1, 100), rapid.IntRange(1, 5000)).Draw(t, "length")
			if r.hole {
				content = append(content, make([]byte, n)...)
				if rapid.Bool().Draw(t, "preallocated") {
					r.inMemory = func() bool { return pages.IntN(2) == 0 }
				}
			} else {
				content = append(content, bytes.Repeat([]byte{7}, n)...)
			}
			r.end = uint64(len(content))
			runs = append(runs, r)
		}
		size := len(content)
		o := f.create("file", "me", both, 0)
		f.want(wire.NFS4OK, putFH(o.fh), opWrite(o.Stateid, 0, string(content)))
		from := rapid.IntRange(0, size+10).Draw(t, "offset")
		count := rapid.OneOf(rapid.IntRange(0, 100), rapid.IntRange(1, size+1000)).Draw(t, "count")
		got, h, eof, err := f.tryPlus(o.fh, o.Stateid, uint64(from), uint32(count))
		if err != nil {
			t.Fatal(err)
		}
		holes += h
		want := content[min(from, size):min(from+count, size)]
		if !bytes.Equal(got, want[:min(len(got), len(want))]) {
			t.Fatalf("%d bytes from %d on differ", count, from)
		}
		whole := len(got) == len(want)
		if !whole && (eof || len(got) == 0) || whole && eof != (from+count >= size) {
			t.Fatalf("%d bytes from %d on: %d of %d bytes, eof %v", count, from, len(got), size, eof)
		}
		f.close(o)
		f.want(wire.NFS4OK, op(wire.OpPutRootFH), remove("file"))
	})
	if holes == 0 {
		t.Error("nothing was told to be a hole")
	}
}

// A file system says that a hole begins at 64 KiB, and then that data begin there.
func TestReadPlusWithDataBesideData(t *testing.T) {
	fs := memfs.New(memfs.Options{RootMode: 0o777})
	looks := 0
	runs := []laidRun{{end: 64 << 10}, {end: 1 << 20, hole: true, inMemory: func() bool { looks++; return looks > 1 }}}
	f := newFiler(t, openSiteOver(t, laidOut{fs, fs, &runs, nil}), 2)
	o := f.create("file", "me", both, 0)
	f.want(wire.NFS4OK, putFH(o.fh), opWrite(o.Stateid, 0, string(bytes.Repeat([]byte{7}, 64<<10))))
	f.want(wire.NFS4OK, putFH(o.fh), opAllocate(o.Stateid, 1<<20-1, 1))
	if data, _, eof := f.plus(o.fh, o.Stateid, 0, 96<<10); len(data) != 96<<10 || eof || looks < 2 {
		t.Errorf("%d bytes, eof %v, %d looks", len(data), eof, looks)
	}
}

// A hole at the end of the file that is too short to be sent as a hole is data. An error here would
// become a SIGBUS in a program that maps the file.
func TestReadPlusOfAShortHoleAtTheEnd(t *testing.T) {
	fs := memfs.New(memfs.Options{RootMode: 0o777})
	var runs []laidRun
	f := newFiler(t, openSiteOver(t, laidOut{fs, fs, &runs, nil}), 2)
	o := f.create("file", "me", both, 0)
	f.want(wire.NFS4OK, putFH(o.fh), opWrite(o.Stateid, 0, "data"))
	f.want(wire.NFS4OK, putFH(o.fh), opAllocate(o.Stateid, 0, 4+100))
	for _, c := range []struct {
		hole, holes int
	}{{1, 0}, {39, 0}, {40, 1}, {100, 1}} {
		runs = []laidRun{{end: uint64(104 - c.hole)}, {end: 104, hole: true}}
		for _, from := range []int{0, 100} {
			data, holes, eof := f.plus(o.fh, o.Stateid, uint64(from), 4096)
			if len(data) != 104-from || !eof || from == 0 && holes != c.holes {
				t.Errorf("a hole of %d bytes, from %d on: %d bytes, %d holes, eof %v", c.hole, from, len(data), holes, eof)
			}
		}
	}
}

// If the file changes while its layout is looked up, or if two looks contradict each other, all is
// sent as data.
func TestReadPlusOfAChangingLayout(t *testing.T) {
	fs := memfs.New(memfs.Options{RootMode: 0o777})
	changed, flips := uint64(0), 0
	var runs []laidRun
	f := newFiler(t, openSiteOver(t, laidOut{fs, fs, &runs, &changed}), 2)
	o := f.create("file", "me", both, 0)
	content := append(make([]byte, 8<<10), "data"...)
	f.want(wire.NFS4OK, putFH(o.fh), opWrite(o.Stateid, 0, string(content)))
	for name, inMemory := range map[string]func() bool{
		"the file changes":                  func() bool { changed++; return false },
		"a hole is data only for two looks": func() bool { flips++; return flips <= 2 },
	} {
		runs = []laidRun{{end: 4 << 10, hole: true}, {end: 8 << 10, hole: true, inMemory: inMemory}, {end: 8<<10 + 4}}
		if data, holes, eof := f.plus(o.fh, o.Stateid, 0, 64<<10); !bytes.Equal(data, content) || holes != 0 || !eof {
			t.Errorf("%s: %d bytes of %d, %d holes, eof %v", name, len(data), len(content), holes, eof)
		}
	}
	if changed == 0 || flips < 3 {
		t.Errorf("%d changes, %d looks", changed, flips)
	}
}

// On ext4 and XFS, reading the data before a preallocated range brings pages of the range into
// memory, and the file system then reports them as data.
func TestReadPlusOfAPreallocatedFile(t *testing.T) {
	root := t.TempDir()
	if err := os.Chmod(root, 0o777); err != nil {
		t.Fatal(err)
	}
	fs, err := local.New(local.Config{Root: root, StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fs.Close() })
	name := filepath.Join(root, "file")
	w, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := syscall.Fallocate(int(w.Fd()), 0, 0, 700<<10); err != nil {
		t.Skip(err)
	}
	content := append(bytes.Repeat([]byte{7}, 64<<10), make([]byte, 1<<20-64<<10)...)
	_, err = w.Write(content[:64<<10])
	for _, e := range []error{err, w.Truncate(1 << 20), w.Chmod(0o666), w.Sync(), unix.Fadvise(int(w.Fd()), 0, 0, unix.FADV_DONTNEED)} {
		if e != nil {
			t.Fatal(e)
		}
	}
	f := newFiler(t, openSiteOver(t, fs), 2)
	o := f.open(openArgs("file", "me", readable, 0))
	for at := 0; at < len(content); at += 96 << 10 {
		want := content[at:min(at+96<<10, len(content))]
		if data, _, eof := f.plus(o.fh, o.Stateid, uint64(at), 96<<10); !bytes.Equal(data, want) || eof != (at+len(want) == len(content)) {
			t.Errorf("from %d on: %d bytes of %d, eof %v", at, len(data), len(want), eof)
		}
	}
}
