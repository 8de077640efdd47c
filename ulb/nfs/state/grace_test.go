package state

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/await"
)

const (
	noGrace = MayNotReclaim
	inGrace = InGracePeriod
	delay   = TryLater
)

// A life is one run of a server. Only the disk survives it.
type life func(t *testing.T, m *Manager)

// lives runs the server several times, one life after the other, in the fake time of
// testing/synctest.
func lives(t *testing.T, d *disk, all ...life) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		for _, f := range all {
			m := manager(t, Config{Records: d})
			f(t, m)
			m.Close()
		}
	})
}

func me() *Identity { return identity("client", 1, "me") }

// holds is a run of the server in which a client gets a record.
func holds(t *testing.T, m *Manager) { complete(t, m, me()) }

func TestNoRecordsNoGrace(t *testing.T) {
	lives(t, &disk{}, func(t *testing.T, m *Manager) {
		if m.InGrace() {
			t.Error("grace without a record")
		}
		c := confirmed(t, m, me())
		is(t, "something new before RECLAIM_COMPLETE", m.mayHoldNow(c, false), inGrace)
		is(t, "a claim", m.mayHoldNow(c, true), noGrace)
		if m.Notices(c) != 0 {
			t.Errorf("verdict %#x", m.Notices(c))
		}
		s := m.ReclaimComplete(c, new(Later))
		is(t, "RECLAIM_COMPLETE that does not wait for the disk", s, AfterDisk)
		s = m.ReclaimComplete(c, nil)
		is(t, "RECLAIM_COMPLETE", s, ok)
		s = m.ReclaimComplete(c, new(Later))
		is(t, "RECLAIM_COMPLETE again", s, AlreadyComplete)
		is(t, "something new", m.mayHoldNow(c, false), ok)
		is(t, "a claim", m.mayHoldNow(c, true), noGrace)
	})
}

// After a restart of the server, a client may reclaim its state if the server recorded it before.
// Each case also says whether a client that does not come back still has a record.
func TestRestart(t *testing.T) {
	for _, c := range []struct {
		name     string
		before   []life
		claims   bool // the client may reclaim state after the restart
		recorded bool // the client has a record after the grace period if it did not come back
	}{
		{"unconfirmed", []life{func(t *testing.T, m *Manager) { unconfirmed(t, m, me()) }}, false, false},
		{"confirmed", []life{func(t *testing.T, m *Manager) { confirmed(t, m, me()) }}, false, false},
		{"complete", []life{holds}, true, false},
		{"of minor version 0, without state", []life{func(t *testing.T, m *Manager) { v40(t, m, me()) }}, false, false},
		{"its next incarnation is unconfirmed", []life{func(t *testing.T, m *Manager) {
			holds(t, m)
			unconfirmed(t, m, identity("client", 2, "me"))
		}}, true, false},
		{"its next incarnation is confirmed", []life{func(t *testing.T, m *Manager) {
			holds(t, m)
			confirmed(t, m, identity("client", 2, "me"))
		}}, true, false},
		{"expired", []life{func(t *testing.T, m *Manager) {
			holder(t, m, me())
			pass(2 * leaseTime)
		}}, true, false},
		{"expired, without state", []life{func(t *testing.T, m *Manager) {
			holds(t, m)
			pass(2 * leaseTime)
		}}, false, false},
		{"expired without state, and back", []life{func(t *testing.T, m *Manager) {
			c := complete(t, m, me())
			pass(2 * leaseTime)
			m.Renew(c)
			if s := m.Record(c, KindOpen, 0, nil); s != ok {
				t.Fatal(s)
			}
			open(t, m, c, "o", fileKey(1), AccessRead, 0)
		}}, true, false},
		{"evicted", []life{func(t *testing.T, m *Manager) {
			c := complete(t, m, me())
			pass(2 * leaseTime)
			if err := m.Evict(c); err != nil {
				t.Error(err)
			}
		}}, false, false},
		{"gone by itself", []life{func(t *testing.T, m *Manager) {
			is(t, "DESTROY_CLIENTID", m.Destroy(complete(t, m, me())), ok)
			synctest.Wait()
		}}, false, false},
		{"a crash within grace", []life{holds, func(t *testing.T, m *Manager) {
			confirmed(t, m, me())
			pass(leaseTime / 2)
		}}, true, false},
		{"a crash within grace, before it came", []life{holds, func(t *testing.T, m *Manager) {
			pass(leaseTime / 2)
		}}, true, false},
		{"a crash after grace in which it did not come (second edge condition)", []life{holds, func(t *testing.T, m *Manager) {
			pass(leaseTime * 3 / 2)
		}}, false, false},
		{"a crash after grace in which it did not complete", []life{holds, func(t *testing.T, m *Manager) {
			confirmed(t, m, me())
			pass(leaseTime * 3 / 2)
		}}, false, false},
		{"a crash after grace in which it completed", []life{holds, func(t *testing.T, m *Manager) {
			c := complete(t, m, me())
			synctest.Wait()
			open(t, m, c, "o", fileKey(1), AccessRead, 0)
			pass(leaseTime * 3 / 2)
		}}, true, false},
		{"it completed after grace", []life{holds, func(t *testing.T, m *Manager) {
			pass(leaseTime * 3 / 2)
			holds(t, m)
		}}, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := &disk{}
			last := func(t *testing.T, m *Manager) {
				client := confirmed(t, m, me())
				if m.mayReclaimNow(client) != c.claims {
					t.Errorf("it may claim: %v", !c.claims)
				}
				want := noGrace
				if c.claims {
					want = ok
				}
				is(t, "a claim", m.mayHoldNow(client, true), want)
				if flag := m.Notices(client) == NoticeReclaim; flag != c.claims {
					t.Errorf("verdict %#x", m.Notices(client))
				}
			}
			over := func(t *testing.T, m *Manager) {
				pass(2 * leaseTime)
				if m.InGrace() || d.has(1, "client") != c.recorded {
					t.Errorf("in grace %v, recorded %v", m.InGrace(), d.has(1, "client"))
				}
			}
			lives(t, d, append(append([]life{}, c.before...), last, over)...)
		})
	}
}

