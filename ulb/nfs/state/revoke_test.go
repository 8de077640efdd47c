package state

import (
	"fmt"
	"testing"
	"testing/synctest"
)

const (
	adminRevoked = RevokedID
	revokedFlag  = NoticeRevoked
)

// A revocable client has a file open and a byte of it locked.
type revocable struct {
	*Client
	open, lock StateID
	key        FileKey
}

func lockFirst(t *testing.T, m *Manager, c *Client, key FileKey) *revocable {
	t.Helper()
	r := &revocable{Client: c, open: open(t, m, c, "o", key, AccessBoth, 0), key: key}
	var s Verdict
	r.lock, _, s = m.Lock(&LockArgs{Ref: Ref{ID: r.open, Client: c, Key: key}, New: true, OwnerName: []byte("o"), Length: 1, Write: true})
	is(t, "LOCK", s, ok)
	return r
}

// SEQUENCE tells a client that the server revoked state of it, until the client has freed all of
// that state. Until then the client may reclaim nothing after a restart, because another client may
// have got conflicting state.
func TestClientWithRevokedStateIsToldAndMayNotClaim(t *testing.T) {
	for _, freed := range []bool{false, true} {
		key, other := fileKey(1), fileKey(2)
		other.Domain = "another"
		lives(t, &disk{}, func(t *testing.T, m *Manager) {
			a := lockFirst(t, m, complete(t, m, identity("a", 1, "me")), key)
			kept := open(t, m, a.Client, "o", other, AccessRead, 0)
			m.Revoke(key.Domain)
			for what, id := range map[string]*StateID{"the open": &a.open, "the lock": &a.lock} {
				_, s := m.Find(id, a.Client)
				is(t, what, s, adminRevoked)
				_, s = m.Resolve(&Ref{ID: *id, Client: a.Client, Key: FileKey{"the export is back", key.Handle}}, 0)
				is(t, what+" of the file when it is served again", s, adminRevoked)
			}
			_, s := m.CloseOpen(&Ref{ID: a.open, Client: a.Client, Key: key}, false)
			is(t, "CLOSE", s, adminRevoked)
			_, s = m.Find(&kept, a.Client)
			is(t, "what another file system has", s, ok)
			b := lockFirst(t, m, complete(t, m, identity("b", 1, "me")), key)
			if m.Notices(a.Client) != revokedFlag || m.Notices(b.Client) != 0 {
				t.Errorf("SEQUENCE says %#x, and %#x to another client", m.Notices(a.Client), m.Notices(b.Client))
			}
			is(t, "FREE_STATEID of another client", m.FreeStateID(&a.lock, b.Client), UnknownID)
			if !freed {
				return
			}
			is(t, "FREE_STATEID", m.FreeStateID(&a.lock, a.Client), ok)
			is(t, "FREE_STATEID again", m.FreeStateID(&a.lock, a.Client), UnknownID)
			if m.Notices(a.Client) != revokedFlag {
				t.Error("the client is told no more, and has not freed all")
			}
			is(t, "FREE_STATEID", m.FreeStateID(&a.open, a.Client), ok)
			if m.Notices(a.Client) != 0 {
				t.Error("the client is told when it has freed all")
			}
			synctest.Wait()
		}, func(t *testing.T, m *Manager) {
			a, b := confirmed(t, m, identity("a", 1, "me")), confirmed(t, m, identity("b", 1, "me"))
			want := noGrace
			if freed {
				want = ok
			}
			is(t, "its claim", m.mayHoldNow(a, true), want)
			is(t, "the claim of a client that has it now", m.mayHoldNow(b, true), ok)
			s := m.ReclaimComplete(a, nil)
			is(t, "RECLAIM_COMPLETE", s, ok)
		}, func(t *testing.T, m *Manager) {
			is(t, "a claim of what it held since", m.mayHoldNow(confirmed(t, m, identity("a", 1, "me")), true), ok)
		})
	}
}

