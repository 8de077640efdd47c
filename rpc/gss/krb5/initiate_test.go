package krb5

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
)

func TestTargetsAreServicesOrPrincipals(t *testing.T) {
	for _, c := range []struct {
		target, server, realm string
		ok                    bool
	}{
		{"nfs@host.example.org", "nfs/host.example.org", "", true},
		{"nfs/host@R", "nfs/host", "R", true},
		{"nfs/host", "nfs/host", "", true},
		{"nfs", "", "", false},
		{"@host", "", "", false},
		{"nfs@", "", "", false},
		{"nfs@host@R", "", "", false},
		{"nfs@host/R", "", "", false},
		{"nfs/host@", "", "", false},
		{"nfs//host@R", "", "", false},
		{"", "", "", false},
	} {
		server, realm, err := parseTarget(c.target)
		if (err == nil) != c.ok || c.ok && (strings.Join(server, "/") != c.server || realm != c.realm) {
			t.Errorf("%q: %q, %q, %v", c.target, server, realm, err)
		}
	}
}

func TestETypesAreThoseOfTheFileThatAreServed(t *testing.T) {
	for _, c := range []struct {
		lines    string
		tgs, tkt []int32
	}{
		{"", []int32{18, 17, 20, 19}, []int32{18, 17, 20, 19}},
		{"permitted_enctypes = aes128-cts-hmac-sha256-128 aes256-cts-hmac-sha1-96", []int32{18, 19}, []int32{18, 19}},
		{"default_tgs_enctypes = aes256-cts-hmac-sha384-192 arcfour-hmac-md5", []int32{20}, []int32{18, 17, 20, 19}},
		{"permitted_enctypes = aes256-cts-hmac-sha1-96\n default_tkt_enctypes = aes128-cts-hmac-sha1-96 aes256-cts-hmac-sha1-96", []int32{18}, []int32{18}},
	} {
		path := filepath.Join(t.TempDir(), "krb5.conf")
		if err := os.WriteFile(path, []byte("[libdefaults]\n "+c.lines+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		conf, err := loadConf(path)
		if err != nil {
			t.Fatal(err)
		}
		l := conf.LibDefaults
		for _, list := range [][]int32{l.DefaultTGSEnctypeIDs, l.DefaultTktEnctypeIDs} {
			slices.Sort(list)
		}
		slices.Sort(c.tgs)
		slices.Sort(c.tkt)
		if !slices.Equal(l.DefaultTGSEnctypeIDs, c.tgs) || !slices.Equal(l.DefaultTktEnctypeIDs, c.tkt) {
			t.Errorf("%q: %v and %v, want %v and %v", c.lines, l.DefaultTGSEnctypeIDs, l.DefaultTktEnctypeIDs, c.tgs, c.tkt)
		}
	}
}

func TestInitiateNamesTheMissingPart(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	conf := write("krb5.conf", "[libdefaults]\n default_realm = EXAMPLE.ORG\n")
	keytab := filepath.Join(dir, "keytab")
	writeKeytab(t, keytab, "host/"+testHost, "secret", AES256SHA1)
	for _, c := range []struct {
		name   string
		config Config
		says   string
	}{
		{"no krb5.conf", Config{Conf: filepath.Join(dir, "none"), Keytab: keytab}, "none"},
		{"no keytab", Config{Conf: conf, Keytab: filepath.Join(dir, "none")}, "reading the keytab"},
		{"no key of the service", Config{Conf: conf, Keytab: keytab}, "nfs/HOST"},
		{"no key of the principal", Config{Conf: conf, Keytab: keytab, Principal: "nfs/x"}, "nfs/x@EXAMPLE.ORG"},
		{"no cache", Config{Conf: conf, Cache: "FILE:" + filepath.Join(dir, "none")}, "credential cache"},
		{"an empty cache", Config{Conf: conf, Cache: write("empty", "")}, "malformed"},
		{"a cache that is cut off", Config{Conf: conf, Cache: write("short", "\x05\x04\x00")}, "malformed"},
	} {
		_, err := New(c.config).Initiate(t.Context(), target)
		var e *gss.Error
		if !errors.As(err, &e) || e.Major != gss.NoCredential || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// The initiator uses a ticket again if a server has accepted it, but not if a server has refused
// it.
func TestTicketsAreKeptOnceTheyWereTaken(t *testing.T) {
	kdc, k := freshTicket(t, nil)
	k.server = "nfs/" + testHost + "@"
	m := kdc.acceptor()
	m.tickets.put(k)
	step := func(acceptor *Mechanism, now time.Time) error {
		got := m.tickets.take(k.server, noon)
		if got == nil {
			t.Fatal("no ticket is kept")
		}
		i := &initiator{config: &m.config, ticket: got, tickets: &m.tickets}
		token, _, err := i.Step(nil, noon)
		if err != nil {
			t.Fatal(err)
		}
		_, reply, _ := acceptor.Accept(token, now)
		_, _, err = i.Step(reply, noon)
		return err
	}
	for range 2 {
		if err := step(kdc.acceptor(), noon); err != nil {
			t.Fatal(err)
		}
	}
	if err := step(kdc.acceptor(), noon.Add(time.Hour)); err == nil {
		t.Fatal("an AP-REQ of an hour ago is taken")
	}
	if m.tickets.take(k.server, noon) != nil {
		t.Error("a ticket that was refused is kept")
	}
	m.tickets.put(k)
	if m.tickets.take(k.server, k.end) != nil {
		t.Error("a ticket that ended is used")
	}
}

func TestKeptTicketsAreBounded(t *testing.T) {
	var kept tickets
	for i := range 3 * maxTickets {
		kept.put(&ticket{server: fmt.Sprint(i), end: noon})
		if len(kept.kept) > maxTickets {
			t.Fatalf("%d tickets are kept", len(kept.kept))
		}
	}
}
