package state

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/byterange"
)

// told returns the entries of a list as sorted lines.
func toldList[E any](list func(func(E) bool), line func(E) string) (all []string) {
	list(func(e E) bool {
		all = append(all, line(e))
		return true
	})
	slices.Sort(all)
	return all
}

func isList(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n%s\nwanted:\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// For clients of each kind, the lists show their opens, their locks, the locks for which they wait, and the opens that
// the server took from them.
func TestListsShowWhatClientsHold(t *testing.T) {
	m := newManager(t)
	a, b, host := newClient(m, 1, "a"), newClient(m, 0, "b"), newHost(t, m, "h")
	key, other := fileKey(1), fileKey(2)
	first := open(t, m, a, "a's owner", key, AccessBoth, AccessWrite)
	open(t, m, b, "b's owner", other, AccessRead, 0)
	_, _, s := m.Lock(&LockArgs{Ref: Ref{ID: first, Client: a, Key: key}, New: true, OwnerName: []byte("l"), Offset: 5, Length: 10, Write: true})
	is(t, "LOCK", s, ok)
	is(t, "LOCK of a host", hostLock(m, host, "o", key, false, true), LockConflict)
	is(t, "LOCK of a host", hostLock(m, host, "o", other, false, false), ok)

	opens := func(e *OpenEntry) string {
		return fmt.Sprintf("%s %s %v access %d deny %d locks %d revoked %v", e.Client.Owner, e.Owner, e.Key == key, e.Access, e.Deny, e.Locks, e.Revoked)
	}
	locks := func(e *LockEntry) string {
		by := ""
		if e.By != nil {
			by = " by " + e.By.Owner + " " + e.ByOwner
		}
		return fmt.Sprintf("%s %s %v %d-%d %v waits %v%s", e.Client.Owner, e.Owner, e.Key == key, e.Range.First, e.Range.Last, e.Range.Write, e.Waits, by)
	}
	clients := func(e *ClientEntry) string {
		return fmt.Sprintf("%s: opens %d locks %d ranges %d waits %d revoked %d", e.Client.Owner, e.Opens, e.Locks, e.Ranges, e.Waiting, e.Revoked)
	}
	isList(t, "opens", toldList(m.Opens(), opens),
		"a a's owner true access 3 deny 2 locks 1 revoked false",
		"b b's owner false access 1 deny 0 locks 0 revoked false")
	isList(t, "locks", toldList(m.Locks(), locks),
		"a l true 5-14 true waits false",
		host.Owner+" o true 0-9 false waits true by a l",
		host.Owner+" o false 0-9 false waits false")
	isList(t, "clients", toldList(m.Clients(), clients),
		"a: opens 1 locks 1 ranges 1 waits 0 revoked 0",
		"b: opens 1 locks 0 ranges 0 waits 0 revoked 0",
		host.Owner+": opens 0 locks 1 ranges 1 waits 1 revoked 0")

	m.Release(Which{Key: &key})
	isList(t, "opens after a release", toldList(m.Opens(), opens),
		"a a's owner true access 0 deny 0 locks 0 revoked true",
		"b b's owner false access 1 deny 0 locks 0 revoked false")
	isList(t, "locks after a release", toldList(m.Locks(), locks), host.Owner+" o false 0-9 false waits false")
	isList(t, "clients after a release", toldList(m.Clients(), clients),
		"a: opens 0 locks 0 ranges 0 waits 0 revoked 2",
		"b: opens 1 locks 0 ranges 0 waits 0 revoked 0",
		host.Owner+": opens 0 locks 1 ranges 1 waits 0 revoked 0")
}

// manyHeld makes a client with very many ranges of one lock-owner and very many lock-owners in one file, another that
// waits for very many of them, and very many opens.
func manyHeld(t *testing.T, m *Manager) (a, b *Client) {
	t.Helper()
	a, b = newClient(m, 1, "a"), newClient(m, 1, "b")
	key := fileKey(0)
	of, waits := open(t, m, a, "o", key, AccessBoth, 0), open(t, m, b, "o", key, AccessBoth, 0)
	lock := func(c *Client, id StateID, owner string, at uint64, wait bool, want Verdict) {
		_, _, s := m.Lock(&LockArgs{Ref: Ref{ID: id, Client: c, Key: key}, New: true, OwnerName: []byte(owner), Offset: at, Length: 1, Write: true, Wait: wait})
		is(t, "LOCK", s, want)
	}
	for i := range uint64(3000) {
		lock(a, of, "one", 2*i, false, ok)
		lock(a, of, fmt.Sprint("owner ", i), 1<<20+2*i, false, ok)
	}
	for i := range uint64(500) {
		lock(b, waits, fmt.Sprint("waiter ", i), 2*i, true, LockConflict)
	}
	for i := range 3000 {
		open(t, m, a, "o", fileKey(1+i), AccessRead, 0)
	}
	return a, b
}

// mostSteps is the most that one piece of a walk may do.
const mostSteps = pieceSteps + maxFileWaiters

// No piece of a list does more than pieceSteps and one file's waiters, however much one client, one owner or one file has.
func TestListsAreMadeInPieces(t *testing.T) {
	m := newManager(t)
	manyHeld(t, m)
	var held, waits int
	var before *LockEntry
	did := m.locks(func(e *LockEntry) bool {
		switch {
		case e.Waits:
			waits++
		default:
			held++
			if before != nil && before.Owner == e.Owner && before.Range.First >= e.Range.First {
				t.Fatalf("%s: the range at %d comes after that at %d", e.Owner, e.Range.First, before.Range.First)
			}
			before = e
		}
		return true
	})
	if held != 6000 || waits != 500 {
		t.Errorf("%d ranges and %d waiters", held, waits)
	}
	if did.most > mostSteps || did.n < 12000/mostSteps {
		t.Errorf("%d pieces, the largest with %d steps", did.n, did.most)
	}
	opens := 0
	for range m.Opens() {
		opens++
	}
	if opens != 3002 {
		t.Errorf("%d opens", opens)
	}
}

// A list ends when its reader wants no more.
func TestAListEndsEarly(t *testing.T) {
	m := newManager(t)
	manyHeld(t, m)
	for range m.Locks() {
		break
	}
	for range m.Opens() {
		break
	}
	for range m.Clients() {
		break
	}
	is(t, "an OPEN afterwards", func() Verdict { open(t, m, newClient(m, 1, "c"), "o", fileKey(1), AccessRead, 0); return ok }(), ok)
}

// While clients open, lock, close and leave, each list has everything that stays, once.
func TestListsWhileClientsWork(t *testing.T) {
	m := newManager(t)
	stays := newClient(m, 1, "stays")
	const kept = 2000
	for i := range kept {
		open(t, m, stays, "o", fileKey(i), AccessRead, 0)
	}
	end := make(chan struct{})
	var working sync.WaitGroup
	for w := range 4 {
		working.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-end:
					return
				default:
				}
				c := newClient(m, 1, fmt.Sprint("worker ", w, " ", n%8))
				for i := range 50 {
					key := fileKey(i)
					o, s := m.Open(&OpenArgs{Client: c, OwnerName: []byte("o"), Key: key, Access: AccessBoth})
					if s != ok {
						continue
					}
					for at := range uint64(4) {
						m.Lock(&LockArgs{Ref: Ref{ID: o.ID, Client: c, Key: key}, New: true, OwnerName: []byte("o"), Offset: 2 * at, Length: 1, Write: true, Wait: true})
					}
					if i%2 == 0 {
						m.CloseOpen(&Ref{ID: o.ID, Client: c, Key: key}, false)
					}
				}
			}
		})
	}
	for range 10 {
		found := make(map[FileKey]int)
		for e := range m.Opens() {
			if e.Client == stays {
				found[e.Key]++
			}
		}
		for i := range kept {
			if n := found[fileKey(i)]; n != 1 {
				t.Fatalf("file %d is in the list %d times", i, n)
			}
		}
		for range m.Locks() {
		}
		met := 0
		for e := range m.Clients() {
			if e.Client == stays {
				met++
			}
		}
		if met != 1 {
			t.Fatalf("the client is in the list %d times", met)
		}
	}
	close(end)
	working.Wait()
}

