package nfs4suite

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// toEnd is the length of a range that extends to the end of the file.
const toEnd = 1<<64 - 1

// lockNew returns a LOCK of a new lock-owner, with an open stateid.
func lockNew(id wire.StateID4, owner string, kind wire.NFSLockType4, offset, length uint64) nfs4test.Op {
	args := &wire.Lock4Args{Locktype: kind, Offset: offset, Length: length}
	args.Locker.NewLockOwner = true
	args.Locker.OpenOwner = wire.OpenToLockOwner4{OpenStateid: id, LockOwner: wire.StateOwner4{Owner: []byte(owner)}}
	return op(wire.OpLock, args)
}

// lockMore returns a LOCK of a known lock-owner, with its lock stateid.
func lockMore(id wire.StateID4, kind wire.NFSLockType4, offset, length uint64) nfs4test.Op {
	args := &wire.Lock4Args{Locktype: kind, Offset: offset, Length: length}
	args.Locker.LockOwner.Stateid = id
	return op(wire.OpLock, args)
}

func lockTest(owner string, kind wire.NFSLockType4, offset, length uint64) nfs4test.Op {
	return op(wire.OpLockt, &wire.Lockt4Args{Locktype: kind, Offset: offset, Length: length, Owner: wire.StateOwner4{Owner: []byte(owner)}})
}

func unlock(id wire.StateID4, offset, length uint64) nfs4test.Op {
	return op(wire.OpLocku, &wire.Locku4Args{Locktype: wire.WriteLt, LockStateid: id, Offset: offset, Length: length})
}

func lockID(t testing.TB, r *nfs4test.OpResult) wire.StateID4 {
	t.Helper()
	var res wire.Lock4Res
	r.Into(t, &res)
	return res.ResOK.LockStateid
}

// lock makes a LOCK with an open stateid, and returns the lock stateid.
func (s *session) lock(o *opened, owner string, kind wire.NFSLockType4, offset, length uint64) wire.StateID4 {
	s.t.Helper()
	r := s.must("LOCK", putFH(o.fh), lockNew(o.Stateid, owner, kind, offset, length))
	return lockID(s.t, &r[1])
}

// LOCK, LOCKT and LOCKU refuse invalid ranges (RFC 8881 §18.10.3, §18.11.3, §18.12.3).
func TestLockRanges(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 1, "client")
		s.makeFile("file")
		o := s.open(openArgs("file", "owner", both, 0))
		id := s.lock(&o, "locker", wire.WriteLt, 100, 1)
		for _, c := range []struct {
			offset, length uint64
			want           wire.NFSStat4
		}{
			{0, 0, wire.NFS4ErrInvalid}, {toEnd, 0, wire.NFS4ErrInvalid}, {1, toEnd - 1, ok}, {0, toEnd, ok}, {25, toEnd, ok},
			{toEnd, toEnd, ok}, {2, toEnd - 1, wire.NFS4ErrInvalid}, {toEnd, 2, wire.NFS4ErrInvalid}, {toEnd - 1, 1, ok}, {1 << 63, 1 << 63, wire.NFS4ErrInvalid},
		} {
			want := c.want
			for what, o := range map[string]nfs4test.Op{
				"LOCK": lockMore(seqid(id, 0), wire.WriteLt, c.offset, c.length), "LOCK of an open": lockNew(o.Stateid, "locker", wire.WriteLt, c.offset, c.length),
				"LOCKT": lockTest("locker", wire.WriteLt, c.offset, c.length), "LOCKU": unlock(seqid(id, 0), c.offset, c.length),
			} {
				r := s.do(putFH(s.find("file")), o)
				if r.Status != want && !(r.Status == wire.NFS4ErrBadRange && want == ok) {
					t.Errorf("%s of %d from %d: %v, not %v", what, c.length, c.offset, r.Status, want)
				}
			}
			s.must("LOCKU", putFH(o.fh), unlock(seqid(id, 0), 0, toEnd))
		}
	})
}

