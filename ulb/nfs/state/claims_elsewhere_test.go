package state

import (
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// A client that comes from a new address, or from a port of lower rank, waits for half of the grace period. If its
// principal is proven, it does not wait. A client with another principal waits until the grace period ends.
func TestClientThatHasMovedClaims(t *testing.T) {
	const there = "10.0.0.2"
	for kind := range Sessions + 1 {
		lives(t, &disk{}, recorded(kind), func(t *testing.T, m *Manager) {
			moved := func() *Identity { return from(there, identity("client", 2, "me")) }
			_, s := comes(t, m, kind, moved())
			is(t, "at once", s, TryLater)
			pass(leaseTime / 2)
			client, s := comes(t, m, kind, moved())
			is(t, "in the second half", s, ok)
			mayClaim(t, m, client)
		})
		lives(t, &disk{}, recorded(kind), func(t *testing.T, m *Manager) {
			id := identity("client", 2, "me")
			id.Privileged = false
			_, s := comes(t, m, kind, id)
			is(t, "from a port that is not privileged, at once", s, TryLater)
			pass(leaseTime / 2)
			client, s := comes(t, m, kind, id)
			is(t, "in the second half", s, ok)
			mayClaim(t, m, client)
		})
		proven := Record{Kind: kind, Owner: "client", Principal: "me", Address: netip.MustParseAddr("10.0.0.1"), Proven: true}
		lives(t, &disk{records: map[name]Record{proven.name(): proven}}, func(t *testing.T, m *Manager) {
			id := from(there, identity("client", 2, "other"))
			id.Proven = true
			_, s := comes(t, m, kind, id)
			is(t, "another principal", s, TryLater)
			id.Principal = "me"
			client, s := comes(t, m, kind, id)
			is(t, "proven", s, ok)
			mayClaim(t, m, client)
		})
		lives(t, &disk{}, recorded(kind), func(t *testing.T, m *Manager) {
			other := func() *Identity { return identity("client", 2, "another") }
			pass(leaseTime - time.Second)
			_, s := comes(t, m, kind, other())
			is(t, "in grace", s, TryLater)
			pass(2 * time.Second)
			_, s = comes(t, m, kind, other())
			is(t, "after grace", s, ok)
		})
	}
}

// A client at another place than the recorded one gets a claim of its own, and takes none away: the recorded client
// may come after it, also when the other one is gone. When the grace period ends, the record of the place to which
// no client came is gone, and no event says that its client has lost anything.
func TestClientElsewhereTakesNoClaim(t *testing.T) {
	const there = "10.0.0.2"
	for kind := range Sessions + 1 {
		for _, end := range []string{"it stays", "its lease runs out", "it restarts as another client"} {
			t.Run(fmt.Sprintf("4.%d %s", kind, end), func(t *testing.T) {
				d := &disk{}
				lives(t, d, recorded(kind), func(t *testing.T, m *Manager) {
					pass(leaseTime / 2)
					other, s := comes(t, m, kind, from(there, identity("client", 7, "me")))
					is(t, "the other", s, ok)
					mayClaim(t, m, other)
					is(t, "its record", m.Record(other, KindOpen, 0, nil), ok)
					switch end {
					case "its lease runs out":
						m.mu.Lock()
						other.known.renewed.Store(int64(-2 * leaseTime))
						m.mu.Unlock()
						if err := m.Evict(other); err != nil || m.Client(other.ID) != nil {
							t.Errorf("eviction: %v", err)
						}
						other, s = comes(t, m, kind, from(there, identity("client", 7, "me")))
						is(t, "the other again", s, ok)
					case "it restarts as another client":
						other, s = comes(t, m, kind, from(there, identity("client", 8, "me")))
						is(t, "the other again", s, ok)
					}
					if other != nil && kind == 1 {
						is(t, "its RECLAIM_COMPLETE", m.ReclaimComplete(other, nil), ok)
					}
					synctest.Wait()
					if _, is := d.records[name{kind, "client", me().prover()}]; !is || !m.InGrace() {
						t.Fatal("the record of the client is gone")
					}
					client, s := comes(t, m, kind, from("10.0.0.1", identity("client", 2, "me")))
					is(t, "the client", s, ok)
					mayClaim(t, m, client)
				})
			})
		}
	}
}

// When grace ends, a client that came to another place has one record, that of the new place, and an event says
// that nothing is lost.
func TestRecordOfAClientThatHasMoved(t *testing.T) {
	for kind := range Sessions + 1 {
		d, events := &disk{}, &told{}
		lives(t, d, recorded(kind))
		timed(t, Config{Records: d, Event: events.event}, func(t *testing.T, m *Manager) {
			events.take()
			pass(leaseTime / 2)
			c, s := comes(t, m, kind, from("10.0.0.2", identity("client", 7, "me")))
			is(t, "the client", s, ok)
			is(t, "its record", m.Record(c, KindOpen, 0, nil), ok)
			if kind == 1 {
				is(t, "RECLAIM_COMPLETE", m.ReclaimComplete(c, nil), ok)
			} else {
				m.mu.Lock()
				(&guard{Manager: m}).reclaimed(c)
				m.mu.Unlock()
			}
			pass(leaseTime/2 + time.Second)
			if m.InGrace() || len(d.records) != 1 || !d.has(kind, "client") {
				t.Errorf("in grace %v, records %+v", m.InGrace(), d.records)
			}
			for r := range d.records {
				if r != c.name() {
					t.Errorf("the record has the name %+v", r)
				}
			}
			if ended := events.take(); len(ended) != 1 || ended[0].Kind != GraceEnded || len(ended[0].Clients) != 0 {
				t.Errorf("events %+v", ended)
			}
		})
	}
}

// A client that claimed at another place, and was evicted, claims nothing after a later restart, at neither place:
// before others get what it held, the records of both places are gone (RFC 8881 §8.4.3).
func TestEvictedClientThatHadMoved(t *testing.T) {
	const there = "10.0.0.2"
	for kind := range Sessions + 1 {
		d := &disk{}
		lives(t, d, recorded(kind), func(t *testing.T, m *Manager) {
			pass(leaseTime / 2)
			c, s := comes(t, m, kind, from(there, identity("client", 7, "me")))
			is(t, "the client", s, ok)
			is(t, "its record", m.Record(c, KindOpen, 0, nil), ok)
			o := &OpenArgs{Client: c, OwnerName: []byte("o"), Key: fileKey(1), Access: AccessBoth, Claimed: true}
			if kind == 0 {
				o.Owner, _ = m.OwnerOf(c, []byte("o"), false)
			}
			_, s = m.Open(o)
			is(t, "its claim", s, ok)
			m.mu.Lock()
			c.known.renewed.Store(int64(-2 * leaseTime))
			m.mu.Unlock()
			if err := m.Evict(c); err != nil || m.Client(c.ID) != nil {
				t.Errorf("eviction: %v", err)
			}
			other := complete(t, m, identity("another", 1, "me"))
			if !m.InGrace() || m.mayHoldNow(other, false) != inGrace {
				t.Error("another client may get what it held, while there is a record of it")
			}
			pass(leaseTime)
			m.Renew(other)
			open(t, m, other, "o", fileKey(1), AccessBoth, AccessWrite)
			if d.has(kind, "client") {
				t.Errorf("records %+v", d.records)
			}
		}, func(t *testing.T, m *Manager) {
			for _, at := range []string{there, "10.0.0.1"} {
				c, s := comes(t, m, kind, from(at, identity("client", 7, "me")))
				is(t, "the client", s, ok)
				is(t, "its claim", m.mayHoldNow(c, true), noGrace)
			}
		})
	}
}

// A client whose record an earlier version wrote, without the rank of its port, claims at once. Then its record
// says the rank.
func TestClientOfAnEarlierVersionClaims(t *testing.T) {
	for kind := range Sessions + 1 {
		old := Record{Kind: kind, Owner: "client", Principal: "me", Address: netip.MustParseAddr("10.0.0.1"), Held: HeldOpens}
		d := &disk{records: map[name]Record{old.name(): old}}
		lives(t, d, func(t *testing.T, m *Manager) {
			client, s := comes(t, m, kind, me())
			is(t, "the client", s, ok)
			mayClaim(t, m, client)
			if kind == 1 {
				m.ReclaimComplete(client, nil)
			} else {
				is(t, "its record", m.Record(client, KindOpen, 0, nil), ok)
			}
			pass(leaseTime / 2)
			m.Renew(client)
			pass(leaseTime/2 + time.Second)
		})
		if _, is := d.records[old.name()]; is || len(d.records) != 1 {
			t.Errorf("records %+v", d.records)
		}
		lives(t, d, func(t *testing.T, m *Manager) {
			client, s := comes(t, m, kind, me())
			is(t, "the client", s, ok)
			mayClaim(t, m, client)
		})
	}
}

// A client that has moved, and then lived through another restart of the server, may have two records. At a third
// place it still has a claim: a record of its address counts first, and none of another principal, nor one whose
// client has come.
func TestClientWithTwoRecordsMovesAgain(t *testing.T) {
	at := func(kind ClientKind, address, principal string) Record {
		return Record{Kind: kind, Owner: "client", Principal: principal, Address: netip.MustParseAddr(address), Privileged: true, Held: HeldOpens | HeldApart}
	}
	for kind := range Sessions + 1 {
		first, second := at(kind, "10.0.0.1", "me"), at(kind, "10.0.0.2", "me")
		for _, c := range []struct {
			name    string
			records []Record
			before  []*Identity // who comes before
			client  *Identity
			shares  *Record
		}{
			{"at a new address", []Record{first, second}, nil, from("10.0.0.3", me()), nil},
			{"at another port of the second address", []Record{first, second}, nil, from("10.0.0.2", me()), &second},
			{"at another port of the first address", []Record{second, first}, nil, me(), &first},
			{"after one at the second address", []Record{first, second}, []*Identity{from("10.0.0.2", me())}, from("10.0.0.3", me()), &first},
			{"beside another principal", []Record{at(kind, "10.0.0.1", "other"), second}, nil, from("10.0.0.3", me()), &second},
		} {
			t.Run(fmt.Sprintf("4.%d %s", kind, c.name), func(t *testing.T) {
				d := &disk{records: map[name]Record{}}
				for _, r := range c.records {
					d.records[r.name()] = r
				}
				lives(t, d, func(t *testing.T, m *Manager) {
					for _, id := range c.before {
						_, s := comes(t, m, kind, id)
						is(t, "one at its place", s, ok)
					}
					pass(leaseTime / 2)
					id := c.client
					id.Verifier, id.Privileged = Verifier{9}, false
					client, s := comes(t, m, kind, id)
					is(t, "the client", s, ok)
					mayClaim(t, m, client)
					if r := m.grace.claims[client.name()]; c.shares != nil && (r == nil || r.Record != *c.shares) {
						t.Errorf("it shares the claim %+v, not that of %+v", r, *c.shares)
					}
				})
			})
		}
	}
}

// A client may reclaim each kind of state that one of its records names, at every place.
func TestClientWithTwoRecordsClaimsDenials(t *testing.T) {
	for kind := range Sessions + 1 {
		for _, address := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"} {
			d := &disk{records: map[name]Record{}}
			for _, r := range []Record{
				{Kind: kind, Owner: "client", Principal: "me", Address: netip.MustParseAddr("10.0.0.1"), Privileged: true, Held: HeldOpens},
				{Kind: kind, Owner: "client", Principal: "me", Address: netip.MustParseAddr("10.0.0.2"), Privileged: true, Held: HeldDenials},
			} {
				d.records[r.name()] = r
			}
			lives(t, d, func(t *testing.T, m *Manager) {
				pass(leaseTime / 2)
				c, s := comes(t, m, kind, from(address, me()))
				is(t, "the client", s, ok)
				g := m.acquire()
				is(t, "a claim with a deny mode", g.mayHold(c, KindOpen, AccessWrite, true), ok)
				g.release()
			})
		}
	}
}
