package state

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// Two opens stand beside each other unless one denies what the other is for, whichever
// came first; what was closed denies nothing (RFC 8881 §9.7).
func TestShareModesOfTwoOwners(t *testing.T) {
	for access := AccessRead; access <= AccessBoth; access++ {
		for deny := Access(0); deny <= AccessBoth; deny++ {
			for want := AccessRead; want <= AccessBoth; want++ {
				for keep := Access(0); keep <= AccessBoth; keep++ {
					m := newManager(t)
					one, other := newClient(m, 1, "one"), newClient(m, 1, "other")
					id := open(t, m, one, "owner", fileKey(1), access, deny)
					args := &OpenArgs{Client: other, OwnerName: []byte("owner"), Key: fileKey(1), Access: want, Deny: keep}
					stands := want&deny == 0 && keep&access == 0
					if _, s := m.Open(args); (s == ok) != stands || s != ok && s != nfs4wire.NFS4ErrShareDenied {
						t.Errorf("open for %d denying %d, then for %d denying %d: %v", access, deny, want, keep, s)
					}
					if stands {
						continue
					}
					if _, s := m.CloseOpen(&Ref{ID: id, Client: one, Key: fileKey(1)}); s != ok {
						t.Fatal(s)
					}
					if _, s := m.Open(args); s != ok {
						t.Errorf("for %d denying %d, when the other one is closed: %v", want, keep, s)
					}
				}
			}
		}
	}
}

// An open is good for what it was opened for, and for nothing else (RFC 8881 §9.1.2).
func TestOpenIsGoodForItsAccess(t *testing.T) {
	m := newManager(t)
	c := newClient(m, 1, "client")
	for access := AccessRead; access <= AccessBoth; access++ {
		key := fileKey(int(access))
		id := open(t, m, c, "owner", key, access, 0)
		s, status := m.Resolve(&Ref{ID: id, Client: c, Key: key}, KindOpen)
		if status != ok {
			t.Fatal(status)
		}
		for _, want := range [...]Access{AccessRead, AccessWrite} {
			good := ok
			if access&want == 0 {
				good = nfs4wire.NFS4ErrOpenMode
			}
			if _, status := s.For(want); status != good {
				t.Errorf("opened for %d, used for %d: %v, want %v", access, want, status, good)
			}
		}
	}
}

// Of two owners' locks one to write stands against all, and two to read beside each other
// (RFC 8881 §9.5).
func TestLocksOfTwoOwners(t *testing.T) {
	const denied = nfs4wire.NFS4ErrDenied
	for _, c := range []struct {
		name         string
		first, write bool
		offset       uint64
		want         Status
	}{
		{"read beside read", false, false, 0, ok},
		{"write beside read", false, true, 0, denied},
		{"read beside write", true, false, 0, denied},
		{"write beside write", true, true, 0, denied},
		{"write, from the last byte on", true, true, 9, denied},
		{"write, behind the last byte", true, true, 10, ok},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newManager(t)
			one, other := newLocker(t, m, "one"), newLocker(t, m, "other")
			is(t, "the first", one.lock(false, 0, 10, c.first), ok)
			is(t, "the second", other.lock(false, c.offset, 1, c.write), c.want)
		})
	}
}

// What an owner locks anew it changes, byte for byte; what it unlocks is free, and nothing
// beside that (RFC 8881 §18.10.4, §18.12.4). Each makes the next stateid.
func TestLocksAreChangedByteForByte(t *testing.T) {
	const denied = nfs4wire.NFS4ErrDenied
	m := newManager(t)
	one, other := newLocker(t, m, "one"), newLocker(t, m, "other")
	test := func(what string, offset uint64, write bool, want Status) {
		t.Helper()
		_, s := m.TestLock(other.c, []byte("tester"), fileKey(1), offset, 1, write, nil, false)
		is(t, what, s, want)
	}
	seqid := uint32(0)
	next := func() {
		t.Helper()
		if seqid++; one.id.Seqid != seqid {
			t.Errorf("the seqid is %d, want %d", one.id.Seqid, seqid)
		}
	}
	is(t, "to read", one.lock(false, 0, 10, false), ok)
	next()
	is(t, "to write, right behind", one.lock(false, 10, 10, true), ok)
	next()
	test("read in the part to read", 9, false, ok)
	test("read in the part to write", 10, false, denied)
	test("write in the part to read", 9, true, denied)
	one.unlock(3, 3)
	next()
	test("before what was unlocked", 2, true, denied)
	test("the first byte unlocked", 3, true, ok)
	test("the last byte unlocked", 5, true, ok)
	test("behind what was unlocked", 6, true, denied)
	test("the other part", 19, false, denied)
	test("behind all", 20, true, ok)
}

// A file is not closed, nor a lock's stateid freed, over bytes that are still locked; an
// open's stateid is freed by CLOSE alone (RFC 8881 §18.2.3, §18.38.3).
func TestLocksHeld(t *testing.T) {
	const held = nfs4wire.NFS4ErrLocksHeld
	m := newManager(t)
	l := newLocker(t, m, "client")
	closes := func() Status {
		_, s := m.CloseOpen(&Ref{ID: l.open, Client: l.c, Key: fileKey(1)})
		return s
	}
	is(t, "FREE_STATEID of an open", m.FreeStateID(&l.open, l.c), held)
	is(t, "LOCK", l.lock(false, 0, 10, true), ok)
	is(t, "CLOSE over a lock", closes(), held)
	is(t, "FREE_STATEID of the lock", m.FreeStateID(&l.id, l.c), held)
	l.unlock(0, 9)
	is(t, "CLOSE over the last byte of it", closes(), held)
	is(t, "FREE_STATEID of the last byte of it", m.FreeStateID(&l.id, l.c), held)
	l.unlock(9, 1)
	is(t, "FREE_STATEID of what holds nothing", m.FreeStateID(&l.id, l.c), ok)
	is(t, "FREE_STATEID once more", m.FreeStateID(&l.id, l.c), nfs4wire.NFS4ErrBadStateID)
	is(t, "CLOSE", closes(), ok)
	nothingLeft(t, m)
}