// During the grace period no client gets new state. The records say which clients may reclaim
// state.
func TestGrace(t *testing.T) {
	lives(t, &disk{}, holds, func(t *testing.T, m *Manager) {
		if !m.InGrace() {
			t.Fatal("no grace")
		}
		stranger := complete(t, m, identity("stranger", 1, "me"))
		is(t, "a stranger's claim", m.mayHoldNow(stranger, true), noGrace)
		is(t, "a stranger's wish", m.mayHoldNow(stranger, false), inGrace)
		is(t, "another principal", m.ExchangeID(identity("client", 1, "thief"), false).Verdict, TryLater)
		g := m.acquire()
		if g.claimOf(&Client{Kind: 1, Owner: "client", Principal: "thief"}) != nil {
			t.Error("another principal may claim")
		}
		g.release()
		c := confirmed(t, m, me())
		is(t, "a claim", m.mayHoldNow(c, true), ok)
		is(t, "a wish", m.mayHoldNow(c, false), inGrace)
		pass(leaseTime + leaseTime/4)
		if m.InGrace() {
			t.Fatal("grace has no end")
		}
		is(t, "a claim after grace", m.mayHoldNow(c, true), noGrace)
		is(t, "a wish before RECLAIM_COMPLETE", m.mayHoldNow(c, false), inGrace)
		is(t, "a stranger's wish", m.mayHoldNow(stranger, false), ok)
	})
}

// The grace period ends as soon as all clients that may reclaim state have sent RECLAIM_COMPLETE.
func TestGraceEndsEarly(t *testing.T) {
	d := &disk{}
	lives(t, d, func(t *testing.T, m *Manager) {
		complete(t, m, identity("a", 1, "me"))
		complete(t, m, identity("b", 1, "me"))
	}, func(t *testing.T, m *Manager) {
		complete(t, m, identity("a", 1, "me"))
		synctest.Wait()
		if !m.InGrace() {
			t.Fatal("grace ended before all were done")
		}
		c := complete(t, m, identity("b", 2, "me"))
		synctest.Wait()
		if m.InGrace() {
			t.Fatal("grace did not end when all were done")
		}
		is(t, "a claim of one who is done", m.mayHoldNow(c, true), noGrace)
		is(t, "a wish", m.mayHoldNow(c, false), ok)
		if !d.has(1, "a") || !d.has(1, "b") {
			t.Error("a record was lost")
		}
	})
}

