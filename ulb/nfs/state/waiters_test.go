package state

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A locker is a client with a file open, and one lock-owner.
type locker struct {
	t    testing.TB
	m    *Manager
	c    *Client
	open StateID
	id   StateID // the stateid of its locks
}

func newLocker(t testing.TB, m *Manager, name string) *locker {
	c := newClient(m, 1, name)
	return &locker{t: t, m: m, c: c, open: open(t, m, c, name, fileKey(1), AccessBoth, 0)}
}

func (l *locker) lock(wait bool, offset, length uint64, write bool) Verdict {
	id, _, s := l.m.Lock(&LockArgs{
		Ref: Ref{ID: l.open, Client: l.c, Key: fileKey(1)}, New: true, OwnerName: []byte("locker of " + l.c.Owner),
		Offset: offset, Length: length, Write: write, Wait: wait, Tag: l.c.Owner,
	})
	if s == ok {
		l.id = id
	}
	return s
}

func (l *locker) close(try bool) Verdict {
	_, s := l.m.CloseOpen(&Ref{ID: l.open, Client: l.c, Key: fileKey(1)}, try)
	return s
}

func (l *locker) unlock(offset, length uint64) {
	l.t.Helper()
	var s Verdict
	if l.id, s = l.m.Unlock(&Ref{ID: l.id, Client: l.c, Key: fileKey(1)}, offset, length, nil, false); s != ok {
		l.t.Fatal(s)
	}
}

// The Manager reserves a lock that becomes free for the first waiter for a while, and notifies this
// waiter.
func TestWaitersComeFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager(t)
		var told []string
		m.NotifyLocks(func(n LockNotice) { told = append(told, n.Tag.(string)) })
		const denied = LockConflict
		want := func(what string, got, want Verdict) {
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
		// If the first waiter does not ask again, the next one gets the lock.
		want("one who did not wait", last.lock(false, 4, 1, true), denied)
		time.Sleep(reservation)
		want("one who did not wait, later", last.lock(false, 4, 1, true), ok)
		want("the second, later", second.lock(true, 4, 2, true), denied)
		if u := m.Usage(); u.Waiters != 1 {
			t.Errorf("%d wait", u.Waiters)
		}
		time.Sleep(m.Lease() + m.unwritten() + 1)
		told = nil
		last.unlock(4, 1)
		if len(told) != 0 || m.Usage().Waiters != 0 {
			t.Errorf("told after a long time: %v", told)
		}
	})
}

// A waiter gets the lock that is reserved for it also if it asks with the stateid of locks that it has
// already, without the name of its owner.
func TestWaiterAsksByTheStateidOfItsLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager(t)
		m.NotifyLocks(func(LockNotice) {})
		holder, first := newLocker(t, m, "holder"), newLocker(t, m, "first")
		is(t, "the holder", holder.lock(false, 0, 10, true), ok)
		is(t, "the first, elsewhere", first.lock(false, 100, 1, true), ok)
		more := func() Verdict {
			_, _, s := m.Lock(&LockArgs{Ref: Ref{ID: first.id, Client: first.c, Key: fileKey(1)}, Offset: 0, Length: 10, Write: true, Wait: true, Tag: "first"})
			return s
		}
		is(t, "the first, who waits", more(), LockConflict)
		is(t, "the first, who waits by its name", first.lock(true, 0, 10, true), LockConflict)
		if n := m.Usage().Waiters; n != 1 {
			t.Errorf("one owner is %d waiters", n)
		}
		holder.unlock(0, 10)
		is(t, "the first, for what is reserved for it", more(), ok)
	})
}

// When the clients are gone, neither their waiters nor their locks keep a file in the table.
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
		m.removeNow(l.c)
	}
	nothingLeft(t, m)
}

