package identity

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// site is a Map with its own files and a directory service.
type site struct {
	*Map
	client netip.Addr
	now    time.Time
	asked  []string
	lines  map[string]string // by "database key"
	// failing is the error that the service returns, or nil.
	failing error
}

func newSite(t testing.TB) *site {
	s := &site{client: netip.MustParseAddr("192.0.2.1"), now: time.Unix(1e9, 0), lines: map[string]string{
		"passwd far": "far:x:5000:5001:::", "passwd 5000": "far:x:5000:5001:::", "group crowd": "crowd:x:6000:far",
		"passwd wrong": "other:x:1:1:::", "initgroups far": "far  5001 6000 100",
	}}
	write := func(name, content string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	s.Map = New(Config{
		Domain: "example.org",
		Passwd: write("passwd", "root:x:0:0:root:/root:/bin/sh\n# no line\nann:x:1000:100::/home/ann:/bin/sh\nbroken:x:y:0::\n"),
		Group:  write("group", "root:x:0:\nusers:x:100:\nstaff:x:50:bob,far,ann\n"),
		Ask: func(_ context.Context, database, key string) ([]byte, error) {
			s.asked = append(s.asked, database+" "+key)
			return []byte(s.lines[database+" "+key]), s.failing
		},
		Now: func() time.Time { return s.now },
	})
	return s
}

func TestNumberOfAName(t *testing.T) {
	s := newSite(t)
	for _, c := range []struct {
		kind Kind
		sent string
		id   uint32
		err  error
	}{
		{User, "0", 0, nil}, {User, "1000", 1000, nil}, {User, "77", 77, nil}, {Group, "4294967294", 4294967294, nil},
		{User, "ann@example.org", 1000, nil}, {User, "ann@EXAMPLE.org", 1000, nil}, {Group, "users@example.org", 100, nil},
		{User, "far@example.org", 5000, nil}, {Group, "crowd@example.org", 6000, nil},
		{User, "ann", 0, ErrUnknown}, {User, "ann@elsewhere.org", 0, ErrUnknown}, {User, "ann@", 0, ErrUnknown}, {User, "", 0, ErrUnknown},
		{User, "@example.org", 0, ErrUnknown}, {User, "users@example.org", 0, ErrUnknown}, {User, "broken@example.org", 0, ErrUnknown},
		{User, "4294967295", 0, ErrUnknown}, {User, "99999999999", 0, ErrUnknown}, {User, "007", 0, ErrUnknown}, {User, "-1", 0, ErrUnknown},
		{User, "wrong@example.org", 0, ErrUnknown}, {User, "-r@example.org", 0, ErrUnknown}, {User, "a:b@example.org", 0, ErrUnknown},
		{User, "a\nb@example.org", 0, ErrUnknown}, {User, "\xff@example.org", 0, ErrUnknown},
	} {
		id, err := s.Number(s.client, c.kind, []byte(c.sent), false)
		if !errors.Is(err, c.err) || err == nil && id != c.id {
			t.Errorf("%q: %d, %v", c.sent, id, err)
		}
	}
	for _, asked := range s.asked {
		if !slices.Contains([]string{"passwd far", "group crowd", "passwd users", "passwd broken", "passwd wrong"}, asked) {
			t.Errorf("asked for %q", asked)
		}
	}
}

func TestNameOfANumber(t *testing.T) {
	s := newSite(t)
	for _, c := range []struct {
		kind Kind
		id   uint32
		want string
	}{
		{User, 0, "root@example.org"}, {User, 1000, "ann@example.org"}, {Group, 50, "staff@example.org"}, {User, 5000, "far@example.org"},
		{User, 4711, "4711"}, {Group, 1000, "1000"},
	} {
		got, err := s.Append([]byte(">"), s.client, c.kind, c.id, false)
		if err != nil || string(got) != ">"+c.want {
			t.Errorf("%d: %q, %v", c.id, got, err)
		}
	}
}

// With try, a call returns vfs.ErrWouldBlock for a name or number that the Map does not remember.
func TestOnlyRememberedNamesAreKnownAtOnce(t *testing.T) {
	s := newSite(t)
	blocked := func(what string, want bool) {
		t.Helper()
		_, err := s.Number(s.client, User, []byte("ann@example.org"), true)
		_, err2 := s.Append(nil, s.client, User, 4711, true)
		if got := errors.Is(err, vfs.ErrWouldBlock); got != want || errors.Is(err2, vfs.ErrWouldBlock) != want {
			t.Errorf("%s: %v, %v", what, err, err2)
		}
	}
	blocked("at first", true)
	look := func() {
		if _, err := s.Number(s.client, User, []byte("ann@example.org"), false); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Append(nil, s.client, User, 4711, false); err != nil {
			t.Fatal(err)
		}
	}
	look()
	blocked("once it was looked up", false)
	s.now = s.now.Add(DefaultUnknownAge + time.Second)
	if _, err := s.Append(nil, s.client, User, 4711, true); !errors.Is(err, vfs.ErrWouldBlock) {
		t.Errorf("that there is no such user was remembered for longer: %v", err)
	}
	s.now = s.now.Add(DefaultAge)
	blocked("when it is old", true)
}

// Names that clients invent use a limited amount of memory and displace no remembered name that
// exists.
func TestRememberedNamesAreBounded(t *testing.T) {
	s := newSite(t)
	if _, err := s.Number(s.client, User, []byte("far@example.org"), false); err != nil {
		t.Fatal(err)
	}
	for i := range 3 * maxKnown {
		client := netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})
		if _, err := s.Number(client, User, fmt.Appendf(nil, "u%d@example.org", i), false); !errors.Is(err, ErrUnknown) && !errors.Is(err, vfs.ErrDelay) {
			t.Fatal(err)
		}
		s.now = s.now.Add(time.Millisecond)
	}
	if n := len(s.byName[User].missing); n > maxKnown || n == 0 {
		t.Errorf("%d names", n)
	}
	if n := len(s.names.addresses); n > maxAddresses+1 {
		t.Errorf("%d addresses", n)
	}
	if _, err := s.Number(s.client, User, []byte("far@example.org"), true); err != nil {
		t.Errorf("what was found is forgotten for what was not: %v", err)
	}
}