// A client of minor version 0 gets NFS4ERR_ADMIN_REVOKED as well. It has no FREE_STATEID: it may reclaim state
// again when it has closed the file, or as its next incarnation.
func TestRevokedOfMinorVersion0(t *testing.T) {
	for _, c := range []struct{ closes, again bool }{{false, false}, {true, false}, {false, true}} {
		again := c.again
		key := fileKey(1)
		lives(t, &disk{}, func(t *testing.T, m *Manager) {
			a := v40(t, m, identity("a", 1, "me"))
			if s := m.Record(a, KindOpen, 0, nil); s != ok {
				t.Fatal(s)
			}
			o, s := m.OwnerOf(a, []byte("o"), false)
			is(t, "an owner", s, ok)
			got, s := m.Open(&OpenArgs{Client: a, Owner: o, Key: key, Access: AccessBoth})
			is(t, "OPEN", s, ok)
			m.Revoke(key.Domain)
			owner, s := m.OwnerOfState(&got.ID, KindOpen)
			if is(t, "whose number the CLOSE has", s, ok); owner != o {
				t.Error("it is another owner")
			}
			_, s = m.Downgrade(&Ref{ID: got.ID, Key: key}, AccessRead, 0)
			is(t, "OPEN_DOWNGRADE", s, adminRevoked)
			if c.closes {
				_, s = m.CloseOpen(&Ref{ID: got.ID, Key: key}, false)
				is(t, "CLOSE", s, adminRevoked)
				synctest.Wait() // the sweep writes the record
			}
			if again {
				a = v40(t, m, identity("a", 2, "me"))
				if s := m.Record(a, KindOpen, 0, nil); s != ok {
					t.Fatal(s)
				}
			}
		}, func(t *testing.T, m *Manager) {
			want := noGrace
			if again || c.closes {
				want = ok
			}
			is(t, "its claim", m.mayHoldNow(v40(t, m, identity("a", 2, "me")), true), want)
		})
	}
}

// If the disk cannot record a revocation, no client gets new state until it can.
func TestRevocationThatIsNotWritten(t *testing.T) {
	d, key := &disk{}, fileKey(1)
	lives(t, d, func(t *testing.T, m *Manager) {
		a := lockFirst(t, m, complete(t, m, identity("a", 1, "me")), key)
		b := complete(t, m, identity("b", 1, "me"))
		d.breakDown(true)
		m.Revoke(key.Domain)
		_, s := m.Find(&a.open, a.Client)
		is(t, "the open", s, adminRevoked)
		is(t, "a wish of another client", m.mayHoldNow(b, false), delay)
		pass(leaseTime / 2)
		is(t, "a wish of another client", m.mayHoldNow(b, false), delay)
		d.breakDown(false)
		pass(leaseTime / 4)
		is(t, "a wish when it is written", m.mayHoldNow(b, false), ok)
	}, func(t *testing.T, m *Manager) {
		is(t, "its claim", m.mayHoldNow(confirmed(t, m, identity("a", 1, "me")), true), noGrace)
	})
}

// When the server ends, it revokes nothing, although it closes all file systems.
func TestEndOfTheServerRevokesNothing(t *testing.T) {
	d, key := &disk{}, fileKey(1)
	synctest.Test(t, func(t *testing.T) {
		m := manager(t, Config{Records: d})
		lockFirst(t, m, complete(t, m, me()), key)
		m.Close()
		m.Revoke(key.Domain)
		m = manager(t, Config{Records: d})
		defer m.Close()
		is(t, "a claim", m.mayHoldNow(confirmed(t, m, me()), true), ok)
	})
}

// If a client does not free its revoked stateids, they end when the client is removed.
func TestRevokedGoesWithItsClient(t *testing.T) {
	timed(t, Config{Records: &disk{}}, func(t *testing.T, m *Manager) {
		a := lockFirst(t, m, complete(t, m, identity("a", 1, "me")), fileKey(1))
		m.Revoke(a.key.Domain)
		if u := m.Usage(); u.Opens+u.Locks+u.Ranges+u.Files != 0 || u.Memory == 0 {
			t.Errorf("revoked: %+v", u)
		}
		is(t, "DESTROY_CLIENTID", m.Destroy(a.Client), ok)
		nothingLeft(t, m)
	})
}

