package nfs4suite

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

func allocate(id wire.StateID4, offset, length uint64) nfs4test.Op {
	return op(wire.OpAllocate, &wire.Allocate4Args{Stateid: id, Offset: offset, Length: length})
}

func deallocate(id wire.StateID4, offset, length uint64) nfs4test.Op {
	return op(wire.OpDeallocate, &wire.Deallocate4Args{Stateid: id, Offset: offset, Length: length})
}

func seek(id wire.StateID4, offset uint64, what wire.DataContent4) nfs4test.Op {
	return op(wire.OpSeek, &wire.Seek4Args{Stateid: id, Offset: offset, What: what})
}

func readPlus(id wire.StateID4, offset uint64, count uint32) nfs4test.Op {
	return op(wire.OpReadPlus, &wire.ReadPlus4Args{Stateid: id, Offset: offset, Count: count})
}

func copyOp(from, to wire.StateID4, fromOffset, toOffset, count uint64) nfs4test.Op {
	return op(wire.OpCopy, &wire.Copy4Args{SrcStateid: from, DstStateid: to, SrcOffset: fromOffset, DstOffset: toOffset, Count: count, Synchronous: true})
}

func clone(from, to wire.StateID4, fromOffset, toOffset, count uint64) nfs4test.Op {
	return op(wire.OpClone, &wire.Clone4Args{SrcStateid: from, DstStateid: to, SrcOffset: fromOffset, DstOffset: toOffset, Count: count})
}

func advise(id wire.StateID4, offset, count uint64) nfs4test.Op {
	return op(wire.OpIOAdvise, &wire.IOAdvise4Args{Stateid: id, Offset: offset, Count: count, Hints: wire.Bits(0)})
}

// An OPTIONAL operation that the server does not implement gets NFS4ERR_NOTSUPP, even without a
// current file handle.
func TestOptionalOperations(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 2, "client")
		for _, n := range []wire.OpNum{
			wire.OpCopyNotify, wire.OpLayouterror, wire.OpLayoutstats, wire.OpOffloadCancel, wire.OpOffloadStatus, wire.OpWriteSame,
			wire.OpGetDirDelegation, wire.OpLayoutget, wire.OpWantDelegation, wire.OpRenew, wire.OpOpenConfirm,
		} {
			if r := s.do(op(n)); r.Status != wire.NFS4ErrNotSupp || len(r.Ops) != 2 {
				t.Errorf("%v: %v", n, r.Status)
			}
		}
	})
}