// LOCK and LOCKT report conflicts between locks of different owners, and name the conflicting
// lock.
func TestLockConflicts(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 1, "client")
		other := newSession(t, site, 1, "other")
		s.makeFile("file")
		o := s.open(openArgs("file", "owner", both, 0))
		p := other.open(openArgs("file", "owner", both, 0))
		for _, first := range []wire.NFSLockType4{wire.ReadLt, wire.WriteLt, wire.ReadwLt, wire.WritewLt} {
			id := s.lock(&o, "locker", first, 10, 10)
			writes := first == wire.WriteLt || first == wire.WritewLt
			for _, second := range []wire.NFSLockType4{wire.ReadLt, wire.WriteLt} {
				for _, at := range []struct {
					offset, length uint64
					apart          bool
				}{{0, 10, true}, {20, 5, true}, {0, 11, false}, {19, 1, false}, {12, 2, false}, {0, toEnd, false}, {20, toEnd, true}} {
					want := wire.NFS4ErrDenied
					if at.apart || !writes && second == wire.ReadLt {
						want = ok
					}
					r := other.want("LOCKT", want, putFH(o.fh), lockTest("locker", second, at.offset, at.length))
					if want != ok {
						other.deniedBy(&r[1], s.client, "locker", 10, 10, writes)
					}
					s.want("LOCKT by the owner", ok, putFH(o.fh), lockTest("locker", second, at.offset, at.length))
					s.want("LOCKT by another owner of the client", want, putFH(o.fh), lockTest("another", second, at.offset, at.length))
					r = other.want("LOCK", want, putFH(o.fh), lockNew(p.Stateid, "locker", second, at.offset, at.length))
					if want != ok {
						other.deniedBy(&r[1], s.client, "locker", 10, 10, writes)
						continue
					}
					got := lockID(t, &r[1])
					other.must("LOCKU", putFH(o.fh), unlock(got, at.offset, at.length), op(wire.OpFreeStateID, &wire.FreeStateID4Args{Stateid: seqid(got, 0)}))
				}
			}
			s.must("LOCKU", putFH(o.fh), unlock(id, 0, toEnd), op(wire.OpFreeStateID, &wire.FreeStateID4Args{Stateid: seqid(id, 0)}))
		}
	})
}

// deniedBy checks the conflicting lock that a LOCK or a LOCKT names.
func (s *session) deniedBy(r *nfs4test.OpResult, client uint64, owner string, offset, length uint64, writes bool) {
	s.t.Helper()
	var res wire.Lock4Res // LOCKT's denied result is the same
	r.Into(s.t, &res)
	d := &res.Denied
	if d.Offset != offset || d.Length != length || (d.Locktype == wire.WriteLt) != writes || d.Owner.Clientid != client || string(d.Owner.Owner) != owner {
		s.t.Errorf("denied by %+v", d)
	}
}

// The server merges, splits, upgrades and downgrades the locks of one owner.
func TestLockByOneOwner(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 1, "client")
		other := newSession(t, site, 1, "other")
		s.makeFile("file")
		o := s.open(openArgs("file", "owner", both, 0))
		id := s.lock(&o, "locker", wire.ReadLt, 0, 100)
		if id.Seqid != 1 || id.Other == o.Stateid.Other {
			t.Errorf("the lock's stateid is %v", id)
		}
		r := s.must("LOCK to write", putFH(o.fh), lockMore(id, wire.WriteLt, 40, 20))
		if next := lockID(t, &r[1]); next != seqid(id, 2) {
			t.Errorf("%v after %v", next, id)
		}
		s.want("LOCK with the old stateid", wire.NFS4ErrOldStateID, putFH(o.fh), lockMore(id, wire.WriteLt, 40, 20))
		s.want("LOCKU with the old stateid", wire.NFS4ErrOldStateID, putFH(o.fh), unlock(id, 0, 1))
		s.want("LOCK with a later stateid", wire.NFS4ErrBadStateID, putFH(o.fh), lockMore(seqid(id, 9), wire.WriteLt, 40, 20))
		other.want("LOCKT to read before", ok, putFH(o.fh), lockTest("x", wire.ReadLt, 0, 40))
		other.want("LOCKT to read", wire.NFS4ErrDenied, putFH(o.fh), lockTest("x", wire.ReadLt, 0, 41))
		other.want("LOCKT to read behind", ok, putFH(o.fh), lockTest("x", wire.ReadLt, 60, toEnd))
		s.must("LOCK to read again", putFH(o.fh), lockMore(seqid(id, 0), wire.ReadLt, 40, 20))
		other.want("LOCKT to read all", ok, putFH(o.fh), lockTest("x", wire.ReadLt, 0, toEnd))
		s.must("LOCKU amid", putFH(o.fh), unlock(seqid(id, 0), 30, 10))
		other.want("LOCKT to write there", ok, putFH(o.fh), lockTest("x", wire.WriteLt, 30, 10))
		r = other.want("LOCKT to write before", wire.NFS4ErrDenied, putFH(o.fh), lockTest("x", wire.WriteLt, 0, 40))
		other.deniedBy(&r[1], s.client, "locker", 0, 30, false)
		r = other.want("LOCKT to write behind", wire.NFS4ErrDenied, putFH(o.fh), lockTest("x", wire.WriteLt, 30, 100))
		other.deniedBy(&r[1], s.client, "locker", 40, 60, false)
		s.want("LOCKU of what is not locked", ok, putFH(o.fh), unlock(seqid(id, 0), 500, 10))
		s.want("the same owner as new", ok, putFH(o.fh), lockNew(o.Stateid, "locker", wire.ReadLt, 30, 10))
		s.want("LOCKU", ok, putFH(o.fh), unlock(seqid(id, 0), 0, toEnd))
		s.want("CLOSE", ok, putFH(o.fh), closeOp(o.Stateid))
		s.want("LOCK with a lock's stateid after CLOSE", wire.NFS4ErrBadStateID, putFH(o.fh), lockMore(seqid(id, 0), wire.ReadLt, 0, 1))
	})
}