// Pieces of an owner's ranges follow each other without a gap where ranges begin and end meanwhile.
func TestRangesThatChangeDuringAList(t *testing.T) {
	m := newManager(t)
	c, key := newClient(m, 1, "a"), fileKey(1)
	id := open(t, m, c, "o", key, AccessBoth, 0)
	lock := func(at uint64) {
		_, _, s := m.Lock(&LockArgs{Ref: Ref{ID: id, Client: c, Key: key}, New: true, OwnerName: []byte("l"), Offset: at, Length: 1})
		is(t, "LOCK", s, ok)
	}
	for i := range uint64(1000) {
		lock(100 + 4*i)
	}
	var got []byterange.Range
	for e := range m.Locks() {
		if len(got) == 0 {
			for at := range uint64(40) {
				lock(2 * at) // the ranges that the list has had move in the slice
			}
		}
		got = append(got, e.Range)
	}
	for i := range uint64(1000) {
		if !slices.ContainsFunc(got, func(r byterange.Range) bool { return r.First == 100+4*i }) {
			t.Fatalf("the range at %d is missing", 100+4*i)
		}
	}
}

// The list of opens shows an open that the server took from a client of minor version 0 until the client has closed it.
// The Manager knows its stateid for longer.
func TestOpenThatWasTakenIsShownUntilItsClose(t *testing.T) {
	m := newManager(t)
	c := newClient(m, 0, "c")
	owner, s := m.OwnerOf(c, []byte("o"), false)
	is(t, "an owner", s, ok)
	key := fileKey(1)
	o, s := m.Open(&OpenArgs{Client: c, Owner: owner, Key: key, Access: AccessRead})
	is(t, "OPEN", s, ok)
	id, s := m.ConfirmOpen(&Ref{ID: o.ID, Key: key})
	is(t, "OPEN_CONFIRM", s, ok)
	m.Release(Which{Client: c})
	shown := func(e *OpenEntry) string { return fmt.Sprint(e.Revoked) }
	isList(t, "opens after the release", toldList(m.Opens(), shown), "true")
	for range 2 {
		_, s = m.CloseOpen(&Ref{ID: id, Key: key}, false)
		is(t, "CLOSE", s, RevokedID)
		isList(t, "opens after CLOSE", toldList(m.Opens(), shown))
	}
}

