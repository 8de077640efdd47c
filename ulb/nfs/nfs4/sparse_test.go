package nfs4_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest"
)

func opAllocate(id wire.StateID4, offset, length uint64) nfs4test.Op {
	return nfs4test.Op{Number: wire.OpAllocate, Args: &wire.Allocate4Args{Stateid: id, Offset: offset, Length: length}}
}

func opDeallocate(id wire.StateID4, offset, length uint64) nfs4test.Op {
	return nfs4test.Op{Number: wire.OpDeallocate, Args: &wire.Deallocate4Args{Stateid: id, Offset: offset, Length: length}}
}

func opSeek(id wire.StateID4, offset uint64, what wire.DataContent4) nfs4test.Op {
	return nfs4test.Op{Number: wire.OpSeek, Args: &wire.Seek4Args{Stateid: id, Offset: offset, What: what}}
}

func opReadPlus(id wire.StateID4, offset uint64, count uint32) nfs4test.Op {
	return nfs4test.Op{Number: wire.OpReadPlus, Args: &wire.ReadPlus4Args{Stateid: id, Offset: offset, Count: count}}
}

func opCopy(from, to wire.StateID4, fromOffset, toOffset, count uint64) nfs4test.Op {
	return nfs4test.Op{Number: wire.OpCopy, Args: &wire.Copy4Args{SrcStateid: from, DstStateid: to,
		SrcOffset: fromOffset, DstOffset: toOffset, Count: count, Consecutive: true, Synchronous: true}}
}

func opClone(from, to wire.StateID4, fromOffset, toOffset, count uint64) nfs4test.Op {
	return nfs4test.Op{Number: wire.OpClone, Args: &wire.Clone4Args{SrcStateid: from, DstStateid: to,
		SrcOffset: fromOffset, DstOffset: toOffset, Count: count}}
}

// plus executes a READ_PLUS. It returns the bytes that its segments represent, and the number
// of segments that are holes.
func (f *filer) plus(fh []byte, id wire.StateID4, offset uint64, count uint32) (data []byte, holes int, eof bool) {
	f.t.Helper()
	var res wire.ReadPlus4Res
	f.want(wire.NFS4OK, putFH(fh), opReadPlus(id, offset, count)).Ops[1].Into(f.t, &res)
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
		if at != behind || len(data) > int(count) {
			f.t.Fatalf("a segment at %d, of a READ_PLUS of %d bytes from %d on", at, count, offset)
		}
	}
	return data, holes, res.ResOK.EOF
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

func TestSeek(t *testing.T) {
	s := openSite(t)
	f := newFiler(t, s, 2)
	o := f.create("file", "me", both, 0)
	f.want(wire.NFS4OK, putFH(o.fh), opWrite(o.Stateid, 64<<10, "data"))
	for _, id := range []wire.StateID4{o.Stateid, state.Anonymous} {
		for _, c := range []struct {
			offset uint64
			what   wire.DataContent4
			at     uint64
			eof    bool
		}{
			{0, wire.NFS4ContentHole, 0, false}, {0, wire.NFS4ContentData, 64 << 10, false},
			{64 << 10, wire.NFS4ContentData, 64 << 10, false}, {64<<10 + 1, wire.NFS4ContentHole, 64<<10 + 4, false},
		} {
			var res wire.Seek4Res
			f.want(wire.NFS4OK, putFH(o.fh), opSeek(id, c.offset, c.what)).Ops[1].Into(t, &res)
			if res.ResOK.Offset != c.at && c.what == wire.NFS4ContentData || res.ResOK.EOF != c.eof && c.what == wire.NFS4ContentData {
				t.Errorf("%+v: %+v", c, res.ResOK)
			}
		}
	}
	f.want(wire.NFS4ErrNXIO, putFH(o.fh), opSeek(o.Stateid, 1<<20, wire.NFS4ContentData))
}

func TestAllocate(t *testing.T) {
	s := openSite(t)
	f := newFiler(t, s, 2)
	o := f.create("file", "me", both, 0)
	reading := f.open(openArgs("file", "reader", readable, 0))
	f.want(wire.NFS4OK, putFH(o.fh), opWrite(o.Stateid, 0, "hello"), opAllocate(o.Stateid, 2, 8))
	if got := f.content(o, 100); got != "hello"+string(make([]byte, 5)) {
		t.Errorf("%q", got)
	}
	f.want(wire.NFS4OK, putFH(o.fh), opDeallocate(o.Stateid, 0, 100))
	if got := f.content(o, 100); got != string(make([]byte, 10)) {
		t.Errorf("%q", got)
	}
	for _, op := range []func(wire.StateID4, uint64, uint64) nfs4test.Op{opAllocate, opDeallocate} {
		f.want(wire.NFS4ErrInvalid, putFH(o.fh), op(o.Stateid, 0, 0))
		f.want(wire.NFS4ErrInvalid, putFH(o.fh), op(o.Stateid, 2, 1<<64-1))
		f.want(wire.NFS4ErrOpenMode, putFH(o.fh), op(reading.Stateid, 0, 1))
		f.want(wire.NFS4ErrBadStateID, putFH(o.fh), op(state.InvalidID, 0, 1))
	}
}