func TestLockStateIDs(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 1, "client")
		other := newSession(t, site, 1, "other")
		s.makeFile("file")
		second := s.makeFile("second")
		o := s.open(openArgs("file", "owner", both, 0))
		readonly := s.open(openArgs("file", "reader", read, 0))
		writeonly := s.open(openArgs("file", "writer", write, 0))
		id := s.lock(&o, "locker", wire.ReadLt, 0, 1)
		for what, bad := range map[string]wire.StateID4{
			"anonymous": anonymous, "bypass": bypass, "invalid": invalid, "current": current, "none": {Seqid: 1, Other: [12]byte{9}},
			"a later one": seqid(o.Stateid, 7),
		} {
			s.want("LOCK by way of "+what, wire.NFS4ErrBadStateID, putFH(o.fh), lockNew(bad, "locker", wire.ReadLt, 0, 1))
			s.want("LOCK with "+what, wire.NFS4ErrBadStateID, putFH(o.fh), lockMore(bad, wire.ReadLt, 0, 1))
			s.want("LOCKU with "+what, wire.NFS4ErrBadStateID, putFH(o.fh), unlock(bad, 0, 1))
		}
		s.want("LOCK by way of a lock", wire.NFS4ErrBadStateID, putFH(o.fh), lockNew(id, "locker", wire.ReadLt, 0, 1))
		s.want("LOCK with an open", wire.NFS4ErrBadStateID, putFH(o.fh), lockMore(o.Stateid, wire.ReadLt, 0, 1))
		s.want("LOCKU with an open", wire.NFS4ErrBadStateID, putFH(o.fh), unlock(o.Stateid, 0, 1))
		s.want("LOCK of another file", wire.NFS4ErrBadStateID, putFH(second), lockNew(o.Stateid, "locker", wire.ReadLt, 0, 1))
		s.want("LOCKU of another file", wire.NFS4ErrBadStateID, putFH(second), unlock(id, 0, 1))
		other.want("another client's LOCK", wire.NFS4ErrBadStateID, putFH(o.fh), lockNew(o.Stateid, "locker", wire.ReadLt, 0, 1))
		other.want("another client's LOCKU", wire.NFS4ErrBadStateID, putFH(o.fh), unlock(id, 0, 1))
		s.want("LOCK to write what is open to read", wire.NFS4ErrOpenMode, putFH(o.fh), lockNew(readonly.Stateid, "l", wire.WriteLt, 5, 1))
		s.want("LOCK to read what is open to write", wire.NFS4ErrOpenMode, putFH(o.fh), lockNew(writeonly.Stateid, "l", wire.ReadLt, 5, 1))
		s.want("LOCK without a handle", wire.NFS4ErrNoFileHandle, lockNew(o.Stateid, "l", wire.ReadLt, 5, 1))
		s.want("LOCK to reclaim", wire.NFS4ErrNoGrace, putFH(o.fh), func() nfs4test.Op {
			l := lockNew(o.Stateid, "l", wire.ReadLt, 5, 1)
			l.Args.(*wire.Lock4Args).Reclaim = true
			return l
		}())
		for _, n := range []wire.NFSLockType4{0, 5} {
			s.want("a type that there is not", wire.NFS4ErrBadXDR, putFH(o.fh), op(wire.OpLockt, words(uint32(n), 0, 0, 0, 1, 0, 0, 0)))
		}
		s.want("READ by a lock's stateid", ok, putFH(o.fh), readOp(id, 0, 1))
		s.want("WRITE by a lock's stateid", ok, putFH(o.fh), writeOp(id, 0, "0"))
		for name, want := range map[string]wire.NFSStat4{"dir": wire.NFS4ErrIsDir, "link": wire.NFS4ErrSymlink, "fifo": wire.NFS4ErrWrongType} {
			kind := map[string]wire.FType4{"dir": wire.NF4Dir, "link": wire.NF4Lnk, "fifo": wire.NF4Fifo}[name]
			s.must("CREATE", putRoot, create(kind, name))
			s.want("LOCKT of "+name, want, putRoot, lookup(name), lockTest("l", wire.ReadLt, 0, 1))
			s.want("LOCK of "+name, want, putRoot, lookup(name), lockNew(o.Stateid, "l", wire.ReadLt, 0, 1))
			s.want("LOCK of "+name+" by a lock", want, putRoot, lookup(name), lockMore(id, wire.ReadLt, 0, 1))
		}
		s.want("LOCKT of what nobody opened", ok, putFH(second), lockTest("l", wire.WriteLt, 0, toEnd))
	})
}

