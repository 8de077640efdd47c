package state

import (
	"fmt"
	"net/netip"
	"testing"
	"time"
)

// ExchangeID follows the nine cases of RFC 8881 §18.35.4.
func TestExchangeIDCases(t *testing.T) {
	const inUse, noEnt, notSame, perm = NameTaken, NotFound,
		OtherVerifier, OtherPrincipal
	for _, c := range []struct {
		name            string
		confirmed, busy bool
		verifier        byte
		principal       string
		update          bool
		verdict         Verdict
		same            bool // the client keeps its client ID
		stays           bool // the earlier client still exists
	}{
		{"4: replacement", false, false, 1, "me", false, ok, false, false},
		{"4: replacement, other verifier", false, false, 2, "me", false, ok, false, false},
		{"4: replacement, other principal", false, false, 1, "you", false, ok, false, false},
		{"4: replacement, both", false, false, 2, "you", false, ok, false, false},
		{"2: non-update", true, false, 1, "me", false, ok, true, true},
		{"2: non-update, with state", true, true, 1, "me", false, ok, true, true},
		{"3: collision without state", true, false, 1, "you", false, ok, false, false},
		{"3: collision without state, other verifier", true, false, 2, "you", false, ok, false, false},
		{"3: collision with state", true, true, 1, "you", false, inUse, false, true},
		{"3: collision with state, other verifier", true, true, 2, "you", false, inUse, false, true},
		{"5: restart", true, true, 2, "me", false, ok, false, true},
		{"6: update", true, true, 1, "me", true, ok, true, true},
		{"7: update, unconfirmed", false, false, 1, "me", true, noEnt, false, true},
		{"7: update, unconfirmed, both others", false, false, 2, "you", true, noEnt, false, true},
		{"8: update, other verifier", true, true, 2, "me", true, notSame, false, true},
		{"8: update, other verifier and principal", true, true, 2, "you", true, notSame, false, true},
		{"9: update, other principal", true, true, 1, "you", true, perm, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := manager(t, Config{})
			defer m.Close()
			old := unconfirmed(t, m, identity("client", 1, "me"))
			if c.confirmed {
				is(t, "confirmation", m.Confirm(old), ok)
			}
			if c.busy {
				old.AddSessions(1)
			}
			x := m.ExchangeID(identity("client", c.verifier, c.principal), c.update)
			if x.Verdict != c.verdict || x.Expired != nil {
				t.Fatalf("%v (in the way: %v)", x.Verdict, x.Expired)
			}
			if x.Verdict == ok && (x.Client == old) != c.same {
				t.Errorf("client %#x after %#x", x.Client.ID, old.ID)
			}
			if x.Confirmed != (c.same && c.confirmed) {
				t.Errorf("confirmed: %v", x.Confirmed)
			}
			if stays := m.Client(old.ID) == old; stays != c.stays || (of(old).gone.Load() == 1) == c.stays {
				t.Errorf("the old client stays: %v, and was told %d times", stays, of(old).gone.Load())
			}
			if x.Client != nil && m.Client(x.Client.ID) != x.Client {
				t.Error("the client is not found")
			}
		})
	}
}

func TestNewOwner(t *testing.T) { // cases 1 and 7
	m := manager(t, Config{})
	defer m.Close()
	is(t, "update of nothing", m.ExchangeID(identity("a", 1, "me"), true).Verdict, NotFound)
	a, b := unconfirmed(t, m, identity("a", 1, "me")), unconfirmed(t, m, identity("b", 1, "me"))
	if a.ID == b.ID || !m.Issued(a.ID) {
		t.Errorf("%#x, %#x in %#x", a.ID, b.ID, m.Epoch())
	}
}

// An incarnation keeps its state until the next one is confirmed.
func TestConfirmationEndsTheIncarnationBefore(t *testing.T) {
	m := manager(t, Config{})
	defer m.Close()
	old := confirmed(t, m, identity("client", 1, "me"))
	next := unconfirmed(t, m, identity("client", 2, "me"))
	third := unconfirmed(t, m, identity("client", 3, "me"))
	if m.Client(old.ID) == nil || of(old).gone.Load() != 0 || m.Client(next.ID) != nil {
		t.Error("the old client went too soon, or the one that never confirmed itself did not")
	}
	is(t, "confirmation", m.Confirm(third), Granted)
	if m.Client(old.ID) != nil || of(old).gone.Load() != 1 || !old.Dying() {
		t.Error("the old client is still there")
	}
	is(t, "confirmation again", m.Confirm(third), Granted)
	is(t, "confirmation of one that is no more", m.Confirm(next), NoClient)
}

