package state

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Clients that are evicted at the same time share the waits for the disk: when the courtesy time of
// 1,000 clients ends, the Manager changes the records at most four times.
func TestEvictionsWaitForTheDiskTogether(t *testing.T) {
	var changes atomic.Int32
	d := &disk{slow: func() { changes.Add(1) }}
	timed(t, Config{Records: d, Courtesy: time.Hour}, func(t *testing.T, m *Manager) {
		const clients = 1000
		var all []*Client
		for i := range clients {
			all = append(all, complete(t, m, identity(fmt.Sprint(i), 1, "me")))
		}
		changes.Store(0)
		pass(2 * time.Hour)
		for i, c := range all {
			if m.Client(c.ID) != nil || of(c).gone.Load() != 1 || d.has(1, fmt.Sprint(i)) {
				t.Fatalf("client %d is still there", i)
			}
		}
		if n := changes.Load(); n > 4 {
			t.Errorf("the records were changed %d times", n)
		}
	})
}

// If the Manager evicts several clients, a client that renews its lease while the eviction waits for
// another change of the records stays. If the disk fails, all of them stay.
func TestEvictionOfSeveral(t *testing.T) {
	d := &disk{}
	timed(t, Config{Records: d}, func(t *testing.T, m *Manager) {
		a, b, c := holder(t, m, identity("a", 1, "me")), holder(t, m, identity("b", 1, "me")), holder(t, m, identity("c", 1, "me"))
		all := []*Client{a, b, c}
		pass(2 * leaseTime)
		d.breakDown(true)
		if err := m.evict(all, Wanted); err == nil {
			t.Error("the disk did not fail")
		}
		for _, c := range all {
			if m.Client(c.ID) == nil || c.Dying() {
				t.Errorf("client %s: it is gone, or can begin nothing any more", c.Owner)
			}
		}
		d.breakDown(false)
		m.recording.lock()
		evicted := make(chan error)
		go func() { evicted <- m.evict(all, Wanted) }()
		synctest.Wait()
		if !b.BeginRequest() {
			t.Fatal("a client can begin nothing while its eviction has not begun")
		}
		m.EndRequest(b)
		m.recording.unlock()
		if err := <-evicted; err != nil {
			t.Error(err)
		}
		if m.Client(a.ID) != nil || m.Client(b.ID) == nil || m.Client(c.ID) != nil || b.Dying() || d.has(1, "a") || !d.has(1, "b") || d.has(1, "c") {
			t.Error("others went, or not all of them")
		}
	})
}

// Concurrent evictions of the same clients, in any order, do not wait for each other without end.
func TestEvictionsOfTheSameClients(t *testing.T) {
	d := &disk{slow: runtime.Gosched}
	m := manager(t, Config{Records: d})
	defer m.Close()
	a, b, c := complete(t, m, identity("a", 1, "me")), complete(t, m, identity("b", 1, "me")), complete(t, m, identity("c", 1, "me"))
	ended := make(chan error)
	orders := [][]*Client{{a, b}, {b, c, a}, {c, a}, {c, b, a}}
	for _, all := range orders {
		go func() {
			err := m.evict(all, Greedy)
			for _, c := range all {
				if m.Client(c.ID) != nil {
					err = fmt.Errorf("%s is still there", c.Owner)
				}
			}
			ended <- err
		}()
	}
	for range orders {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// If the close of one evicted client's file takes long, this does not delay a request that waits
// for the end of another client in the same eviction.
func TestEvictionIsNotHeldUpByAFile(t *testing.T) {
	d := &disk{}
	timed(t, Config{Records: d}, func(t *testing.T, m *Manager) {
		stalls, other := holder(t, m, identity("stalls", 1, "me")), holder(t, m, identity("other", 1, "me"))
		held := &heldFile{closed: make(chan struct{})}
		if _, s := m.Open(&OpenArgs{Client: stalls, OwnerName: []byte("o"), Key: fileKey(1), Access: AccessRead, File: held}); s != ok {
			t.Fatal(s)
		}
		pass(2 * leaseTime)
		write := make(chan struct{})
		d.slow = func() { <-write }
		go m.evict([]*Client{stalls, other}, Wanted)
		synctest.Wait()
		gone := false
		go func() {
			m.Evict(other)
			gone = true
		}()
		synctest.Wait()
		if gone {
			t.Error("a client is gone before its record")
		}
		close(write)
		synctest.Wait()
		if !gone || m.Client(other.ID) != nil {
			t.Error("a request waits for the file of a client that it has nothing to do with")
		}
		close(held.closed)
		synctest.Wait()
	})
}

// A heldFile is a file whose Close returns when the test closes closed.
type heldFile struct {
	countedFile
	closed chan struct{}
}

func (f *heldFile) Close() { <-f.closed }
