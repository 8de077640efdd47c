package nfs4_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/identity"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// named returns a function that makes a site send names of users and groups. The names are read
// from files.
func named(t *testing.T) func(cfg *nfs4test.Config) {
	dir := t.TempDir()
	for name, content := range map[string]string{"passwd": "ann:x:1000:100:::\n", "group": "users:x:100:\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m := identity.New(identity.Config{
		Domain: "example.org", Passwd: filepath.Join(dir, "passwd"), Group: filepath.Join(dir, "group"),
		Ask: func(context.Context, string, string) ([]byte, error) { return nil, nil },
	})
	return func(cfg *nfs4test.Config) { cfg.Identity, cfg.SendNames = m, true }
}

// If the server sends names, an owner with a name is sent by name, and an owner without one by
// number. The server accepts both. This holds for a first look-up and for a cached answer.
func TestOwnersByName(t *testing.T) {
	s := treeSiteWith(t, named(t), "/data")
	p := s.Peer(0)
	owners := func(names ...string) wire.FAttr4 {
		return fattr(func(w *xdr.Writer) { w.String(names[0]); w.String(names[1]) }, wire.Fattr4Owner, wire.Fattr4OwnerGroup)
	}
	for _, c := range []struct {
		owner, group         string
		want                 wire.NFSStat4
		ownerThen, groupThen string
	}{
		{"ann@example.org", "users@example.org", wire.NFS4OK, "ann@example.org", "users@example.org"},
		{"1000", "77", wire.NFS4OK, "ann@example.org", "77"},
		{"users@example.org", "users@example.org", wire.NFS4ErrBadOwner, "ann@example.org", "77"},
		{"ann@example.org", "nobody@example.org", wire.NFS4ErrBadOwner, "ann@example.org", "77"},
		{"4711", "100", wire.NFS4OK, "4711", "users@example.org"},
	} {
		for range 2 {
			r := p.Compound(append(at("file"), setattr(owners(c.owner, c.group)))...)
			if r.Status != c.want {
				t.Errorf("%s, %s: %v", c.owner, c.group, r.Status)
			}
			_, d := valuesOf(t, p, []string{"data", "file"}, wire.Fattr4Owner, wire.Fattr4OwnerGroup)
			if owner, group := string(d.Opaque(999)), string(d.Opaque(999)); owner != c.ownerThen || group != c.groupThen {
				t.Errorf("%s, %s: became %s, %s", c.owner, c.group, owner, group)
			}
			for _, e := range list(t, p, []string{"data"}, 2000, wire.Fattr4Owner, wire.Fattr4OwnerGroup) {
				d := xdr.NewDecoder(e.values)
				if owner, group := string(d.Opaque(999)), string(d.Opaque(999)); e.name == "file" && (owner != c.ownerThen || group != c.groupThen) {
					t.Errorf("%s, %s: listed as %s, %s", c.owner, c.group, owner, group)
				}
			}
		}
	}
}

// Owners and groups whose names are longer than a Linux client has room for are sent by number.
func TestLongOwnersByNumber(t *testing.T) {
	dir := t.TempDir()
	passwd := filepath.Join(dir, "passwd")
	most := 128 - len("@example.org")
	fits, long := strings.Repeat("f", most), strings.Repeat("l", most+1)
	if err := os.WriteFile(passwd, []byte(fits+":x:1000:100:::\n"+long+":x:1001:100:::\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := identity.New(identity.Config{
		Domain: "example.org", Passwd: passwd, Group: "/dev/null",
		Ask: func(context.Context, string, string) ([]byte, error) { return nil, nil },
	})
	s := treeSiteWith(t, func(cfg *nfs4test.Config) { cfg.Identity, cfg.SendNames = m, true }, "/data")
	p := s.Peer(1)
	for owner, want := range map[string]string{"1000": fits + "@example.org", "1001": "1001", long + "@example.org": "1001"} {
		if r := p.Compound(append(at("file"), setattr(fattr(func(w *xdr.Writer) { w.String(owner) }, wire.Fattr4Owner)))...); r.Status != wire.NFS4OK {
			t.Fatal(r.Status)
		}
		if _, d := valuesOf(t, p, []string{"data", "file"}, wire.Fattr4Owner); string(d.Opaque(999)) != want {
			t.Errorf("the owner %s is not sent as %s", owner, want)
		}
	}
}

// An owner that must be looked up is sent by name, even if the group's name is known already.
func TestOwnerIsLookedUpBesideAKnownGroup(t *testing.T) {
	s := treeSiteWith(t, named(t), "/data")
	p := s.Peer(0)
	numbers := fattr(func(w *xdr.Writer) { w.String("1000"); w.String("100") }, wire.Fattr4Owner, wire.Fattr4OwnerGroup)
	if r := p.Compound(append(at("file"), setattr(numbers))...); r.Status != wire.NFS4OK {
		t.Fatal(r.Status)
	}
	_, d := valuesOf(t, p, []string{"data", "file"}, wire.Fattr4OwnerGroup)
	if group := string(d.Opaque(999)); group != "users@example.org" {
		t.Errorf("the group is %s", group)
	}
	_, d = valuesOf(t, p, []string{"data", "file"}, wire.Fattr4Owner, wire.Fattr4OwnerGroup)
	if owner, group := string(d.Opaque(999)), string(d.Opaque(999)); owner != "ann@example.org" || group != "users@example.org" {
		t.Errorf("owner and group are %s, %s", owner, group)
	}
}

// If a client sends ever new names of owners, the server looks up a limited number of them, and
// answers the others with NFS4ERR_DELAY at once. A client with another address is not affected.
func TestOwnersWithoutEnd(t *testing.T) {
	var asked atomic.Int64
	m := identity.New(identity.Config{
		Domain: "example.org", Passwd: "/dev/null", Group: "/dev/null",
		Ask: func(context.Context, string, string) ([]byte, error) { asked.Add(1); return nil, nil },
	})
	s := treeSiteWith(t, func(cfg *nfs4test.Config) { cfg.Identity = m }, "/data")
	hostile, honest := s.Peer(1), s.Peer(1)
	honest.Conn = s.RPC.NewConn(netip.MustParseAddrPort("198.51.100.1:700"), netip.AddrPort{}, "tcp", true)
	give := func(p *nfs4test.Peer, owner string) wire.NFSStat4 {
		attr := fattr(func(w *xdr.Writer) { w.String(owner) }, wire.Fattr4Owner)
		return p.Compound(append(at("file"), setattr(attr))...).Status
	}
	begun := time.Now()
	const calls = 2000
	answers := map[wire.NFSStat4]int{}
	for i := range calls {
		answers[give(hostile, fmt.Sprintf("u%d@example.org", i))]++
	}
	most := 256 + int(time.Since(begun)/(100*time.Millisecond)) + 1
	if n := answers[wire.NFS4ErrBadOwner]; n < 256 || n > most || answers[wire.NFS4ErrDelay] != calls-n || int64(n) != asked.Load() {
		t.Errorf("answers %v, and asked %d times of at most %d", answers, asked.Load(), most)
	}
	if got := give(honest, "someone@example.org"); got != wire.NFS4ErrBadOwner {
		t.Errorf("another client: %v", got)
	}
	if got := give(hostile, "4711"); got != wire.NFS4OK {
		t.Errorf("a number: %v", got)
	}
}
