package nfs4_test

import (
	"slices"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// strictSite has an export "/open" for AUTH_SYS, and one "/strict" for Kerberos.
func strictSite(t *testing.T) *nfs4test.Site { return strictSiteWith(t, nil) }

// strictSiteWith is a strictSite whose configuration is changed.
func strictSiteWith(t *testing.T, change func(*nfs4test.Config)) *nfs4test.Site {
	s := treeSiteWith(t, change, "/open", "/strict")
	var all []*export.Export
	for _, e := range s.Exports.All() {
		if e.Name != "/open" && e.Name != "/strict" {
			continue
		}
		anew := &export.Export{Name: e.Name, FS: e.FS, Squash: e.Squash, AnonUID: e.AnonUID, AnonGID: e.AnonGID,
			Security: []export.Security{export.Sys}}
		if e.Name == "/strict" {
			anew.Security = []export.Security{export.Krb5p, export.Krb5}
		}
		all = append(all, anew)
	}
	if err := s.Exports.Replace(all); err != nil {
		t.Fatal(err)
	}
	return s
}

// A caller whose flavor an export does not take finds the export and its flavors, and
// does nothing there (RFC 8881 §2.6.3.1).
func TestWrongSec(t *testing.T) {
	s := strictSite(t)
	for minor := range uint32(3) {
		p := s.Peer(minor)
		strict := walk("strict")
		then := func(ops ...nfs4test.Op) []nfs4test.Op { return append(strict[:2:2], ops...) }
		e, _, _ := s.Exports.Resolve("/strict")
		putStrict := nfs4test.Op{Number: wire.OpPutFH, Args: &wire.PutFH4Args{Object: s.Exports.Seal(nil, e, e.FS.Root())}}
		for _, c := range []struct {
			name string
			ops  []nfs4test.Op
			want wire.NFSStat4
		}{
			{"the other export", append(walk("open", "dir"), getattr(1)), wire.NFS4OK},
			{"LOOKUP into it", strict, wire.NFS4OK},
			{"LOOKUP into it, then GETATTR", then(getattr(1)), wire.NFS4ErrWrongSec},
			{"then LOOKUP in it", then(lookup("file")), wire.NFS4ErrWrongSec},
			{"then LOOKUP of what is not there", then(lookup("none")), wire.NFS4ErrWrongSec},
			{"then READDIR", then(readdir(0, 4096)), wire.NFS4ErrWrongSec},
			{"then GETFH", then(op(wire.OpGetFH)), wire.NFS4ErrWrongSec},
			{"then REMOVE", then(remove("file")), wire.NFS4ErrWrongSec},
			{"then SAVEFH, then GETATTR", then(op(wire.OpSaveFH), getattr(1)), wire.NFS4ErrWrongSec},
			{"then SAVEFH, and out again", then(op(wire.OpSaveFH), op(wire.OpLookupp), getattr(1)), wire.NFS4OK},
			{"then back by RESTOREFH", then(op(wire.OpSaveFH), op(wire.OpPutRootFH), op(wire.OpRestoreFH), getattr(1)), wire.NFS4ErrWrongSec},
			{"its handle, then GETATTR", []nfs4test.Op{putStrict, getattr(1)}, wire.NFS4ErrWrongSec},
			{"its handle, and nothing", []nfs4test.Op{putStrict}, wire.NFS4OK},
			{"its handle, then SECINFO", []nfs4test.Op{putStrict, secinfo("file")}, wire.NFS4OK},
			{"RENAME from it", append(then(op(wire.OpSaveFH)), append(walk("open"), rename("file", "other"))...), wire.NFS4ErrWrongSec},
			{"SECINFO", append(walk(), secinfo("strict")), wire.NFS4OK},
		} {
			if r := p.Compound(c.ops...); r.Status != c.want {
				t.Errorf("minor version %d, %s: %v, want %v", minor, c.name, r.Status, c.want)
			}
		}
	}
}

// SECINFO lists the flavors of an export, the preferred first; what leads to exports has
// those of all.
func TestSecInfoListsTheFlavors(t *testing.T) {
	s := strictSite(t)
	p := s.Peer(1)
	flavors := func(ops ...nfs4test.Op) (all []uint32) {
		t.Helper()
		r := p.Compound(ops...)
		if r.Status != wire.NFS4OK {
			t.Fatalf("%v", r.Status)
		}
		var res wire.SecInfo4Res
		r.Ops[len(r.Ops)-1].Into(t, &res)
		for f := (wire.Secinfo4{}); res.ResOK.Next(&f); {
			if f.Flavor != 6 {
				all = append(all, f.Flavor)
				continue
			}
			if oid := f.FlavorInfo.Oid; string(oid) != "\x2a\x86\x48\x86\xf7\x12\x01\x02\x02" || f.FlavorInfo.Qop != 0 {
				t.Errorf("mechanism %x, quality of protection %d", oid, f.FlavorInfo.Qop)
			}
			all = append(all, 60+uint32(f.FlavorInfo.Service))
		}
		return all
	}
	if got := flavors(append(walk(), secinfo("strict"))...); !slices.Equal(got, []uint32{63, 61}) {
		t.Errorf("of the strict export: %v", got)
	}
	if got := flavors(append(walk(), secinfo("open"))...); !slices.Equal(got, []uint32{1}) {
		t.Errorf("of the open export: %v", got)
	}
}

// Who is refused for its flavor is told of, and who finds out about flavors is not.
func TestRefusedFlavorsAreToldOf(t *testing.T) {
	s := strictSite(t)
	var told []string
	s.Exports.OnRefusedFlavor(func(_ *rpc.Conn, e *export.Export, as export.Security) { told = append(told, e.Name+" "+as.String()) })
	p := s.Peer(1)
	p.Compound(append(walk(), secinfo("strict"))...)
	p.Compound(walk("strict")...)
	p.Compound(append(walk("open"), getattr(1))...)
	if len(told) != 0 {
		t.Errorf("told of %q, where nobody was refused", told)
	}
	p.Compound(append(walk("strict"), getattr(1))...)
	if want := []string{"/strict sys"}; !slices.Equal(told, want) {
		t.Errorf("told of %q, want %q", told, want)
	}
}
