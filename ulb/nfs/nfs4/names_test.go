package nfs4_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest"
)

// fattr returns a fattr4 with the values that encode writes.
func fattr(encode func(w *xdr.Writer), numbers ...uint32) wire.FAttr4 {
	w := xdr.NewWriter(make([]byte, 0, 4096))
	if encode != nil {
		encode(w)
	}
	return wire.FAttr4{Attrmask: wire.Bits(numbers...), AttrVals: w.Bytes()}
}

func mode(m uint32) wire.FAttr4 {
	return fattr(func(w *xdr.Writer) { w.Uint32(m) }, wire.Fattr4Mode)
}

func create(t wire.FType4, name string, attrs wire.FAttr4) nfs4test.Op {
	kind := wire.Createtype4{Type: t}
	if t == wire.NF4Lnk {
		kind.Linkdata = xdr.Eligible{Data: []byte("a/b")}
	}
	return nfs4test.Op{Number: wire.OpCreate, Args: &wire.Create4Args{Objtype: kind, Objname: []byte(name), Createattrs: attrs}}
}

func remove(name string) nfs4test.Op {
	return nfs4test.Op{Number: wire.OpRemove, Args: &wire.Remove4Args{Target: []byte(name)}}
}

func rename(from, to string) nfs4test.Op {
	return nfs4test.Op{Number: wire.OpRename, Args: &wire.Rename4Args{Oldname: []byte(from), Newname: []byte(to)}}
}

func link(name string) nfs4test.Op {
	return nfs4test.Op{Number: wire.OpLink, Args: &wire.Link4Args{Newname: []byte(name)}}
}

func secinfo(name string) nfs4test.Op {
	return nfs4test.Op{Number: wire.OpSecInfo, Args: &wire.SecInfo4Args{Name: []byte(name)}}
}

func setattr(attrs wire.FAttr4) nfs4test.Op {
	return nfs4test.Op{Number: wire.OpSetattr, Args: &wire.Setattr4Args{ObjAttributes: attrs}}
}

func verify(n wire.OpNum, attrs wire.FAttr4) nfs4test.Op {
	if n == wire.OpVerify {
		return nfs4test.Op{Number: n, Args: &wire.Verify4Args{Attributes: attrs}}
	}
	return nfs4test.Op{Number: n, Args: &wire.Nverify4Args{Attributes: attrs}}
}

// saved returns operations that walk to an object, save its handle, and walk to a second
// object.
func saved(first, second []string) []nfs4test.Op {
	return append(append(walk(first...), op(wire.OpSaveFH)), walk(second...)...)
}

// A step is a compound with the status that its last operation must have, in0 in minor version
// 0 and in in later ones. All other operations succeed.
type step struct {
	name    string
	ops     []nfs4test.Op
	in0, in wire.NFSStat4
}

// always returns a step that has the same status in all minor versions.
func always(name string, s wire.NFSStat4, at []nfs4test.Op, last nfs4test.Op) step {
	return step{name, append(at[:len(at):len(at)], last), s, s}
}

func at(names ...string) []nfs4test.Op { return walk(append([]string{"data"}, names...)...) }

// badNames lists names that no object can have, with the status for each.
var badNames = []struct {
	name   string
	status wire.NFSStat4
}{
	{"", wire.NFS4ErrInvalid},
	{".", wire.NFS4ErrBadName}, {"..", wire.NFS4ErrBadName},
	{"a/b", wire.NFS4ErrBadChar}, {"/", wire.NFS4ErrBadChar}, {"a\x00b", wire.NFS4ErrBadChar},
	{strings.Repeat("n", 256), wire.NFS4ErrNameTooLong}, {strings.Repeat("n", 4000), wire.NFS4ErrNameTooLong},
}

