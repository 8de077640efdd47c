package nfs4_test

import (
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
)

// Encode encodes ids as the arguments of TEST_STATEID.
func (all ids) Encode(w *xdr.Writer) {
	w.Uint32(uint32(len(all)))
	for _, id := range all {
		id.Encode(w)
	}
}

func opFirstLock(open wire.StateID4, owner string, how wire.NFSLockType4, offset, length uint64) nfs4test.Op {
	return nfs4test.Op{Number: wire.OpLock, Args: &wire.Lock4Args{Locktype: how, Offset: offset, Length: length,
		Locker: wire.Locker4{NewLockOwner: true, OpenOwner: wire.OpenToLockOwner4{
			OpenStateid: open, LockOwner: wire.StateOwner4{Owner: []byte(owner)},
		}}}}
}

func opLock(lock wire.StateID4, how wire.NFSLockType4, offset, length uint64) nfs4test.Op {
	return nfs4test.Op{Number: wire.OpLock, Args: &wire.Lock4Args{Locktype: how, Offset: offset, Length: length,
		Locker: wire.Locker4{LockOwner: wire.ExistLockOwner4{Stateid: lock}}}}
}

func opUnlock(lock wire.StateID4, offset, length uint64) nfs4test.Op {
	return nfs4test.Op{Number: wire.OpLocku, Args: &wire.Locku4Args{Locktype: wire.ReadLt, LockStateid: lock, Offset: offset, Length: length}}
}

func opLockTest(owner string, how wire.NFSLockType4, offset, length uint64) nfs4test.Op {
	return nfs4test.Op{Number: wire.OpLockt, Args: &wire.Lockt4Args{Locktype: how, Offset: offset, Length: length, Owner: wire.StateOwner4{Owner: []byte(owner)}}}
}

// lock executes a LOCK, and returns the lock's stateid.
func (f *filer) lock(fh []byte, o nfs4test.Op) wire.StateID4 {
	f.t.Helper()
	var res wire.Lock4Res
	f.want(wire.NFS4OK, putFH(fh), o).Ops[1].Into(f.t, &res)
	return res.ResOK.LockStateid
}

// unlock executes a LOCKU, and returns the lock's stateid.
func (f *filer) unlock(fh []byte, lock wire.StateID4, offset, length uint64) wire.StateID4 {
	f.t.Helper()
	var res wire.Locku4Res
	f.want(wire.NFS4OK, putFH(fh), opUnlock(lock, offset, length)).Ops[1].Into(f.t, &res)
	return res.Stateid
}

// denied returns the conflicting lock of a LOCK or LOCKT.
func (f *filer) denied(fh []byte, o nfs4test.Op) wire.Lock4Denied {
	f.t.Helper()
	var res wire.Lock4Res
	f.want(wire.NFS4ErrDenied, putFH(fh), o).Ops[1].Into(f.t, &res)
	return res.Denied
}

const toEnd = 1<<64 - 1

// The answer to a denied lock names the conflicting lock's owner and range.
func TestLockDenied(t *testing.T) {
	eachOpenSite(t, func(t *testing.T, s *nfs4test.Site) {
		f, other := newFiler(t, s, 1), newFiler(t, s, 1)
		o := f.create("file", "me", both, 0)
		theirs := other.open(openArgs("file", "other", both, 0))
		lock := f.lock(o.fh, opFirstLock(o.Stateid, "locker", wire.WriteLt, 10, 10))
		for _, by := range []nfs4test.Op{
			opFirstLock(theirs.Stateid, "locker", wire.ReadLt, 0, 11), opFirstLock(theirs.Stateid, "locker", wire.WriteLt, 19, toEnd),
			opLockTest("locker", wire.ReadLt, 15, 1), opLockTest("locker", wire.WritewLt, 0, toEnd),
		} {
			d := other.denied(o.fh, by)
			if d.Offset != 10 || d.Length != 10 || d.Locktype != wire.WriteLt || string(d.Owner.Owner) != "locker" || d.Owner.Clientid == 0 {
				t.Errorf("%+v", d)
			}
		}
		// Neither the owner's own locks nor locks of other bytes conflict.
		f.want(wire.NFS4OK, putFH(o.fh), opLockTest("locker", wire.WriteLt, 0, toEnd))
		for _, free := range [][2]uint64{{0, 10}, {20, toEnd}} {
			other.want(wire.NFS4OK, putFH(o.fh), opLockTest("locker", wire.WriteLt, free[0], free[1]))
		}
		lock = f.lock(o.fh, opLock(lock, wire.ReadLt, 12, 2)) // splits the lock into three
		got := other.lock(o.fh, opFirstLock(theirs.Stateid, "locker", wire.ReadLt, 12, 2))
		if d := f.denied(o.fh, opLock(lock, wire.WriteLt, 0, toEnd)); d.Offset != 12 || d.Length != 2 || d.Locktype != wire.ReadLt {
			t.Errorf("%+v", d)
		}
		f.unlock(o.fh, lock, 0, toEnd)
		other.unlock(o.fh, got, 0, toEnd)
		f.close(o)
		other.close(theirs)
		nothingLeft(t, s)
	})
}