// A search for waiters checks at most maxHindrances locks and waiters. It does not notify the
// waiters after that; they ask again by themselves. It does not check locks that block no waiter.
func TestSearchForWaitersIsBounded(t *testing.T) {
	m := newManager(t)
	told := 0
	m.NotifyLocks(func(LockNotice) { told++ })
	holder, waiter := newLocker(t, m, "holder"), newLocker(t, m, "waiter")
	is(t, "the holder", holder.lock(false, 0, 1000, true), ok)
	for i := range uint64(4000) {
		_, _, s := m.Lock(&LockArgs{
			Ref: Ref{ID: holder.open, Client: holder.c, Key: fileKey(1)}, New: true, OwnerName: fmt.Append(nil, i), Offset: 2000 + 2*i, Length: 1,
		})
		is(t, "LOCK", s, ok)
	}
	for i := range uint64(400) {
		is(t, "one that waits", waiter.lock(true, i, 1, true), LockConflict)
	}
	holder.unlock(0, 1000)
	// The check of the first waiter looks at no other waiter, the check of the second at one,
	// and so on.
	want := 0
	for left := maxHindrances; left-want >= 0; want++ {
		left -= want
	}
	if told < 100 || told > want {
		t.Errorf("%d waiters were told, want at most %d", told, want)
	}
}

// However many locks end with an open or with a client, the Manager searches for waiters once in each piece, and
// notifies each waiter once.
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
				if s := waiter.lock(true, i, 1, true); s != LockConflict {
					t.Fatal(s)
				}
			}
			before := m.files.searches
			if how == "CLOSE" {
				is(t, how, holder.close(true), ok)
			} else {
				m.removeNow(holder.c)
			}
			if told != 100 || m.files.searches > before+2 {
				t.Errorf("%d were told in %d searches", told, m.files.searches-before)
			}
		})
	}
}

// waits makes a client at an address that waits for locks of file 1.
func waits(t testing.TB, m *Manager, name, address string) *locker {
	t.Helper()
	x := m.ExchangeID(&Identity{Owner: []byte(name), Caller: Caller{Address: netip.MustParseAddr(address)}}, false)
	is(t, "confirmation", m.Confirm(x.Client), ok)
	m.ReclaimComplete(x.Client, nil)
	return &locker{t: t, m: m, c: x.Client, open: open(t, m, x.Client, name, fileKey(1), AccessBoth, 0)}
}

// waiting returns the number of locks of file 1 for which the client waits.
func (l *locker) waiting() int {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	return l.c.holding.waiting[l.m.files.byID[idOf(1)]]
}

// ask requests n locks. The Manager denies each.
func (l *locker) ask(n int) {
	l.t.Helper()
	for i := range uint64(n) {
		is(l.t, "LOCK", l.lock(true, i, 1, true), LockConflict)
	}
}

// However many locks of a file one client or one address waits for, other clients and addresses can
// have waiters too, and keep them.
func TestPlacesOfWaitersAreShared(t *testing.T) {
	m := newManager(t)
	told := map[string]int{}
	m.NotifyLocks(func(n LockNotice) { told[n.Tag.(string)]++ })
	holder := waits(t, m, "holder", "10.0.0.1")
	is(t, "the holder", holder.lock(false, 0, 1<<64-1, true), ok)
	greedy, neighbour := waits(t, m, "greedy", "10.0.0.2"), waits(t, m, "neighbour", "10.0.0.2")
	other, third := waits(t, m, "other", "10.0.0.3"), waits(t, m, "third", "10.0.0.4")
	is(t, "LOCK", other.lock(true, 7777, 1, true), LockConflict) // before the greedy client adds many waiters
	all := []*locker{greedy, neighbour, other, third}
	want := func(what string, each ...int) {
		t.Helper()
		for i, l := range all {
			if n := l.waiting(); n != each[i] {
				t.Errorf("%s: %s waits for %d locks, not %d", what, l.c.Owner, n, each[i])
			}
		}
		if n := m.Usage().Waiters; n > maxFileWaiters {
			t.Errorf("%s: %d wait", what, n)
		}
	}
	greedy.ask(2 * maxFileWaiters)
	want("one alone", maxFileWaiters-1, 0, 1, 0)
	is(t, "LOCK", third.lock(true, 8888, 1, true), LockConflict)
	want("one more", maxFileWaiters-2, 0, 1, 1)
	neighbour.ask(2 * maxFileWaiters)
	want("two clients of one address", maxFileWaiters/2-1, maxFileWaiters/2-1, 1, 1)
	other.ask(2 * maxFileWaiters)
	n := other.waiting()
	if n < maxFileWaiters/2-2 || n > maxFileWaiters/2 {
		t.Errorf("another address waits for %d locks", n)
	}
	for _, l := range []*locker{greedy, neighbour} {
		if n := l.waiting(); n < maxFileWaiters/4-2 || n > maxFileWaiters/4+1 {
			t.Errorf("%s waits for %d locks", l.c.Owner, n)
		}
	}
	greedy.ask(2 * maxFileWaiters)
	if l := other.waiting(); l < n-1 || third.waiting() != 1 {
		t.Errorf("the flood takes places from others: %d were %d, and %d are 1", l, n, third.waiting())
	}
	holder.unlock(0, 1<<64-1)
	if told["third"] != 1 || told["other"] == 0 {
		t.Errorf("told: %v", told)
	}
	for _, l := range append(all, holder) {
		m.removeNow(l.c)
	}
	for _, l := range all {
		if l.c.holding.waiters != 0 || l.c.known.origin.waiters != 0 {
			t.Errorf("%s: %d and %d are counted", l.c.Owner, l.c.holding.waiters, l.c.known.origin.waiters)
		}
	}
	nothingLeft(t, m)
}