// After a restart, the next incarnation of a client may reclaim its state, although state of the
// incarnation before it was revoked. In the case "freed" the client freed all of it while the disk
// failed. In the case "claimed" it had reclaimed the state in the grace period.
func TestNextIncarnationClaimsAfterARevocation(t *testing.T) {
	d, key := &disk{}, fileKey(1)
	held := func(t *testing.T, m *Manager) *revocable {
		return lockFirst(t, m, complete(t, m, identity("a", 1, "me")), key)
	}
	again := func(t *testing.T, m *Manager) {
		is(t, "its claim", m.mayHoldNow(confirmed(t, m, identity("a", 2, "me")), true), ok)
	}
	t.Run("freed", func(t *testing.T) {
		lives(t, d, func(t *testing.T, m *Manager) {
			a := held(t, m)
			m.Revoke(key.Domain)
			d.breakDown(true)
			is(t, "FREE_STATEID", m.FreeStateID(&a.lock, a.Client), ok)
			is(t, "FREE_STATEID", m.FreeStateID(&a.open, a.Client), ok)
			synctest.Wait()
			d.breakDown(false)
			complete(t, m, identity("a", 2, "me"))
			pass(leaseTime / 2)
		}, again)
	})
	d = &disk{}
	t.Run("claimed", func(t *testing.T) {
		lives(t, d, func(t *testing.T, m *Manager) { held(t, m) }, func(t *testing.T, m *Manager) {
			a := confirmed(t, m, identity("a", 1, "me"))
			_, s := m.Open(&OpenArgs{Client: a, OwnerName: []byte("o"), Key: key, Access: AccessBoth, Claimed: true})
			is(t, "OPEN", s, ok)
			m.Revoke(key.Domain)
			complete(t, m, identity("a", 2, "me"))
		}, again)
	})
}

// eachClient visits the clients that exist from its begin to its end, each once, and no others.
func TestEachClientThatStays(t *testing.T) {
	lives(t, &disk{}, func(t *testing.T, m *Manager) {
		visited := make(map[*Client]int)
		var all []*Client
		for _, name := range []string{"a", "b", "c"} {
			all = append(all, complete(t, m, identity(name, 1, "me")))
		}
		var gone *Client
		m.eachClient(m.AllClients(), func(g *guard, c *Client) {
			if gone == nil { // the first call removes a client that was not visited yet, and adds one
				gone = all[0]
				if gone == c {
					gone = all[1]
				}
				g.remove(gone)
				g.add(1, identity("d", 1, "me"))
			}
			visited[c]++
		})
		for _, c := range all {
			if want := map[bool]int{true: 0, false: 1}[c == gone]; visited[c] != want {
				t.Errorf("visited %d times, want %d", visited[c], want)
			}
		}
		if len(visited) != 2 {
			t.Errorf("%d clients visited, want 2", len(visited))
		}
	})
}