// ALLOCATE, DEALLOCATE, SEEK, READ_PLUS and IO_ADVISE check their stateids, objects and ranges.
func TestSparseArguments(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 2, "client")
		other := newSession(t, site, 2, "other")
		all := s.populate()
		o := s.open(openArgs("file", "owner", both, 0))
		old := o.Stateid
		o = s.open(openArgs("file", "owner", both, 0))
		reader, writer := s.open(openArgs("file", "reader", read, 0)), s.open(openArgs("file", "writer", write, 0))
		for _, c := range []struct {
			what   string
			of     func(id wire.StateID4) nfs4test.Op
			writes bool // true if the operation needs an open to write; otherwise any open is enough
		}{
			{"ALLOCATE", func(id wire.StateID4) nfs4test.Op { return allocate(id, 0, 5) }, true},
			{"DEALLOCATE", func(id wire.StateID4) nfs4test.Op { return deallocate(id, 100, 5) }, true},
			{"SEEK", func(id wire.StateID4) nfs4test.Op { return seek(id, 0, wire.NFS4ContentData) }, false},
			{"READ_PLUS", func(id wire.StateID4) nfs4test.Op { return readPlus(id, 0, 100) }, false},
			{"IO_ADVISE", func(id wire.StateID4) nfs4test.Op { return advise(id, 0, 100) }, false},
		} {
			toRead := wire.NFSStat4(ok)
			if c.writes {
				toRead = wire.NFS4ErrOpenMode
			}
			s.want(c.what, ok, putFH(o.fh), c.of(o.Stateid))
			s.want(c.what+" with the current stateid", ok, putRoot, open(openArgs("file", "third", both, 0)), c.of(current), closeOp(current))
			s.want(c.what+" with seqid 0", ok, putFH(o.fh), c.of(seqid(o.Stateid, 0)))
			s.want(c.what+" without a state", ok, putFH(o.fh), c.of(anonymous))
			s.want(c.what+" of what is open to read", toRead, putFH(o.fh), c.of(reader.Stateid))
			s.want(c.what+" of what is open to write", ok, putFH(o.fh), c.of(writer.Stateid))
			s.want(c.what+" with an old stateid", wire.NFS4ErrOldStateID, putFH(o.fh), c.of(old))
			s.want(c.what+" with a later stateid", wire.NFS4ErrBadStateID, putFH(o.fh), c.of(seqid(o.Stateid, 9)))
			s.want(c.what+" with no stateid", wire.NFS4ErrBadStateID, putFH(o.fh), c.of(invalid))
			other.want(c.what+" by another client", wire.NFS4ErrBadStateID, putFH(o.fh), c.of(o.Stateid))
			s.want(c.what+" without a handle", wire.NFS4ErrNoFileHandle, c.of(o.Stateid))
			s.want(c.what+" without arguments", wire.NFS4ErrBadXDR, putFH(o.fh), op(c.of(anonymous).Number))
			for name, want := range map[string]wire.NFSStat4{
				"dir": wire.NFS4ErrIsDir, "link": wire.NFS4ErrSymlink, "fifo": wire.NFS4ErrWrongType, "socket": wire.NFS4ErrWrongType,
			} {
				s.want(c.what+" of "+name, want, putFH(all[name]), c.of(anonymous))
			}
		}
		for _, c := range []struct {
			what string
			op   nfs4test.Op
			want wire.NFSStat4
		}{
			{"ALLOCATE of nothing", allocate(o.Stateid, 0, 0), wire.NFS4ErrInvalid},
			{"ALLOCATE beyond", allocate(o.Stateid, 1<<63, 1<<63), wire.NFS4ErrInvalid},
			{"ALLOCATE of too much", allocate(o.Stateid, 1<<63-1, 5), wire.NFS4ErrFBig},
			{"DEALLOCATE of nothing", deallocate(o.Stateid, 0, 0), wire.NFS4ErrInvalid},
			{"DEALLOCATE beyond", deallocate(o.Stateid, toEnd, 2), wire.NFS4ErrInvalid},
			{"SEEK beyond the end", seek(o.Stateid, 1000, wire.NFS4ContentData), wire.NFS4ErrNXIO},
			{"SEEK far beyond the end", seek(o.Stateid, toEnd, wire.NFS4ContentHole), wire.NFS4ErrNXIO},
			{"SEEK to what there is not", op(wire.OpSeek, append(encoded(&o.Stateid), words(0, 0, 2)...)), wire.NFS4ErrUnionNotSupp},
			{"READ_PLUS of nothing", readPlus(o.Stateid, 0, 0), ok},
			{"READ_PLUS beyond the end", readPlus(o.Stateid, toEnd, 1<<32-1), ok},
			{"IO_ADVISE beyond", advise(o.Stateid, toEnd, 2), wire.NFS4ErrInvalid},
		} {
			r := s.do(putFH(o.fh), c.op)
			if r.Status != c.want {
				t.Errorf("%s: %v, not %v", c.what, r.Status, c.want)
			}
		}
		var res wire.Seek4Res
		r := s.must("SEEK to the hole behind the end", putFH(o.fh), seek(o.Stateid, 0, wire.NFS4ContentHole))
		r[1].Into(t, &res)
		if res.ResOK.Offset != 10 || !res.ResOK.EOF {
			t.Errorf("SEEK to the hole behind the end: %+v", res.ResOK)
		}
		s.must("ALLOCATE behind the end", putFH(o.fh), allocate(o.Stateid, 10, 10))
		if n := s.number(o.fh, wire.Fattr4Size); n != 20 {
			t.Errorf("size is %d after ALLOCATE", n)
		}
		s.must("DEALLOCATE", putFH(o.fh), deallocate(o.Stateid, 2, 3), deallocate(o.Stateid, 15, 100))
		if got := s.bytesOf(o.fh); got != "01\x00\x00\x0056789"+string(make([]byte, 10)) {
			t.Errorf("the file holds %q", got)
		}
	})
}

