package nfs40_test

import (
	"testing"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

const toTheEnd = 1<<64 - 1 // as the length of a range

// A lockSite is a test server on which two lock-owners have "file" open.
type lockSite struct {
	*client
	o, other    *owner
	l, m        *locker
	id, otherID wire.StateID4
	lock        wire.StateID4
}

// newLocks returns a server on which the lock-owners l, of one client, and m, of another client,
// have the file open. No range is locked yet.
func newLocks(t testing.TB) *lockSite {
	t.Helper()
	s := &lockSite{client: newClient(t)}
	s.o, s.l = s.owner("o"), s.locker("l")
	s.id = s.o.opens(t, "file", bothMode, denyNone)
	c := s.client.other(t, "other")
	s.other, s.m = c.owner("o"), c.locker("l")
	s.otherID = s.other.opens(t, "file", bothMode, denyNone)
	return s
}

// first sends the first LOCK of the lock-owner l.
func (s *lockSite) first(t testing.TB, want status, kind wire.NFSLockType4, offset, length uint64) {
	t.Helper()
	r := s.run(t, want, join(at("file"), s.l.first(s.o, s.id, kind, offset, length))...)
	if want == ok {
		s.lock = stateID(t, r)
	}
}

// tested sends a LOCKT for a range, of the lock-owner m, and returns the answer.
func (s *lockSite) tested(t testing.TB, want status, kind wire.NFSLockType4, offset, length uint64) (d wire.Lock4Denied) {
	t.Helper()
	var res wire.Lockt4Res
	last(t, s.run(t, want, join(at("file"), s.m.test(kind, offset, length))...), &res)
	return res.Denied
}

func TestLockAndUnlock(t *testing.T) {
	s := newLocks(t)
	s.first(t, ok, wire.WriteLt, 10, 10)
	if s.lock.Seqid != 1 || s.lock.Other == s.id.Other {
		t.Errorf("the first lock has %v, its open %v", s.lock, s.id)
	}
	next := stateID(t, s.run(t, ok, join(at("file"), s.l.lock(s.lock, wire.ReadLt, 100, 5))...))
	if next.Other != s.lock.Other || next.Seqid != 2 {
		t.Errorf("%v after %v", next, s.lock)
	}
	if d := s.tested(t, wire.NFS4ErrDenied, wire.WriteLt, 0, 50); d.Offset != 10 || d.Length != 10 || d.Locktype != wire.WriteLt ||
		d.Owner.Clientid == s.id0() || string(d.Owner.Owner) != "l" {
		t.Errorf("%+v", d)
	}
	s.tested(t, ok, wire.ReadLt, 100, 5)
	s.tested(t, wire.NFS4ErrDenied, wire.WriteLt, 104, 1)
	s.run(t, wire.NFS4ErrOldStateID, join(at("file"), s.l.unlock(s.lock, 0, 1))...)
	next = stateID(t, s.run(t, ok, join(at("file"), s.l.unlock(next, 0, toTheEnd))...))
	if next.Seqid != 3 {
		t.Error(next)
	}
	s.tested(t, ok, wire.WriteLt, 0, toTheEnd)
	// The stateid stays as long as the file is open (RFC 7530 §9.1.4.4).
	s.run(t, ok, join(at("file"), s.l.lock(next, wire.WriteLt, 0, 1))...)
}

func (s *lockSite) id0() uint64 { return s.client.id }

func TestRangesThatAreNone(t *testing.T) {
	for _, r := range [][2]uint64{{0, 0}, {5, 0}, {2, toTheEnd - 1}, {toTheEnd, 1}, {toTheEnd, 2}, {1 << 63, 1 << 63}, {toTheEnd, 0}} {
		s := newLocks(t)
		s.first(t, wire.NFS4ErrInvalid, wire.WriteLt, r[0], r[1])
		s.tested(t, wire.NFS4ErrInvalid, wire.WriteLt, r[0], r[1])
		s.l.seqid = 9 // the server knows no seqid of the owner
		s.first(t, ok, wire.WriteLt, 0, 1)
		s.run(t, wire.NFS4ErrInvalid, join(at("file"), s.l.unlock(s.lock, r[0], r[1]))...)
		s.run(t, wire.NFS4ErrInvalid, join(at("file"), s.l.lock(s.lock, wire.ReadLt, r[0], r[1]))...)
	}
}

// A range may end at the limits of 32 and 64 bits.
func TestRangesAtTheEnd(t *testing.T) {
	for _, r := range [][2]uint64{
		{0, toTheEnd}, {7, toTheEnd}, {toTheEnd - 1, toTheEnd}, {toTheEnd - 1, 1}, {0, toTheEnd - 1}, {1, toTheEnd - 1}, {1 << 63, 1<<63 - 1},
		{1<<32 - 2, 1}, {1<<32 - 1, 1}, {1 << 32, 1}, {1<<32 - 1, 2}, {1<<32 - 1, toTheEnd}, {0, 1<<32 - 1},
	} {
		s := newLocks(t)
		s.first(t, ok, wire.WriteLt, r[0], r[1])
		s.tested(t, wire.NFS4ErrDenied, wire.ReadLt, r[0], 1)
		if r[0] > 0 {
			s.tested(t, ok, wire.WriteLt, 0, r[0])
		}
		if r[1] == toTheEnd {
			s.tested(t, wire.NFS4ErrDenied, wire.ReadLt, toTheEnd, toTheEnd)
		} else {
			s.tested(t, ok, wire.WriteLt, r[0]+r[1], toTheEnd)
			s.tested(t, wire.NFS4ErrDenied, wire.ReadLt, r[0]+r[1]-1, 1)
		}
		s.run(t, ok, join(at("file"), s.l.unlock(s.lock, r[0], r[1]))...)
		s.tested(t, ok, wire.WriteLt, 0, toTheEnd)
	}
}

// A write lock conflicts with an overlapping lock of another owner. Without a conflict, an owner
// can change its locks.
func TestLockConflicts(t *testing.T) {
	types := []wire.NFSLockType4{wire.ReadLt, wire.WriteLt, wire.ReadwLt, wire.WritewLt}
	writes := func(k wire.NFSLockType4) bool { return k == wire.WriteLt || k == wire.WritewLt }
	for _, a := range types {
		for _, b := range types {
			for _, r := range []struct {
				offset, length uint64
				overlaps       bool
			}{{100, 100, true}, {0, 100, false}, {0, 101, true}, {200, 1, false}, {199, 1, true}, {150, 1, true}, {0, toTheEnd, true}, {200, toTheEnd, false}} {
				s := newLocks(t)
				s.first(t, ok, a, 100, 100)
				want := ok
				if r.overlaps && (writes(a) || writes(b)) {
					want = wire.NFS4ErrDenied
				}
				s.tested(t, want, b, r.offset, r.length)
				// An owner's own locks do not conflict with it.
				s.run(t, ok, join(at("file"), s.l.test(b, r.offset, r.length))...)
				s.run(t, want, join(at("file"), s.m.first(s.other, s.otherID, b, r.offset, r.length))...)
				if want == ok && (!r.overlaps || !writes(b)) {
					s.run(t, ok, join(at("file"), s.l.lock(s.lock, wire.ReadLt, 100, 100))...)
				}
			}
		}
	}
}

// An owner can upgrade, downgrade, split and merge its locks, as in POSIX.
func TestLocksAreChanged(t *testing.T) {
	s := newLocks(t)
	s.first(t, ok, wire.ReadLt, 0, 100)
	id := stateID(t, s.run(t, ok, join(at("file"), s.l.lock(s.lock, wire.WriteLt, 40, 20))...))
	s.tested(t, ok, wire.ReadLt, 0, 40)
	s.tested(t, wire.NFS4ErrDenied, wire.ReadLt, 40, 1)
	s.tested(t, ok, wire.ReadLt, 60, 40)
	id = stateID(t, s.run(t, ok, join(at("file"), s.l.lock(id, wire.ReadLt, 50, 20))...))
	s.tested(t, ok, wire.ReadLt, 50, 10)
	id = stateID(t, s.run(t, ok, join(at("file"), s.l.unlock(id, 45, 10))...))
	s.tested(t, ok, wire.WriteLt, 45, 10)
	if d := s.tested(t, wire.NFS4ErrDenied, wire.WriteLt, 44, 1); d.Offset != 40 || d.Length != 5 {
		t.Errorf("%+v", d)
	}
	id = stateID(t, s.run(t, ok, join(at("file"), s.l.lock(id, wire.WriteLt, 0, 200))...))
	if d := s.tested(t, wire.NFS4ErrDenied, wire.ReadLt, 150, 1); d.Offset != 0 || d.Length != 200 {
		t.Errorf("%+v", d)
	}
	// A range that was never locked can be unlocked.
	s.run(t, ok, join(at("file"), s.l.unlock(id, 1000, 1000))...)
}

// If an upgrade conflicts with a lock of another owner, LOCK changes nothing.
func TestUpgradeThatIsDenied(t *testing.T) {
	s := newLocks(t)
	s.first(t, ok, wire.ReadLt, 0, 10)
	other := stateID(t, s.run(t, ok, join(at("file"), s.m.first(s.other, s.otherID, wire.ReadLt, 5, 10))...))
	s.run(t, wire.NFS4ErrDenied, join(at("file"), s.l.lock(s.lock, wire.WriteLt, 0, 10))...)
	s.run(t, wire.NFS4ErrDenied, join(at("file"), s.l.lock(s.lock, wire.WritewLt, 0, 10))...)
	s.run(t, ok, join(at("file"), s.m.unlock(other, 5, 10))...)
	s.run(t, ok, join(at("file"), s.l.lock(s.lock, wire.WriteLt, 0, 10))...)
}

// A lock needs an open for the same access, as in POSIX.
func TestLockOfAnotherMode(t *testing.T) {
	for _, c := range []struct {
		access uint32
		kind   wire.NFSLockType4
		want   status
	}{
		{readMode, wire.ReadLt, ok}, {readMode, wire.WriteLt, wire.NFS4ErrOpenMode}, {writeMode, wire.WriteLt, ok},
		{writeMode, wire.ReadLt, wire.NFS4ErrOpenMode}, {bothMode, wire.ReadLt, ok}, {bothMode, wire.WriteLt, ok},
	} {
		cl := newClient(t)
		o, l := cl.owner("o"), cl.locker("l")
		id := o.opens(t, "file", c.access, denyNone)
		cl.run(t, c.want, join(at("file"), l.first(o, id, c.kind, 0, 1))...)
	}
}

// The first LOCK of a lock-owner needs the stateid of an open. A later LOCK and a LOCKU need the
// stateid of the lock.
func TestStateIDsOfLocks(t *testing.T) {
	s := newLocks(t)
	s.first(t, ok, wire.ReadLt, 0, 10)
	for _, c := range []struct {
		name string
		want status
		make func() op
	}{
		{"LOCK by an open's", wire.NFS4ErrBadStateID, func() op { return s.l.lock(s.id, wire.ReadLt, 0, 1) }},
		{"LOCKU by an open's", wire.NFS4ErrBadStateID, func() op { return s.l.unlock(s.id, 0, 1) }},
		{"first LOCK by a lock's", wire.NFS4ErrBadStateID, func() op { return s.client.locker("new").first(s.o, s.lock, wire.ReadLt, 0, 1) }},
		{"CLOSE of a lock's", wire.NFS4ErrBadStateID, func() op { return s.o.close(s.lock) }},
		{"OPEN_DOWNGRADE of a lock's", wire.NFS4ErrBadStateID, func() op { return s.o.downgrade(s.lock, readMode, denyNone) }},
		{"LOCK by none", wire.NFS4ErrBadStateID, func() op { return s.l.lock(anonymous, wire.ReadLt, 0, 1) }},
		{"first LOCK by none", wire.NFS4ErrBadStateID, func() op { return s.client.locker("new").first(s.o, bypass, wire.ReadLt, 0, 1) }},
		{"a lock-owner of another client", wire.NFS4ErrBadStateID, func() op { return s.m.first(s.o, s.id, wire.ReadLt, 0, 1) }},
		{"a lock-owner of no client", wire.NFS4ErrStaleClientID, func() op {
			return (&client{peer: s.peer, id: 5}).locker("l").first(s.o, s.id, wire.ReadLt, 0, 1)
		}},
		{"a lock-owner who has a stateid", wire.NFS4ErrBadSeqID, func() op { return s.l.first(s.o, s.id, wire.ReadLt, 0, 1) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, l, m := s.o.seqid, s.l.seqid, s.m.seqid
			s.run(t, c.want, join(at("file"), c.make())...)
			s.o.seqid, s.l.seqid, s.m.seqid = o, l, m
		})
	}
	// READ, WRITE and SETATTR accept a lock's stateid like that of its open.
	s.run(t, ok, join(at("file"), read(s.lock, 0, 1), write(s.lock, 0, "x"), setattr(s.lock, size(3)))...)
	s.run(t, ok, join(at("file"), s.l.unlock(s.lock, 0, 10))...)
}

// One lock-owner has a stateid for each open.
func TestLockOwnerOfTwoFiles(t *testing.T) {
	s := newLocks(t)
	inner := opened(t, s.run(t, ok, join(at("dir"), s.o.open("inner", bothMode, denyNone))...), 2).Stateid
	s.first(t, ok, wire.WriteLt, 0, 10)
	lock := stateID(t, s.run(t, ok, join(at("dir", "inner"), s.l.first(s.o, inner, wire.WriteLt, 0, 10))...))
	if lock.Other == s.lock.Other {
		t.Error("locks of two files have one stateid")
	}
	s.run(t, ok, join(at("dir", "inner"), s.l.unlock(lock, 0, 10))...)
	s.run(t, ok, join(at("file"), s.l.unlock(s.lock, 0, 10))...)
}

// A CLOSE releases the locks, and so does a repeated CLOSE (RFC 7530 §16.2.4, §9.10).
func TestCloseWithLocks(t *testing.T) {
	s := newLocks(t)
	s.first(t, ok, wire.WriteLt, 0, 10)
	s.tested(t, wire.NFS4ErrDenied, wire.WriteLt, 0, toTheEnd)
	closes := s.o.close(s.id)
	for range 2 {
		s.run(t, ok, join(at("file"), closes)...)
		s.tested(t, ok, wire.WriteLt, 0, toTheEnd)
	}
	s.run(t, wire.NFS4ErrBadStateID, join(at("file"), read(s.lock, 0, 1))...)
}

func TestLockTestOfEachKind(t *testing.T) {
	for _, kind := range kinds {
		c := newClient(t)
		want := map[string]status{"file": ok, "dir": wire.NFS4ErrIsDir}[kind]
		if want == ok && kind != "file" {
			want = wire.NFS4ErrInvalid
		}
		c.run(t, want, join(at(kind), c.locker("l").test(wire.ReadLt, 0, 1))...)
	}
}

func TestReleaseLockOwner(t *testing.T) {
	s := newLocks(t)
	s.run(t, ok, s.client.locker("unknown").release())
	s.first(t, ok, wire.WriteLt, 0, 10)
	s.run(t, wire.NFS4ErrLocksHeld, s.l.release())
	s.tested(t, wire.NFS4ErrDenied, wire.WriteLt, 0, 10)
	s.run(t, ok, join(at("file"), s.l.unlock(s.lock, 0, 10))...)
	s.run(t, ok, s.l.release())
	// The server has forgotten the owner and its seqid.
	s.l.seqid = 12345
	s.run(t, wire.NFS4ErrBadStateID, join(at("file"), s.l.unlock(s.lock, 0, 10))...)
	s.l.seqid = 54321
	s.first(t, ok, wire.WriteLt, 0, 10)
}

// If a lock-owner has no locks, the client may use its name again with any seqid and without
// RELEASE_LOCKOWNER.
func TestNameOfALockOwnerIsUsedAgain(t *testing.T) {
	s := newLocks(t)
	s.first(t, ok, wire.WriteLt, 0, 10)
	s.run(t, ok, join(at("file"), s.l.unlock(s.lock, 0, 10))...)
	s.l.seqid = 77
	s.first(t, ok, wire.WriteLt, 5, 10)
	s.run(t, ok, join(at("file"), s.l.unlock(s.lock, 5, 10))...)
}

// The locks of two lock-owners of one client conflict like those of two clients.
func TestLockOwnersOfOneClient(t *testing.T) {
	s := newLocks(t)
	s.first(t, ok, wire.WriteLt, 0, 10)
	n := s.client.locker("n")
	s.run(t, wire.NFS4ErrDenied, join(at("file"), n.test(wire.ReadLt, 0, 1))...)
	s.run(t, wire.NFS4ErrDenied, join(at("file"), n.first(s.o, s.id, wire.ReadLt, 0, 1))...)
	s.run(t, ok, join(at("file"), n.first(s.o, s.id, wire.ReadLt, 10, 1))...)
}

// LOCK and LOCKT reject lock types that the protocol does not define.
func TestLockTypesThatAreNone(t *testing.T) {
	for _, kind := range []wire.NFSLockType4{0, 5, -1} {
		s := newLocks(t)
		s.run(t, wire.NFS4ErrBadXDR, join(at("file"), s.m.test(kind, 0, 1))...)
		s.run(t, wire.NFS4ErrBadXDR, join(at("file"), s.l.first(s.o, s.id, kind, 0, 1))...)
	}
}

// A client cannot reclaim locks if the server did not restart.
func TestClaimOfLockWithoutGrace(t *testing.T) {
	s := newLocks(t)
	o := s.l.first(s.o, s.id, wire.WriteLt, 0, 10)
	o.Args.(*wire.Lock4Args).Reclaim = true
	s.run(t, wire.NFS4ErrNoGrace, join(at("file"), o)...)
}

// Only regular files have opens and locks. For another object, LOCK and OPEN_CONFIRM report the
// object's type and use up the seqid (RFC 7530 §13.2, §9.1.7).
func TestOnlyRegularFilesHaveState(t *testing.T) {
	for _, kind := range kinds {
		if kind == "file" {
			continue
		}
		want := wire.NFS4ErrInvalid
		if kind == "dir" {
			want = wire.NFS4ErrIsDir
		}
		t.Run(kind, func(t *testing.T) {
			s := newLocks(t)
			s.first(t, ok, wire.ReadLt, 0, 10)
			on := at(kind)
			s.run(t, want, join(on, s.client.locker("new").first(s.o, s.id, wire.ReadLt, 0, 1))...)
			s.run(t, want, join(on, s.l.lock(s.lock, wire.ReadLt, 20, 1))...)
			s.run(t, want, join(on, s.o.confirm(s.id))...)
			s.run(t, want, join(on, s.client.locker("none").first(s.client.owner("none"), anonymous, wire.ReadLt, 0, 1))...)
			// The requests have used up the owners' seqids.
			s.run(t, ok, join(at("file"), s.l.unlock(s.lock, 0, 10))...)
			s.run(t, ok, join(at("file"), s.o.close(s.id))...)
		})
	}
}