// TEST_STATEID returns the status of stateids, and FREE_STATEID frees them (RFC 8881 §18.38,
// §18.48).
func TestTestAndFreeStateID(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 1, "client")
		other := newSession(t, site, 1, "other")
		s.makeFile("file")
		o := s.open(openArgs("file", "owner", both, 0))
		again := s.open(openArgs("file", "owner", both, 0))
		id := s.lock(&again, "locker", wire.WriteLt, 0, 1)
		closed := s.open(openArgs("file", "closed", both, 0))
		s.close(&closed)
		foreign := other.open(openArgs("file", "owner", both, 0))
		never := again.Stateid
		never.Other[0] ^= 1 // of another incarnation of the server
		ids := []wire.StateID4{again.Stateid, seqid(again.Stateid, 0), o.Stateid, seqid(again.Stateid, 3), id, seqid(id, 0),
			anonymous, bypass, current, invalid, closed.Stateid, foreign.Stateid, never}
		wants := []wire.NFSStat4{ok, ok, wire.NFS4ErrOldStateID, wire.NFS4ErrBadStateID, ok, ok,
			wire.NFS4ErrBadStateID, wire.NFS4ErrBadStateID, wire.NFS4ErrBadStateID, wire.NFS4ErrBadStateID, wire.NFS4ErrBadStateID,
			wire.NFS4ErrBadStateID, wire.NFS4ErrBadStateID}
		r := s.must("TEST_STATEID", op(wire.OpTestStateID, testArgs(ids...)))
		var res wire.TestStateID4Res
		r[0].Into(t, &res)
		if res.ResOK.StatusCodes.Len() != len(ids) {
			t.Fatalf("%d statuses", res.ResOK.StatusCodes.Len())
		}
		for i := range ids {
			var got wire.NFSStat4
			res.ResOK.StatusCodes.Next(&got)
			if got != wants[i] {
				t.Errorf("TEST_STATEID %d: %v, not %v", i, got, wants[i])
			}
		}
		s.want("TEST_STATEID of nothing", ok, op(wire.OpTestStateID, testArgs()))
		s.want("TEST_STATEID of more than there are", wire.NFS4ErrBadXDR, op(wire.OpTestStateID, words(1000, 0)))

		free := func(id wire.StateID4) nfs4test.Op {
			return op(wire.OpFreeStateID, &wire.FreeStateID4Args{Stateid: id})
		}
		frees := []wire.NFSStat4{wire.NFS4ErrLocksHeld, wire.NFS4ErrLocksHeld, wire.NFS4ErrOldStateID, wire.NFS4ErrBadStateID, wire.NFS4ErrLocksHeld, wire.NFS4ErrLocksHeld,
			wire.NFS4ErrBadStateID, wire.NFS4ErrBadStateID, wire.NFS4ErrBadStateID, wire.NFS4ErrBadStateID, wire.NFS4ErrBadStateID,
			wire.NFS4ErrBadStateID, wire.NFS4ErrBadStateID}
		for i := range ids {
			r := s.do(free(ids[i]))
			if r.Status != frees[i] {
				t.Errorf("FREE_STATEID %d: %v, not %v", i, r.Status, frees[i])
			}
		}
		s.must("LOCKU", putFH(o.fh), unlock(id, 0, 1))
		s.want("FREE_STATEID of a lock that holds nothing, old", wire.NFS4ErrOldStateID, free(id))
		s.want("FREE_STATEID of a lock that holds nothing", ok, free(seqid(id, 2)))
		s.want("again", wire.NFS4ErrBadStateID, free(seqid(id, 2)))
		s.want("READ by it", wire.NFS4ErrBadStateID, putFH(o.fh), readOp(seqid(id, 2), 0, 1))
		s.want("CLOSE", ok, putFH(o.fh), closeOp(again.Stateid))
	})
}