// If one client sends very many names of users, the Map looks up a limited number of them, and
// returns vfs.ErrDelay for the others at once. This does not delay clients of other addresses. An
// IPv6 client counts as its /64 prefix.
func TestClientThatNamesUsersWithoutEnd(t *testing.T) {
	for _, c := range []struct {
		name   string
		client func(i int) netip.Addr
	}{
		{"IPv4", func(int) netip.Addr { return netip.MustParseAddr("192.0.2.66") }},
		{"IPv6", func(i int) netip.Addr {
			a := netip.MustParseAddr("2001:db8::").As16()
			a[14], a[15] = byte(i>>8), byte(i)
			return netip.AddrFrom16(a)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t)
			serial := 0
			// name sends the name of one more user, as a call does: first with try, then without.
			name := func() error {
				serial++
				sent := fmt.Appendf(nil, "u%d@example.org", serial)
				_, err := s.Number(c.client(serial), User, sent, true)
				if errors.Is(err, vfs.ErrWouldBlock) {
					_, err = s.Number(c.client(serial), User, sent, false)
				}
				return err
			}
			looked := func(times int) (n int) {
				for range times {
					switch err := name(); {
					case errors.Is(err, ErrUnknown):
						n++
					case !errors.Is(err, vfs.ErrDelay):
						t.Fatal(err)
					}
				}
				return n
			}
			if n := looked(10_000); n != nameBurst || len(s.asked) != nameBurst {
				t.Errorf("%d users looked up at once, and %d asked for", n, len(s.asked))
			}
			s.now = s.now.Add(time.Second)
			if n := looked(10_000); n != 10 {
				t.Errorf("%d users looked up a second later", n)
			}
			if id, err := s.Number(s.client, User, []byte("far@example.org"), false); err != nil || id != 5000 {
				t.Errorf("of another address: %d, %v", id, err)
			}
			// An answer from memory does not count as a look-up.
			if id, err := s.Number(c.client(1), User, []byte("far@example.org"), true); err != nil || id != 5000 {
				t.Errorf("what is remembered: %d, %v", id, err)
			}
			s.now = s.now.Add(time.Minute)
			if n := looked(10_000); n != nameBurst {
				t.Errorf("%d users looked up a minute later", n)
			}
		})
	}
}

