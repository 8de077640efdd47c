package nfs4_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
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