// An EXCHANGE_ID with the old verifier removes the new, unconfirmed incarnation, because it shows
// that the client did not restart.
func TestRestartThatIsTakenBack(t *testing.T) {
	m := manager(t, Config{})
	defer m.Close()
	old := confirmed(t, m, identity("client", 1, "me"))
	next := unconfirmed(t, m, identity("client", 2, "me"))
	if x := m.ExchangeID(identity("client", 1, "me"), false); x.Client != old {
		t.Fatalf("%+v", x)
	}
	is(t, "confirmation of the restart", m.Confirm(next), NoClient)
}

func TestUnconfirmedClientsAreBounded(t *testing.T) {
	m := manager(t, Config{})
	defer m.Close()
	first := unconfirmed(t, m, identity("first", 1, "me"))
	for i := range maxUnconfirmedFrom - 1 {
		unconfirmed(t, m, identity(fmt.Sprint(i), 1, "me"))
	}
	if m.Client(first.ID) == nil {
		t.Fatal("the first client went too soon")
	}
	unconfirmed(t, m, identity("last", 1, "me"))
	if m.Client(first.ID) != nil {
		t.Error("one address has more clients than it may")
	}
	for i := range 2 * maxUnconfirmed {
		id := identity(fmt.Sprint("far", i), 1, "me")
		id.Address = netip.AddrFrom4([4]byte{11, 0, byte(i >> 8), byte(i)})
		unconfirmed(t, m, id)
	}
	if n := m.clients.unconfirmed.Len(); n != maxUnconfirmed || len(m.clients.byID) != n || len(m.clients.byName) != n {
		t.Errorf("%d clients, %d by identity, %d by name", n, len(m.clients.byID), len(m.clients.byName))
	}
	if n := len(m.clients.from); n > maxUnconfirmed {
		t.Errorf("%d addresses", n)
	}
}

func TestConfirmedClientsAreBounded(t *testing.T) {
	m := manager(t, Config{})
	defer m.Close()
	for i := range maxClientsFrom {
		confirmed(t, m, identity(fmt.Sprint(i), 1, "me"))
	}
	c := unconfirmed(t, m, identity("last", 1, "me"))
	is(t, "one too many", m.Confirm(c), TryLater)
	is(t, "one in place of its own", m.Confirm(unconfirmed(t, m, identity("0", 2, "me"))), Granted)
	id := identity("other", 1, "me")
	id.Address = netip.MustParseAddr("10.0.0.2")
	is(t, "one of another address", m.Confirm(unconfirmed(t, m, id)), Granted)
	is(t, "one that goes", m.Destroy(m.clients.byName[identity("7", 1, "me").name(1)].confirmed), Granted)
	is(t, "the place that is free", m.Confirm(c), Granted)
}

// However many clients some addresses have, an address with few clients can have more.
func TestAddressesShareThePlacesOfClients(t *testing.T) {
	timed(t, Config{}, func(t *testing.T, m *Manager) {
		from := func(i int, owner string) Verdict {
			id := identity(owner, 1, "me")
			id.Address = netip.AddrFrom4([4]byte{10, 0, 1, byte(i)})
			return m.Confirm(unconfirmed(t, m, id))
		}
		const greedy = 9
		for i := range greedy {
			for n := 0; from(i, fmt.Sprint(i, " ", n)) == ok; n++ {
			}
		}
		for n := range maxClients / (greedy + 1) / 2 {
			s := from(greedy, fmt.Sprint("modest ", n))
			if s == TryLater {
				pass(time.Second)
				s = from(greedy, fmt.Sprint("modest ", n))
			}
			if is(t, "a client of another address", s, ok); s != ok {
				break
			}
		}
	})
}

// An address that sends EXCHANGE_ID with new names all the time does not displace the unconfirmed
// clients of other addresses.
func TestUnconfirmedClientsOfOthersStay(t *testing.T) {
	m := manager(t, Config{})
	defer m.Close()
	modest := unconfirmed(t, m, identity("modest", 1, "me"))
	for i := range 2 * maxUnconfirmed {
		id := identity(fmt.Sprint(i), 1, "me")
		id.Address = netip.AddrFrom4([4]byte{11, 0, 0, byte(i % 20)})
		unconfirmed(t, m, id)
	}
	is(t, "confirmation", m.Confirm(modest), ok)
}

func TestDestroy(t *testing.T) {
	m := manager(t, Config{})
	defer m.Close()
	c := confirmed(t, m, identity("client", 1, "me"))
	c.AddSessions(1)
	is(t, "one that is active", m.Destroy(c), HoldsState)
	c.AddSessions(-1)
	is(t, "one that is not", m.Destroy(c), Granted)
	is(t, "one that is no more", m.Destroy(c), NoClient)
	is(t, "an unconfirmed one", m.Destroy(unconfirmed(t, m, identity("client", 1, "me"))), Granted)
	if n := len(m.clients.byName) + len(m.clients.from) + len(m.clients.byID); n != 0 {
		t.Errorf("%d entries are left", n)
	}
}