// If a client asks for the owners of files and these are very many users, the Map looks up a
// limited number of them, and returns digits for the others.
func TestClientThatShowsNumbersWithoutEnd(t *testing.T) {
	s := newSite(t)
	for i := range 3 * numberBurst {
		id := uint32(10_000 + i)
		b, err := s.Append(nil, s.client, User, id, true)
		if errors.Is(err, vfs.ErrWouldBlock) {
			b, err = s.Append(nil, s.client, User, id, false)
		}
		if err != nil || string(b) != digits(id) {
			t.Fatalf("%d: %q, %v", id, b, err)
		}
	}
	if n := len(s.asked); n != numberBurst {
		t.Errorf("asked %d times", n)
	}
	if b, err := s.Append(nil, netip.MustParseAddr("192.0.2.2"), User, 5000, false); err != nil || string(b) != "far@example.org" {
		t.Errorf("of another address: %q, %v", b, err)
	}
}

// The addresses of one site together have a limited number of look-ups, however many they are. They cost
// other sites none, and another address of the site has some while the others are few.
func TestManyAddressesOfASiteThatNameUsers(t *testing.T) {
	s := newSite(t)
	client := func(i int) netip.Addr {
		return netip.AddrFrom16([16]byte{0x20, 1, 0x0d, 0xb8, 6: byte(i >> 8), 7: byte(i), 15: 1})
	}
	for i := range 3 * maxAddresses {
		s.Number(client(i%300), User, fmt.Appendf(nil, "u%d@example.org", i), false)
	}
	if n := len(s.asked); n != siteLooks*nameBurst {
		t.Errorf("asked %d times", n)
	}
	for i := range 3 * maxAddresses {
		s.Number(client(i), User, fmt.Appendf(nil, "v%d@example.org", i), false)
		s.now = s.now.Add(nameEvery / siteLooks / 2)
	}
	if n := len(s.asked) - siteLooks*nameBurst; n > 3*maxAddresses/2 {
		t.Errorf("asked %d times, and half of %d is the most", n, 3*maxAddresses)
	}
	if _, err := s.Number(s.client, User, []byte("far@example.org"), false); err != nil {
		t.Errorf("of another site: %v", err)
	}
	if n := len(s.names.addresses); n > maxAddresses || int64(n) != s.names.room.Held() {
		t.Errorf("%d addresses, and %d", n, s.names.room.Held())
	}
}

// The Map counts a limited number of sites separately. All others share the look-ups of one address.
func TestManySitesThatNameUsers(t *testing.T) {
	s := newSite(t)
	const sites = 3 * maxAddresses
	for i := range sites {
		client := netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 1})
		_, err := s.Number(client, User, fmt.Appendf(nil, "u%d@example.org", i), false)
		if i < maxAddresses && !errors.Is(err, ErrUnknown) {
			t.Fatalf("address %d: %v", i, err)
		}
	}
	if n := len(s.asked); n != maxAddresses+nameBurst {
		t.Errorf("asked %d times", n)
	}
	s.now = s.now.Add(time.Second)
	if _, err := s.Number(s.client, User, []byte("far@example.org"), false); err != nil {
		t.Errorf("a second later: %v", err)
	}
	if n := len(s.names.addresses); n != 1 || len(s.names.sites) != 1 || s.names.room.Held() != 1 {
		t.Errorf("%d addresses, %d sites", n, len(s.names.sites))
	}
}

func TestAccount(t *testing.T) {
	s := newSite(t)
	for _, c := range []struct {
		name     string
		uid, gid uint32
		groups   []uint32
		ok       bool
	}{
		{"ann", 1000, 100, []uint32{50}, true}, {"far", 5000, 5001, []uint32{50, 5001, 6000, 100}, true},
		{"nobody-here", 0, 0, nil, false}, {"wrong", 0, 0, nil, false}, {"", 0, 0, nil, false}, {"-x", 0, 0, nil, false},
	} {
		uid, gid, groups, ok, err := s.Account(c.name)
		if err != nil || ok != c.ok || uid != c.uid || gid != c.gid || !slices.Equal(groups, c.groups) {
			t.Errorf("%q: %d %d %v %v", c.name, uid, gid, groups, ok)
		}
	}
}