// A client of minor version 0 cannot free revoked stateids. It is told by the answer to its CLOSE, and goes on.
// Later it has other files open, one of them with a deny mode. After a restart it may claim these, as if nothing
// had been revoked, and until then others do not get them.
func TestRevocationOfMinorVersion0IsAcknowledged(t *testing.T) {
	key, other := fileKey(1), FileKey{"another export", fileKey(2).Handle}
	open40 := func(t *testing.T, m *Manager, c *Client, owner string, key FileKey, deny Access) (o Opening, own *Owner) {
		t.Helper()
		own, s := m.OwnerOf(c, []byte(owner), false)
		is(t, "an owner", s, ok)
		is(t, "the record", m.Record(c, KindOpen, deny, nil), ok)
		o, s = m.Open(&OpenArgs{Client: c, Owner: own, Key: key, Access: AccessBoth, Deny: deny})
		is(t, "OPEN", s, ok)
		if o.Confirm {
			o.ID, s = m.ConfirmOpen(&Ref{ID: o.ID, Key: key})
			is(t, "OPEN_CONFIRM", s, ok)
		}
		return o, own
	}
	lives(t, &disk{}, func(t *testing.T, m *Manager) {
		a := v40(t, m, identity("a", 1, "me"))
		o, _ := open40(t, m, a, "o", key, 0)
		m.Revoke(key.Domain)
		for range 2 { // the client may repeat the request
			_, s := m.CloseOpen(&Ref{ID: o.ID, Key: key}, false)
			is(t, "CLOSE: the client is told", s, adminRevoked)
			own, s := m.OwnerOfState(&o.ID, KindOpen)
			is(t, "the owner", s, ok)
			if own == nil || m.Usage().Opens != 0 {
				t.Errorf("%v, %+v", own, m.Usage())
			}
		}
		for i := range 100 {
			pass(leaseTime / 2)
			m.Renew(a)
			open40(t, m, a, fmt.Sprint("o", i), FileKey{"another export", fileKey(10 + i).Handle}, 0)
		}
		open40(t, m, a, "p", other, AccessBoth)
	}, func(t *testing.T, m *Manager) {
		if !m.InGrace() {
			t.Error("there is no grace period")
		}
		b := complete(t, m, identity("b", 1, "me"))
		is(t, "the record", m.Record(b, KindOpen, AccessBoth, nil), ok)
		if _, s := m.Open(&OpenArgs{Client: b, OwnerName: []byte("o"), Key: other, Access: AccessBoth, Deny: AccessBoth}); s == ok {
			t.Error("another client has the file, no time after the restart")
		}
		a := v40(t, m, identity("a", 1, "me"))
		own, s := m.OwnerOf(a, []byte("p"), false)
		is(t, "an owner", s, ok)
		is(t, "the record", m.Record(a, KindOpen, AccessBoth, nil), ok)
		_, s = m.Open(&OpenArgs{Client: a, Owner: own, Key: other, Access: AccessBoth, Deny: AccessBoth, Claimed: true})
		is(t, "the claim", s, ok)
	})
}

// A client that has not been told yet may claim nothing after a restart. But others get no state before it had the
// time to find that out, and its name is kept for it.
func TestRevocationThatIsNotKnownHasItsGrace(t *testing.T) {
	key, other := fileKey(1), FileKey{"another export", fileKey(2).Handle}
	lives(t, &disk{}, func(t *testing.T, m *Manager) {
		a := complete(t, m, identity("a", 1, "me"))
		open(t, m, a, "o", key, AccessBoth, 0)
		open(t, m, a, "p", other, AccessBoth, AccessBoth)
		m.Revoke(key.Domain)
	}, func(t *testing.T, m *Manager) {
		if !m.InGrace() || m.files.denials.all.Load() != 0 {
			t.Errorf("in grace: %v, with %d deny modes to be claimed", m.InGrace(), m.files.denials.all.Load())
		}
		b := complete(t, m, identity("b", 1, "me"))
		is(t, "the record", m.Record(b, KindOpen, 0, nil), ok)
		_, s := m.Open(&OpenArgs{Client: b, OwnerName: []byte("o"), Key: other, Access: AccessBoth})
		is(t, "another's OPEN", s, inGrace)
		if r := m.ExchangeID(identity("a", 1, "another"), false); r.Verdict != delay {
			t.Errorf("another's EXCHANGE_ID by the name: %v", r.Verdict)
		}
		a := confirmed(t, m, identity("a", 1, "me"))
		_, s = m.Open(&OpenArgs{Client: a, OwnerName: []byte("p"), Key: other, Access: AccessBoth, Deny: AccessBoth, Claimed: true})
		is(t, "its claim", s, noGrace)
		is(t, "RECLAIM_COMPLETE", m.ReclaimComplete(a, nil), ok)
		synctest.Wait()
		if m.InGrace() {
			t.Error("the grace period goes on, although all are done")
		}
	})
}
