package state

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/nfsrdmad/nfsrdmad/test/doctables"
)

var here, there = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.9")

// These are the answers to: whose request is it?
const (
	theClient = "the client's"
	restarted = "the client's, after a restart"
	another   = "another client's"
	refused   = "refused"
)

// asked are the rows of the tables in docs/security.md: what a request names. Each function sends such a
// request, as the caller, to a new server, and says as whose it counted. 0 and 1 are minor versions.
var asked = map[string][2]func(t *testing.T, m *Manager, c *Client, by Caller) string{
	"a client ID of 4.0":             {namesID, nil},
	"a client ID of 4.1 or 4.2":      {nil, namesID},
	"the client's name":              {namesOwner, namesOwner},
	"the client's name and verifier": {namesInstance, namesInstance},
}

func namesID(t *testing.T, m *Manager, c *Client, by Caller) string {
	if m.SpeaksFor(c, &by) {
		return theClient
	}
	return refused
}

func namesOwner(t *testing.T, m *Manager, c *Client, by Caller) string {
	return registers(t, m, c, &Identity{Owner: []byte(c.Owner), Verifier: Verifier{9}, Caller: by, Companion: &companion{}})
}

func namesInstance(t *testing.T, m *Manager, c *Client, by Caller) string {
	return registers(t, m, c, &Identity{Owner: []byte(c.Owner), Verifier: c.Verifier, Caller: by, Companion: &companion{}})
}

// registers sends id by EXCHANGE_ID or SETCLIENTID, and confirms it. The client c is at work.
func registers(t *testing.T, m *Manager, c *Client, id *Identity) string {
	t.Helper()
	d, s := comes(t, m, c.Kind, id)
	switch {
	case s == NameTaken:
		return refused
	case s != ok:
		t.Errorf("%+v: %v", id, s)
		return s.String()
	case d == c:
		return theClient
	case m.Client(c.ID) == nil:
		return restarted
	}
	return another
}

// tried returns the rows of a table: each of the rows named is tried as each of the callers of each column. The
// client is what the very first of them made.
func tried(t *testing.T, rows []string, columns ...[]Caller) (out []string) {
	for _, row := range rows {
		cells := []string{row}
		for _, callers := range columns {
			counts := ""
			for _, by := range callers {
				for kind, send := range asked[row] {
					if send == nil {
						continue
					}
					m := manager(t, Config{})
					first := columns[0][0]
					first.Address, first.Intact = here, first.Proven
					c, s := comes(t, m, ClientKind(kind), &Identity{Owner: []byte("client"), Verifier: Verifier{1}, Caller: first, Companion: &companion{}})
					is(t, "the client", s, ok)
					c.AddSessions(1)
					count := send(t, m, c, by)
					if counts != "" && count != counts {
						t.Errorf("%s by %+v: %q in minor version 0, then %q", row, by, counts, count)
					}
					counts = count
					m.Close()
				}
			}
			cells = append(cells, counts)
		}
		out = append(out, "| "+strings.Join(cells, " | ")+" |")
	}
	return out
}

// Each cell of the tables in docs/security.md is tried, in both protocols.
func TestWhoSpeaksForAClient(t *testing.T) {
	doctables.Hold(t, "../../../docs/security.md", func(_, column string) (rows []string) {
		switch column {
		case "under `sec=sys`, a request with":
			return tried(t, []string{"a client ID of 4.0", "a client ID of 4.1 or 4.2", "the client's name", "the client's name and verifier"},
				[]Caller{{Principal: "uid 0", Address: here, Privileged: true}},
				[]Caller{{Principal: "uid 0", Address: here}},
				[]Caller{{Principal: "uid 0", Address: there, Privileged: true}},
				[]Caller{{Principal: "user", Proven: true, Address: here}, {Principal: "user", Proven: true, Address: there, Privileged: true}})
		case "with Kerberos, a request with":
			return tried(t, []string{"a client ID of 4.0", "a client ID of 4.1 or 4.2", "the client's name", "the client's name and verifier"},
				[]Caller{{Principal: "machine", Proven: true, Address: there, Privileged: true}, {Principal: "machine", Proven: true, Address: here}},
				[]Caller{{Principal: "user", Proven: true, Address: here, Privileged: true}},
				[]Caller{{Principal: "user", Proven: true, Address: here}, {Principal: "user", Proven: true, Address: there, Privileged: true}},
				[]Caller{{Principal: "uid 0", Address: here, Privileged: true}},
				[]Caller{{Principal: "uid 0", Address: here}, {Principal: "uid 0", Address: there, Privileged: true}})
		}
		return nil
	})
}