// The getent of this machine finds entries that every machine has.
func TestGetent(t *testing.T) {
	ctx := t.Context()
	if line, err := New(Config{}).getent(ctx, "passwd", "0"); err != nil || parse(string(line)) == nil || parse(string(line)).id != 0 {
		t.Skip("this machine has no getent")
	}
	for _, database := range []string{"passwd", "no-such-database"} {
		if line, err := New(Config{}).getent(ctx, database, "no-such-user-of-any-machine"); len(line) != 0 || err != nil {
			t.Errorf("%s: %q, %v", database, line, err)
		}
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if line, err := New(Config{}).getent(ended, "passwd", "0"); len(line) != 0 || err == nil {
		t.Errorf("without time: %q, %v", line, err)
	}
}

// The Map does not take "no answer" for "not found".
func TestServiceThatFails(t *testing.T) {
	s := newSite(t)
	s.failing = errors.New("no answer")
	if _, err := s.Number(s.client, User, []byte("far@example.org"), false); !errors.Is(err, vfs.ErrDelay) {
		t.Errorf("a name: %v", err)
	}
	if id, err := s.Number(s.client, User, []byte("ann@example.org"), false); err != nil || id != 1000 {
		t.Errorf("a name in the file: %d, %v", id, err)
	}
	if b, err := s.Append(nil, s.client, User, 5000, false); err != nil || string(b) != "5000" {
		t.Errorf("the name of a number: %q, %v", b, err)
	}
	for _, name := range []string{"ann", "far"} { // ann is in the file passwd; only the look-up of her groups fails
		if _, _, groups, ok, err := s.Account(name); ok || err == nil {
			t.Errorf("the account %s: %v, %v, %v", name, groups, ok, err)
		}
	}
	if groups, ok, err := s.GroupsOf(t.Context(), 5000); ok || err == nil {
		t.Errorf("groups: %v, %v, %v", groups, ok, err)
	}
	s.failing = nil
	if _, err := s.Number(s.client, User, []byte("far@example.org"), false); !errors.Is(err, vfs.ErrDelay) {
		t.Errorf("at once again: %v", err)
	}
	s.now = s.now.Add(failedFor)
	if id, err := s.Number(s.client, User, []byte("far@example.org"), false); err != nil || id != 5000 {
		t.Errorf("later: %d, %v", id, err)
	}
}

func TestGroupsOfANumber(t *testing.T) {
	s := newSite(t)
	s.lines["passwd 1001"] = "odd:x:1002:100:::"
	for _, c := range []struct {
		uid    uint32
		groups []uint32
		ok     bool
	}{
		{1000, []uint32{100, 50}, true}, {5000, []uint32{5001, 50, 6000, 100}, true}, {0, []uint32{0}, true},
		{77, nil, false}, {1001, nil, false}, {1<<32 - 1, nil, false},
	} {
		groups, ok, err := s.GroupsOf(t.Context(), c.uid)
		if ok != c.ok || err != nil || !slices.Equal(groups, c.groups) {
			t.Errorf("%d: %v %v %v", c.uid, groups, ok, err)
		}
	}
}

func FuzzNumber(f *testing.F) {
	for _, s := range []string{"0", "ann@example.org", "@", "a@b@c", "\xff"} {
		f.Add([]byte(s))
	}
	s := newSite(f)
	f.Fuzz(func(t *testing.T, sent []byte) {
		id, err := s.Number(s.client, User, sent, false)
		if err == nil && id == 1<<32-1 {
			t.Errorf("%q is the number that means none", sent)
		}
	})
}

// The domain of names is the domain of the machine's name, or DefaultDomain if that has none.
func TestDomainOfTheMachine(t *testing.T) {
	for name, want := range map[string]string{
		"server.example.com": "example.com", "server.lan": "lan", "server": DefaultDomain, "server.": DefaultDomain, "": DefaultDomain,
	} {
		if got := domainOf(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
