package state

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// from sets the address of id and returns id.
func from(address string, id *Identity) *Identity {
	id.Address = netip.MustParseAddr(address)
	return id
}

// comes registers a client by SETCLIENTID or EXCHANGE_ID, depending on the minor version, and
// confirms it.
func comes(t *testing.T, m *Manager, kind ClientKind, id *Identity) (*Client, Verdict) {
	t.Helper()
	if kind == 0 {
		r := m.SetClientID(id, Callback{})
		if r.Verdict != ok || r.Client == nil {
			return nil, r.Verdict
		}
		return r.Client, m.ConfirmClientID(r.Client.ID, r.Confirm, id.Principal)
	}
	x := m.ExchangeID(id, false)
	if x.Verdict != ok || x.Client == nil {
		return nil, x.Verdict
	}
	return x.Client, m.Confirm(x.Client)
}

// recorded returns a run of the server in which a client of a minor version gets a record.
func recorded(kind ClientKind) life {
	return func(t *testing.T, m *Manager) {
		if kind == 0 {
			if s := m.Record(v40(t, m, me()), KindOpen, 0, nil); s != ok {
				t.Fatal(s)
			}
			return
		}
		holds(t, m)
	}
}

// A client that uses another client's name neither gets nor ends the other client's right to
// reclaim state. This holds before the other client has come back after the restart, and before it
// has reclaimed anything.
func TestNameOfAClientThatMayClaimIsKept(t *testing.T) {
	const here, there = "10.0.0.1", "10.0.0.2"
	for kind := range Sessions + 1 {
		for _, c := range []struct {
			name   string
			thief  func() *Identity
			before Verdict // answer to the thief before the client is back
			after  Verdict // answer to the thief when the client is back, but has reclaimed nothing yet
		}{
			{"from another address", func() *Identity { return from(there, identity("client", 7, "me")) }, TryLater, ok},
			{"as another principal", func() *Identity { return from(here, identity("client", 7, "thief")) }, TryLater, NameTaken},
			{"as another principal that is proven", func() *Identity {
				id := from(there, identity("client", 7, "thief"))
				id.Proven = true
				return id
			}, ok, ok},
			{"from a port that is not privileged", func() *Identity {
				id := from(here, identity("client", 7, "me"))
				id.Privileged = false
				return id
			}, TryLater, ok},
		} {
			t.Run(fmt.Sprintf("4.%d %s", kind, c.name), func(t *testing.T) {
				d := &disk{}
				lives(t, d, recorded(kind), func(t *testing.T, m *Manager) {
					_, s := comes(t, m, kind, c.thief())
					is(t, "the thief, before", s, c.before)
					client, s := comes(t, m, kind, from(here, identity("client", 2, "me")))
					is(t, "the client", s, ok)
					if kind > 0 && client != nil {
						client.AddSessions(1) // it has a session
					}
					_, s = comes(t, m, kind, c.thief())
					is(t, "the thief, after", s, c.after)
					synctest.Wait()
					if !m.InGrace() || !d.has(kind, "client") {
						t.Error("the thief ends the grace period, or the record")
					}
					mayClaim(t, m, client)
				})
			})
		}
	}
}

// mayClaim fails the test if the client does not exist or may not reclaim its state.
func mayClaim(t *testing.T, m *Manager, c *Client) {
	t.Helper()
	if c == nil {
		t.Error("there is no client that could claim")
		return
	}
	is(t, "a claim", m.mayHoldNow(c, true), ok)
}

// The grace period ends exactly when its time is over, however long a lease is.
func TestGraceEndsInTimeBesideLongLeases(t *testing.T) {
	d := &disk{}
	synctest.Test(t, func(t *testing.T) {
		m := manager(t, Config{Records: d, Lease: 5 * time.Second})
		complete(t, m, me())
		m.Close()
		m = manager(t, Config{Records: d, Lease: time.Hour, Grace: 10 * time.Second})
		defer m.Close()
		pass(9 * time.Second)
		if !m.InGrace() {
			t.Error("grace ended early")
		}
		pass(time.Second + time.Millisecond)
		if m.InGrace() {
			t.Error("grace goes on")
		}
	})
}

