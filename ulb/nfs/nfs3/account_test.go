package nfs3_test

import (
	"net/netip"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// guests is a Protection for RPCSEC_GSS: each caller is a principal without an account.
type guests struct{ unsure bool }

func (g guests) Verify(a *rpc.Arrived) (rpc.Guard, rpc.Outcome) {
	a.Cred.Principal, a.Cred.GSS, a.Cred.Unsure = "guest@TEST", rpc.GSSIntegrity, g.unsure
	a.Cred.Anonymous, a.Cred.UID, a.Cred.GID = true, rpc.NobodyID, rpc.NobodyID
	return nil, rpc.Done
}

// An export that requires an account refuses a principal without one, except for the calls
// about the root that a client makes while it mounts. If the export does not require an
// account, the principal acts as the anonymous user.
func TestPrincipalWithoutAccount(t *testing.T) {
	s := newSite(t)
	s.rpc.Protect(rpc.AuthGSS, guests{})
	file := s.create(s.root, "file", 0o666)
	told := 0
	s.table.OnRefusedPrincipal = func(_ *rpc.Conn, e *export.Export, principal string) {
		if told++; e.Name != s.export.Name || principal != "guest@TEST" {
			t.Errorf("told of %s for %s", principal, e.Name)
		}
	}
	for _, strict := range []bool{true, false} {
		if err := s.table.Replace([]*export.Export{{
			Name: s.export.Name, FS: s.export.FS, Options: export.Options{Squash: export.NoSquash, AnonUID: export.Nobody, AnonGID: export.Nobody, RequireAccount: strict},
		}}); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name   string
			p      wire.Procedure
			args   encoder
			served bool
		}{
			{"GETATTR of the root", wire.ProcGetattr, &wire.Getattr3Args{Object: s.root}, true},
			{"FSINFO of the root", wire.ProcFsinfo, &wire.Fsinfo3Args{FSRoot: s.root}, true},
			{"FSSTAT of the root", wire.ProcFsstat, &wire.Fsstat3Args{FSRoot: s.root}, true},
			{"GETATTR of a file", wire.ProcGetattr, &wire.Getattr3Args{Object: file}, false},
			{"ACCESS of the root", wire.ProcAccess, &wire.Access3Args{Object: s.root, Access: 1}, false},
			{"LOOKUP", wire.ProcLookup, &wire.Lookup3Args{What: s.at(s.root, "file")}, false},
			{"READDIR", wire.ProcReaddir, &wire.Readdir3Args{Dir: s.root, Count: 4096}, false},
			{"READ", wire.ProcRead, &wire.Read3Args{FileHandle: file, Count: 9}, false},
			{"WRITE", wire.ProcWrite, &wire.Write3Args{FileHandle: file, Count: 1, Data: eligible("x")}, false},
		} {
			s.xid++
			h := rpc.CallHeader{XID: s.xid, Program: wire.Program, Version: wire.Version, Procedure: uint32(c.p), Cred: rpc.AuthBytes{Flavor: rpc.AuthGSS}}
			before := told
			d, err := s.run(rpctest.CallMessage(h, func(w *xdr.Writer) { c.args.Encode(w) })).Results()
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
				continue
			}
			status, want := wire.NFSStat3(d.Int32()), wire.NFS3OK
			if strict && !c.served {
				want = wire.NFS3ErrAccess
			}
			if status != want || (told > before) != (want != wire.NFS3OK) {
				t.Errorf("%s, required %v: %v, want %v; told of %d", c.name, strict, status, want, told-before)
			}
			if _, err := s.run(s.message(c.p, c.args)).Results(); err != nil {
				t.Errorf("%s under AUTH_SYS: %v", c.name, err)
			}
		}
	}
}

// A caller that cannot be identified at present gets NFS3ERR_JUKEBOX, unless all callers of the
// export act as the anonymous user.
func TestPrincipalThatIsNotIdentified(t *testing.T) {
	s := newSite(t)
	s.rpc.Protect(rpc.AuthGSS, guests{unsure: true})
	file := s.create(s.root, "file", 0o666)
	for _, c := range []struct {
		squash  export.Squash
		account bool
		want    wire.NFSStat3
	}{
		{export.NoSquash, false, wire.NFS3ErrJukebox}, {export.RootSquash, true, wire.NFS3ErrJukebox},
		{export.AllSquash, false, wire.NFS3OK}, {export.AllSquash, true, wire.NFS3ErrJukebox},
	} {
		if err := s.table.Replace([]*export.Export{{
			Name: s.export.Name, FS: s.export.FS, Options: export.Options{Squash: c.squash, AnonUID: export.Nobody, AnonGID: export.Nobody, RequireAccount: c.account},
		}}); err != nil {
			t.Fatal(err)
		}
		s.xid++
		h := rpc.CallHeader{XID: s.xid, Program: wire.Program, Version: wire.Version, Procedure: uint32(wire.ProcWrite), Cred: rpc.AuthBytes{Flavor: rpc.AuthGSS}}
		args := wire.Write3Args{FileHandle: file, Count: 1, Data: eligible("x")}
		d, err := s.run(rpctest.CallMessage(h, func(w *xdr.Writer) { args.Encode(w) })).Results()
		if err != nil {
			t.Fatal(err)
		}
		if got := wire.NFSStat3(d.Int32()); got != c.want {
			t.Errorf("squash %v, an account required %v: %v, want %v", c.squash, c.account, got, c.want)
		}
	}
}

// On a secure export, the port matters only for callers without Kerberos. It is checked in each
// call, so other calls over the same connection do not matter.
func TestPortsOfCallersWithKerberos(t *testing.T) {
	s := newSite(t)
	s.rpc.Protect(rpc.AuthGSS, guests{})
	file := s.create(s.root, "file", 0o666)
	if err := s.table.Replace([]*export.Export{{
		Name: s.export.Name, FS: s.export.FS, Options: export.Options{Secure: true, AnonUID: export.Nobody, AnonGID: export.Nobody},
	}}); err != nil {
		t.Fatal(err)
	}
	s.conn = s.rpc.NewConn(netip.MustParseAddrPort("10.0.0.1:40000"), netip.AddrPort{}, "tcp", false)
	args := &wire.Write3Args{FileHandle: file, Count: 1, Data: eligible("x")}
	for _, c := range []struct {
		flavor rpc.Flavor
		want   wire.NFSStat3
		known  bool // whether the connection is known after the call
	}{
		{rpc.AuthNone, wire.NFS3ErrAccess, false}, {rpc.AuthSys, wire.NFS3ErrAccess, false},
		{rpc.AuthGSS, wire.NFS3OK, true},
		{rpc.AuthNone, wire.NFS3ErrAccess, true}, {rpc.AuthSys, wire.NFS3ErrAccess, true}, {rpc.AuthGSS, wire.NFS3OK, true},
	} {
		message := s.message(wire.ProcWrite, args)
		if c.flavor != rpc.AuthSys {
			s.xid++
			h := rpc.CallHeader{XID: s.xid, Program: wire.Program, Version: wire.Version, Procedure: uint32(wire.ProcWrite), Cred: rpc.AuthBytes{Flavor: c.flavor}}
			message = rpctest.CallMessage(h, func(w *xdr.Writer) { args.Encode(w) })
		}
		d, err := s.run(message).Results()
		if err != nil {
			t.Fatal(err)
		}
		if got := wire.NFSStat3(d.Int32()); got != c.want || s.conn.Known() != c.known {
			t.Errorf("%v: %v, known %v; want %v, %v", c.flavor, got, s.conn.Known(), c.want, c.known)
		}
	}
}