// nameSteps returns steps for the errors of the operations on names (RFC 7530 §13.2, RFC
// 8881 §15.2). No step changes anything.
func nameSteps() (all []step) {
	const (
		ok     = wire.NFS4OK
		notDir = wire.NFS4ErrNotDir
	)
	for _, bad := range badNames {
		for _, operation := range []struct {
			name string
			at   []nfs4test.Op
			op   nfs4test.Op
		}{
			{"LOOKUP", at(), lookup(bad.name)},
			{"SECINFO", at(), secinfo(bad.name)},
			{"CREATE", at(), create(wire.NF4Dir, bad.name, wire.FAttr4{})},
			{"REMOVE", at(), remove(bad.name)},
			{"RENAME from", saved([]string{"data"}, []string{"data"}), rename(bad.name, "x")},
			{"RENAME to", saved([]string{"data"}, []string{"data"}), rename("file", bad.name)},
			{"LINK", saved([]string{"data", "file"}, []string{"data"}), link(bad.name)},
		} {
			all = append(all, always(fmt.Sprintf("%s %.10q", operation.name, bad.name), bad.status, operation.at, operation.op))
		}
	}
	for _, no := range []struct {
		name   string
		lookup wire.NFSStat4
	}{{"file", notDir}, {"link", wire.NFS4ErrSymlink}} {
		on := at(no.name)
		all = append(all,
			always("LOOKUP in a "+no.name, no.lookup, on, lookup("x")),
			always("LOOKUPP of a "+no.name, no.lookup, on, op(wire.OpLookupp)),
			step{"SECINFO in a " + no.name, append(on[:len(on):len(on)], secinfo("x")), notDir, notDir},
			always("READDIR of a "+no.name, notDir, on, readdir(0, 1000)),
			always("CREATE in a "+no.name, notDir, on, create(wire.NF4Dir, "x", wire.FAttr4{})),
			always("REMOVE in a "+no.name, notDir, on, remove("x")),
			always("RENAME from a "+no.name, notDir, saved([]string{"data", no.name}, []string{"data"}), rename("x", "y")),
			always("RENAME into a "+no.name, notDir, saved([]string{"data"}, []string{"data", no.name}), rename("file", "y")),
			always("LINK into a "+no.name, notDir, saved([]string{"data", "file"}, []string{"data", no.name}), link("y")),
		)
	}
	invalid := func(name string, at []nfs4test.Op) step {
		return step{"READLINK of a " + name, append(at[:len(at):len(at)], op(wire.OpReadlink)), wire.NFS4ErrInvalid, wire.NFS4ErrWrongType}
	}
	return append(all,
		always("LOOKUP of nothing", wire.NFS4ErrNoEnt, at(), lookup("none")),
		always("SECINFO of nothing", wire.NFS4ErrNoEnt, at(), secinfo("none")),
		always("SECINFO", ok, at(), secinfo("file")),
		always("READLINK", ok, at("link"), op(wire.OpReadlink)),
		invalid("file", at("file")), invalid("dir", at("dir")),
		always("CREATE of a file", wire.NFS4ErrBadType, at(), create(wire.NF4Reg, "x", wire.FAttr4{})),
		always("CREATE of an attribute directory", wire.NFS4ErrBadType, at(), create(wire.NF4Attrdir, "x", wire.FAttr4{})),
		always("CREATE of an attribute", wire.NFS4ErrBadType, at(), create(wire.NF4Namedattr, "x", wire.FAttr4{})),
		always("CREATE of a type that is none", wire.NFS4ErrBadType, at(), create(99, "x", wire.FAttr4{})),
		always("CREATE of what is there", wire.NFS4ErrExist, at(), create(wire.NF4Dir, "dir", wire.FAttr4{})),
		always("CREATE of what is there as another type", wire.NFS4ErrExist, at(), create(wire.NF4Lnk, "file", wire.FAttr4{})),
		always("CREATE with an attribute that is fixed", wire.NFS4ErrInvalid, at(), create(wire.NF4Dir, "x", fattr(nil, wire.Fattr4LinkSupport))),
		always("CREATE with a size", wire.NFS4ErrInvalid, at(), create(wire.NF4Dir, "x", fattr(func(w *xdr.Writer) { w.Uint64(0) }, wire.Fattr4Size))),
		always("CREATE with an attribute that is not served", wire.NFS4ErrAttrNotSupp, at(), create(wire.NF4Dir, "x", fattr(nil, wire.Fattr4Hidden))),
		always("CREATE with values that are cut off", wire.NFS4ErrBadXDR, at(), create(wire.NF4Dir, "x", fattr(nil, wire.Fattr4Mode))),
		always("CREATE with an owner that is none", wire.NFS4ErrBadOwner, at(), create(wire.NF4Dir, "x", fattr(func(w *xdr.Writer) { w.String("x") }, wire.Fattr4Owner))),
		always("REMOVE of nothing", wire.NFS4ErrNoEnt, at(), remove("none")),
		always("REMOVE of a directory with names", wire.NFS4ErrNotEmpty, at(), remove("dir")),
		always("RENAME of nothing", wire.NFS4ErrNoEnt, saved([]string{"data"}, []string{"data"}), rename("none", "x")),
		always("RENAME of a file onto a directory", wire.NFS4ErrExist, saved([]string{"data"}, []string{"data"}), rename("file", "empty")),
		always("RENAME of a directory onto a file", wire.NFS4ErrExist, saved([]string{"data"}, []string{"data"}), rename("empty", "file")),
		always("RENAME of a directory onto one with names", wire.NFS4ErrNotEmpty, saved([]string{"data"}, []string{"data"}), rename("empty", "dir")),
		always("RENAME of a directory into itself", wire.NFS4ErrInvalid, saved([]string{"data"}, []string{"data", "dir"}), rename("dir", "x")),
		always("RENAME into another export", wire.NFS4ErrXDev, saved([]string{"data"}, []string{"other"}), rename("file", "x")),
		always("RENAME from a file into another export", notDir, saved([]string{"data", "file"}, []string{"other"}), rename("file", "x")),
		always("RENAME onto itself", ok, saved([]string{"data"}, []string{"data"}), rename("file", "file")),
		always("LINK of a directory", wire.NFS4ErrIsDir, saved([]string{"data", "dir"}, []string{"data"}), link("x")),
		always("LINK onto a name", wire.NFS4ErrExist, saved([]string{"data", "file"}, []string{"data"}), link("link")),
		always("LINK into another export", wire.NFS4ErrXDev, saved([]string{"data", "file"}, []string{"other"}), link("x")),
		always("CREATE above the exports", wire.NFS4ErrROFS, walk(), create(wire.NF4Dir, "x", wire.FAttr4{})),
		always("REMOVE of an export", wire.NFS4ErrROFS, walk(), remove("data")),
		always("REMOVE of a directory that an export hangs at", wire.NFS4ErrAccess, at("dir"), remove("below")),
		always("RENAME of a directory that an export hangs at", wire.NFS4ErrXDev, saved([]string{"data", "dir"}, []string{"data"}), rename("below", "x")),
		always("RENAME onto a directory that an export hangs at", wire.NFS4ErrXDev, saved([]string{"data"}, []string{"data", "dir"}), rename("empty", "below")),
		always("LINK onto a directory that an export hangs at", wire.NFS4ErrExist, saved([]string{"data", "file"}, []string{"data", "dir"}), link("below")),
		always("CREATE of a directory that an export hangs at", wire.NFS4ErrExist, at("dir"), create(wire.NF4Dir, "below", wire.FAttr4{})),
		always("READDIR with cookie 1", wire.NFS4ErrBadCookie, at(), readdir(1, 1000)),
		always("READDIR with cookie 2", wire.NFS4ErrBadCookie, at(), readdir(2, 1000)),
		always("READDIR without room", wire.NFS4ErrTooSmall, at(), readdir(0, 0)),
		always("READDIR without room for the end", wire.NFS4ErrTooSmall, at(), readdir(0, 15)),
		always("READDIR without room for an entry", wire.NFS4ErrTooSmall, at(), readdir(0, 40)),
		always("READDIR of nothing without room for an entry", ok, at("empty"), readdir(0, 16)),
		always("READDIR with an attribute that is only set", wire.NFS4ErrInvalid, at(), readdir(0, 1000, wire.Fattr4TimeAccessSet)),
		always("GETATTR of an attribute that is only set", wire.NFS4ErrInvalid, at(), getattr(wire.Fattr4Size, wire.Fattr4TimeModifySet)),
		always("GETATTR of what is not served", ok, at(), getattr(wire.Fattr4Hidden, wire.Fattr4System, 95)),
	)
}