// Unknown clients neither end the grace period nor prolong it, and they keep out no client that may
// reclaim state. The test adds as many unknown clients of eight addresses as the limits allow.
func TestStrangersInGrace(t *testing.T) {
	d := &disk{}
	lives(t, d, holds, func(t *testing.T, m *Manager) {
		there := 0
		for i := range 2 * maxClients {
			id := from(fmt.Sprintf("10.1.0.%d", 1+i%8), identity(fmt.Sprint("stranger ", i), 1, "me"))
			c, s := comes(t, m, 1, id)
			if s == TryLater {
				continue // the address already has its maximum number of clients
			}
			is(t, "a stranger", s, ok)
			c.AddSessions(1)
			there++
			if i%100 == 0 {
				is(t, "a stranger's claim", m.mayHoldNow(c, true), noGrace)
				s := m.ReclaimComplete(c, nil)
				is(t, "RECLAIM_COMPLETE", s, ok)
				is(t, "a stranger's wish", m.mayHoldNow(c, false), inGrace)
			}
			if i%1000 == 0 {
				c.AddSessions(-1)
				is(t, "DESTROY_CLIENTID", m.Destroy(c), ok)
			}
		}
		synctest.Wait()
		if !m.InGrace() || there < maxClients*3/4 {
			t.Fatalf("%d strangers are there; in grace %v", there, m.InGrace())
		}
		var c *Client
		s := TryLater
		for range 10 {
			if c, s = comes(t, m, 1, me()); s == ok {
				break
			}
			pass(time.Second)
		}
		is(t, "one who may claim", s, ok)
		mayClaim(t, m, c)
		pass(leaseTime)
		if m.InGrace() {
			t.Error("strangers make the grace period longer")
		}
	})
}

// keeping is a Records that cannot remove any record.
type keeping struct{ *disk }

func (keeping) Remove([]Record) error { return errors.New("no disk") }

// While records cannot be removed, their number stays below twice maxClients, because the Manager
// then records no new clients.
func TestRecordsThatStayAreBounded(t *testing.T) {
	d := &disk{}
	timed(t, Config{Records: keeping{d}}, func(t *testing.T, m *Manager) {
		m.mu.Lock()
		for i := range maxClients - 1 {
			m.forgotten = append(m.forgotten, Record{Kind: 1, Owner: fmt.Sprint("gone ", i)})
		}
		m.mu.Unlock()
		is(t, "DESTROY_CLIENTID", m.Destroy(complete(t, m, identity("one", 1, "me"))), ok)
		synctest.Wait()
		c := confirmed(t, m, identity("another", 1, "me"))
		if s := m.ReclaimComplete(c, nil); s != TryLater || d.has(1, "another") {
			t.Errorf("RECLAIM_COMPLETE: %v", s)
		}
	})
}

// A live client of either minor version keeps its record through the sweeps of a day, while other
// clients come and go. When the Manager removes the client, it removes the record.
func TestLivingClientsKeepTheirRecords(t *testing.T) {
	d := &disk{}
	timed(t, Config{Records: d}, func(t *testing.T, m *Manager) {
		c := complete(t, m, identity("one", 1, "me"))
		for i := range 24 {
			is(t, "DESTROY_CLIENTID", m.Destroy(complete(t, m, identity(fmt.Sprint("another ", i), 1, "me"))), ok)
			for range 60 {
				m.Renew(c)
				time.Sleep(time.Minute)
			}
			synctest.Wait()
			if !d.has(1, "one") {
				t.Fatalf("hour %d: a living client has no record", i)
			}
			if d.has(1, fmt.Sprint("another ", i)) {
				t.Errorf("hour %d: a client that is gone has a record", i)
			}
		}
		is(t, "DESTROY_CLIENTID", m.Destroy(c), ok)
		synctest.Wait()
		time.Sleep(time.Hour)
		synctest.Wait()
		if d.has(1, "one") {
			t.Error("a client that is gone has a record")
		}
	})
}
