package identity

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// site is a Map with files of its own, and a directory service beside them.
type site struct {
	*Map
	now   time.Time
	asked []string
	lines map[string]string // by "database key"
	// failing is what the service answers beside.
	failing error
}

func newSite(t testing.TB) *site {
	s := &site{now: time.Unix(1e9, 0), lines: map[string]string{
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
		id, err := s.Number(c.kind, []byte(c.sent), false)
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
		got, err := s.Append([]byte(">"), c.kind, c.id, false)
		if err != nil || string(got) != ">"+c.want {
			t.Errorf("%d: %q, %v", c.id, got, err)
		}
	}
}

// What is not remembered is not looked up by those who must not wait.
func TestOnlyWhatIsRememberedIsKnownAtOnce(t *testing.T) {
	s := newSite(t)
	blocked := func(what string, want bool) {
		t.Helper()
		_, err := s.Number(User, []byte("ann@example.org"), true)
		_, err2 := s.Append(nil, User, 4711, true)
		if got := errors.Is(err, vfs.ErrWouldBlock); got != want || errors.Is(err2, vfs.ErrWouldBlock) != want {
			t.Errorf("%s: %v, %v", what, err, err2)
		}
	}
	blocked("at first", true)
	look := func() {
		if _, err := s.Number(User, []byte("ann@example.org"), false); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Append(nil, User, 4711, false); err != nil {
			t.Fatal(err)
		}
	}
	look()
	blocked("once it was looked up", false)
	s.now = s.now.Add(DefaultUnknownAge + time.Second)
	if _, err := s.Append(nil, User, 4711, true); !errors.Is(err, vfs.ErrWouldBlock) {
		t.Errorf("that there is no such user was remembered for longer: %v", err)
	}
	s.now = s.now.Add(DefaultAge)
	blocked("when it is old", true)
}

func TestWhatIsRememberedIsBounded(t *testing.T) {
	s := newSite(t)
	for i := range 3 * maxKnown {
		if _, err := s.Number(User, fmt.Appendf(nil, "u%d@example.org", i), false); !errors.Is(err, ErrUnknown) {
			t.Fatal(err)
		}
		s.now = s.now.Add(time.Millisecond)
	}
	if n := len(s.known[User].names); n > maxKnown {
		t.Errorf("%d names", n)
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

// The machine's own getent is asked for what every machine has.
func TestGetent(t *testing.T) {
	ctx := t.Context()
	if line, err := Getent(ctx, "passwd", "0"); err != nil || parse(string(line)).id != 0 || !parse(string(line)).found {
		t.Skip("this machine has no getent")
	}
	for _, database := range []string{"passwd", "no-such-database"} {
		if line, err := Getent(ctx, database, "no-such-user-of-any-machine"); len(line) != 0 || err != nil {
			t.Errorf("%s: %q, %v", database, line, err)
		}
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if line, err := Getent(ended, "passwd", "0"); len(line) != 0 || err == nil {
		t.Errorf("without time: %q, %v", line, err)
	}
}

// What cannot be asked for is not taken for something that is not there.
func TestServiceThatFails(t *testing.T) {
	s := newSite(t)
	s.failing = errors.New("no answer")
	if _, err := s.Number(User, []byte("far@example.org"), false); !errors.Is(err, vfs.ErrDelay) {
		t.Errorf("a name: %v", err)
	}
	if id, err := s.Number(User, []byte("ann@example.org"), false); err != nil || id != 1000 {
		t.Errorf("a name in the file: %d, %v", id, err)
	}
	if b, err := s.Append(nil, User, 5000, false); err != nil || string(b) != "5000" {
		t.Errorf("the name of a number: %q, %v", b, err)
	}
	for _, name := range []string{"ann", "far"} { // of ann only the groups are not known
		if _, _, groups, ok, err := s.Account(name); ok || err == nil {
			t.Errorf("the account %s: %v, %v, %v", name, groups, ok, err)
		}
	}
	if groups, ok, err := s.GroupsOf(t.Context(), 5000); ok || err == nil {
		t.Errorf("groups: %v, %v, %v", groups, ok, err)
	}
	s.failing = nil
	s.now = s.now.Add(DefaultUnknownAge)
	if id, err := s.Number(User, []byte("far@example.org"), false); err != nil || id != 5000 {
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
		id, err := s.Number(User, sent, false)
		if err == nil && id == 1<<32-1 {
			t.Errorf("%q is the number that means none", sent)
		}
	})
}
