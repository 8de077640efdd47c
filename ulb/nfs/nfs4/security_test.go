package nfs4_test

import (
	"maps"
	"net/netip"
	"slices"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// strictSite returns a site with exports for AUTH_SYS and for Kerberos, next to each other and
// nested.
func strictSite(t *testing.T) *nfs4test.Site { return strictSiteWith(t, nil) }

// ofStrictSite holds the exports of a strictSite with their flavors.
var ofStrictSite = map[string][]export.Security{
	"/open": {export.Sys}, "/open/dir/below": {export.Krb5},
	"/strict": {export.Krb5p, export.Krb5}, "/strict/dir/below": {export.Sys},
}

// strictSiteWith returns a strictSite with a configuration that change has modified.
func strictSiteWith(t *testing.T, change func(*nfs4test.Config)) *nfs4test.Site {
	s := treeSiteWith(t, change, slices.Collect(maps.Keys(ofStrictSite))...)
	secure(t, s, func(e *export.Export) { e.Security = ofStrictSite[e.Name] })
	return s
}

// knownStrictSite returns a strictSite whose clients may open files.
func knownStrictSite(t *testing.T) *nfs4test.Site {
	return strictSiteWith(t, func(c *nfs4test.Config) {
		c.Minors = func(m *state.Manager) [3]nfs4.Minor {
			return [3]nfs4.Minor{newNumbered(m), newKnown(m, 1), newKnown(m, 2)}
		}
	})
}

// secure replaces each export of a site by a copy that the function differ has modified.
func secure(t testing.TB, s *nfs4test.Site, differ func(e *export.Export)) {
	t.Helper()
	var all []*export.Export
	for _, e := range s.Exports.All() {
		anew := &export.Export{Name: e.Name, FS: e.FS, Options: export.Options{Squash: e.Squash, AnonUID: e.AnonUID, AnonGID: e.AnonGID}, Security: e.Security}
		differ(anew)
		all = append(all, anew)
		e.Retire()
	}
	if err := s.Exports.Replace(all); err != nil {
		t.Fatal(err)
	}
}

// handleIn returns a PUTFH of the object that names lead to from the root of an export. It
// works whatever flavor the export accepts.
func handleIn(t *testing.T, s *nfs4test.Site, name string, names ...string) nfs4test.Op {
	t.Helper()
	e, _, _ := s.Exports.Resolve(name)
	h := e.FS.Root()
	for _, n := range names {
		o, err := e.FS.Lookup(&vfs.Op{Cred: &vfs.Cred{}}, h, []byte(n), new(vfs.Attr))
		if err != nil {
			t.Fatal(err)
		}
		h = o.Handle
	}
	return putFH(s.Exports.Seal(nil, e, h))
}

func openClaim(claim wire.OpenClaim4) nfs4test.Op {
	args := openArgs("", "owner", readable, 0)
	args.Claim = claim
	return opOpen(args)
}

// A caller whose flavor an export does not accept can find the export and ask for its flavors,
// but can do nothing else there. The standard says which operation gets NFS4ERR_WRONGSEC (RFC
// 8881 §2.6.3.1.1).
func TestWrongSec(t *testing.T) {
	s := knownStrictSite(t)
	put := handleIn(t, s, "/strict")
	putDir, putFile := handleIn(t, s, "/strict", "dir"), handleIn(t, s, "/strict", "file")
	putOpen := handleIn(t, s, "/open")
	putInner := handleIn(t, s, "/strict/dir/below")
	save, restore, up := op(wire.OpSaveFH), op(wire.OpRestoreFH), op(wire.OpLookupp)
	noName := func(style wire.SecinfoStyle4) nfs4test.Op {
		return nfs4test.Op{Number: wire.OpSecInfoNoName, Args: &style}
	}
	here, parent := noName(wire.SecinfoStyle4CurrentFH), noName(wire.SecinfoStyle4Parent)
	byName := openClaim(wire.OpenClaim4{Claim: wire.ClaimNull, File: []byte("file")})
	byHandle := openClaim(wire.OpenClaim4{Claim: wire.ClaimFH})
	reclaim := openClaim(wire.OpenClaim4{Claim: wire.ClaimPrevious})
	const ok, wrong = wire.NFS4OK, wire.NFS4ErrWrongSec
	for _, c := range []struct {
		name  string
		since uint32 // minor version
		ops   []nfs4test.Op
		last  wire.NFSStat4 // status of the last operation that was executed
		ran   int
	}{
		{"the other export", 0, append(walk("open", "dir"), getattr(1)), ok, 4},

		{"§2.6.3.1.1.1: SAVEFH, then nothing", 0, []nfs4test.Op{put, save}, ok, 2},
		{"SAVEFH, then GETATTR", 0, []nfs4test.Op{put, save, getattr(1)}, wrong, 1},
		{"SAVEFH, then another handle", 0, []nfs4test.Op{put, save, putOpen, getattr(1)}, ok, 4},
		{"SAVEFH twice, then READDIR", 0, []nfs4test.Op{put, save, save, readdir(0, 4096)}, wrong, 1},
		{"RESTOREFH, then GETATTR", 0, []nfs4test.Op{put, save, putOpen, restore, getattr(1)}, wrong, 4},
		{"RESTOREFH, then nothing", 0, []nfs4test.Op{put, save, putOpen, restore}, ok, 4},

		{"§2.6.3.1.1.2: puts in a row", 0, []nfs4test.Op{put, putFile, put, putOpen, getattr(1)}, ok, 5},
		{"the last of them is judged", 0, []nfs4test.Op{putOpen, put, getattr(1)}, wrong, 2},

		{"§2.6.3.1.1.3: LOOKUP in it", 0, []nfs4test.Op{put, lookup("file")}, wrong, 2},
		{"LOOKUP of what is not there", 0, []nfs4test.Op{put, lookup("none")}, wrong, 2},
		{"LOOKUP in what is no directory", 0, []nfs4test.Op{putFile, lookup("none")}, wrong, 2},
		{"LOOKUP into it", 0, walk("strict"), wrong, 2},
		{"LOOKUP into it, SECINFO", 0, append(walk("strict"), secinfo("file")), wrong, 2},
		{"LOOKUP out of it", 0, []nfs4test.Op{putDir, lookup("below"), lookup("file"), getattr(1)}, ok, 4},
		{"LOOKUP of that name elsewhere", 0, []nfs4test.Op{put, lookup("below")}, wrong, 2},
		{"LOOKUP from another into a strict one", 0, append(walk("open", "dir"), lookup("below")), wrong, 4},
		{"OPEN of a name in it", 0, []nfs4test.Op{put, byName}, wrong, 2},
		{"SAVEFH, OPEN of a name in it", 0, []nfs4test.Op{put, save, byName}, wrong, 3},

		{"§2.6.3.1.1.4: LOOKUPP out of it", 0, []nfs4test.Op{put, up, getattr(1)}, ok, 3},
		{"LOOKUPP within it", 0, []nfs4test.Op{putDir, up}, wrong, 2},
		{"LOOKUPP into it", 0, []nfs4test.Op{putInner, up}, wrong, 2},

		{"§2.6.3.1.1.5: SECINFO", 0, []nfs4test.Op{put, secinfo("file")}, ok, 2},
		{"SECINFO of what is not there", 0, []nfs4test.Op{put, secinfo("none")}, ok, 2},
		{"SECINFO from above", 0, append(walk(), secinfo("strict")), ok, 2},
		{"SECINFO_NO_NAME", 1, []nfs4test.Op{put, here}, ok, 2},
		{"SECINFO_NO_NAME of the parent", 1, []nfs4test.Op{put, parent}, ok, 2},
		{"SECINFO_NO_NAME of the parent within", 1, []nfs4test.Op{putDir, parent}, ok, 2},
		{"SECINFO_NO_NAME of a strict parent", 1, []nfs4test.Op{putInner, parent}, ok, 2},

		{"§2.6.3.1.1.6: nothing", 0, []nfs4test.Op{put}, ok, 1},

		{"§2.6.3.1.1.7: GETATTR", 0, []nfs4test.Op{put, getattr(1)}, wrong, 1},
		{"GETFH", 0, []nfs4test.Op{put, op(wire.OpGetFH)}, wrong, 1},
		{"READDIR", 0, []nfs4test.Op{put, readdir(0, 4096)}, wrong, 1},
		{"REMOVE", 0, []nfs4test.Op{put, remove("file")}, wrong, 1},
		{"OPEN of the file itself", 1, []nfs4test.Op{putFile, byHandle}, wrong, 1},
		{"OPEN that reclaims it", 0, []nfs4test.Op{putFile, reclaim}, wrong, 1},
		{"an operation that does not exist", 0, []nfs4test.Op{put, op(77)}, wrong, 1},

		{"§2.6.3.1.1.8: SECINFO, READ", 1, []nfs4test.Op{putFile, secinfo("x"), op(wire.OpGetFH)}, wire.NFS4ErrNoFileHandle, 3},
		{"SECINFO_NO_NAME, READ", 1, []nfs4test.Op{putFile, here, getattr(1)}, wire.NFS4ErrNoFileHandle, 3},

		{"§2.6.3.1.2: RENAME in it", 0, []nfs4test.Op{put, save, putDir, rename("file", "other")}, wrong, 3},
		{"RENAME from it", 0, []nfs4test.Op{put, save, putOpen, rename("file", "other")}, wire.NFS4ErrXDev, 4},
		{"RENAME into it", 0, []nfs4test.Op{putOpen, save, put, rename("file", "other")}, wrong, 3},
		{"LINK from it", 0, []nfs4test.Op{putFile, save, putOpen, link("other")}, wire.NFS4ErrXDev, 4},
		{"LINK into it", 0, []nfs4test.Op{handleIn(t, s, "/open", "file"), save, put, link("other")}, wrong, 3},
		{"RENAME from what is no directory, unseen", 0, []nfs4test.Op{putFile, save, putOpen, rename("file", "other")}, wire.NFS4ErrXDev, 4},
	} {
		for minor := c.since; minor < 3; minor++ {
			r := s.Peer(minor).Compound(c.ops...)
			all := statuses(r)
			if len(all) != c.ran || all[len(all)-1] != c.last {
				t.Errorf("minor version %d, %s: %v, want %v from operation %d", minor, c.name, all, c.last, c.ran)
			}
		}
	}
}

// An OPEN that is refused because of its flavor advances its owner's sequence number (RFC
// 7530 §9.1.7).
func TestOwnersNumberUnderAnotherFlavor(t *testing.T) {
	s := knownStrictSite(t)
	p := newFiler(t, s, 0)
	open := p.confirmed(handleIn(t, s, "/open"))
	p.want(wire.NFS4ErrWrongSec, handleIn(t, s, "/strict"), open(9))
	p.want(wire.NFS4OK, handleIn(t, s, "/open"), open(10))
}

// confirmed opens a file in minor version 0, in the directory that put makes current, and
// confirms its owner. This uses up the owner's seqids up to 8. The returned function makes an
// OPEN of this owner.
func (f *filer) confirmed(put nfs4test.Op) (open func(seqid uint32) nfs4test.Op) {
	f.t.Helper()
	open = func(seqid uint32) nfs4test.Op {
		args := openArgs("file", "owner", readable, 0)
		args.Seqid = seqid
		return opOpen(args)
	}
	r := f.want(wire.NFS4OK, put, open(7))
	var res wire.Open4Res
	r.Ops[1].Into(f.t, &res)
	file := openArgs("file", "", 0, 0).Claim.File
	f.want(wire.NFS4OK, put, lookup(string(file)),
		nfs4test.Op{Number: wire.OpOpenConfirm, Args: &wire.OpenConfirm4Args{OpenStateid: res.ResOK.Stateid, Seqid: 8}})
	return open
}

// In minor version 0, SECINFO leaves the current file handle in place (RFC 7530 §16.31.4).
// Later operations of the compound are still refused if the export does not accept the
// flavor.
func TestNoWayAroundBySecInfo(t *testing.T) {
	s := strictSite(t)
	r := s.Peer(0).Compound(handleIn(t, s, "/strict", "file"), secinfo("x"), getattr(1))
	if r.Status != wire.NFS4ErrStale {
		t.Errorf("%v", statuses(r))
	}
}

// A listing contains an export that does not accept the caller's flavor only by its name, with
// NFS4ERR_WRONGSEC in rdattr_error (RFC 8881 §18.29.4).
func TestReaddirUnderAnotherFlavor(t *testing.T) {
	s := strictSite(t)
	for minor := range uint32(3) {
		p := s.Peer(minor)
		for _, at := range [][]string{nil, {"open", "dir"}} {
			for _, e := range list(t, p, at, 4096, wire.Fattr4RdattrError, wire.Fattr4MountedOnFileID, wire.Fattr4Mode) {
				strict := e.name == "strict" || e.name == "below"
				want, mask := wire.NFS4OK, wire.Bits(wire.Fattr4RdattrError, wire.Fattr4MountedOnFileID, wire.Fattr4Mode)
				if strict {
					want, mask = wire.NFS4ErrWrongSec, wire.Bits(wire.Fattr4RdattrError)
				}
				if got := wire.NFSStat4(xdr.NewDecoder(e.values).Uint32()); got != want || e.mask != mask {
					t.Errorf("minor version %d: %v/%s: %v with %v", minor, at, e.name, got, e.mask)
				}
			}
			for _, e := range list(t, p, at, 4096, wire.Fattr4RdattrError, wire.Fattr4MountedOnFileID) {
				d := xdr.NewDecoder(e.values)
				if s, id := wire.NFSStat4(d.Uint32()), d.Uint64(); s != wire.NFS4OK || id == 0 || d.Finish() != nil {
					t.Errorf("minor version %d: %v/%s: %v, mounted on %d", minor, at, e.name, s, id)
				}
			}
		}
		if r := p.Compound(append(walk(), readdir(0, 4096, wire.Fattr4Mode))...); r.Status != wire.NFS4ErrAccess {
			t.Errorf("minor version %d: without rdattr_error: %v", minor, r.Status)
		}
	}
}

// If the flavors of a handle's export change between two operations of a compound, the client
// gets NFS4ERR_DELAY. It sends the compound again and then gets NFS4ERR_WRONGSEC.
func TestPolicyThatChangesMeanwhile(t *testing.T) {
	s := treeSite(t, "/data")
	p := s.Peer(1)
	put := handleIn(t, s, "/data", "file")
	changed := false
	s.Exports.OnRefusedFlavor = func(*rpc.Conn, *export.Export, export.Security) {}
	e, _, _ := s.Exports.Resolve("/data")
	watched := &atLookup{FileSystem: e.FS, f: func() {
		if !changed {
			changed = true
			secure(t, s, func(e *export.Export) { e.Security = []export.Security{export.Krb5} })
		}
	}}
	secure(t, s, func(e *export.Export) { e.FS = watched })
	if r := p.Compound(append(walk("data", "file"), getattr(1))...); r.Status != wire.NFS4ErrDelay {
		t.Errorf("%v", statuses(r))
	}
	if r := p.Compound(put, getattr(1)); r.Status != wire.NFS4ErrWrongSec {
		t.Errorf("once more: %v", statuses(r))
	}
}

// atLookup calls a function before each Lookup.
type atLookup struct {
	vfs.FileSystem
	f func()
}

func (a *atLookup) Unwrap() vfs.FileSystem { return a.FileSystem }

func (a *atLookup) Lookup(op *vfs.Op, dir vfs.Handle, name []byte, attr *vfs.Attr) (vfs.Object, error) {
	a.f()
	return a.FileSystem.Lookup(op, dir, name, attr)
}

// SECINFO lists the flavors of an export, the preferred one first. For a directory that only
// leads to exports, it lists the flavors of all exports.
func TestSecInfoListsTheFlavors(t *testing.T) {
	s := strictSite(t)
	p := s.Peer(1)
	flavors := func(ops ...nfs4test.Op) []uint32 { return flavorsOf(t, p, ops...) }
	if got := flavors(append(walk(), secinfo("strict"))...); !slices.Equal(got, []uint32{63, 61}) {
		t.Errorf("of the strict export: %v", got)
	}
	if got := flavors(append(walk(), secinfo("open"))...); !slices.Equal(got, []uint32{1}) {
		t.Errorf("of the open export: %v", got)
	}
	// The caller is inside an export that does not accept its flavor. It asks for the flavors
	// of that export and of an export nested in it.
	dir := handleIn(t, s, "/strict", "dir")
	for name, want := range map[string][]uint32{"none": {63, 61}, "below": {1}} {
		if got := flavors(dir, secinfo(name)); !slices.Equal(got, want) {
			t.Errorf("of %s in the strict export: %v", name, got)
		}
	}
}

// Each client gets the flavors for its network and must use one of them. At the root SECINFO
// lists the flavors of all exports that serve the client (RFC 8881 §2.6.3.1).
func TestFlavorsByNetwork(t *testing.T) {
	s := treeSite(t, "/data", "/other", "/elsewhere")
	network := netip.MustParsePrefix
	secure(t, s, func(e *export.Export) {
		e.Security = []export.Security{export.Krb5p}
		if e.Name == "/elsewhere" { // it serves none of these clients
			e.Clients, e.Security = []netip.Prefix{network("203.0.113.0/24")}, export.Securities
		}
		if e.Name == "/data" {
			e.Networks = []export.NetworkSecurity{
				{Network: network("192.0.2.0/24"), Security: []export.Security{export.Sys, export.Krb5i}},
				{Network: network("192.0.2.7/32"), Security: []export.Security{export.Krb5}},
			}
		}
	})
	root := nfs4test.Op{Number: wire.OpSecInfoNoName, Args: new(wire.SecinfoStyle4)}
	for _, c := range []struct {
		client     string
		data, root []uint32
		admitted   bool // a caller under AUTH_SYS is accepted
	}{
		{"192.0.2.1", []uint32{1, 62}, []uint32{63, 1, 62}, true},
		{"::ffff:192.0.2.1", []uint32{1, 62}, []uint32{63, 1, 62}, true},
		{"192.0.2.7", []uint32{61}, []uint32{63, 61}, false},
		{"198.51.100.1", []uint32{63}, []uint32{63}, false},
		{"2001:db8::1", []uint32{63}, []uint32{63}, false},
	} {
		p := s.Peer(1)
		p.Conn = s.RPC.NewConn(netip.AddrPortFrom(netip.MustParseAddr(c.client), 700), netip.AddrPort{}, "tcp", true)
		if got := flavorsOf(t, p, append(walk(), secinfo("data"))...); !slices.Equal(got, c.data) {
			t.Errorf("%s: SECINFO: %v, want %v", c.client, got, c.data)
		}
		got := flavorsOf(t, p, op(wire.OpPutRootFH), root)
		slices.Sort(got)
		slices.Sort(c.root)
		if !slices.Equal(got, c.root) {
			t.Errorf("%s: at the root: %v, want %v", c.client, got, c.root)
		}
		want := wire.NFS4OK
		if !c.admitted {
			want = wire.NFS4ErrWrongSec
		}
		if r := p.Compound(append(walk("data"), getattr(1))...); r.Status != want {
			t.Errorf("%s: LOOKUP: %v, want %v", c.client, r.Status, want)
		}
	}
}

// A call that is refused because of its flavor is reported. A call that only asks for flavors
// is not reported.
func TestRefusedFlavorsAreToldOf(t *testing.T) {
	s := strictSite(t)
	var told []string
	s.Exports.OnRefusedFlavor = func(_ *rpc.Conn, e *export.Export, as export.Security) { told = append(told, e.Name+" "+as.String()) }
	p := s.Peer(1)
	p.Compound(append(walk(), secinfo("strict"))...)
	p.Compound(handleIn(t, s, "/strict"))
	p.Compound(append(walk("open"), getattr(1))...)
	if len(told) != 0 {
		t.Errorf("told of %q, where no caller was refused", told)
	}
	p.Compound(append(walk("strict"), getattr(1))...)
	if want := []string{"/strict sys"}; !slices.Equal(told, want) {
		t.Errorf("told of %q, want %q", told, want)
	}
}

// flavorsOf returns the flavors that the last result of a compound lists. A Kerberos flavor
// counts as 60 plus its service.
func flavorsOf(t *testing.T, p *nfs4test.Peer, ops ...nfs4test.Op) (all []uint32) {
	t.Helper()
	r := p.Compound(ops...)
	if r.Status != wire.NFS4OK {
		t.Fatalf("%v", statuses(r))
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

// On a secure export, the port matters only for callers without Kerberos. Such a caller from an
// unprivileged port does not see the export in the tree of names, whatever other calls came
// over the same connection.
func TestPortsOfCallersWithKerberos(t *testing.T) {
	s := treeSite(t, "/srv/data", "/srv/data/below")
	secure(t, s, func(e *export.Export) { e.Secure = true })
	for minor := range uint32(3) {
		p := s.Peer(minor)
		p.Conn = s.RPC.NewConn(netip.MustParseAddrPort("10.1.2.3:40000"), netip.AddrPort{}, "tcp", false)
		for range 2 {
			for _, principal := range []string{"", "alice@TEST"} {
				p.Principal = principal
				for _, c := range []struct {
					ops  []nfs4test.Op
					want wire.NFSStat4 // status without Kerberos
				}{
					{walk("srv", "data"), wire.NFS4ErrNoEnt},
					{walk("srv", "data", "below", "..", ".."), wire.NFS4ErrNoEnt},
					{[]nfs4test.Op{handleIn(t, s, "/srv/data"), lookup("below")}, wire.NFS4ErrStale},
					{[]nfs4test.Op{op(wire.OpPutRootFH), secinfo("srv")}, wire.NFS4ErrNoEnt},
				} {
					want := wire.NFS4OK
					if principal == "" {
						want = c.want
					}
					if r := p.Compound(c.ops...); r.Status != want {
						t.Errorf("minor version %d, principal %q: %v, want %v", minor, principal, statuses(r), want)
					}
				}
			}
		}
	}
}
