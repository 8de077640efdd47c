package nfs4_test

import (
	"slices"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// accountSite returns a site with one export that requires an account of its callers, and one
// that does not.
func accountSite(t *testing.T, minors func(m *state.Manager) [3]nfs4.Minor) *nfs4test.Site {
	s := treeSiteWith(t, func(c *nfs4test.Config) { c.Minors = minors }, "/open", "/strict", "/strict/dir/below")
	secure(t, s, func(e *export.Export) { e.RequireAccount = e.Name == "/strict" })
	return s
}

func knownMinors(m *state.Manager) [3]nfs4.Minor {
	return [3]nfs4.Minor{newNumbered(m), newKnown(m, 1), newKnown(m, 2)}
}

// An export that requires an account refuses a principal without one. The first operation that
// would use the export gets NFS4ERR_ACCESS. The principal can still mount the export, and give
// up its state.
func TestPrincipalWithoutAccount(t *testing.T) {
	s := accountSite(t, knownMinors)
	var told []string
	s.Exports.OnRefusedPrincipal = func(_ *rpc.Conn, e *export.Export, principal string) { told = append(told, e.Name+" "+principal) }
	put, putFile := handleIn(t, s, "/strict"), handleIn(t, s, "/strict", "file")
	putOpen := handleIn(t, s, "/open")
	save := op(wire.OpSaveFH)
	current := wire.SecinfoStyle4CurrentFH
	noName := nfs4test.Op{Number: wire.OpSecInfoNoName, Args: &current}
	byName := openClaim(wire.OpenClaim4{Claim: wire.ClaimNull, File: []byte("file")})
	const ok, no = wire.NFS4OK, wire.NFS4ErrAccess
	for _, c := range []struct {
		name  string
		since uint32 // minor version
		ops   []nfs4test.Op
		last  wire.NFSStat4 // status of the last operation that was executed
		ran   int
		told  bool
	}{
		{"the other export", 0, append(walk("open", "file"), accessOp()), ok, 4, false},
		{"what is mounted: LOOKUP, GETFH, GETATTR", 0, append(walk("strict"), op(wire.OpGetFH), getattr(1)), ok, 4, false},
		{"GETATTR of the root by its handle", 0, []nfs4test.Op{put, getattr(1)}, ok, 2, false},
		{"the flavors of the root", 1, []nfs4test.Op{put, noName}, ok, 2, false},
		{"its parent", 0, []nfs4test.Op{put, op(wire.OpLookupp), getattr(1)}, ok, 3, false},
		{"an entry of the pseudo-root", 0, []nfs4test.Op{op(wire.OpPutRootFH), readdir(0, 4096, 1)}, ok, 2, false},

		{"ACCESS of the root", 0, []nfs4test.Op{put, accessOp()}, no, 2, true},
		{"READDIR of the root", 0, []nfs4test.Op{put, readdir(0, 4096)}, no, 2, true},
		{"LOOKUP in it", 0, append(walk("strict"), lookup("file")), no, 3, true},
		{"LOOKUP of what is not there", 0, []nfs4test.Op{put, lookup("none")}, no, 2, true},
		{"LOOKUP of an export below", 0, []nfs4test.Op{handleIn(t, s, "/strict", "dir"), lookup("below")}, no, 2, true},
		{"SECINFO of a name in it", 0, []nfs4test.Op{put, secinfo("file")}, no, 2, true},
		{"GETATTR of a file", 0, []nfs4test.Op{putFile, getattr(1)}, no, 2, true},
		{"the parent of a file's directory", 0, []nfs4test.Op{handleIn(t, s, "/strict", "dir"), op(wire.OpLookupp)}, no, 2, true},
		{"READ", 0, []nfs4test.Op{putFile, opRead(state.Anonymous, 0, 1)}, no, 2, true},
		{"WRITE", 0, []nfs4test.Op{putFile, opWrite(state.Anonymous, 0, "x")}, no, 2, true},
		{"OPEN", 1, []nfs4test.Op{put, byName}, no, 2, true},
		{"REMOVE", 0, []nfs4test.Op{put, {Number: wire.OpRemove, Args: &wire.Remove4Args{Target: []byte("file")}}}, no, 2, true},
		{"LINK of a file of it elsewhere", 0, []nfs4test.Op{putFile, save, putOpen, link("other")}, no, 4, true},
		{"the export below, by its handle", 0, []nfs4test.Op{handleIn(t, s, "/strict/dir/below"), lookup("file"), getattr(1)}, ok, 3, false},

		// The export accepts the CLOSE. It fails because the stateid is not valid.
		{"CLOSE", 1, []nfs4test.Op{putFile, opClose(wire.StateID4{Seqid: 1, Other: [12]byte{1}}, 0)}, wire.NFS4ErrBadStateID, 2, false},
	} {
		for minor := c.since; minor <= 2; minor++ {
			p := s.Peer(minor)
			p.Principal = "guest@TEST"
			told = nil
			if r := p.Compound(c.ops...); r.Status != c.last || len(r.Ops) != c.ran {
				t.Errorf("%s, minor version %d: %v, want %v of operation %d", c.name, minor, statuses(r), c.last, c.ran)
			}
			if want := []string{"/strict guest@TEST"}; c.told && !slices.Equal(told, want) || !c.told && told != nil {
				t.Errorf("%s, minor version %d: told of %q", c.name, minor, told)
			}
			p.Principal = ""
			if r := p.Compound(c.ops...); r.Status == no {
				t.Errorf("%s, minor version %d, under AUTH_SYS: %v", c.name, minor, statuses(r))
			}
		}
	}
}

// A caller that cannot be identified at present gets NFS4ERR_DELAY. It does not act as the
// anonymous user and gets no final error.
func TestPrincipalThatIsNotIdentified(t *testing.T) {
	s := accountSite(t, knownMinors)
	s.Exports.OnRefusedPrincipal = func(_ *rpc.Conn, e *export.Export, principal string) { t.Errorf("%s refused by %s", principal, e.Name) }
	for minor := range uint32(3) {
		p := s.Peer(minor)
		p.Principal = nfs4test.Unsure
		for _, name := range []string{"open", "strict"} {
			if r := p.Compound(append(walk(name), accessOp())...); r.Status != wire.NFS4ErrDelay || len(r.Ops) != 3 {
				t.Errorf("minor version %d, %s: %v", minor, name, statuses(r))
			}
			if r := p.Compound(handleIn(t, s, "/"+name, "file"), opWrite(state.Anonymous, 0, "x")); r.Status != wire.NFS4ErrDelay {
				t.Errorf("minor version %d, a WRITE in %s: %v", minor, name, statuses(r))
			}
		}
	}
}

// An OPEN of minor version 0 that is refused because the caller has no account uses up the
// owner's seqid (RFC 7530 §9.1.7).
func TestOwnersNumberWithoutAccount(t *testing.T) {
	s := accountSite(t, knownMinors)
	p := &filer{Peer: s.Peer(0), t: t}
	open := p.confirmed(handleIn(t, s, "/strict"))
	p.Principal = "guest@TEST"
	p.want(wire.NFS4ErrAccess, append(walk("strict"), open(9))...)
	p.want(wire.NFS4ErrAccess, append(walk("strict"), open(9))...) // the same request again
	p.Principal = ""
	p.want(wire.NFS4OK, append(walk("strict"), open(10))...)
}

// The client's machine needs no account for maintenance on behalf of its users, also after a
// GETATTR.
func TestMaintenanceWithoutAccount(t *testing.T) {
	s := accountSite(t, func(*state.Manager) [3]nfs4.Minor { return [3]nfs4.Minor{1: maintained{}} })
	p := s.Peer(1)
	p.Principal = "host/client@TEST"
	put, commit := handleIn(t, s, "/strict", "dir"), nfs4test.Op{Number: wire.OpCommit, Args: &wire.Commit4Args{}}
	// NFS4ERR_ISDIR shows that the operation was admitted: a directory cannot be committed.
	for _, ops := range [][]nfs4test.Op{{put, commit}, {put, getattr(1), commit}} {
		if r := p.Compound(ops...); r.Status != wire.NFS4ErrIsDir {
			t.Errorf("%v", statuses(r))
		}
	}
	if r := p.Compound(put, getattr(1)); r.Status != wire.NFS4ErrAccess {
		t.Errorf("GETATTR alone: %v", statuses(r))
	}
}
