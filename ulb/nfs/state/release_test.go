package state

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// Release takes the opens of one client, of one file or of one export, with their locks, and no other. Clients of version 4
// are told, and may reclaim nothing after a restart until they have freed the stateids.
func TestReleaseTakesWhatWasAsked(t *testing.T) {
	for _, of := range []struct {
		name  string
		which func(a *Client) Which
		takes [3]bool // whether it takes a's first file, a's second file, and b's, which is in another export
	}{
		{"a client", func(a *Client) Which { return Which{Client: a} }, [3]bool{true, true, false}},
		{"a file", func(*Client) Which { key := fileKey(1); return Which{Key: &key} }, [3]bool{true, false, true}},
		{"an export", func(*Client) Which { return Which{Export: 7} }, [3]bool{false, false, true}},
		{"a file of a client", func(a *Client) Which { key := fileKey(1); return Which{Client: a, Key: &key} }, [3]bool{true, false, false}},
	} {
		t.Run(of.name, func(t *testing.T) {
			m := newManager(t)
			a, b := newClient(m, 1, "a"), newClient(m, 1, "b")
			third, s := m.Open(&OpenArgs{Client: b, OwnerName: []byte("o"), Key: fileKey(1), Export: 7, Access: AccessRead})
			is(t, "OPEN", s, ok)
			ids := [3]StateID{open(t, m, a, "o", fileKey(1), AccessRead, 0), open(t, m, a, "o", fileKey(2), AccessRead, 0), third.ID}
			lock, _, s := m.Lock(&LockArgs{Ref: Ref{ID: ids[0], Client: a, Key: fileKey(1)}, New: true, OwnerName: []byte("l"), Length: 1})
			is(t, "LOCK", s, ok)
			want, took := func(taken bool) Verdict {
				if taken {
					return RevokedID
				}
				return ok
			}, 0
			n := m.Release(of.which(a))
			for i, c := range []*Client{a, a, b} {
				_, s := m.Find(&ids[i], c)
				is(t, "an open", s, want(of.takes[i]))
				if of.takes[i] {
					took++
					if m.Notices(c) != NoticeRevoked {
						t.Error("SEQUENCE tells the client nothing")
					}
				}
			}
			_, s = m.Find(&lock, a)
			is(t, "the lock", s, want(of.takes[0]))
			if n != took {
				t.Errorf("it says that it took %d opens, and took %d", n, took)
			}
		})
	}
}

// A host loses its locks and its waiting, and others get the locks.
func TestReleaseOfAHost(t *testing.T) {
	m := newManager(t)
	a, b := newHost(t, m, "a"), newHost(t, m, "b")
	var told []LockNotice
	m.NotifyHosts(func(n LockNotice) { told = append(told, n) })
	is(t, "LOCK", hostLock(m, a, "o", fileKey(1), true, false), ok)
	is(t, "LOCK", hostLock(m, a, "o", fileKey(2), true, false), ok)
	is(t, "LOCK that waits", hostLock(m, b, "o", fileKey(1), true, true), LockConflict)
	is(t, "LOCK that waits", hostLock(m, b, "o", fileKey(2), true, true), LockConflict)
	m.Release(Which{Client: a})
	if len(told) != 2 {
		t.Errorf("%d waiters are told", len(told))
	}
	is(t, "LOCK", hostLock(m, b, "o", fileKey(1), true, false), ok)
	m.Release(Which{Client: b})
	if u := m.Usage(); u.Locks+u.Opens+u.Waiters != 0 {
		t.Errorf("left over: %+v", u)
	}
}

