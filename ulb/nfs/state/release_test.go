package state

import (
	"context"
	"testing"
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

// However many locks hang on one open, and however many ranges one lock has, no piece of a release does more than a list.
func TestReleaseIsMadeInPieces(t *testing.T) {
	m := newManager(t)
	a, b := manyHeld(t, m)
	g, most := &guard{Manager: m}, 0
	m.mu.Lock()
	for s := range a.opensOf(func(s *State) bool { return s.Key == fileKey(0) }) {
		for unfinished := true; unfinished; {
			var steps int
			unfinished, steps = g.takeOpen(s, pieceSteps)
			most = max(most, steps)
		}
	}
	m.mu.Unlock()
	g.finish()
	if most > pieceSteps+1 {
		t.Errorf("one piece has %d steps", most)
	}
	m.Release(Which{Client: a})
	m.Release(Which{Client: b})
	if u := m.Usage(); u.Opens+u.Locks+u.Ranges != 0 {
		t.Errorf("left over: %+v", u)
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
