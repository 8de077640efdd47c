package identity_test

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/identity"
)

// machine returns the Map of a machine with these files. The services of the machine answer as asked
// says; it may be nil.
func machine(t *testing.T, passwd, group string, asked func(database, key string) string) *identity.Map {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"passwd": passwd, "group": group} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return identity.New(identity.Config{
		Domain: "example.org", Passwd: filepath.Join(dir, "passwd"), Group: filepath.Join(dir, "group"),
		Ask: func(_ context.Context, database, key string) ([]byte, error) {
			if asked == nil {
				return nil, nil
			}
			return []byte(asked(database, key)), nil
		},
	})
}

// A name that the server tells a client is a name that it takes back, also on a machine that is joined
// to a domain: there names may contain an '@', a blank or a '\\', and a user's name may be the number
// of another one.
func TestNamesGoBothWays(t *testing.T) {
	m := machine(t, `joe@ad.example.org:x:1000:1000::/:/bin/sh
anna:x:1001:1000::/:/bin/sh
CORP\joe:x:1002:1000::/:/bin/sh
first last:x:1003:1000::/:/bin/sh
1001:x:2000:1000::/:/bin/sh
`, "domain users:x:1000:anna,first last\n", nil)
	client := netip.MustParseAddr("192.0.2.1")
	for _, c := range []struct {
		kind identity.Kind
		id   uint32
		name string
	}{
		{identity.User, 1000, "joe@ad.example.org"}, {identity.User, 1001, "anna"}, {identity.User, 1002, `CORP\joe`},
		{identity.User, 1003, "first last"}, {identity.User, 2000, "1001"}, {identity.Group, 1000, "domain users"},
	} {
		b, err := m.Append(nil, client, c.kind, c.id, false)
		if err != nil || string(b) != c.name+"@example.org" {
			t.Errorf("%d is told as %q, %v, want %q", c.id, b, err, c.name)
		}
		if id, err := m.Number(client, c.kind, b, false); err != nil || id != c.id {
			t.Errorf("%q is %d, %v, want %d", b, id, err, c.id)
		}
	}
	for _, name := range []string{"joe@example.org", " anna@example.org", "anna @example.org", "anna@ad.example.org", "anna", "@example.org"} {
		if id, err := m.Number(client, identity.User, []byte(name), false); err != identity.ErrUnknown {
			t.Errorf("%q is %d, %v", name, id, err)
		}
	}
}

// The groups of a user whose name has a blank are found in the file and in the answers of services. An
// answer about a name that begins with the name that was asked for does not count.
func TestGroupsOfANameWithABlank(t *testing.T) {
	m := machine(t, "first last:x:1003:1000::/:/bin/sh\nfirst:x:1004:1000::/:/bin/sh\n", "staff:x:50:anna,first last\n", func(database, key string) string {
		if database != "initgroups" {
			return ""
		}
		return "first last            60 61\n"
	})
	for uid, want := range map[uint32][]uint32{1003: {1000, 50, 60, 61}, 1004: {1000}} {
		if groups, ok, err := m.GroupsOf(t.Context(), uid); !slices.Equal(groups, want) || !ok || err != nil {
			t.Errorf("user %d: %v, %v, %v, want %v", uid, groups, ok, err, want)
		}
	}
}

// A group with very many members makes no look-up fail.
func TestLongLine(t *testing.T) {
	m := machine(t, "anna:x:1001:1000::/:/bin/sh\n", "huge:x:5000:"+strings.Repeat("member12345,", 1<<20/12+10)+"z,anna\nsmall:x:6000:anna\n", nil)
	if groups, _, err := m.GroupsOf(t.Context(), 1001); err != nil || !slices.Equal(groups, []uint32{1000, 5000, 6000}) {
		t.Errorf("%v, %v", groups, err)
	}
}

// A user has as many groups as setgroups(2) takes, with the account's own group.
func TestMostGroupsOfAUser(t *testing.T) {
	var all strings.Builder
	all.WriteString("anna ")
	for i := range 70000 {
		all.WriteString(" " + strconv.Itoa(100000+i))
	}
	m := machine(t, "anna:x:1001:1000::/:/bin/sh\n", "", func(database, _ string) string {
		if database == "initgroups" {
			return all.String() + "\n"
		}
		return ""
	})
	groups, _, err := m.GroupsOf(t.Context(), 1001)
	if len(groups) != 65536 || groups[0] != 1000 || err != nil {
		t.Errorf("%d groups, %v", len(groups), err)
	}
}
