package nfs3_test

import (
	"net/netip"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// An export that requires Kerberos refuses callers under AUTH_SYS, except for the calls
// about its root that a client makes when it mounts (RFC 2623 §2.3.2).
func TestFlavorThatIsTooWeak(t *testing.T) {
	s := newSite(t)
	file := s.create(s.root, "file", 0o666)
	if err := s.table.Replace([]*export.Export{{
		Name: s.export.Name, FS: s.export.FS, Options: export.Options{Squash: export.NoSquash}, Security: []export.Security{export.Krb5, export.Krb5p},
	}}); err != nil {
		t.Fatal(err)
	}
	told := 0
	s.table.OnRefusedFlavor = func(_ *rpc.Conn, e *export.Export, as export.Security) {
		if told++; e.Name != s.export.Name || as != export.Sys {
			t.Errorf("told of %v for %s", as, e.Name)
		}
	}
	for _, c := range []struct {
		name string
		p    wire.Procedure
		args encoder
		weak bool // the call is served under AUTH_SYS as well
	}{
		{"GETATTR of the root", wire.ProcGetattr, &wire.Getattr3Args{Object: s.root}, true},
		{"FSINFO of the root", wire.ProcFsinfo, &wire.Fsinfo3Args{FSRoot: s.root}, true},
		{"FSSTAT of the root", wire.ProcFsstat, &wire.Fsstat3Args{FSRoot: s.root}, true},
		{"GETATTR of a file", wire.ProcGetattr, &wire.Getattr3Args{Object: file}, false},
		{"FSINFO of a file", wire.ProcFsinfo, &wire.Fsinfo3Args{FSRoot: file}, false},
		{"ACCESS of the root", wire.ProcAccess, &wire.Access3Args{Object: s.root}, false},
		{"LOOKUP", wire.ProcLookup, &wire.Lookup3Args{What: s.at(s.root, "file")}, false},
		{"READ", wire.ProcRead, &wire.Read3Args{FileHandle: file, Count: 9}, false},
		{"WRITE", wire.ProcWrite, &wire.Write3Args{FileHandle: file, Count: 1, Data: eligible("x")}, false},
		{"REMOVE", wire.ProcRemove, &wire.Remove3Args{Object: s.at(s.root, "file")}, false},
	} {
		_, err := s.run(s.message(c.p, c.args)).Results()
		re, _ := err.(*rpc.ReplyError)
		if denied := re != nil && re.Denied && re.Auth == rpc.AuthTooWeak; denied == c.weak || denied != (err != nil) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if told != 7 {
		t.Errorf("told of %d calls that were refused", told)
	}
}

// A client needs a flavor of its network if the export has flavors for this network. Otherwise
// it needs a flavor of the export.
func TestFlavorsByNetwork(t *testing.T) {
	s := newSite(t)
	file := s.create(s.root, "file", 0o666)
	anew := &export.Export{
		Name: s.export.Name, FS: s.export.FS, Options: export.Options{Squash: export.NoSquash}, Security: []export.Security{export.Krb5},
		Networks: []export.NetworkSecurity{{Network: netip.MustParsePrefix("192.0.2.0/24"), Security: []export.Security{export.Sys}}},
	}
	if err := s.table.Replace([]*export.Export{anew}); err != nil {
		t.Fatal(err)
	}
	getattr := func(client string) error {
		s.conn = s.rpc.NewConn(netip.AddrPortFrom(netip.MustParseAddr(client), 700), netip.AddrPort{}, "tcp", true)
		_, err := s.run(s.message(wire.ProcGetattr, &wire.Getattr3Args{Object: file})).Results()
		return err
	}
	if err := getattr("192.0.2.9"); err != nil {
		t.Errorf("in the network: %v", err)
	}
	re, _ := getattr("198.51.100.1").(*rpc.ReplyError)
	if re == nil || re.Auth != rpc.AuthTooWeak {
		t.Errorf("outside of it: %v", re)
	}
}
