package state

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// The next incarnation of a client takes over its record. If an eviction of the earlier incarnation
// began before that, but still waits to change the records, it leaves the record alone.
func TestEvictionLeavesTheRecordToTheNextIncarnation(t *testing.T) {
	d := &disk{}
	lives(t, d, func(t *testing.T, m *Manager) {
		old := complete(t, m, identity("client", 1, "me"))
		open(t, m, old, "o", fileKey(1), AccessBoth, 0)
		next := unconfirmed(t, m, identity("client", 2, "me"))
		pass(2 * leaseTime / 3)
		m.Renew(next)
		pass(2 * leaseTime / 3) // the lease of old has run out, and next still exists
		m.recording.lock()
		evicted := make(chan error)
		go func() { evicted <- m.Evict(old) }()
		synctest.Wait()
		is(t, "CREATE_SESSION of the next", m.Confirm(next), ok)
		m.recording.unlock()
		if err := <-evicted; err != nil {
			t.Fatal(err)
		}
		s := m.ReclaimComplete(next, nil)
		is(t, "RECLAIM_COMPLETE of the next", s, ok)
		if !d.has(1, "client") {
			t.Error("a client that may open files has no record")
		}
		open(t, m, next, "o", fileKey(1), AccessBoth, AccessBoth)
	}, func(t *testing.T, m *Manager) {
		if !m.InGrace() {
			t.Error("there is no grace period")
		}
		c := confirmed(t, m, identity("client", 2, "me"))
		is(t, "a claim of the client that has the file open", m.mayHoldNow(c, true), ok)
	})
}

// While an incarnation is being evicted, the next one cannot be confirmed, because the eviction
// decides whether the record and the right to reclaim state remain.
func TestNextIncarnationWaitsForTheEviction(t *testing.T) {
	for _, fails := range []bool{false, true} {
		d := &disk{}
		lives(t, d, func(t *testing.T, m *Manager) {
			old := v40(t, m, identity("client", 1, "me"))
			if s := m.Record(old, KindOpen, 0, nil); s != ok {
				t.Fatal(s)
			}
			id := open(t, m, old, "o", fileKey(1), AccessBoth, 0)
			_, s := m.ConfirmOpen(&Ref{ID: id, Key: fileKey(1)})
			is(t, "OPEN_CONFIRM", s, ok)
			r := m.SetClientID(identity("client", 2, "me"), Callback{})
			pass(2 * leaseTime / 3)
			m.Renew(r.Client)
			pass(2 * leaseTime / 3)
			confirm := func(want Verdict) {
				t.Helper()
				is(t, "SETCLIENTID_CONFIRM", m.ConfirmClientID(r.Client.ID, r.Confirm, "me"), want)
			}
			d.slow = func() {
				d.slow = nil
				confirm(delay)
				d.breakDown(fails)
			}
			if err := m.Evict(old); (err != nil) != fails {
				t.Fatal(err)
			}
			d.breakDown(false)
			confirm(ok)
			if d.has(0, "client") != fails {
				t.Errorf("recorded: %v", !fails)
			}
			if s := m.Record(r.Client, KindOpen, 0, new(Later)); (s == AfterDisk) == fails {
				t.Errorf("its record is to be written: %v", s)
			}
			if s := m.Record(r.Client, KindOpen, 0, nil); s != ok {
				t.Fatal(s)
			}
			open(t, m, r.Client, "o", fileKey(1), AccessBoth, AccessBoth)
			if !d.has(0, "client") {
				t.Error("a client that has a file open has no record")
			}
		})
	}
}

// With any order of evictions, confirmations and slow disk writes, a client that sent
// RECLAIM_COMPLETE and was not evicted has a record.
func TestEachLivingClientHasARecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for seed := range uint64(300) {
			random := rand.New(rand.NewPCG(seed, 0))
			d := &disk{slow: func() { time.Sleep(20 * time.Microsecond) }}
			m := manager(t, Config{Records: d, Lease: time.Millisecond})
			old := complete(t, m, identity("client", 1, "me"))
			time.Sleep(1200 * time.Microsecond)
			next := m.ExchangeID(identity("client", 2, "me"), false).Client
			if next == nil {
				m.Close()
				continue
			}
			var w sync.WaitGroup
			for i := range 3 {
				other := confirmed(t, m, identity(fmt.Sprint("other", i), 1, "me"))
				w.Go(func() { m.ReclaimComplete(other, nil) })
			}
			delays := [2]func(){}
			for i := range delays {
				n := time.Duration(random.IntN(60)) * time.Microsecond
				delays[i] = func() { time.Sleep(n) }
			}
			w.Go(func() { delays[0](); m.Evict(old) })
			complete := false
			w.Go(func() {
				delays[1]()
				for m.Confirm(next) == delay {
					time.Sleep(5 * time.Microsecond)
				}
				s := m.ReclaimComplete(next, nil)
				complete = s == ok
			})
			w.Wait()
			if complete && m.Client(next.ID) != nil && !d.has(1, "client") {
				t.Errorf("seed %d: a living client has no record", seed)
			}
			m.Close()
		}
	})
}