// A principal that is proven is told that another one has its name (RFC 8881 §18.35.4, cases 3 and 9; RFC 7530
// §16.33.5), until that client holds nothing.
func TestPrincipalsWithOneName(t *testing.T) {
	const inUse = NameTaken
	for kind := range Sessions + 1 {
		m := newManager(t)
		by := func(principal string, verifier byte, at netip.Addr) *Identity {
			return &Identity{Owner: []byte("client"), Verifier: Verifier{verifier}, Companion: &companion{},
				Caller: Caller{Principal: principal, Proven: true, Intact: true, Address: at}}
		}
		c, s := comes(t, m, kind, by("a", 1, here))
		is(t, "the first", s, ok)
		opensOne(t, m, c)
		for _, at := range []netip.Addr{here, there} {
			for verifier := range byte(2) {
				_, s = comes(t, m, kind, by("b", 1+verifier, at))
				is(t, "the second", s, inUse)
			}
		}
		if kind == 1 {
			is(t, "its update", m.ExchangeID(by("b", 1, there), true).Verdict, OtherPrincipal)
			is(t, "its update of what is not", m.ExchangeID(by("b", 2, there), true).Verdict, OtherVerifier)
			unproven := by("uid 0", 1, here)
			unproven.Proven = false
			is(t, "an update that proves nothing", m.ExchangeID(unproven, true).Verdict, OtherPrincipal)
		}
		same, s := comes(t, m, kind, by("a", 1, there))
		if is(t, "the first elsewhere", s, ok); same != c {
			t.Error("it is another client there")
		}
		d, s := comes(t, m, kind, by("a", 2, there))
		if is(t, "the first after a restart elsewhere", s, ok); m.Client(c.ID) != nil {
			t.Error("it was another client before its restart")
		}
		next, s := comes(t, m, kind, by("b", 1, here))
		if is(t, "the second, when the first holds nothing", s, ok); m.Client(d.ID) != nil || next == nil {
			t.Error("both have the name")
		}
	}
}

// opensOne has a client open a file.
func opensOne(t *testing.T, m *Manager, c *Client) {
	t.Helper()
	if c.Kind == 0 {
		o, _ := m.OwnerOf(c, []byte("owner"), false)
		if _, s := m.Open(&OpenArgs{Client: c, Owner: o, Key: fileKey(1), Access: AccessRead}); s != ok {
			t.Fatal(s)
		}
		return
	}
	m.ReclaimComplete(c, nil)
	open(t, m, c, "owner", fileKey(1), AccessRead, 0)
}

// Wherever the principal of a client has been proven, the users of the machine may use the client ID too, from
// ports of the same rank, and in minor version 0 from everywhere if they prove who they are. A program of an
// ordinary user does not speak for the kernel of its machine, whichever principal it proves.
func TestPrincipalBringsItsMachine(t *testing.T) {
	for kind := range Sessions + 1 {
		m := newManager(t)
		machine := Caller{Principal: "machine", Proven: true, Intact: true, Address: here, Privileged: true}
		c, s := comes(t, m, kind, &Identity{Owner: []byte("client"), Caller: machine, Companion: &companion{}})
		is(t, "the client", s, ok)
		user, root, program := Caller{Principal: "user", Proven: true, Address: there}, Caller{Address: there, Privileged: true}, Caller{Address: there}
		may := func(what string, want ...bool) {
			t.Helper()
			for i, by := range []*Caller{&user, &root, &program} {
				if m.SpeaksFor(c, by) != want[i] {
					t.Errorf("minor version %d, %s: %+v speaks for the client: %v", kind, what, *by, !want[i])
				}
			}
		}
		may("at first", kind == 0, false, false)
		machine.Address = there
		may("as before", kind == 0, false, false)
		if !m.SpeaksFor(c, &machine) {
			t.Error("the principal does not speak for its client")
		}
		may("where the principal was", kind == 0, true, false)
		machine.Privileged = false // the mount option noresvport, or an address translator
		m.SpeaksFor(c, &machine)
		may("at a port that is not privileged", true, true, true)
		for i := range 2 * maxMet {
			machine.Address = netip.AddrFrom4([4]byte{10, 0, 1, byte(i)})
			m.SpeaksFor(c, &machine)
		}
		if n := len(*c.known.met.Load()); n != maxMet {
			t.Errorf("%d sources are remembered", n)
		}
	}
}

