package state

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A locker is a client with a file open, and one lock-owner.
type locker struct {
	t    testing.TB
	m    *Manager
	c    *Client
	open nfs4wire.StateID4
	id   nfs4wire.StateID4 // of its locks
}

func newLocker(t testing.TB, m *Manager, name string) *locker {
	c := newClient(m, 1, name)
	return &locker{t: t, m: m, c: c, open: open(t, m, c, name, fileKey(1), AccessBoth, 0)}
}

func (l *locker) lock(wait bool, offset, length uint64, write bool) Status {
	id, _, s := l.m.Lock(&LockArgs{
		Ref: Ref{ID: l.open, Client: l.c, Key: fileKey(1)}, New: true, OwnerName: []byte("locker of " + l.c.Owner),
		Offset: offset, Length: length, Write: write, Wait: wait, Tag: l.c.Owner,
	})
	if s == ok {
		l.id = id
	}
	return s
}

func (l *locker) close(try bool) Status {
	_, s := l.m.CloseOpen(&Ref{ID: l.open, Client: l.c, Key: fileKey(1)}, try)
	return s
}

func (l *locker) unlock(offset, length uint64) {
	l.t.Helper()
	var s Status
	if l.id, s = l.m.Unlock(&Ref{ID: l.id, Client: l.c, Key: fileKey(1)}, offset, length, nil); s != ok {
		l.t.Fatal(s)
	}
}

// What was waited for is kept for a while for who waited first, and he is told.
func TestWaitersComeFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager(t)
		var told []string
		m.NotifyLocks(func(n LockNotice) { told = append(told, n.Tag.(string)) })
		const denied = nfs4wire.NFS4ErrDenied
		want := func(what string, got, want Status) {
			t.Helper()
			if got != want {
				t.Errorf("%s: %v, not %v", what, got, want)
			}
		}
		holder, first, second, last := newLocker(t, m, "holder"), newLocker(t, m, "first"), newLocker(t, m, "second"), newLocker(t, m, "last")
		want("the holder", holder.lock(false, 0, 10, true), ok)
		want("the first, who waits", first.lock(true, 0, 5, true), denied)
		want("the second, who waits", second.lock(true, 4, 2, true), denied)
		want("the second, for more", second.lock(true, 8, 2, true), denied)
		holder.unlock(0, 10)
		if len(told) != 2 || told[0] != "first" || told[1] != "second" {
			t.Errorf("told: %v", told)
		}
		want("one who did not wait", last.lock(false, 0, 1, true), denied)
		want("one who did not wait, to read", last.lock(false, 9, 1, false), denied)
		want("one who wants something else", last.lock(false, 20, 1, true), ok)
		want("the second, before the first", second.lock(true, 4, 2, true), denied)
		want("the first", first.lock(true, 0, 5, true), ok)
		want("the second, for what nobody else waited for", second.lock(true, 8, 2, true), ok)
		told = nil
		first.unlock(0, 5)
		if len(told) != 1 || told[0] != "second" {
			t.Errorf("told: %v", told)
		}
		// Who does not come is not waited for.
		want("one who did not wait", last.lock(false, 4, 1, true), denied)
		time.Sleep(reservation)
		want("one who did not wait, later", last.lock(false, 4, 1, true), ok)
		want("the second, later", second.lock(true, 4, 2, true), denied)
		if u := m.Usage(); u.Waiters != 1 {
			t.Errorf("%d wait", u.Waiters)
		}
		time.Sleep(forgotten + 1)
		told = nil
		last.unlock(4, 1)
		if len(told) != 0 || m.Usage().Waiters != 0 {
			t.Errorf("told after a long time: %v", told)
		}
	})
}

// Neither those who wait nor what they wait for keep a file.
func TestWaitersGoWithTheirClients(t *testing.T) {
	m := newManager(t)
	holder, waits := newLocker(t, m, "holder"), newLocker(t, m, "waits")
	if s := holder.lock(false, 0, 10, true); s != ok {
		t.Fatal(s)
	}
	for i := range uint64(maxFileWaiters + 10) {
		waits.lock(true, 0, i+1, true)
	}
	if n := m.Usage().Waiters; n != maxFileWaiters {
		t.Errorf("%d wait", n)
	}
	for _, l := range []*locker{waits, holder} {
		m.mu.Lock()
		after := m.remove(l.c)
		m.mu.Unlock()
		after()
	}
	nothingLeft(t, m)
}

// What looks for waiters looks at so many locks and no more, however many there are: those
// beyond ask again by themselves.
func TestSearchForWaitersIsBounded(t *testing.T) {
	m := newManager(t)
	told := 0
	m.NotifyLocks(func(LockNotice) { told++ })
	holder, waiter := newLocker(t, m, "holder"), newLocker(t, m, "waiter")
	if s := holder.lock(false, 0, 10, true); s != ok {
		t.Fatal(s)
	}
	const others = maxHindrances/3 - 10
	for i := range uint64(others) {
		if _, _, s := m.Lock(&LockArgs{
			Ref: Ref{ID: holder.open, Client: holder.c, Key: fileKey(1)}, New: true, OwnerName: fmt.Append(nil, i), Offset: 100 + 2*i, Length: 1,
		}); s != ok {
			t.Fatal(s)
		}
	}
	for i := range uint64(9) {
		if s := waiter.lock(true, i, 1, true); s != nfs4wire.NFS4ErrDenied {
			t.Fatal(s)
		}
	}
	holder.unlock(0, 10)
	if told != 3 {
		t.Errorf("%d waiters were told", told)
	}
}

// However many locks end with an open, or with a client, who waits for them is looked for
// once, and told once.
func TestWaitersAreLookedForOnce(t *testing.T) {
	for _, how := range []string{"CLOSE", "the client goes"} {
		t.Run(how, func(t *testing.T) {
			m := newManager(t)
			told := 0
			m.NotifyLocks(func(LockNotice) { told++ })
			holder, waiter := newLocker(t, m, "holder"), newLocker(t, m, "waiter")
			for i := range uint64(100) {
				if _, _, s := m.Lock(&LockArgs{
					Ref: Ref{ID: holder.open, Client: holder.c, Key: fileKey(1)}, New: true, OwnerName: fmt.Append(nil, i), Offset: i, Length: 1, Write: true,
				}); s != ok {
					t.Fatal(s)
				}
				if s := waiter.lock(true, i, 1, true); s != nfs4wire.NFS4ErrDenied {
					t.Fatal(s)
				}
			}
			before := m.files.searches
			if how == "CLOSE" {
				is(t, how, holder.close(true), ok)
			} else {
				m.mu.Lock()
				after := m.remove(holder.c)
				m.mu.Unlock()
				after()
			}
			if told != 100 || m.files.searches != before+1 {
				t.Errorf("%d were told in %d searches", told, m.files.searches-before)
			}
		})
	}
}
