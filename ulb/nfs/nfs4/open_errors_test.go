package nfs4_test

import (
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Names of one object of each type in the root.
const (
	aFile, aDir, aLink, aFIFO = "file", "dir", "link", "fifo"
)

// kindsSite returns a site with an object of each type.
func kindsSite(t *testing.T) *nfs4test.Site {
	t.Helper()
	s := openSite(t)
	fs, op := s.FS, vfs.Op{Cred: &vfs.Cred{}}
	mode := vfs.SetAttr{SetMode: true, Mode: 0o777}
	must := func(_ vfs.Object, _ vfs.Change, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(fs.Create(&op, fs.Root(), []byte(aFile), &vfs.CreateHow{Attr: mode}))
	must(fs.Mkdir(&op, fs.Root(), []byte(aDir), &mode))
	must(fs.Symlink(&op, fs.Root(), []byte(aLink), []byte("file"), &mode))
	must(fs.Mknod(&op, fs.Root(), []byte(aFIFO), vfs.FIFO, &mode, 0, 0))
	return s
}

func opLookup(name string) nfs4test.Op {
	return nfs4test.Op{Number: wire.OpLookup, Args: &wire.Lookup4Args{Objname: []byte(name)}}
}

func TestOpenErrors(t *testing.T) {
	const none = ^uint32(0) // all minor versions
	open := func(name string) *wire.Open4Args { return openArgs(name, "me", readable, 0) }
	shares := func(access, deny uint32) *wire.Open4Args { return openArgs(aFile, "me", access, deny) }
	claims := func(claim wire.OpenClaimType4) *wire.Open4Args {
		a := open(aFile)
		a.Claim.Claim = claim
		return a
	}
	create := func(name string, mode wire.Createmode4) *wire.Open4Args {
		return creating(open(name), mode, fileMode(0o600))
	}
	for _, c := range []struct {
		name  string
		minor uint32 // the minor version to test, or none for all of them
		at    string // name in the root whose handle is current; if empty, the root's handle is
		args  *wire.Open4Args
		want  wire.NFSStat4
	}{
		{"a file", none, "", open(aFile), wire.NFS4OK},
		{"no such name", none, "", open("nothing"), wire.NFS4ErrNoEnt},
		{"an empty name", none, "", open(""), wire.NFS4ErrInvalid},
		{"a name with a slash", none, "", open("a/b"), wire.NFS4ErrBadChar},
		{"the directory itself", none, "", open("."), wire.NFS4ErrBadName},
		{"the directory above", none, "", open(".."), wire.NFS4ErrBadName},
		{"a name that is too long", none, "", open(strings.Repeat("x", 256)), wire.NFS4ErrNameTooLong},
		{"a directory", none, "", open(aDir), wire.NFS4ErrIsDir},
		{"a symbolic link", none, "", open(aLink), wire.NFS4ErrSymlink},
		{"a FIFO", 0, "", open(aFIFO), wire.NFS4ErrSymlink},
		{"a FIFO", 1, "", open(aFIFO), wire.NFS4ErrWrongType},
		{"in a file", none, aFile, open(aFile), wire.NFS4ErrNotDir},

		{"no access", none, "", shares(0, 0), wire.NFS4ErrInvalid},
		{"unknown access", none, "", shares(4, 0), wire.NFS4ErrInvalid},
		{"unknown wishes", 1, "", shares(readable|1<<30, 0), wire.NFS4ErrInvalid},
		{"unknown deny mode", none, "", shares(readable, 4), wire.NFS4ErrInvalid},
		{"wishes that came with minor version 1", 0, "", shares(readable|wire.Open4ShareAccessWantNoDeleg, 0), wire.NFS4ErrInvalid},
		{"wishes", 1, "", shares(readable|wire.Open4ShareAccessWantNoDeleg, 0), wire.NFS4OK},
		{"wishes for times", 1, "", shares(readable|0x100000, 0), wire.NFS4OK},

		{"CLAIM_FH", 1, aFile, claims(wire.ClaimFH), wire.NFS4OK},
		{"CLAIM_FH", 0, aFile, claims(wire.ClaimFH), wire.NFS4ErrBadXDR},
		{"CLAIM_FH of a directory", 1, aDir, claims(wire.ClaimFH), wire.NFS4ErrIsDir},
		{"CLAIM_FH of a symbolic link", 1, aLink, claims(wire.ClaimFH), wire.NFS4ErrSymlink},
		{"CLAIM_FH of a FIFO", 1, aFIFO, claims(wire.ClaimFH), wire.NFS4ErrWrongType},
		{"CLAIM_FH that creates", 1, aFile, creating(claims(wire.ClaimFH), wire.Unchecked4, fileMode(0)), wire.NFS4ErrInvalid},
		{"CLAIM_PREVIOUS without grace", none, aFile, claims(wire.ClaimPrevious), wire.NFS4ErrNoGrace},
		{"CLAIM_DELEGATE_CUR", none, "", claims(wire.ClaimDelegateCur), wire.NFS4ErrBadStateID},
		{"CLAIM_DELEG_CUR_FH", 1, aFile, claims(wire.ClaimDelegCurFH), wire.NFS4ErrBadStateID},
		{"CLAIM_DELEGATE_PREV", 0, "", claims(wire.ClaimDelegatePrev), wire.NFS4ErrNotSupp},
		{"CLAIM_DELEGATE_PREV", 1, "", claims(wire.ClaimDelegatePrev), wire.NFS4ErrReclaimBad},
		{"CLAIM_DELEG_PREV_FH", 1, aFile, claims(wire.ClaimDelegPrevFH), wire.NFS4ErrReclaimBad},

		{"UNCHECKED4 of a file", none, "", create(aFile, wire.Unchecked4), wire.NFS4OK},
		{"UNCHECKED4 of a directory", none, "", create(aDir, wire.Unchecked4), wire.NFS4ErrIsDir},
		{"UNCHECKED4 of a symbolic link", none, "", create(aLink, wire.Unchecked4), wire.NFS4ErrSymlink},
		{"UNCHECKED4 of a FIFO", 1, "", create(aFIFO, wire.Unchecked4), wire.NFS4ErrWrongType},
		{"UNCHECKED4 without a name", none, "", create("", wire.Unchecked4), wire.NFS4ErrInvalid},
		{"GUARDED4 of a file", none, "", create(aFile, wire.Guarded4), wire.NFS4ErrExist},
		{"GUARDED4 of a directory", none, "", create(aDir, wire.Guarded4), wire.NFS4ErrExist},
		{"EXCLUSIVE4 of a file", none, "", create(aFile, wire.Exclusive4), wire.NFS4ErrExist},
		{"EXCLUSIVE4_1 of a file", 1, "", create(aFile, wire.Exclusive41), wire.NFS4ErrExist},
		{"EXCLUSIVE4_1", 0, "", create("new", wire.Exclusive41), wire.NFS4ErrBadXDR},
		{"an attribute that can only be got", none, "", creating(open("new"), wire.Unchecked4,
			wire.FAttr4{Attrmask: wire.Bits(wire.Fattr4Type), AttrVals: []byte{0, 0, 0, 1}}), wire.NFS4ErrInvalid},
		{"an attribute that is not supported", none, "", creating(open("new"), wire.Unchecked4,
			wire.FAttr4{Attrmask: wire.Bits(wire.Fattr4Hidden), AttrVals: []byte{0, 0, 0, 1}}), wire.NFS4ErrAttrNotSupp},
		{"attributes that are cut off", none, "", creating(open("new"), wire.Unchecked4,
			wire.FAttr4{Attrmask: wire.Bits(wire.Fattr4Mode), AttrVals: []byte{0, 0}}), wire.NFS4ErrBadXDR},
	} {
		for minor := range uint32(3) {
			if c.minor != none && c.minor != min(minor, 1) {
				continue
			}
			s := kindsSite(t)
			f := newFiler(t, s, minor)
			ops := []nfs4test.Op{op(wire.OpPutRootFH)}
			if c.at != "" {
				ops = append(ops, opLookup(c.at))
			}
			if r := f.Compound(append(ops, opOpen(c.args))...); r.Status != c.want {
				t.Errorf("%s in minor version %d: %v, not %v", c.name, minor, r.Status, c.want)
			}
			if u := s.State.Usage(); c.want != wire.NFS4OK && (u.Opens > 0 || minor > 0 && u.Owners > 0) {
				t.Errorf("%s in minor version %d: left over: %+v", c.name, minor, u)
			}
		}
	}
}

func TestOpenOnReadOnlyExport(t *testing.T) {
	s := kindsSite(t)
	s.Exports.Root().ReadOnly = true
	f := newFiler(t, s, 1)
	f.close(f.open(openArgs(aFile, "me", readable, 0)))
	f.refused(wire.NFS4ErrROFS, openArgs(aFile, "me", writable, 0))
	f.refused(wire.NFS4ErrROFS, openArgs(aFile, "me", both, 0))
	f.refused(wire.NFS4ErrROFS, creating(openArgs("new", "me", readable, 0), wire.Unchecked4, fileMode(0)))
	f.refused(wire.NFS4ErrNoEnt, openArgs("new", "me", readable, 0))
}

// If an operation on content gets an object that is no regular file, its status names the
// object's type.
func TestContentOperationsReportTheObjectsType(t *testing.T) {
	s := kindsSite(t)
	for _, c := range []struct {
		name  string
		later bool // true for minor versions after 0
		want  wire.NFSStat4
	}{
		{aDir, false, wire.NFS4ErrIsDir}, {aLink, false, wire.NFS4ErrInvalid}, {aFIFO, false, wire.NFS4ErrInvalid},
		{aDir, true, wire.NFS4ErrIsDir}, {aLink, true, wire.NFS4ErrSymlink}, {aFIFO, true, wire.NFS4ErrWrongType},
	} {
		minor := uint32(0)
		if c.later {
			minor = 1
		}
		f := newFiler(t, s, minor)
		for _, o := range []nfs4test.Op{
			opRead(state.Anonymous, 0, 1), opWrite(state.Anonymous, 0, "x"),
			{Number: wire.OpCommit, Args: &wire.Commit4Args{}},
			{Number: wire.OpLockt, Args: &wire.Lockt4Args{Locktype: wire.ReadLt, Length: 1, Owner: wire.StateOwner4{Owner: []byte("me")}}},
		} {
			if r := f.Compound(op(wire.OpPutRootFH), opLookup(c.name), o); r.Status != c.want {
				t.Errorf("%v of %s in minor version %d: %v, not %v", o.Number, c.name, minor, r.Status, c.want)
			}
		}
	}
}

func TestCommitBeyondTheEnd(t *testing.T) {
	s := kindsSite(t)
	for minor, want := range []wire.NFSStat4{wire.NFS4ErrInvalid, wire.NFS4OK, wire.NFS4OK} {
		f := newFiler(t, s, uint32(minor))
		at := []nfs4test.Op{op(wire.OpPutRootFH), opLookup(aFile)}
		f.want(wire.NFS4OK, append(at, nfs4test.Op{Number: wire.OpCommit, Args: &wire.Commit4Args{Offset: 1<<64 - 1}})...)
		f.want(want, append(at, nfs4test.Op{Number: wire.OpCommit, Args: &wire.Commit4Args{Offset: 1<<64 - 1, Count: 1}})...)
	}
}