// A release is made in pieces, and none takes more than one open with its locks beyond what a piece may do. Each search
// of a file's waiters counts.
func TestReleaseIsMadeInPieces(t *testing.T) {
	m := newManager(t)
	a, b := manyHeld(t, m)
	took := 0
	lost := func() (n int) { // the number of opens that a has lost, between two pieces
		m.mu.Lock()
		defer m.mu.Unlock()
		for s := range a.holding.revoked {
			if s.Kind == KindOpen {
				n++
			}
		}
		return n
	}
	n := m.takeThose(Which{Client: a}, func() bool {
		now := lost()
		if now-took > pieceSteps {
			t.Errorf("one piece takes %d opens", now-took)
		}
		took = now
		return true
	})
	if n != 3001 {
		t.Errorf("it takes %d opens", n)
	}
	m.Release(Which{Client: b})
	if u := m.Usage(); u.Opens+u.Locks+u.Ranges+u.Waiters != 0 {
		t.Errorf("left over: %+v", u)
	}
}

// However many opens of one file lose locks for which many wait, one piece searches the waiters few times.
func TestReleaseSearchesWaitersFewTimes(t *testing.T) {
	m := newManager(t)
	a, b := newClient(m, 1, "a"), newClient(m, 1, "b")
	key := fileKey(0)
	lock := func(c *Client, owner string, at uint64, wait bool, want Verdict) {
		id := open(t, m, c, owner, key, AccessBoth, 0)
		_, _, s := m.Lock(&LockArgs{Ref: Ref{ID: id, Client: c, Key: key}, New: true, OwnerName: []byte(owner), Offset: at, Length: 1, Write: true, Wait: wait})
		is(t, "LOCK", s, want)
	}
	for i := range uint64(100) {
		lock(a, fmt.Sprint(i), i, false, ok)
	}
	for i := range 1000 {
		lock(b, fmt.Sprint(i), 0, true, LockConflict)
	}
	before := m.files.searches
	m.takeThose(Which{Client: a}, func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.files.searches-before > 1 {
			t.Errorf("one piece searches %d times", m.files.searches-before)
		}
		before = m.files.searches
		return true
	})
}

// Between two pieces, an open has all its locks or none. A client that frees meanwhile all that was taken so far does not
// end the release, nor what its record says.
func TestClientFreesBetweenThePiecesOfARelease(t *testing.T) {
	d := &disk{}
	lives(t, d, func(t *testing.T, m *Manager) {
		a := complete(t, m, identity("a", 1, "me"))
		var ids []StateID
		for i := range 3 * pieceSteps {
			ids = append(ids, open(t, m, a, "o", fileKey(i), AccessBoth, 0))
		}
		var locks []StateID
		for i := range 3 {
			id, _, s := m.Lock(&LockArgs{Ref: Ref{ID: ids[0], Client: a, Key: fileKey(0)}, New: true, OwnerName: fmt.Append(nil, i), Offset: uint64(i), Length: 1})
			is(t, "LOCK", s, ok)
			locks = append(locks, id)
			for at := range uint64(pieceSteps) {
				id, _, s := m.Lock(&LockArgs{Ref: Ref{ID: locks[i], Client: a, Key: fileKey(0)}, Offset: 100 + uint64(i) + 10*at, Length: 1})
				is(t, "LOCK", s, ok)
				locks[i] = id
			}
		}
		pieces, freed := 0, 0
		took := m.takeThose(Which{Client: a}, func() bool {
			pieces++
			_, first := m.Find(&ids[0], a)
			for i := range locks {
				if _, s := m.Find(&locks[i], a); s != first && freed == 0 {
					t.Errorf("the open is %v, and a lock of it %v", first, s)
				}
			}
			for i := range ids {
				if m.FreeStateID(&ids[i], a) == ok {
					freed++
				}
			}
			for i := range locks {
				m.FreeStateID(&locks[i], a)
			}
			if m.Notices(a) != 0 {
				t.Error("SEQUENCE goes on to tell the client what it has freed")
			}
			synctest.Wait() // the sweeper writes what is marked
			if r := d.recordOf(a); !r.Revoked {
				t.Errorf("after piece %d the record says nothing", pieces)
			}
			return true
		})
		if pieces < 3 || took != len(ids) || freed != len(ids) {
			t.Errorf("%d pieces take %d opens, and %d are freed", pieces, took, freed)
		}
		synctest.Wait()
		if r := d.recordOf(a); r.Revoked {
			t.Error("the client has freed all, and its record says that it has not")
		}
	})
}