// A client of minor version 0 never reports that it is done, so the grace period lasts its whole
// time.
func TestGraceWithMinorVersion0(t *testing.T) {
	d := &disk{}
	lives(t, d, func(t *testing.T, m *Manager) {
		for _, owner := range []string{"a", "b"} {
			c := v40(t, m, identity(owner, 1, "me"))
			is(t, "an attempt to record it", m.Record(c, KindOpen, 0, new(Later)), AfterDisk)
			for range 2 {
				is(t, "its record", m.Record(c, KindOpen, 0, nil), ok)
			}
		}
		complete(t, m, identity("c", 1, "me"))
	}, func(t *testing.T, m *Manager) {
		c := complete(t, m, identity("c", 1, "me"))
		a := v40(t, m, identity("a", 1, "me"))
		is(t, "a claim", m.mayHoldNow(a, true), ok)
		if s := m.Record(a, KindOpen, 0, nil); s != ok {
			t.Error(s)
		}
		_, s := m.Open(&OpenArgs{Client: a, OwnerName: []byte("o"), Key: fileKey(1), Access: AccessRead, Claimed: true})
		is(t, "the claim of a file", s, ok)
		is(t, "another claim", m.mayHoldNow(a, true), ok)
		v40(t, m, identity("b", 1, "me")) // this client reclaims nothing
		synctest.Wait()
		if !m.InGrace() {
			t.Fatal("grace ended early")
		}
		pass(leaseTime / 2)
		m.Renew(c)
		pass(leaseTime * 3 / 4)
		if m.InGrace() || !d.has(0, "a") || d.has(0, "b") || !d.has(1, "c") {
			t.Errorf("in grace %v, records %v", m.InGrace(), d.records)
		}
		is(t, "a wish", m.mayHoldNow(a, false), ok)
	})
}

// While the records of the clients that did not come back cannot be removed, no other client gets
// the state of these clients.
func TestGraceLastsUntilTheRecordsAreRemoved(t *testing.T) {
	d := &disk{}
	lives(t, d, holds, func(t *testing.T, m *Manager) {
		d.breakDown(true)
		stranger := confirmed(t, m, identity("stranger", 1, "me"))
		if s := m.ReclaimComplete(stranger, nil); s != TryLater {
			t.Errorf("RECLAIM_COMPLETE without a record: %v", s)
		}
		pass(3 * leaseTime)
		c := confirmed(t, m, me())
		if !m.InGrace() || !d.has(1, "client") {
			t.Fatal("grace ended without the disk")
		}
		is(t, "a claim of one who is late", m.mayHoldNow(c, true), noGrace)
		d.breakDown(false)
		pass(leaseTime)
		if m.InGrace() || d.has(1, "client") {
			t.Error("grace goes on")
		}
	})
}

// The grace period does not wait for a client that is destroyed within it.
func TestGraceDoesNotWaitForADestroyedClient(t *testing.T) {
	d := &disk{}
	lives(t, d, holds, func(t *testing.T, m *Manager) {
		is(t, "DESTROY_CLIENTID", m.Destroy(confirmed(t, m, me())), ok)
		synctest.Wait()
		if m.InGrace() || d.has(1, "client") {
			t.Errorf("in grace %v, recorded %v", m.InGrace(), d.has(1, "client"))
		}
	})
}

// Clients that need records at the same time share the waits for the disk.
func TestRecordsAreWrittenTogether(t *testing.T) {
	d := &disk{}
	m := manager(t, Config{Records: d})
	defer m.Close()
	const clients = 100
	written := 0
	begun, goOn := make(chan struct{}), make(chan struct{})
	d.slow = func() {
		if written++; written == 1 {
			close(begun)
			<-goOn
		}
	}
	ended := make(chan Verdict, clients)
	complete := func(i int) {
		c := confirmed(t, m, identity(fmt.Sprint(i), 1, "me"))
		go func() {
			s := m.ReclaimComplete(c, nil)
			ended <- s
		}()
	}
	complete(0)
	<-begun
	for i := range clients - 1 {
		complete(i + 1)
	}
	await.Until(t, "all others wait", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return len(m.unrecorded) == clients-1
	})
	close(goOn)
	for range clients {
		is(t, "RECLAIM_COMPLETE", <-ended, ok)
	}
	if written != 2 {
		t.Errorf("the disk was written to %d times", written)
	}
	for i := range clients {
		if !d.has(1, fmt.Sprint(i)) {
			t.Errorf("client %d has no record", i)
		}
	}
}