// CLOSE releases the locks that were taken through the open (RFC 8881 §18.2.3).
func TestCloseUnlocks(t *testing.T) {
	eachOpenSite(t, func(t *testing.T, s *nfs4test.Site) {
		f, other := newFiler(t, s, 1), newFiler(t, s, 1)
		o := f.create("file", "me", both, 0)
		theirs := other.open(openArgs("file", "other", both, 0))
		lock := f.lock(o.fh, opFirstLock(o.Stateid, "locker", wire.WriteLt, 10, 10))
		other.denied(o.fh, opLockTest("locker", wire.ReadLt, 15, 1))
		f.close(o)
		f.want(wire.NFS4ErrBadStateID, putFH(o.fh), opRead(lock, 0, 1))
		got := other.lock(o.fh, opFirstLock(theirs.Stateid, "locker", wire.WriteLt, 0, toEnd))
		other.unlock(o.fh, got, 0, toEnd)
		other.close(theirs)
		nothingLeft(t, s)
	})
}

func TestLockErrors(t *testing.T) {
	s := openSite(t)
	f := newFiler(t, s, 1)
	o := f.create("file", "me", both, 0)
	lock := with(f.lock(o.fh, opFirstLock(o.Stateid, "locker", wire.ReadLt, 0, 1)), 0)
	reading := f.open(openArgs("file", "reader", readable, 0))
	writing := f.open(openArgs("file", "writer", writable, 0))
	for _, c := range []struct {
		name string
		op   nfs4test.Op
		want wire.NFSStat4
	}{
		{"LOCK of nothing", opLock(lock, wire.ReadLt, 0, 0), wire.NFS4ErrInvalid},
		{"LOCK beyond the last offset", opLock(lock, wire.ReadLt, toEnd, 2), wire.NFS4ErrInvalid},
		{"LOCK to the end from the last offset", opLock(lock, wire.ReadLt, toEnd, toEnd), wire.NFS4OK},
		{"LOCKT of nothing", opLockTest("locker", wire.ReadLt, 0, 0), wire.NFS4ErrInvalid},
		{"LOCKT beyond the last offset", opLockTest("locker", wire.ReadLt, toEnd-1, 2), wire.NFS4ErrInvalid},
		{"LOCKU of nothing", opUnlock(lock, 0, 0), wire.NFS4ErrInvalid},
		{"LOCKU beyond the last offset", opUnlock(lock, 2, toEnd-1), wire.NFS4ErrInvalid},
		{"LOCK of unknown kind", opLock(lock, 9, 0, 1), wire.NFS4ErrBadXDR},
		{"LOCK with an open's stateid", opLock(o.Stateid, wire.ReadLt, 0, 1), wire.NFS4ErrBadStateID},
		{"first LOCK with a lock's stateid", opFirstLock(lock, "locker", wire.ReadLt, 0, 1), wire.NFS4ErrBadStateID},
		{"LOCKU with an open's stateid", opUnlock(o.Stateid, 0, 1), wire.NFS4ErrBadStateID},
		{"CLOSE with a lock's stateid", opClose(lock, 0), wire.NFS4ErrBadStateID},
		{"LOCK to write of what is open to read", opFirstLock(reading.Stateid, "reader", wire.WriteLt, 100, 1), wire.NFS4ErrOpenMode},
		{"LOCK to read of what is open to write", opFirstLock(writing.Stateid, "writer", wire.ReadLt, 100, 1), wire.NFS4ErrOpenMode},
		{"LOCK that claims without grace", nfs4test.Op{Number: wire.OpLock, Args: &wire.Lock4Args{Locktype: wire.ReadLt, Length: 1, Reclaim: true,
			Locker: wire.Locker4{LockOwner: wire.ExistLockOwner4{Stateid: lock}}}}, wire.NFS4ErrNoGrace},
	} {
		if r := f.Compound(putFH(o.fh), c.op); r.Status != c.want {
			t.Errorf("%s: %v, not %v", c.name, r.Status, c.want)
		}
	}
	f.want(wire.NFS4ErrLocksHeld, nfs4test.Op{Number: wire.OpFreeStateID, Args: &wire.FreeStateID4Args{Stateid: lock}})
	lock = f.unlock(o.fh, lock, 0, toEnd)
	// A lock stateid without locks remains valid until it is freed.
	f.want(wire.NFS4OK, putFH(o.fh), opRead(lock, 0, 1))
	f.want(wire.NFS4OK, nfs4test.Op{Number: wire.OpFreeStateID, Args: &wire.FreeStateID4Args{Stateid: lock}})
	f.want(wire.NFS4ErrBadStateID, putFH(o.fh), opRead(lock, 0, 1))
	// The lock-owner may lock again.
	f.lock(o.fh, opFirstLock(o.Stateid, "locker", wire.ReadLt, 0, 1))
}

