package state

import (
	"testing"
)

// Two opens are compatible unless one denies the access of the other, in either order. A
// closed open denies nothing (RFC 8881 §9.7).
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
					if _, s := m.Open(args); (s == ok) != stands || s != ok && s != OpenConflict {
						t.Errorf("open for %d denying %d, then for %d denying %d: %v", access, deny, want, keep, s)
					}
					if stands {
						continue
					}
					if _, s := m.CloseOpen(&Ref{ID: id, Client: one, Key: fileKey(1)}, false); s != ok {
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

// An open allows exactly the accesses for which it was opened (RFC 8881 §9.1.2).
func TestOpenIsGoodForItsAccess(t *testing.T) {
	m := newManager(t)
	c := newClient(m, 1, "client")
	for access := AccessRead; access <= AccessBoth; access++ {
		key := fileKey(int(access))
		id := open(t, m, c, "owner", key, access, 0)
		s, verdict := m.Resolve(&Ref{ID: id, Client: c, Key: key}, KindOpen)
		if verdict != ok {
			t.Fatal(verdict)
		}
		for _, want := range [...]Access{AccessRead, AccessWrite} {
			good := ok
			if access&want == 0 {
				good = NotOpenFor
			}
			if _, verdict := s.For(want, Principal{}); verdict != good {
				t.Errorf("opened for %d, used for %d: %v, want %v", access, want, verdict, good)
			}
		}
	}
}

// Each principal uses its own grants only. A second principal that opens the same file for
// the same owner gets only the access of its own OPEN, and the first one keeps its access.
func TestOpenIsGoodForItsOpener(t *testing.T) {
	m := newManager(t)
	c := newClient(m, 1, "client")
	key := fileKey(1)
	alice, bob := Principal{Proven: "alice@TEST"}, Principal{UID: 0}
	var count openCount
	files := map[Access]*countedFile{AccessRead: count.open(), AccessWrite: count.open()}
	var id StateID
	for _, o := range []struct {
		by     Principal
		access Access
	}{{alice, AccessRead}, {bob, AccessWrite}, {bob, AccessRead}} {
		a := OpenArgs{Client: c, OwnerName: []byte("owner"), Key: key, Access: o.access, By: o.by, File: files[o.access]}
		if o.by == bob && o.access == AccessRead {
			a.File = count.open()
		}
		got, s := m.Open(&a)
		if s != ok {
			t.Fatal(s)
		}
		id = got.ID
	}
	s, verdict := m.Resolve(&Ref{ID: id, Client: c, Key: key}, KindOpen)
	if verdict != ok {
		t.Fatal(verdict)
	}
	for _, u := range []struct {
		by   Principal
		want Access
		has  bool
	}{{alice, AccessRead, true}, {alice, AccessWrite, false}, {bob, AccessWrite, true}, {bob, AccessRead, false}, {Principal{UID: 1}, AccessRead, false}} {
		f, verdict := s.For(u.want, u.by)
		if verdict != ok || (f != nil) != u.has || u.has && f != files[u.want] || s.OpenedBy(u.want, u.by) != u.has {
			t.Errorf("%+v, for %d: %v, %v", u.by, u.want, f, verdict)
		}
	}
}

// A write lock conflicts with every lock of another owner. Read locks of two owners do not
// conflict (RFC 8881 §9.5).
func TestLocksOfTwoOwners(t *testing.T) {
	const denied = LockConflict
	for _, c := range []struct {
		name         string
		first, write bool
		offset       uint64
		want         Verdict
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

// A second LOCK of an owner changes the mode of exactly its bytes, and a LOCKU frees exactly its
// bytes (RFC 8881 §18.10.4, §18.12.4). Each of them advances the stateid's seqid.
func TestLocksAreChangedByteForByte(t *testing.T) {
	const denied = LockConflict
	m := newManager(t)
	one, other := newLocker(t, m, "one"), newLocker(t, m, "other")
	test := func(what string, offset uint64, write bool, want Verdict) {
		t.Helper()
		_, s := m.TestLock(other.c, []byte("tester"), fileKey(1), offset, 1, write, nil, nil)
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

// FREE_STATEID does not free the stateid of a lock that still has ranges, nor the stateid of
// an open: only CLOSE does that (RFC 8881 §18.38.3).
func TestLocksHeld(t *testing.T) {
	const held = HoldsLocks
	m := newManager(t)
	l := newLocker(t, m, "client")
	is(t, "FREE_STATEID of an open", m.FreeStateID(&l.open, l.c), held)
	is(t, "LOCK", l.lock(false, 0, 10, true), ok)
	is(t, "FREE_STATEID of the lock", m.FreeStateID(&l.id, l.c), held)
	l.unlock(0, 9)
	is(t, "FREE_STATEID of the last byte of it", m.FreeStateID(&l.id, l.c), held)
	l.unlock(9, 1)
	is(t, "FREE_STATEID of what holds nothing", m.FreeStateID(&l.id, l.c), ok)
	is(t, "FREE_STATEID once more", m.FreeStateID(&l.id, l.c), UnknownID)
	is(t, "CLOSE", l.close(false), ok)
	nothingLeft(t, m)
}

// CLOSE ends the locks that all lock-owners made through the open, and no locks of other
// opens (RFC 8881 §18.2.3). The Manager notifies the owner that waited for one of them.
func TestCloseUnlocks(t *testing.T) {
	m := newManager(t)
	var told []string
	m.NotifyLocks(func(n LockNotice) { told = append(told, n.Tag.(string)) })
	l, other, waits := newLocker(t, m, "client"), newLocker(t, m, "other"), newLocker(t, m, "waits")
	for i := range uint64(3) {
		_, _, s := m.Lock(&LockArgs{
			Ref: Ref{ID: l.open, Client: l.c, Key: fileKey(1)}, New: true, OwnerName: []byte{byte(i)}, Offset: i, Length: 1, Write: true,
		})
		is(t, "LOCK", s, ok)
	}
	is(t, "LOCK by way of another open", other.lock(false, 10, 1, true), ok)
	is(t, "LOCK, who waits", waits.lock(true, 0, 3, true), LockConflict)
	is(t, "CLOSE", l.close(true), ok)
	if len(told) != 1 || told[0] != "waits" {
		t.Errorf("told: %v", told)
	}
	is(t, "LOCK of what was locked", waits.lock(false, 0, 3, true), ok)
	is(t, "LOCK of what the other has", waits.lock(false, 10, 1, true), LockConflict)
	is(t, "CLOSE of the other", other.close(true), ok)
	is(t, "CLOSE of who waited", waits.close(true), ok)
	nothingLeft(t, m)
}

// A CLOSE with try does not wait for the file system. If the Manager has a local claim for a lock,
// the file system has to give up the claim, so the CLOSE does nothing and returns WouldWait.
func TestCloseWithTryDoesNotWaitForAClaim(t *testing.T) {
	m := newManager(t)
	l := newLocker(t, m, "client")
	claimer := &lockedClaimer{}
	id, _, s := m.Lock(&LockArgs{
		Ref: Ref{ID: l.open, Client: l.c, Key: fileKey(1)}, New: true, OwnerName: []byte("locker"), Length: 1, Write: true, Claimer: claimer,
	})
	is(t, "LOCK", s, ok)
	is(t, "an attempt to CLOSE", l.close(true), WouldWait)
	if claimer.held.None() {
		t.Error("the attempt gave the claim up")
	}
	_, s = m.Unlock(&Ref{ID: id, Client: l.c, Key: fileKey(1)}, 0, 1, claimer, false)
	is(t, "LOCKU behind the attempt", s, ok)
	_, _, s = m.Lock(&LockArgs{
		Ref: Ref{ID: id, Client: l.c, Key: fileKey(1)}, Length: 1, Write: true, Claimer: claimer,
	})
	is(t, "LOCK by the old stateid", s, OldID)
	is(t, "LOCK again", l.lock(false, 0, 1, true), ok)
	is(t, "CLOSE", l.close(false), ok)
	if !claimer.held.None() {
		t.Error("CLOSE left a claim")
	}
	nothingLeft(t, m)
}