func TestCopyAndClone(t *testing.T) {
	s := openSite(t)
	f := newFiler(t, s, 2)
	from, to := f.create("from", "me", both, 0), f.create("to", "me", both, 0)
	f.want(wire.NFS4OK, putFH(from.fh), opWrite(from.Stateid, 0, "0123456789"))
	run := func(want wire.NFSStat4, o nfs4test.Op) *nfs4test.Result {
		t.Helper()
		return f.want(want, putFH(from.fh), op(wire.OpSaveFH), putFH(to.fh), o)
	}
	var res wire.Copy4Res
	run(wire.NFS4OK, opCopy(from.Stateid, to.Stateid, 2, 1, 3)).Ops[3].Into(t, &res)
	if res.ResOK.Response.Count != 3 || res.ResOK.Response.CallbackID.Present {
		t.Errorf("%+v", res.ResOK)
	}
	if got := f.content(to, 100); got != "\x00234" {
		t.Errorf("%q", got)
	}
	run(wire.NFS4OK, opCopy(state.Anonymous, to.Stateid, 5, 0, 0)) // count 0: all up to the end
	if got := f.content(to, 100); got != "56789" {
		t.Errorf("%q", got)
	}
	run(wire.NFS4OK, opCopy(from.Stateid, to.Stateid, 10, 0, 0)) // nothing is left to copy
	for _, c := range []struct {
		name string
		op   nfs4test.Op
		want wire.NFSStat4
	}{
		{"COPY from behind the end", opCopy(from.Stateid, to.Stateid, 11, 0, 0), wire.NFS4ErrInvalid},
		{"COPY beyond the end", opCopy(from.Stateid, to.Stateid, 5, 0, 6), wire.NFS4ErrInvalid},
		{"COPY with the stateids the wrong way round", opCopy(to.Stateid, from.Stateid, 0, 0, 1), wire.NFS4ErrBadStateID},
		{"CLONE from behind the end", opClone(from.Stateid, to.Stateid, 11, 0, 0), wire.NFS4ErrInvalid},
		{"CLONE with the stateids the wrong way round", opClone(to.Stateid, from.Stateid, 0, 0, 0), wire.NFS4ErrBadStateID},
		{"CLONE", opClone(from.Stateid, to.Stateid, 0, 0, 0), wire.NFS4OK},
	} {
		if r := f.Compound(putFH(from.fh), op(wire.OpSaveFH), putFH(to.fh), c.op); r.Status != c.want {
			t.Errorf("%s: %v", c.name, r.Status)
		}
	}
	if got := f.content(to, 100); got != "0123456789" {
		t.Errorf("%q", got)
	}
	f.want(wire.NFS4ErrInvalid, putFH(from.fh), op(wire.OpSaveFH), opCopy(from.Stateid, from.Stateid, 0, 20, 5))
	f.want(wire.NFS4ErrNoFileHandle, putFH(to.fh), opCopy(from.Stateid, to.Stateid, 0, 0, 5))
	f.close(from)
	f.close(to)
	nothingLeft(t, s)
}

func TestAdvise(t *testing.T) {
	f := newFiler(t, openSite(t), 2)
	o := f.create("file", "me", writable, 0)
	advise := func(offset, count uint64) nfs4test.Op {
		return nfs4test.Op{Number: wire.OpIOAdvise, Args: &wire.IOAdvise4Args{Stateid: o.Stateid, Offset: offset, Count: count, Hints: wire.Bits(1, 3, 50)}}
	}
	var res wire.IOAdvise4Res
	f.want(wire.NFS4OK, putFH(o.fh), advise(0, 0)).Ops[1].Into(t, &res)
	if res.ResOK.Hints != wire.Bits(uint32(wire.IOAdvise4Normal)) {
		t.Errorf("%v", res.ResOK.Hints)
	}
	f.want(wire.NFS4ErrInvalid, putFH(o.fh), advise(2, 1<<64-1))
}