// A lock's stateid permits the same access as its open.
func TestReadAndWriteWithALock(t *testing.T) {
	s := openSite(t)
	f := newFiler(t, s, 1)
	o := f.create("file", "me", readable, 0)
	lock := f.lock(o.fh, opFirstLock(o.Stateid, "locker", wire.ReadLt, 0, 1))
	f.want(wire.NFS4OK, putFH(o.fh), opRead(lock, 0, 1))
	f.want(wire.NFS4ErrOpenMode, putFH(o.fh), opWrite(lock, 0, "x"))
	f.unlock(o.fh, lock, 0, 1)
	f.close(o)
	f.want(wire.NFS4ErrBadStateID, putFH(o.fh), opRead(lock, 0, 1))
	nothingLeft(t, s)
}

// Locks of clients and locks of programs on this machine conflict with each other.
func TestLocksOfThisMachine(t *testing.T) {
	fs := memfs.New(memfs.Options{RootMode: 0o777})
	s := openSiteOver(t, fs)
	f := newFiler(t, s, 1)
	o := f.create("file", "me", both, 0)
	file, err := s.Exports.Find(o.fh)
	if err != nil {
		t.Fatal(err)
	}
	local := func(start, length uint64, mode vfs.ClaimMode) error {
		return fs.ForeignClaim(file.Handle, start, length, mode)
	}
	if err := local(10, 10, vfs.ClaimRead); err != nil {
		t.Fatal(err)
	}
	d := f.denied(o.fh, opFirstLock(o.Stateid, "locker", wire.WriteLt, 0, 15))
	if d.Offset != 10 || d.Length != 10 || d.Locktype != wire.ReadLt || d.Owner.Clientid != 0 {
		t.Errorf("%+v", d)
	}
	f.denied(o.fh, opLockTest("locker", wire.WriteLt, 19, 1))
	if u := s.State.Usage(); u.Locks != 0 || u.Ranges != 0 {
		t.Errorf("a lock that was denied is left: %+v", u)
	}
	lock := f.lock(o.fh, opFirstLock(o.Stateid, "locker", wire.ReadLt, 0, 15))
	before := lock
	f.denied(o.fh, opLock(lock, wire.WriteLt, 5, toEnd))
	f.want(wire.NFS4OK, putFH(o.fh), opRead(before, 0, 1)) // still valid: a denied LOCK does not advance it
	for _, c := range []struct {
		start, length uint64
		mode          vfs.ClaimMode
		free          bool
	}{
		{0, 1, vfs.ClaimWrite, false}, {14, 1, vfs.ClaimWrite, false}, {15, vfs.ToEnd, vfs.ClaimWrite, true}, {0, 15, vfs.ClaimRead, true},
	} {
		if err := local(c.start, c.length, c.mode); (err == nil) != c.free {
			t.Errorf("%+v: %v", c, err)
		}
		local(0, vfs.ToEnd, vfs.ClaimNone)
	}
	lock = f.unlock(o.fh, lock, 0, 5)
	if err := local(0, 5, vfs.ClaimWrite); err != nil {
		t.Errorf("what was unlocked: %v", err)
	}
	local(0, vfs.ToEnd, vfs.ClaimNone)
	f.unlock(o.fh, lock, 5, toEnd)
	if err := local(0, vfs.ToEnd, vfs.ClaimWrite); err != nil {
		t.Errorf("when all is unlocked: %v", err)
	}
	f.close(o)
	nothingLeft(t, s)
}

// LOCK and LOCKU run on the goroutine that has received them, if the file system can claim at once.
func TestLockAtOnceRunsWhereItArrives(t *testing.T) {
	for minor := uint32(1); minor <= 2; minor++ {
		s := openSiteOver(t, memfs.New(memfs.Options{RootMode: 0o777}))
		f := newFiler(t, s, minor)
		o := f.create("file", "me", both, 0)
		before := s.RPC.Stats()
		lock := f.lock(o.fh, opFirstLock(o.Stateid, "locker", wire.WriteLt, 0, 15))
		f.unlock(o.fh, lock, 0, 15)
		after := s.RPC.Stats()
		if after.InPlace-before.InPlace != 2 || after.Handed != before.Handed {
			t.Errorf("minor version %d: %d of 2 calls have run where they arrived", minor, after.InPlace-before.InPlace)
		}
		f.close(o)
		nothingLeft(t, s)
	}
}

// A LOCK4denied that does not fit into the reply is not sent.
func TestLockDeniedWithoutRoom(t *testing.T) {
	s := openSite(t)
	f, other := newFiler(t, s, 1), newFiler(t, s, 1)
	long := strings.Repeat("o", nfs.MaxDeniedOwner)
	o := f.create("file", "me", both, 0)
	f.lock(o.fh, opFirstLock(o.Stateid, long, wire.WriteLt, 0, 1))
	theirs := other.open(openArgs("file", "other", both, 0))
	other.Room.Inline = 100
	other.want(wire.NFS4ErrRepTooBig, putFH(o.fh), opFirstLock(theirs.Stateid, "locker", wire.ReadLt, 0, 1))
	other.lock(o.fh, opFirstLock(theirs.Stateid, "locker", wire.ReadLt, 1, 1))
}