func noHandle() (all []step) {
	for _, o := range []nfs4test.Op{
		lookup("x"), op(wire.OpLookupp), secinfo("x"), readdir(0, 100), getattr(), remove("x"), rename("x", "y"), link("x"),
		create(wire.NF4Dir, "x", wire.FAttr4{}), op(wire.OpReadlink), setattr(wire.FAttr4{}),
		verify(wire.OpVerify, wire.FAttr4{}), verify(wire.OpNverify, wire.FAttr4{}),
		{Number: wire.OpAccess, Args: &wire.Access4Args{}},
	} {
		all = append(all, always(o.Number.String()+" without a handle", wire.NFS4ErrNoFileHandle, nil, o))
	}
	return append(all,
		always("RENAME without a saved handle", wire.NFS4ErrNoFileHandle, at(), rename("file", "x")),
		always("LINK without a saved handle", wire.NFS4ErrNoFileHandle, at(), link("x")),
	)
}

// runSteps runs each step in each minor version. The steps change nothing.
func runSteps(t *testing.T, s *nfs4test.Site, steps []step) {
	t.Helper()
	for minor := range uint32(3) {
		p := s.Peer(minor)
		for _, c := range steps {
			want := c.in
			if minor == 0 {
				want = c.in0
			}
			r := p.Compound(c.ops...)
			if r.Status != want || len(r.Ops) != len(c.ops) {
				t.Errorf("4.%d: %s: %v, want %v (%v)", minor, c.name, r.Status, want, statuses(r))
			}
		}
	}
}