// COPY and CLONE work between two regular files, and within one file (RFC 7862 §15.2.3,
// §15.13.3).
func TestCopyAndClone(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 2, "client")
		all := s.populate()
		s.makeFile("to")
		from, to := s.open(openArgs("file", "owner", both, 0)), s.open(openArgs("to", "owner", both, 0))
		readonly := s.open(openArgs("to", "reader", read, 0))
		writeonly := s.open(openArgs("file", "writer", write, 0))
		pair := func(a, b []byte, o nfs4test.Op) []nfs4test.Op {
			return []nfs4test.Op{putFH(a), saveFH, putFH(b), o}
		}
		clones := s.do(pair(from.fh, to.fh, clone(from.Stateid, to.Stateid, 0, 0, 0))...).Status
		if clones != ok && clones != wire.NFS4ErrNotSupp {
			t.Errorf("CLONE: %v", clones)
		}
		for what, of := range map[string]func(a, b wire.StateID4, x, y, n uint64) nfs4test.Op{"COPY": copyOp, "CLONE": clone} {
			for _, c := range []struct {
				what string
				a, b []byte
				op   nfs4test.Op
				want wire.NFSStat4
			}{
				{"from behind the end", from.fh, to.fh, of(from.Stateid, to.Stateid, 11, 0, 0), wire.NFS4ErrInvalid},
				{"of more than there is", from.fh, to.fh, of(from.Stateid, to.Stateid, 5, 0, 6), wire.NFS4ErrInvalid},
				{"of far more than there is", from.fh, to.fh, of(from.Stateid, to.Stateid, 5, 0, toEnd), wire.NFS4ErrInvalid},
				{"to where nothing can be", from.fh, to.fh, of(from.Stateid, to.Stateid, 0, toEnd-1, 5), wire.NFS4ErrInvalid},
				{"to what is open to read", from.fh, to.fh, of(from.Stateid, readonly.Stateid, 0, 0, 0), wire.NFS4ErrOpenMode},
				{"from behind the end of what is open to write", from.fh, to.fh, of(writeonly.Stateid, to.Stateid, 11, 0, 0), wire.NFS4ErrInvalid},
				{"with each other's stateids", from.fh, to.fh, of(to.Stateid, from.Stateid, 0, 0, 0), wire.NFS4ErrBadStateID},
				{"from no stateid", from.fh, to.fh, of(invalid, to.Stateid, 0, 0, 0), wire.NFS4ErrBadStateID},
				{"to no stateid", from.fh, to.fh, of(from.Stateid, invalid, 0, 0, 0), wire.NFS4ErrBadStateID},
				{"to a later stateid", from.fh, to.fh, of(from.Stateid, seqid(to.Stateid, 4), 0, 0, 0), wire.NFS4ErrBadStateID},
				{"within one file, over itself", from.fh, from.fh, of(from.Stateid, from.Stateid, 0, 1, 5), wire.NFS4ErrInvalid},
				{"from a directory", all["dir"], to.fh, of(anonymous, to.Stateid, 0, 0, 0), wire.NFS4ErrWrongType},
				{"from a link", all["link"], to.fh, of(anonymous, to.Stateid, 0, 0, 0), wire.NFS4ErrWrongType},
				{"from a FIFO", all["fifo"], to.fh, of(anonymous, to.Stateid, 0, 0, 0), wire.NFS4ErrWrongType},
				{"to a directory", from.fh, all["dir"], of(from.Stateid, anonymous, 0, 0, 0), wire.NFS4ErrWrongType},
				{"to a socket", from.fh, all["socket"], of(from.Stateid, anonymous, 0, 0, 0), wire.NFS4ErrWrongType},
			} {
				r := s.do(pair(c.a, c.b, c.op)...)
				if r.Status != c.want {
					t.Errorf("%s %s: %v, not %v", what, c.what, r.Status, c.want)
				}
			}
			s.want(what+" without a saved handle", wire.NFS4ErrNoFileHandle, putFH(to.fh), of(from.Stateid, to.Stateid, 0, 0, 0))
			s.want(what+" without arguments", wire.NFS4ErrBadXDR, putFH(from.fh), saveFH, putFH(to.fh), op(of(anonymous, anonymous, 0, 0, 0).Number))
		}
		if got := s.bytesOf(to.fh); got != content {
			t.Errorf("the target holds %q", got)
		}
		r := s.must("COPY", pair(from.fh, to.fh, copyOp(from.Stateid, to.Stateid, 2, 20, 5))...)
		var res wire.Copy4Res
		r[3].Into(t, &res)
		if got, want := s.bytesOf(to.fh), content+string(make([]byte, 10))+"23456"; got != want || res.ResOK.Response.Count != 5 || res.ResOK.Response.CallbackID.Present {
			t.Errorf("%q after %+v", got, res.ResOK)
		}
		r = s.must("COPY of the rest, without a state", pair(from.fh, to.fh, copyOp(anonymous, anonymous, 5, 0, 0))...)
		r[3].Into(t, &res)
		if got := s.bytesOf(to.fh)[:10]; got != "5678956789" || res.ResOK.Response.Count != 5 {
			t.Errorf("%q after %+v", got, res.ResOK)
		}
		r = s.must("COPY of nothing at the end", pair(from.fh, to.fh, copyOp(from.Stateid, to.Stateid, 10, 0, 0))...)
		r[3].Into(t, &res)
		if res.ResOK.Response.Count != 0 {
			t.Errorf("%+v", res.ResOK)
		}
	})
}

// One client may use minor versions 1 and 2.
func TestMinorVersionsOfOneClient(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 1, "client")
		p := site.Peer(2)
		if res := exchanged(p, "client", 1); res.Clientid != s.client || res.Flags&wire.Exchgid4FlagConfirmedR == 0 {
			t.Errorf("%+v, not client %x", res, s.client)
		}
		later := sessionOf(p, createArgs(s.client, 2))
		s.makeFile("file")
		o := s.open(openArgs("file", "owner", both, 0))
		later.want("a stateid of the other version", ok, putFH(o.fh), readOp(o.Stateid, 0, 1), readPlus(o.Stateid, 0, 5))
	})
}