// A waiter for which the server has reserved a lock is not removed to make room for other waiters.
func TestKeptLocksGiveNoPlaceAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager(t)
		holder, first := waits(t, m, "holder", "10.0.0.1"), waits(t, m, "first", "10.0.0.2")
		other := waits(t, m, "other", "10.0.0.3")
		is(t, "the holder", holder.lock(false, 0, 1<<64-1, true), ok)
		first.ask(maxFileWaiters)
		m.mu.Lock()
		for _, w := range m.files.byID[idOf(1)].waiting {
			w.until = time.Now().Add(reservation)
		}
		m.mu.Unlock()
		other.ask(10)
		if a, b := first.waiting(), other.waiting(); a != maxFileWaiters || b != 0 {
			t.Errorf("%d and %d wait", a, b)
		}
		time.Sleep(reservation)
		other.ask(1)
		if a, b := first.waiting(), other.waiting(); a != maxFileWaiters-1 || b != 1 {
			t.Errorf("%d and %d wait", a, b)
		}
	})
}

// Over all files, an address may wait for half of the locks that other addresses leave, and a
// client for half of the locks that the other clients of its address leave.
func TestWaitersOfAllFilesAreShared(t *testing.T) {
	m := newManager(t)
	one, neighbour, other := waits(t, m, "one", "10.0.0.1"), waits(t, m, "neighbour", "10.0.0.1"), waits(t, m, "other", "10.0.0.2")
	take := func(l *locker) (n int) {
		g := m.acquire()
		defer g.release()
		for ; l.c.mayWait(g); n++ {
			m.files.usage.Waiters++
			l.c.holding.waiters++
			l.c.known.origin.waiters++
		}
		return n
	}
	if a, b, c := take(one), take(neighbour), take(other); a != maxWaiters/4 || b < maxWaiters/10 || c < maxWaiters/8 {
		t.Errorf("%d, %d and %d wait", a, b, c)
	}
}

// However many addresses wait, the total number of waiters stays within maxWaiters, and the latest
// address can still wait for a lock. When all clients are gone, the first address may wait for as
// many locks as at the start.
func TestWaitersOfManyAddresses(t *testing.T) {
	m := newManager(t)
	take := func(l *locker) (n int) {
		g := m.acquire()
		defer g.release()
		for ; l.c.mayWait(g); n++ {
			m.files.usage.Waiters++
			l.c.holding.waiters++
			l.c.known.origin.waiters++
		}
		return n
	}
	all := map[*locker]int{}
	first, total := 0, 0
	for i := range 40 {
		l := waits(t, m, fmt.Sprint("client ", i), fmt.Sprintf("10.0.%d.1", i))
		n := take(l)
		if i == 0 {
			first = n
		}
		if free := maxWaiters - total; n > (free+1)/2 {
			t.Errorf("address %d waits for %d locks, of %d that were free", i, n, free)
		}
		all[l], total = n, total+n
	}
	if total > maxWaiters || m.Usage().Waiters != total {
		t.Errorf("%d locks are waited for, %d are counted; the bound is %d", total, m.Usage().Waiters, maxWaiters)
	}
	m.mu.Lock()
	for l, n := range all {
		m.files.usage.Waiters -= n
		l.c.holding.waiters -= n
		l.c.known.origin.waiters -= n
	}
	m.mu.Unlock()
	last := waits(t, m, "the last", "10.1.0.1")
	if n := take(last); n != first {
		t.Errorf("when all have gone an address waits for %d locks, at first %d", n, first)
	}
}

