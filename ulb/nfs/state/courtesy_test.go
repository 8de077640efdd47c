package state

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A client whose lease ran out keeps its state until another client wants a part of it. Then it
// loses all its state.
func TestStateWithoutALeaseGivesWay(t *testing.T) {
	for _, c := range []struct {
		name string
		want func(m *Manager, c *Client, later *Later) Verdict
	}{
		{"OPEN", func(m *Manager, c *Client, later *Later) Verdict {
			_, s := m.Open(&OpenArgs{Client: c, OwnerName: []byte("other"), Key: fileKey(1), Access: AccessWrite, Later: later})
			return s
		}},
		{"LOCK", func(m *Manager, c *Client, later *Later) Verdict {
			o, s := m.Open(&OpenArgs{Client: c, OwnerName: []byte("other"), Key: fileKey(2), Access: AccessWrite})
			if s != ok {
				return s
			}
			_, _, s = m.Lock(&LockArgs{Ref: Ref{ID: o.ID, Client: c, Key: fileKey(2)}, New: true, OwnerName: []byte("other"), Length: 1, Write: true, Later: later})
			return s
		}},
		{"LOCKT", func(m *Manager, c *Client, later *Later) Verdict {
			_, s := m.TestLock(c, []byte("other"), fileKey(2), 0, 1, true, nil, later)
			return s
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newManager(t)
				old, other := newClient(m, 1, "old"), newClient(m, 1, "other")
				open(t, m, old, "owner", fileKey(1), AccessRead, AccessWrite)
				id := open(t, m, old, "owner", fileKey(2), AccessBoth, 0)
				if _, _, s := m.Lock(&LockArgs{Ref: Ref{ID: id, Client: old, Key: fileKey(2)}, New: true, OwnerName: []byte("locker"), Length: 1, Write: true}); s != ok {
					t.Fatal(s)
				}
				denied := c.want(m, other, nil)
				if denied != OpenConflict && denied != LockConflict {
					t.Fatal(denied)
				}
				time.Sleep(m.Lease() + m.unwritten() + 1)
				m.Renew(other)
				if n := m.Usage(); n.Ranges != 1 {
					t.Errorf("what no other client wants went: %+v", n)
				}
				var later Later
				if s := c.want(m, other, &later); s != AfterDisk {
					t.Errorf("the first time: %v", s)
				}
				again := make(chan struct{})
				later.Await(func() { close(again) })
				<-again
				if s := c.want(m, other, &later); s != ok {
					t.Errorf("again: %v", s)
				}
				if _, s := m.Find(&id, old); s != UnknownID {
					t.Errorf("its stateid: %v", s)
				}
				if _, s := m.Open(&OpenArgs{Client: old, OwnerName: []byte("owner"), Key: fileKey(3), Access: AccessRead}); s != Gone {
					t.Errorf("it opens something: %v", s)
				}
			})
		})
	}
}

// If one of several conflicting clients has a valid lease, the Manager does not evict the other
// clients.
func TestManagerEvictsNoClientInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager(t)
		old, firm, other := newClient(m, 1, "old"), newClient(m, 1, "firm"), newClient(m, 1, "other")
		open(t, m, old, "owner", fileKey(1), AccessRead, AccessWrite)
		open(t, m, firm, "owner", fileKey(1), AccessRead, AccessWrite)
		time.Sleep(m.Lease() + m.unwritten() + 1)
		m.Renew(firm)
		if _, s := m.Open(&OpenArgs{Client: other, OwnerName: []byte("other"), Key: fileKey(1), Access: AccessWrite}); s != OpenConflict {
			t.Error(s)
		}
		if n := m.Usage().Opens; n != 2 {
			t.Errorf("%d opens are left", n)
		}
	})
}

// stuck is a Records from which no record can be removed while failing is set.
type stuck struct{ failing bool }

func (s *stuck) Begin() (uint32, []Record, error) { return 1, nil, nil }
func (s *stuck) Put([]Record) error               { return nil }

func (s *stuck) Remove([]Record) error {
	if s.failing {
		return errors.New("no disk")
	}
	return nil
}

// While the record of a client whose lease ran out cannot be removed, the Manager grants the
// client's state to no other client, because the client could reclaim the state after a restart.
func TestStateStaysWithItsHolderWhileTheRecordStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		records := &stuck{failing: true}
		m, err := New(Config{Records: records})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		old, other := newClient(m, 1, "old"), newClient(m, 1, "other")
		open(t, m, old, "owner", fileKey(1), AccessRead, AccessWrite)
		time.Sleep(m.Lease() + m.unwritten() + 1)
		m.Renew(other)
		want := func(want Verdict) {
			t.Helper()
			if _, s := m.Open(&OpenArgs{Client: other, OwnerName: []byte("other"), Key: fileKey(1), Access: AccessWrite}); s != want {
				t.Errorf("%v, not %v", s, want)
			}
		}
		want(OpenConflict)
		records.failing = false
		want(ok)
	})
}

// After its lease ran out, a client keeps its opens for a day, but its locks only for minutes,
// because locks also block programs of this machine, and the lock requests of programs evict no
// client.
func TestLocksOfAClientThatIsGoneEndWithinMinutes(t *testing.T) {
	timed(t, Config{}, func(t *testing.T, m *Manager) {
		local := &countingClaimer{}
		locks, opens := complete(t, m, identity("locks", 1, "me")), complete(t, m, identity("opens", 1, "me"))
		id := open(t, m, locks, "owner", fileKey(1), AccessBoth, 0)
		_, _, s := m.Lock(&LockArgs{Ref: Ref{ID: id, Client: locks, Key: fileKey(1)}, New: true, OwnerName: []byte("locker"), Length: 1, Write: true, Claimer: local})
		is(t, "LOCK", s, ok)
		kept := open(t, m, opens, "owner", fileKey(1), AccessBoth, 0)
		pass(2 * leaseTime)
		if m.Usage().Ranges != 1 {
			t.Error("the lock went one lease after the end of the lease")
		}
		pass(2 * leaseTime)
		if !local.None() {
			t.Error("programs of this machine are kept off by a client that is gone")
		}
		_, s = m.Find(&kept, opens)
		is(t, "what another client without a lease has open", s, ok)
	})
}