// A client that closes its only file after a release has written its record loses nothing, and may reclaim state. The
// same holds if an export ends.
func TestClientClosesBeforeItIsTaken(t *testing.T) {
	key := fileKey(1)
	for name, take := range map[string]func(m *Manager){
		"Release": func(m *Manager) { m.Release(Which{Key: &key}) },
		"Revoke":  func(m *Manager) { m.Revoke(key.Domain) },
	} {
		d := &disk{}
		lives(t, d, func(t *testing.T, m *Manager) {
			a := complete(t, m, identity("a", 1, "me"))
			id := open(t, m, a, "o", key, AccessBoth, 0)
			d.slow = func() {
				d.slow = nil
				_, s := m.CloseOpen(&Ref{ID: id, Client: a, Key: key}, false)
				is(t, name+": CLOSE", s, ok)
			}
			take(m)
			synctest.Wait()
			if r := d.recordOf(a); r.Revoked || d.slow != nil {
				t.Errorf("%s: the record says that the client lost something: %+v", name, r)
			}
		})
	}
}

// A release takes nothing before all records are on the disk that have to say so, also if the sweeper is writing them. If
// the sweeper's write fails, the release writes again.
func TestReleaseWaitsForTheSweepersWrite(t *testing.T) {
	d := &disk{}
	lives(t, d, func(t *testing.T, m *Manager) {
		a := complete(t, m, identity("a", 1, "me"))
		id := open(t, m, a, "o", fileKey(1), AccessBoth, 0)
		held := make(taking)
		lost, _ := m.Find(&id, a)
		g := m.acquire()
		held.begin(g, lost) // as another release that has not come to its own write
		g.wake()
		gate, first := make(chan struct{}), true
		d.slow = func() {
			<-gate
			d.breakDown(first)
			first = false
		}
		g.release()
		synctest.Wait() // the sweeper is inside Put
		done := make(chan struct{})
		go func() {
			defer close(done)
			m.Release(Which{Client: a})
		}()
		synctest.Wait()
		_, s := m.Find(&id, a)
		is(t, "the open while the sweeper writes", s, ok)
		close(gate)
		<-done
		held.end(m)
		_, s = m.Find(&id, a)
		is(t, "the open", s, RevokedID)
		if r := d.recordOf(a); !r.Revoked {
			t.Error("the record says nothing")
		}
	})
}

// A host cannot be told of a release: as long as the server knows it, it may reclaim nothing of the kind that it lost. One
// that lost nothing may.
func TestHostThatIsNotToldMayNotReclaim(t *testing.T) {
	d := &disk{}
	lives(t, d, func(t *testing.T, m *Manager) {
		a, b := newHost(t, m, "a"), newHost(t, m, "b")
		is(t, "LOCK", hostLock(m, a, "o", fileKey(1), true, false), ok)
		is(t, "LOCK", hostLock(m, b, "o", fileKey(2), true, false), ok)
		is(t, "LOCK that waits", hostLock(m, b, "o", fileKey(1), true, true), LockConflict)
		key := fileKey(1)
		m.Release(Which{Key: &key})
		synctest.Wait()
		if !d.recordOf(a).Revoked || d.recordOf(b).Revoked {
			t.Errorf("the host that lost a lock: %+v; that lost its place: %+v", d.recordOf(a), d.recordOf(b))
		}
	})
}