func TestErrorsOfNames(t *testing.T) {
	s := treeSite(t, "/data", "/data/dir/below", "/other")
	runSteps(t, s, append(nameSteps(), noHandle()...))
}

// If a file system has to wait in each call, the operations return the same statuses.
func TestErrorsOfNamesWhereEachCallWaits(t *testing.T) {
	hesitant := func(fs vfs.FileSystem) vfs.FileSystem { return vfstest.Hesitant(fs) }
	runSteps(t, treeSiteOf(t, hesitant, "/data", "/data/dir/below", "/other"), nameSteps())
}

// A name that is not UTF-8 is accepted, unless the export requires UTF-8.
func TestNamesThatAreNotUTF8(t *testing.T) {
	s := treeSite(t, "/data", "/strict")
	p := s.Peer(1)
	for _, e := range s.Exports.All() {
		e.UTF8 = e.Name == "/strict"
	}
	for _, c := range []struct {
		in   string
		want wire.NFSStat4
	}{{"data", wire.NFS4OK}, {"strict", wire.NFS4ErrInvalid}} {
		for _, name := range []string{"\xff", "cut \xc3", "\xc0\xaf", "\xed\xa0\x80"} {
			if r := p.Compound(append(walk(c.in), create(wire.NF4Dir, name, wire.FAttr4{}))...); r.Status != c.want {
				t.Errorf("%s: %q: %v", c.in, name, r.Status)
			}
		}
	}
}

// From minor version 1 on, SECINFO clears the current file handle (RFC 8881 §2.6.3.1.1.8).
func TestSecinfoConsumesTheHandle(t *testing.T) {
	s := treeSite(t, "/data")
	noName := nfs4test.Op{Number: wire.OpSecInfoNoName, Args: new(wire.SecinfoStyle4)}
	parent := wire.SecinfoStyle4Parent
	above := nfs4test.Op{Number: wire.OpSecInfoNoName, Args: &parent}
	for _, c := range []struct {
		minor uint32
		at    []nfs4test.Op
		op    nfs4test.Op
		want  wire.NFSStat4
	}{
		{0, at(), secinfo("file"), wire.NFS4OK},
		{1, at(), secinfo("file"), wire.NFS4ErrNoFileHandle},
		{1, at(), noName, wire.NFS4ErrNoFileHandle},
		{2, at("file"), noName, wire.NFS4ErrNoFileHandle},
		{1, at("dir"), above, wire.NFS4ErrNoFileHandle},
	} {
		r := s.Peer(c.minor).Compound(append(append(c.at, c.op), op(wire.OpGetFH))...)
		n := len(r.Ops)
		if r.Status != c.want || r.Ops[n-2].Status != wire.NFS4OK {
			t.Errorf("4.%d %v: %v", c.minor, c.op.Number, statuses(r))
			continue
		}
		var res wire.SecInfo4Res
		r.Ops[n-2].Into(t, &res)
		var flavor wire.Secinfo4
		if !res.ResOK.Next(&flavor) || flavor.Flavor != wire.AuthSys {
			t.Errorf("4.%d %v: %+v", c.minor, c.op.Number, flavor)
		}
	}
	if r := s.Peer(1).Compound(append(walk(), above)...); r.Status != wire.NFS4ErrNoEnt {
		t.Errorf("above the root: %v", r.Status)
	}
}
