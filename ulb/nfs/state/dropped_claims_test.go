package state

import (
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A countingClaimer is a Claimer of one file that counts its calls.
type countingClaimer struct {
	vfs.Claims
	claims, drops int
	foreign       uint64 // the offset of a byte that another process has locked, or 0
}

func (c *countingClaimer) Claim(_ vfs.Handle, start, length uint64, mode vfs.ClaimMode) error {
	if c.foreign != 0 && mode != vfs.ClaimNone && start <= c.foreign && c.foreign-start < length {
		return syscall.EAGAIN
	}
	c.claims++
	return c.Set(start, length, mode)
}

func (c *countingClaimer) TestClaim(vfs.Handle, uint64, uint64, vfs.ClaimMode) (vfs.Claimed, bool, error) {
	return vfs.Claimed{}, false, nil
}

func (c *countingClaimer) DropClaims(vfs.Handle) {
	c.drops++
	c.Claims = vfs.Claims{}
}

// crowdOfLocks makes one client lock n bytes of a file by n lock-owners, and another client lock n
// bytes by one lock-owner. at returns the offsets of these bytes. If write is true, they are write
// locks.
func crowdOfLocks(t *testing.T, n int, at func(i int) (one, other uint64), write bool) (m *Manager, c *countingClaimer, a, b *Client, key FileKey, id StateID) {
	t.Helper()
	m, c, key = newManager(t), &countingClaimer{}, fileKey(1)
	a, b = newClient(m, 1, "a"), newClient(m, 1, "b")
	id = open(t, m, a, "a", key, AccessBoth, 0)
	ob := open(t, m, b, "b", key, AccessBoth, 0)
	lock := func(c *Client, id StateID, claimer vfs.Claimer, owner string, at uint64) {
		t.Helper()
		_, _, s := m.Lock(&LockArgs{Ref: Ref{ID: id, Client: c, Key: key}, New: true, OwnerName: []byte(owner), Offset: at, Length: 1, Write: write, Claimer: claimer})
		is(t, "LOCK", s, ok)
	}
	for i := range n {
		one, other := at(i)
		lock(a, id, c, fmt.Sprint("owner ", i), one)
		lock(b, ob, c, "b", other)
	}
	return m, c, a, b, key, id
}

// When a client's locks end, by CLOSE or by the end of its lease, the Manager gives up their local
// claims with one call for each piece of the file that becomes free. The claims for other clients'
// locks stay.
func TestDroppedClaimsAreGivenUpOnce(t *testing.T) {
	const n = 500
	for _, layout := range []struct {
		name  string
		at    func(i int) (one, other uint64)
		write bool
		most  int // steps
	}{
		{"before the others", func(i int) (uint64, uint64) { return uint64(2 * i), uint64(1<<20 + 2*i) }, true, 1},
		{"between the others", func(i int) (uint64, uint64) { return uint64(4 * i), uint64(4*i + 2) }, true, n},
		{"upon the others", func(i int) (uint64, uint64) { return uint64(4 * i), uint64(4 * i) }, false, 0},
	} {
		for _, end := range []struct {
			name string
			of   func(m *Manager, a *Client, key FileKey, id StateID)
		}{
			{"CLOSE", func(m *Manager, a *Client, key FileKey, id StateID) {
				_, s := m.CloseOpen(&Ref{ID: id, Client: a, Key: key}, false)
				is(t, "CLOSE", s, ok)
			}},
			{"the lease's end", func(m *Manager, a *Client, _ FileKey, _ StateID) {
				g := m.acquire()
				g.dropAll(a)
				g.release()
				givenUp(m)
			}},
		} {
			t.Run(layout.name+", "+end.name, func(t *testing.T) {
				m, c, a, b, key, id := crowdOfLocks(t, n, layout.at, layout.write)
				before := c.claims
				end.of(m, a, key, id)
				if steps := c.claims - before; steps > layout.most || c.drops > 0 {
					t.Errorf("%d claims and %d times all given up, %d claims at most are allowed", steps, c.drops, layout.most)
				}
				// The remaining local claims are for the other client's locks.
				for i := range n {
					_, other := layout.at(i)
					if _, found, _ := c.Against(other, 1, vfs.ClaimWrite); !found {
						t.Fatalf("byte %d is claimed no more", other)
					}
					if one, _ := layout.at(i); one != other {
						if _, found, _ := c.Against(one, 1, vfs.ClaimWrite); found {
							t.Fatalf("byte %d is claimed still", one)
						}
					}
				}
				g := m.acquire()
				g.dropAll(b)
				g.release()
				givenUp(m)
				if c.drops != 1 || !c.None() || len(m.files.claims) != 0 {
					t.Errorf("%d times all given up, %d claims known, none: %v", c.drops, len(m.files.claims), c.None())
				}
			})
		}
	}
}

// If very many ranges of a file are locked, the Manager makes one local claim over all of them. A
// LOCK, or the end of many locks, then costs at most one call. When few ranges are left, the
// Manager claims each of them again.
func TestVeryManyLocksAreClaimedAsOne(t *testing.T) {
	const n = 4 * maxFileClaims
	at := func(i int) (uint64, uint64) { return uint64(4 * i), uint64(4*i + 2) }
	m, c, a, b, key, id := crowdOfLocks(t, n, at, true)
	if len(m.files.claims) != 1 || c.claims > maxFileClaims+2*(2*n-maxFileClaims) {
		t.Errorf("%d claims for %d locks", c.claims, 2*n)
	}
	if _, found, _ := c.Against(1, 1, vfs.ClaimRead); !found {
		t.Error("what lies between the locks is not claimed")
	}
	before := c.claims
	_, s := m.CloseOpen(&Ref{ID: id, Client: a, Key: key}, false)
	is(t, "CLOSE", s, ok)
	if c.claims != before {
		t.Errorf("%d steps for a CLOSE that leaves %d locks", c.claims-before, n)
	}
	var of *State
	for s := range b.holding.states {
		if s.Kind == KindLock {
			of = s
		}
	}
	unlock := func(from, to uint64) {
		t.Helper()
		_, s := m.Unlock(&Ref{ID: of.ID(), Client: b, Key: key}, from, to-from, c, false)
		is(t, "LOCKU", s, ok)
	}
	unlock(0, 4*(n-10))
	for i := range uint64(4 * n) {
		_, claimed, _ := c.Against(i, 1, vfs.ClaimRead)
		if want := i >= 4*(n-10) && i%4 == 2; claimed != want {
			t.Fatalf("byte %d is claimed: %v, want %v", i, claimed, want)
		}
	}
	unlock(0, 4*n)
	if !c.None() || len(m.files.claims) != 0 {
		t.Error("something is claimed still")
	}
}

// If a process of this machine holds a lock between very many locks of clients, it blocks none of
// these.
func TestLocalLockBetweenVeryManyLocks(t *testing.T) {
	m := newManager(t)
	c, key := &countingClaimer{foreign: 1 << 20}, fileKey(1)
	a := newClient(m, 1, "a")
	id := open(t, m, a, "a", key, AccessBoth, 0)
	lock := func(at uint64) Verdict {
		_, _, s := m.Lock(&LockArgs{Ref: Ref{ID: id, Client: a, Key: key}, New: true, OwnerName: []byte("a"), Offset: at, Length: 1, Write: true, Claimer: c})
		return s
	}
	for i := range uint64(2 * maxFileClaims) {
		is(t, "LOCK", lock(4*i), ok)
		is(t, "LOCK beyond the local one", lock(1<<21+4*i), ok)
	}
	is(t, "LOCK of what is locked locally", lock(1<<20), LockConflict)
	for i := range uint64(2 * maxFileClaims) {
		for _, at := range []uint64{4 * i, 1<<21 + 4*i} {
			if _, claimed, _ := c.Against(at, 1, vfs.ClaimRead); !claimed {
				t.Fatalf("byte %d is not claimed", at)
			}
		}
	}
	_, s := m.CloseOpen(&Ref{ID: id, Client: a, Key: key}, false)
	is(t, "CLOSE", s, ok)
	if !c.None() {
		t.Error("something is claimed still")
	}
}

// The Manager forgets the localClaim of a file when two clients end the last locks on the file at
// the same time.
func TestClaimThatTwoGiveUpIsForgotten(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	m, claimer, key := newManager(t), &countingClaimer{}, fileKey(1)
	var all [2]*Client
	var opens [2]StateID
	for i := range all {
		all[i] = newClient(m, 1, fmt.Sprint(i))
		opens[i] = open(t, m, all[i], "o", key, AccessBoth, 0)
	}
	for range 10000 {
		var locks [2]StateID
		for i, c := range all {
			var s Verdict
			locks[i], _, s = m.Lock(&LockArgs{Ref: Ref{ID: opens[i], Client: c, Key: key}, New: true, OwnerName: []byte("o"), Offset: uint64(2 * i), Length: 1, Write: true, Claimer: claimer})
			is(t, "LOCK", s, ok)
		}
		var both sync.WaitGroup
		for i, c := range all {
			both.Go(func() {
				if _, s := m.Unlock(&Ref{ID: locks[i], Client: c, Key: key}, uint64(2*i), 1, claimer, false); s != ok {
					t.Error("LOCKU:", s)
				}
			})
		}
		both.Wait()
		m.mu.Lock()
		n := len(m.files.claims)
		m.mu.Unlock()
		if n > 0 {
			t.Fatal("a claim is left of which nothing is held")
		}
	}
}

// The local claims of a file match its locks even if, for a while, a lock of a process of this
// machine kept the Manager from extending its one claim over all locks.
func TestClaimOfTheWholeThatCannotGrow(t *testing.T) {
	const n, foreign, beyond = maxFileClaims + 8, 5000, 6000
	m, claimer, key := newManager(t), &countingClaimer{}, fileKey(1)
	c := newClient(m, 1, "a")
	ref := Ref{ID: open(t, m, c, "o", key, AccessBoth, 0), Client: c, Key: key}
	first := true
	lock := func(at uint64) {
		t.Helper()
		id, _, s := m.Lock(&LockArgs{Ref: ref, New: first, OwnerName: []byte("o"), Offset: at, Length: 1, Write: true, Claimer: claimer})
		is(t, "LOCK", s, ok)
		ref.ID, first = id, false
	}
	unlock := func(at uint64) {
		t.Helper()
		id, s := m.Unlock(&ref, at, 1, claimer, false)
		is(t, "LOCKU", s, ok)
		ref.ID = id
	}
	for i := range n {
		lock(uint64(2 * i))
	}
	claimer.foreign = foreign
	lock(beyond)
	unlock(2)
	unlock(beyond)
	lock(2)
	for at, want := range map[uint64]bool{2: true, beyond: false} {
		if _, is, err := claimer.Against(at, 1, vfs.ClaimWrite); err != nil || is != want {
			t.Errorf("byte %d is claimed: %v (%v), not %v", at, is, err, want)
		}
	}
}

// The number of all bytes of a file but the last one is the number that means all bytes. If locks around such a
// range end, the claim on the last byte stays, because another client has locked it.
func TestLastByteStaysClaimed(t *testing.T) {
	m, c, key := newManager(t), &countingClaimer{}, fileKey(1)
	a, b := newClient(m, 1, "a"), newClient(m, 1, "b")
	oa, ob := open(t, m, a, "a", key, AccessBoth, 0), open(t, m, b, "b", key, AccessBoth, 0)
	lock := func(by *Client, id StateID, owner string, offset, length uint64) {
		t.Helper()
		_, _, s := m.Lock(&LockArgs{Ref: Ref{ID: id, Client: by, Key: key}, New: true, OwnerName: []byte(owner), Offset: offset, Length: length, Claimer: c})
		is(t, "LOCK", s, ok)
	}
	lock(a, oa, "first", 0, 1)
	lock(a, oa, "last", lastOffset-1, 1)
	lock(b, ob, "to the end", lastOffset, lastOffset)
	_, s := m.CloseOpen(&Ref{ID: oa, Client: a, Key: key}, false)
	is(t, "CLOSE", s, ok)
	if _, claimed, _ := c.Against(lastOffset, vfs.ToEnd, vfs.ClaimWrite); !claimed {
		t.Error("the last byte is locked, and not claimed")
	}
}