// After a restart a host may reclaim the kinds of state of which it lost nothing: locks, shares, and shares that deny. What it
// may not reclaim then, it may not reclaim after another restart, though it has reclaimed the rest meanwhile.
func TestHostReclaimsTheKindsThatItHasKept(t *testing.T) {
	const locks, shares, denials = 1, 2, 3 // the files
	claim := func(m *Manager, h *Client, what int, claimed bool) (v Verdict) {
		ref := Ref{Client: h, Key: fileKey(what)}
		if what == locks {
			_, v = m.HostLock(&LockArgs{Host: h, OwnerName: []byte("o"), Ref: ref, Length: 10, Write: true, Claimed: claimed})
			return v
		}
		a := OpenArgs{Client: h, OwnerName: []byte("o"), Key: ref.Key, Access: AccessRead, Claimed: claimed}
		if what == denials {
			a.Deny = AccessWrite
		}
		return m.HostShare(&a)
	}
	kind := map[int]Held{locks: HeldLocks, shares: HeldOpens, denials: HeldDenials}
	const all = HeldLocks | HeldOpens | HeldDenials
	for lost, lostKind := range kind {
		d := &disk{}
		first := func(t *testing.T, m *Manager) {
			h := newHost(t, m, "h")
			for what := range kind {
				is(t, "what it asks for", claim(m, h, what, false), ok)
			}
			key := fileKey(lost)
			is(t, "opens that are taken", m.Release(Which{Key: &key}), 1)
			if r := d.recordOf(h); !r.Revoked || r.Kept != all&^lostKind {
				t.Errorf("file %d is taken, and the record says %+v", lost, r)
			}
		}
		second := func(t *testing.T, m *Manager) {
			h := newHost(t, m, "h")
			is(t, "the reclaim of what it lost", claim(m, h, lost, true), MayNotReclaim)
			for what := range kind {
				if what != lost {
					is(t, "the reclaim of another kind", claim(m, h, what, true), ok)
				}
			}
		}
		third := func(t *testing.T, m *Manager) {
			h := newHost(t, m, "h")
			for what := range kind {
				switch v := claim(m, h, what, true); {
				case lost == locks && what == lost, lost == denials && what == lost:
					is(t, "the reclaim of what it lost before", v, NeverHeld)
				case what != lost: // a lock, or a share that denies, has an open, too
					is(t, "the reclaim of another kind", v, ok)
				}
			}
		}
		lives(t, d, first, second, third)
		if t.Failed() {
			t.Fatalf("after file %d was taken", lost)
		}
	}
}

// An earlier version's record of a revocation does not say of what: nothing can be reclaimed.
func TestRevocationOfAnEarlierVersionIsOfAll(t *testing.T) {
	d := &disk{}
	lives(t, d, func(t *testing.T, m *Manager) {
		h := newHost(t, m, "h")
		is(t, "LOCK", hostLock(m, h, "o", fileKey(1), true, false), ok)
		r := d.recordOf(h)
		r.Revoked = true
		if err := d.Put([]Record{r}); err != nil {
			t.Error(err)
		}
	}, func(t *testing.T, m *Manager) {
		h := newHost(t, m, "h")
		_, v := m.HostLock(&LockArgs{Host: h, OwnerName: []byte("o"), Ref: Ref{Client: h, Key: fileKey(1)}, Length: 10, Write: true, Claimed: true})
		is(t, "the reclaim", v, MayNotReclaim)
	})
}