// The grace period is as long as the longest lease that a client was promised, because a client may
// be silent for a lease before it notices the restart (RFC 8881 §8.4.2.1). This also holds over
// several runs of the server with shorter leases.
func TestGraceIsAsLongAsTheLeaseBefore(t *testing.T) {
	d := &disk{}
	synctest.Test(t, func(t *testing.T) {
		life := func(lease time.Duration) *Manager { return manager(t, Config{Records: d, Lease: lease}) }
		m := life(90 * time.Second)
		open(t, m, complete(t, m, me()), "o", fileKey(1), AccessBoth, AccessBoth)
		m.Close()
		m = life(5 * time.Second)
		pass(2 * time.Second)
		m.Close()
		m = life(5 * time.Second)
		pass(89 * time.Second)
		other := complete(t, m, identity("other", 1, "me"))
		_, s := m.Open(&OpenArgs{Client: other, OwnerName: []byte("o"), Key: fileKey(1), Access: AccessBoth})
		is(t, "OPEN of another client", s, inGrace)
		c := confirmed(t, m, me())
		_, s = m.Open(&OpenArgs{Client: c, OwnerName: []byte("o"), Key: fileKey(1), Access: AccessBoth, Deny: AccessBoth, Claimed: true})
		is(t, "the claim", s, ok)
		s = m.ReclaimComplete(c, nil)
		is(t, "RECLAIM_COMPLETE", s, ok)
		m.Close()
		m = life(5 * time.Second) // both clients were last promised this lease
		defer m.Close()
		pass(5*time.Second + time.Millisecond)
		if m.InGrace() {
			t.Error("grace is longer than any client's lease")
		}
	})
}

// A client that is still reclaiming at the planned end of the grace period gets all its state, and
// keeps its record.
func TestGraceGoesOnWhileAClientClaims(t *testing.T) {
	const files = 20
	d := &disk{}
	lives(t, d, func(t *testing.T, m *Manager) {
		open(t, m, complete(t, m, me()), "o", fileKey(0), AccessBoth, AccessBoth)
	}, func(t *testing.T, m *Manager) {
		pass(leaseTime * 9 / 10) // late, but still within the grace period
		c := confirmed(t, m, me())
		for i := range files {
			_, s := m.Open(&OpenArgs{Client: c, OwnerName: []byte("o"), Key: fileKey(i), Access: AccessBoth, Deny: AccessBoth, Claimed: true})
			is(t, fmt.Sprint("claim ", i), s, ok)
			pass(leaseTime / 100)
		}
		s := m.ReclaimComplete(c, nil)
		is(t, "RECLAIM_COMPLETE", s, ok)
		synctest.Wait()
		if m.InGrace() {
			t.Error("grace goes on when all clients are done")
		}
	}, func(t *testing.T, m *Manager) {
		c := confirmed(t, m, me())
		is(t, "a claim after another restart", m.mayHoldNow(c, true), ok)
	})
}

// Reclaims prolong the grace period to at most twice its planned time. It ends when clients stop
// reclaiming.
func TestGraceHasAnEnd(t *testing.T) {
	for _, c := range []struct {
		name             string
		until, lasts, no time.Duration // the time of the last reclaim; a time within the grace period; a time after it
	}{
		{"claims without end", 3 * leaseTime, 2*leaseTime - time.Second, 2*leaseTime + time.Millisecond},
		{"the last claim just before its time is over", leaseTime - time.Second, leaseTime + leaseTime/8, leaseTime * 3 / 2},
		{"the last claim long before", leaseTime / 2, leaseTime - time.Second, leaseTime + time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			lives(t, &disk{}, holds, func(t *testing.T, m *Manager) {
				client := confirmed(t, m, me())
				for m.now() < c.no-time.Second {
					if m.now() <= c.until {
						m.mayHoldNow(client, true)
					}
					if on := m.InGrace(); !on && m.now() <= c.lasts {
						t.Errorf("grace is over after %v", m.now())
						return
					}
					pass(time.Second)
				}
				pass(c.no - m.now())
				if m.InGrace() {
					t.Errorf("grace lasts for %v", m.now())
				}
			})
		})
	}
}
