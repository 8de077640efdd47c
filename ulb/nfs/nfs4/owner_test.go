package nfs4_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/identity"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// named makes a site send names, of users and groups that it has in files.
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

// Where names are sent, an owner is a name, what has no name is a number, and both are
// taken. All of this works when it has to be looked up first, and then at once.
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