// The end of an open ends the waiting through it, and others need not wait for a reservation of it.
func TestNoWaiterOutlivesItsOpen(t *testing.T) {
	for name, end := range map[string]func(m *Manager, b *Client, r *Ref){
		"release": func(m *Manager, b *Client, r *Ref) { m.Release(Which{Client: b}) },
		"close":   func(m *Manager, b *Client, r *Ref) { m.CloseOpen(r, false) },
	} {
		m := newManager(t)
		a, b, c := newClient(m, 1, "a"), newClient(m, 1, "b"), newClient(m, 1, "c")
		key := fileKey(1)
		var refs []*Ref
		lock := func(of *Client, owner string, wait bool) (StateID, Verdict) {
			r := &Ref{ID: open(t, m, of, owner, key, AccessBoth, 0), Client: of, Key: key}
			refs = append(refs, r)
			id, _, s := m.Lock(&LockArgs{Ref: *r, New: true, OwnerName: []byte("l"), Length: 1, Write: true, Wait: wait})
			return id, s
		}
		held, s := lock(a, "o", false)
		is(t, "LOCK", s, ok)
		_, s = lock(b, "o", true)
		is(t, "LOCK that waits", s, LockConflict)
		_, s = lock(b, "another", true) // the same lock-owner, by another open
		is(t, "LOCK that waits", s, LockConflict)
		_, s = m.CloseOpen(refs[1], false)
		is(t, "CLOSE of the open by which it no longer waits", s, ok)
		waits := 0
		for e := range m.Locks() {
			if e.Waits {
				waits++
			}
		}
		if waits != 1 {
			t.Errorf("%s: the list shows %d waiters", name, waits)
		}
		end(m, b, refs[2])
		if n := m.Usage().Waiters; n != 0 {
			t.Errorf("%s: %d waiters are left", name, n)
		}
		_, s = m.Unlock(&Ref{ID: held, Client: a, Key: key}, 0, 1, nil, false)
		is(t, "LOCKU", s, ok)
		_, s = lock(c, "o", false)
		is(t, name+": LOCK of a third", s, ok)
	}
}

// Expel removes a client with a valid lease, with its record.
func TestExpelRemovesAClientWithAValidLease(t *testing.T) {
	d := &disk{}
	m := manager(t, Config{Records: d})
	defer m.Close()
	c := holder(t, m, identity("a", 1, "me"))
	if took, err := m.Expel(c); took != 1 || err != nil {
		t.Fatal(took, err)
	}
	if m.Client(c.ID) != nil || len(d.records) != 0 {
		t.Errorf("the client or its record stays: %v", d.records)
	}
	nothingLeft(t, m)
	d.breakDown(true)
	c = m.ExchangeID(identity("b", 1, "me"), false).Client
	if _, err := m.Expel(c); err != nil {
		t.Errorf("a client without a record cannot be removed: %v", err)
	}
}

// EndGrace ends the grace period for good: clients that have not come may reclaim nothing, and others get new state.
func TestTheAdministratorEndsTheGracePeriod(t *testing.T) {
	lives(t, &disk{}, holds, func(t *testing.T, m *Manager) {
		if !m.InGrace() {
			t.Fatal("no grace period")
		}
		began := time.Now()
		if was, err := m.EndGrace(t.Context()); !was || err != nil {
			t.Fatal(was, err)
		}
		if took := time.Since(began); took > m.cfg.Grace/4 || m.InGrace() {
			t.Errorf("it took %v", took)
		}
		c := confirmed(t, m, me())
		is(t, "a claim", m.mayHoldNow(c, true), noGrace)
		s := m.ReclaimComplete(c, nil)
		is(t, "RECLAIM_COMPLETE", s, ok)
		is(t, "something new", m.mayHoldNow(c, false), ok)
		if was, err := m.EndGrace(t.Context()); was || err != nil {
			t.Error("a second time: ", was, err)
		}
	})
}

// If the disk does not store the end of the grace period, EndGrace waits no longer than its context.
func TestGraceThatCannotEnd(t *testing.T) {
	d := &disk{}
	lives(t, d, holds, func(t *testing.T, m *Manager) {
		d.breakDown(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if was, err := m.EndGrace(ctx); !was || err == nil || !m.InGrace() {
			t.Error(was, err)
		}
		d.breakDown(false)
		time.Sleep(m.cfg.Lease)
		if m.InGrace() {
			t.Error("it does not end when the disk works again")
		}
	})
}

// recordOf returns what the disk has of a client.
func (d *disk) recordOf(c *Client) Record {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.records[c.name()]
}