// If an owner changes its write lock to a read lock, the Manager notifies the waiting readers
// as after an unlock, but not the waiting writers (RFC 8881 §18.10.3, §20.11.3).
func TestDowngradedLockNotifiesWaitingReaders(t *testing.T) {
	m := newManager(t)
	var told []string
	m.NotifyLocks(func(n LockNotice) { told = append(told, n.Tag.(string)) })
	holder, writer, reader := newLocker(t, m, "holder"), newLocker(t, m, "writer"), newLocker(t, m, "reader")
	is(t, "the holder, to write", holder.lock(false, 0, 10, true), ok)
	is(t, "one who waits to write a part", writer.lock(true, 0, 5, true), LockConflict)
	is(t, "one who waits to read another", reader.lock(true, 5, 5, false), LockConflict)
	is(t, "the holder, to write again", holder.lock(false, 0, 10, true), ok)
	if len(told) != 0 {
		t.Errorf("told while the lock is one to write: %v", told)
	}
	is(t, "the holder, to read", holder.lock(false, 0, 10, false), ok)
	if !slices.Equal(told, []string{"reader"}) {
		t.Errorf("told of a lock to read: %v, want the reader alone", told)
	}
	is(t, "the reader, who was told", reader.lock(true, 5, 5, false), ok)
}

// The server reserves a free lock for a waiter once for each request of the waiter. So a waiter
// whose client is gone delays the others once, not at each unlock (RFC 7530 §9.4).
func TestWaiterThatIsGoneIsWaitedForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager(t)
		told := 0
		m.NotifyLocks(func(LockNotice) { told++ })
		worker, gone, late := newLocker(t, m, "worker"), newLocker(t, m, "gone"), newLocker(t, m, "late")
		is(t, "the worker", worker.lock(false, 0, 1, true), ok)
		is(t, "the one that will be gone", gone.lock(true, 0, 1, true), LockConflict)
		is(t, "the one behind it", late.lock(true, 0, 1, true), LockConflict)
		worker.unlock(0, 1)
		is(t, "the worker, while the lock is kept", worker.lock(false, 0, 1, true), LockConflict)
		time.Sleep(reservation)
		for range 20 {
			is(t, "the worker, with none who waits", worker.lock(false, 0, 1, true), ok)
			time.Sleep(time.Second)
			worker.unlock(0, 1)
			if told == 2 {
				// The second waiter does not ask again either.
				is(t, "the worker, while the lock is kept for the second", worker.lock(false, 0, 1, true), LockConflict)
				time.Sleep(reservation)
				told++
			}
		}
		if told != 3 {
			t.Errorf("the waiters were told %d times, want once each", told-1)
		}
		// After a new request the server reserves the lock for the waiter again.
		is(t, "the worker", worker.lock(false, 0, 1, true), ok)
		is(t, "the one that was gone", gone.lock(true, 0, 1, true), LockConflict)
		worker.unlock(0, 1)
		is(t, "the worker, while the lock is kept again", worker.lock(false, 0, 1, true), LockConflict)
		is(t, "the one that was gone", gone.lock(true, 0, 1, true), ok)
	})
}

// An owner that requests the lock without waiting is no longer a waiter. Neither is an owner that
// has not asked for the lock for a whole lease.
func TestOwnersThatDoNotWaitAreNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := New(Config{Lease: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		told := 0
		m.NotifyLocks(func(LockNotice) { told++ })
		holder, waits, other := newLocker(t, m, "holder"), newLocker(t, m, "waits"), newLocker(t, m, "other")
		is(t, "the holder", holder.lock(false, 0, 10, true), ok)
		is(t, "one who waits", waits.lock(true, 0, 10, true), LockConflict)
		is(t, "and does not any more", waits.lock(false, 0, 10, true), LockConflict)
		holder.unlock(0, 10)
		is(t, "another one", other.lock(false, 0, 10, true), ok)
		is(t, "one who waits", waits.lock(true, 0, 10, true), LockConflict)
		time.Sleep(9 * time.Second)
		for _, l := range []*locker{waits, other, holder} {
			m.Renew(l.c)
		}
		time.Sleep(2 * time.Second)
		other.unlock(0, 10)
		is(t, "the holder", holder.lock(false, 0, 10, true), ok)
		if told != 0 || m.Usage().Waiters != 0 {
			t.Errorf("%d were told, %d wait", told, m.Usage().Waiters)
		}
	})
}