// A range that is held throughout a list is in it, also if it becomes a part of a longer one between two pieces.
func TestListShowsARangeThatGrowsMeanwhile(t *testing.T) {
	m := newManager(t)
	c := newClient(m, 1, "c")
	r := Ref{ID: open(t, m, c, "o", fileKey(1), AccessBoth, 0), Client: c, Key: fileKey(1)}
	last := uint64(10 * (pieceSteps + 10))
	lock := func(at, n uint64) {
		id, _, s := m.Lock(&LockArgs{Ref: r, Offset: at, Length: n, Write: true})
		is(t, "LOCK", s, ok)
		r.ID = id
	}
	id, _, s := m.Lock(&LockArgs{Ref: r, New: true, OwnerName: []byte("l"), Length: 1, Write: true})
	is(t, "LOCK", s, ok)
	r.ID = id
	for at := uint64(10); at <= last; at += 10 {
		lock(at, 1)
	}
	var shown []byterange.Range
	grown := false
	m.locks(func(e *LockEntry) bool {
		if !grown { // the first piece has ended
			grown = true
			lock(0, last+1)
		}
		shown = append(shown, e.Range)
		return true
	})
	for at := uint64(0); at <= last; at += 10 {
		if !slices.ContainsFunc(shown, func(r byterange.Range) bool { return r.First <= at && at <= r.Last }) {
			t.Fatalf("the list does not have byte %d, which is locked all the time", at)
		}
	}
}