// Client IDs are never reused, however many there were.
func TestIdentitiesDoNotComeAgain(t *testing.T) {
	m := manager(t, Config{Records: &disk{}})
	defer m.Close()
	m.clients.last = 1<<32 - 1000 // the 32 bits of earlier versions
	seen := map[uint64]bool{}
	for range 5000 {
		id := m.clients.nextID()
		if seen[id] {
			t.Errorf("%#x comes again", id)
		}
		if seen[id] = true; !m.Issued(id) {
			t.Errorf("%#x belongs to another start", id)
		}
	}
}

// The next client ID cannot be guessed from earlier ones.
func TestIdentitiesAreNotGuessed(t *testing.T) {
	m := manager(t, Config{})
	defer m.Close()
	near := 0
	for a, n := m.clients.nextID(), 0; n < 1000; n++ {
		b := m.clients.nextID()
		if d := int32(uint32(b) - uint32(a)); d > -1<<16 && d < 1<<16 {
			near++
		}
		a = b
	}
	if near > 5 {
		t.Errorf("%d of 1000 identities are near the one before", near)
	}
}

// Only a request with integrity protection comes from a guarded client (SP4_MACH_CRED). Without it,
// the request counts as another principal's, and changes nothing (RFC 8881 §2.4.3).
func TestGuardedClientIsKnownByIntegrityAlone(t *testing.T) {
	const inUse, perm = NameTaken, OtherPrincipal
	m := manager(t, Config{})
	defer m.Close()
	request := func(verifier byte, intact bool) *Identity {
		id := identity("client", verifier, "machine")
		id.Proven, id.Intact, id.Guarded = true, intact, intact
		return id
	}
	c := confirmed(t, m, request(1, true))
	c.AddSessions(1)
	next := unconfirmed(t, m, request(2, true))
	for verifier := range byte(4) {
		id := request(verifier, false)
		id.Address = netip.MustParseAddr("10.0.0.9")
		is(t, "EXCHANGE_ID without integrity", m.ExchangeID(id, false).Verdict, inUse)
	}
	is(t, "an update without integrity", m.ExchangeID(request(1, false), true).Verdict, perm)
	if m.Client(next.ID) == nil || c.hasMet(source{netip.MustParseAddr("10.0.0.9"), true}) {
		t.Error("a request without integrity has changed what is known of the client")
	}
	is(t, "an update", m.ExchangeID(request(1, true), true).Verdict, ok)
	is(t, "confirmation", m.Confirm(next), ok)
	if m.Client(c.ID) != nil {
		t.Error("the incarnation before is still there")
	}
}

// A client stays guarded (SP4_MACH_CRED) over a restart of the server. A request of its principal
// without integrity protection waits until the grace period ends, and the client itself reclaims
// its state (RFC 8881 §2.4.3). If a client restarts without asking for the protection, it and its
// record lose the protection.
func TestGuardedClientIsKnownByIntegrityAloneAfterARestart(t *testing.T) {
	request := func(verifier byte, intact, guarded bool) *Identity {
		id := identity("client", verifier, "machine")
		id.Proven, id.Intact, id.Guarded = true, intact, guarded
		return id
	}
	holds := func(verifier byte, intact, guarded bool) life {
		return func(t *testing.T, m *Manager) { complete(t, m, request(verifier, intact, guarded)) }
	}
	claims := func(verifier byte, intact, guarded bool) life {
		return func(t *testing.T, m *Manager) {
			c := confirmed(t, m, request(verifier, intact, guarded))
			is(t, "a claim", m.mayHoldNow(c, true), ok)
			s := m.ReclaimComplete(c, nil)
			is(t, "RECLAIM_COMPLETE", s, ok)
		}
	}
	refused := func(t *testing.T, m *Manager) {
		for verifier := range byte(4) {
			is(t, "EXCHANGE_ID without integrity", m.ExchangeID(request(verifier, false, false), false).Verdict, delay)
		}
		if !m.InGrace() {
			t.Error("requests without integrity have ended the grace period")
		}
	}
	lives(t, &disk{}, holds(1, true, true), refused, func(t *testing.T, m *Manager) {
		refused(t, m)
		claims(1, true, true)(t, m)
	}, refused, claims(2, true, true), refused)
	lives(t, &disk{}, holds(1, true, true), func(t *testing.T, m *Manager) {
		pass(2 * leaseTime)
		unconfirmed(t, m, request(9, false, false))
	})
	lives(t, &disk{}, func(t *testing.T, m *Manager) {
		holds(1, true, true)(t, m)
		holds(2, true, false)(t, m)
	}, claims(2, false, false))
	lives(t, &disk{}, holds(1, false, false), claims(1, true, true), refused)
}