// A client that comes back with another address or port after its restart waits for nothing, and its former
// incarnation keeps what it holds for no longer than a lease.
func TestClientThatMovesWhileItRestarts(t *testing.T) {
	for kind := range Sessions + 1 {
		for _, moved := range []Caller{{Principal: "me", Address: there, Privileged: true}, {Principal: "me", Address: here}} {
			timed(t, Config{}, func(t *testing.T, m *Manager) {
				held := func(id *Identity) (*Client, Verdict) {
					c, s := comes(t, m, kind, id)
					if s == ok && kind == 1 {
						m.ReclaimComplete(c, nil)
					}
					return c, s
				}
				old, s := held(identity("client", 1, "me"))
				is(t, "the client", s, ok)
				open(t, m, old, "owner", fileKey(1), AccessWrite, AccessBoth)
				id := identity("client", 2, "me")
				id.Caller = moved
				c, s := held(id)
				is(t, "after its restart", s, ok)
				pass(2 * leaseTime)
				m.Renew(c)
				open(t, m, c, "owner", fileKey(1), AccessWrite, AccessBoth)
			})
		}
	}
}

// A client whose address or port changes while it runs is the same client, and keeps its state.
func TestClientThatMovesWhileItRuns(t *testing.T) {
	for kind := range Sessions + 1 {
		for _, moved := range []Caller{{Principal: "me", Address: there, Privileged: true}, {Principal: "me", Address: here}} {
			t.Run(fmt.Sprint("4.", kind, " ", moved), func(t *testing.T) {
				m := newManager(t)
				c, s := comes(t, m, kind, identity("client", 1, "me"))
				is(t, "the client", s, ok)
				opensOne(t, m, c)
				if before := m.SpeaksFor(c, &moved); before != (kind == 0) {
					t.Errorf("it speaks for itself by its client ID alone: %v", before)
				}
				id := identity("client", 1, "me")
				id.Caller = moved
				if again, s := comes(t, m, kind, id); again != c || s != ok {
					t.Errorf("%v, %v", again, s)
				}
				if !m.SpeaksFor(c, &moved) {
					t.Error("it does not speak for itself")
				}
				if kind == 1 {
					is(t, "an update", m.ExchangeID(id, true).Verdict, ok)
				}
			})
		}
	}
}

// Where a client has shown its verifier, a later incarnation replaces it, though the client was made at another
// place: Linux ends what it has lost by another verifier, and then registers with its own one again. The records
// follow. Elsewhere, and as another principal, such an incarnation is another client.
func TestClientThatMovedRestarts(t *testing.T) {
	for kind := range Sessions + 1 {
		for _, moved := range []Caller{{Principal: "me", Address: there, Privileged: true}, {Principal: "me", Address: here}} {
			d := &disk{}
			timed(t, Config{Records: d}, func(t *testing.T, m *Manager) {
				at := func(by Caller, verifier byte) *Client {
					t.Helper()
					id := identity("client", verifier, "me")
					id.Caller = by
					c, s := comes(t, m, kind, id)
					if is(t, "the client", s, ok); c == nil {
						t.FailNow()
					}
					return c
				}
				home := me().Caller
				c := at(home, 1)
				is(t, "its record", m.Record(c, KindOpen, 0, nil), ok)
				opensOne(t, m, c)
				if at(moved, 1) != c {
					t.Error("it is another client")
				}
				third, user := moved, moved
				third.Address = netip.MustParseAddr("10.0.0.17")
				user.Principal = "user"
				at(third, 0xfe)
				at(user, 0xfe)
				if m.Client(c.ID) != c {
					t.Fatal("another client ends it")
				}
				purge := at(moved, 0xff)
				if m.Client(c.ID) != nil || purge == c || len(m.clients.byAlias) != 0 {
					t.Fatalf("it is not replaced; aliases %v", m.clients.byAlias)
				}
				again := at(moved, 1)
				if again == c || again == purge || m.Client(purge.ID) != nil {
					t.Error("it does not begin anew")
				}
				is(t, "its record", m.Record(again, KindOpen, 0, nil), ok)
				synctest.Wait()
				if _, is := d.records[c.name()]; is || len(d.records) != 1 {
					t.Errorf("records %+v", d.records)
				}
				at(home, 2) // where it was at first, it has not been since
				if m.Client(again.ID) == nil {
					t.Error("it is replaced from where it has not been")
				}
			})
		}
	}
}

// The places from which a client has shown its verifier are bounded, and go with it.
func TestAliasesAreBounded(t *testing.T) {
	m := newManager(t)
	c, _ := comes(t, m, 1, identity("client", 1, "me"))
	for i := range 3 * maxMet {
		for range 2 {
			comes(t, m, 1, from(fmt.Sprintf("10.1.0.%d", i), identity("client", 1, "me")))
		}
	}
	if n := len(c.known.aliases); n != maxMet || len(m.clients.byAlias) != n {
		t.Errorf("%d places, %d in the table", n, len(m.clients.byAlias))
	}
	if is(t, "DESTROY_CLIENTID", m.Destroy(c), ok); len(m.clients.byAlias) != 0 {
		t.Errorf("left over: %v", m.clients.byAlias)
	}
}
