package mount3_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// MNT lists the numbers of the export's flavors, the preferred first (RFC 2623 §2.6, §4.3). MNT
// itself is served under any flavor.
func TestMntListsTheFlavors(t *testing.T) {
	for _, c := range []struct {
		security []export.Security
		want     []int32
	}{
		{nil, []int32{1}},
		{[]export.Security{export.Sys}, []int32{1}},
		{[]export.Security{export.Krb5p, export.Krb5i, export.Krb5, export.Sys}, []int32{390005, 390004, 390003, 1}},
	} {
		s := newSite(t, manners[0], &export.Export{Name: "/srv", Security: c.security})
		res := s.mnt("/srv")
		var got []int32
		for f := int32(0); res.ResOK.AuthFlavors.Next(&f); {
			got = append(got, f)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.security, got, c.want)
		}
	}
}

// MNT lists the flavors of the client's network only.
func TestMntListsTheFlavorsOfTheNetwork(t *testing.T) {
	s := newSite(t, manners[0], &export.Export{Name: "/srv", Security: []export.Security{export.Krb5p}, Networks: []export.NetworkSecurity{
		{Network: netip.MustParsePrefix("192.0.2.0/24"), Security: []export.Security{export.Sys, export.Krb5}},
	}})
	for client, want := range map[string][]int32{"192.0.2.9": {1, 390003}, "198.51.100.1": {390005}} {
		s.conn = s.rpc.NewConn(netip.AddrPortFrom(netip.MustParseAddr(client), 700), netip.AddrPort{}, "tcp", true)
		res := s.mnt("/srv")
		var got []int32
		for f := int32(0); res.ResOK.AuthFlavors.Next(&f); {
			got = append(got, f)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", client, got, want)
		}
	}
}

// A caller with a flavor that the export does not accept gets the handle of the export's root.
// It learns nothing about a directory that only its owner may search, whatever user it claims
// to be.
func TestMntTellsNoNamesToAnotherFlavor(t *testing.T) {
	each(t, func(t *testing.T, m manner) {
		s := newSite(t, m,
			&export.Export{Name: "/strict", Options: export.Options{Squash: export.NoSquash, AnonUID: 99, AnonGID: 99}, Security: []export.Security{export.Krb5p}},
			&export.Export{Name: "/open", Options: export.Options{Squash: export.NoSquash}, Security: []export.Security{export.Sys}})
		home := s.mkdir("home", 0o700)
		if _, _, err := s.fs.Mkdir(&vfs.Op{Cred: &vfs.Cred{}}, home, []byte("project"), &vfs.SetAttr{}); err != nil {
			t.Fatal(err)
		}
		s.mkdir("public", 0o755)
		for path, want := range map[string]wire.Stat3{
			"/strict": wire.OK, "/strict/public": wire.OK, "/strict/home/project": wire.ErrAccess, "/strict/home/none": wire.ErrAccess,
			"/open/home/project": wire.OK, "/open/home/none": wire.ErrNoEnt,
		} {
			if got := s.mnt(path).Status; got != want {
				t.Errorf("MNT %s: %v, want %v", path, got, want)
			}
		}
	})
}
