package nfs4_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/pseudo"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
)

// treeSite returns a site with all minor versions and a tree of names. It has an export in
// memory for each name, with the directories "dir", "dir/below" and "empty", a file "file" and
// a symbolic link "link". An export whose name ends in '-' does not serve the test's client.
func treeSite(t testing.TB, names ...string) *nfs4test.Site {
	return treeSiteWith(t, nil, names...)
}

// treeSiteWith is like treeSite, with a configuration that change has modified.
func treeSiteWith(t testing.TB, change func(*nfs4test.Config), names ...string) *nfs4test.Site {
	return anyTreeSite(t, change, func(fs vfs.FileSystem) vfs.FileSystem { return fs }, names...)
}

// treeSiteOf is like treeSite, with file systems that wrap has wrapped.
func treeSiteOf(t testing.TB, wrap func(vfs.FileSystem) vfs.FileSystem, names ...string) *nfs4test.Site {
	return anyTreeSite(t, nil, wrap, names...)
}

func anyTreeSite(t testing.TB, change func(*nfs4test.Config), wrap func(vfs.FileSystem) vfs.FileSystem, names ...string) *nfs4test.Site {
	cfg := nfs4test.Config{
		Root: func(table *export.Table) vfs.FileSystem { return pseudo.Seen{FS: pseudo.Attach(table)} },
		Minors: func(*state.Manager) [3]nfs4.Minor {
			return [3]nfs4.Minor{plain{}, plain{}, plain{}}
		},
	}
	if change != nil {
		change(&cfg)
	}
	s := nfs4test.New(t, cfg)
	var all []*export.Export
	for _, name := range names {
		fs := memfs.New(memfs.Options{RootMode: 0o777})
		op := vfs.Op{Cred: &vfs.Cred{}}
		must := func(o vfs.Object, _ vfs.Change, err error) vfs.Handle {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			return o.Handle
		}
		dir := must(fs.Mkdir(&op, fs.Root(), []byte("dir"), &vfs.SetAttr{SetMode: true, Mode: 0o777}))
		must(fs.Mkdir(&op, dir, []byte("below"), &vfs.SetAttr{SetMode: true, Mode: 0o777}))
		must(fs.Mkdir(&op, fs.Root(), []byte("empty"), &vfs.SetAttr{SetMode: true, Mode: 0o777}))
		must(fs.Create(&op, fs.Root(), []byte("file"), &vfs.CreateHow{Attr: vfs.SetAttr{SetMode: true, Mode: 0o666}}))
		must(fs.Symlink(&op, fs.Root(), []byte("link"), []byte("file"), &vfs.SetAttr{}))
		e := &export.Export{Name: name, FS: wrap(fs), Options: export.Options{Squash: export.NoSquash, AnonUID: export.Nobody, AnonGID: export.Nobody}}
		if name[len(name)-1] == '-' {
			e.Clients = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
		}
		all = append(all, e)
	}
	if err := s.Exports.Replace(all); err != nil {
		t.Fatal(err)
	}
	return s
}

func lookup(name string) nfs4test.Op {
	return nfs4test.Op{Number: wire.OpLookup, Args: &wire.Lookup4Args{Objname: []byte(name)}}
}

// walk returns the operations of a walk from the root.
func walk(names ...string) []nfs4test.Op {
	ops := []nfs4test.Op{op(wire.OpPutRootFH)}
	for _, name := range names {
		if name == ".." {
			ops = append(ops, op(wire.OpLookupp))
		} else {
			ops = append(ops, lookup(name))
		}
	}
	return ops
}

func getattr(numbers ...uint32) nfs4test.Op {
	return nfs4test.Op{Number: wire.OpGetattr, Args: &wire.Getattr4Args{AttrRequest: wire.Bits(numbers...)}}
}

func readdir(cookie uint64, maxcount uint32, numbers ...uint32) nfs4test.Op {
	return nfs4test.Op{Number: wire.OpReaddir, Args: &wire.Readdir4Args{
		Cookie: cookie, Dircount: maxcount, Maxcount: maxcount, AttrRequest: wire.Bits(numbers...),
	}}
}

// handleOf returns the handle of the object at the end of a walk.
func handleOf(t *testing.T, p *nfs4test.Peer, names ...string) []byte {
	t.Helper()
	r := p.Compound(append(walk(names...), op(wire.OpGetFH))...)
	if r.Status != wire.NFS4OK {
		t.Fatalf("%v: %v %v", names, r.Status, statuses(r))
	}
	var res wire.GetFH4Res
	r.Ops[len(r.Ops)-1].Into(t, &res)
	return slices.Clone(res.ResOK.Object)
}

// valuesOf returns attributes of the object at the end of a walk: their bitmap, and a decoder
// of their values.
func valuesOf(t *testing.T, p *nfs4test.Peer, names []string, numbers ...uint32) (wire.Bitmap4, *xdr.Decoder) {
	t.Helper()
	r := p.Compound(append(walk(names...), getattr(numbers...))...)
	if r.Status != wire.NFS4OK {
		t.Fatalf("%v: %v %v", names, r.Status, statuses(r))
	}
	var res wire.Getattr4Res
	r.Ops[len(r.Ops)-1].Into(t, &res)
	return res.ResOK.Attributes.Attrmask, xdr.NewDecoder(res.ResOK.Attributes.AttrVals)
}

// An entry is an entry of a listing, with the bitmap and the values of its attributes.
type entry struct {
	name   string
	cookie uint64
	mask   wire.Bitmap4
	values []byte
}

// list reads a directory to its end, by READDIRs of at most maxcount bytes each.
func list(t *testing.T, p *nfs4test.Peer, names []string, maxcount uint32, numbers ...uint32) (all []entry) {
	t.Helper()
	var cookie uint64
	for {
		r := p.Compound(append(walk(names...), readdir(cookie, maxcount, numbers...))...)
		if r.Status != wire.NFS4OK {
			t.Fatalf("%v: %v %v", names, r.Status, statuses(r))
		}
		var res wire.Readdir4Res
		r.Ops[len(r.Ops)-1].Into(t, &res)
		var e wire.Entry4
		for entries := res.ResOK.Reply.Entries; entries.Next(&e); {
			all = append(all, entry{string(e.Name), e.Cookie, e.Attrs.Attrmask, slices.Clone(e.Attrs.AttrVals)})
			cookie = e.Cookie
		}
		if res.ResOK.Reply.EOF {
			return all
		}
	}
}

func namesOf(all []entry) (names []string) {
	for _, e := range all {
		names = append(names, e.name)
	}
	slices.Sort(names)
	return names
}

func TestTreeOfNames(t *testing.T) {
	s := treeSite(t, "/data", "/data/dir/inner", "/srv/a/deep", "/srv/b", "/hidden-", "/half-/seen", "/data/gone/lost")
	p := s.Peer(0)
	for _, c := range []struct {
		path []string
		want wire.NFSStat4
		in   string // the export in which the path ends; "" for directories of the tree
	}{
		{nil, wire.NFS4OK, ""},
		{[]string{"data"}, wire.NFS4OK, "/data"},
		{[]string{"data", "dir"}, wire.NFS4OK, "/data"},
		{[]string{"data", "dir", "inner"}, wire.NFS4OK, "/data/dir/inner"},
		{[]string{"data", "dir", "inner", "file"}, wire.NFS4OK, "/data/dir/inner"},
		{[]string{"data", "inner"}, wire.NFS4ErrNoEnt, ""},
		{[]string{"data", "dir", "below", "inner"}, wire.NFS4ErrNoEnt, ""},
		{[]string{"data", "gone"}, wire.NFS4ErrNoEnt, ""},
		{[]string{"srv"}, wire.NFS4OK, ""},
		{[]string{"srv", "a"}, wire.NFS4OK, ""},
		{[]string{"srv", "a", "deep"}, wire.NFS4OK, "/srv/a/deep"},
		{[]string{"srv", "b"}, wire.NFS4OK, "/srv/b"},
		{[]string{"hidden-"}, wire.NFS4ErrNoEnt, ""},
		{[]string{"half-"}, wire.NFS4OK, ""},
		{[]string{"half-", "file"}, wire.NFS4ErrNoEnt, ""},
		{[]string{"half-", "seen"}, wire.NFS4OK, "/half-/seen"},
		{[]string{"none"}, wire.NFS4ErrNoEnt, ""},
		{[]string{".."}, wire.NFS4ErrNoEnt, ""},
		{[]string{"srv", "..", ".."}, wire.NFS4ErrNoEnt, ""},
		{[]string{"srv", "a", ".."}, wire.NFS4OK, ""},
		{[]string{"data", ".."}, wire.NFS4OK, ""},
		{[]string{"data", "dir", "inner", ".."}, wire.NFS4OK, "/data"},
		{[]string{"data", "dir", "inner", "..", "below"}, wire.NFS4OK, "/data"},
		{[]string{"srv", "a", "deep", "..", "..", "b"}, wire.NFS4OK, "/srv/b"},
	} {
		r := p.Compound(walk(c.path...)...)
		if r.Status != c.want {
			t.Errorf("%v: %v %v", c.path, r.Status, statuses(r))
			continue
		}
		if c.want != wire.NFS4OK {
			continue
		}
		o, err := s.Exports.Find(handleOf(t, p, c.path...))
		if err != nil {
			t.Fatal(err)
		}
		if in := o.Export.Name; in != c.in && (c.in != "" || o.Export != s.Exports.Root()) {
			t.Errorf("%v leads into %s", c.path, in)
		}
	}
}

// A listing shows an export that is attached in the directory with the attributes of the
// export's root.
func TestListingShowsJunctions(t *testing.T) {
	s := treeSite(t, "/data", "/data/dir/below", "/srv/a", "/hidden-", "/half-/seen")
	p := s.Peer(0)
	for _, c := range []struct {
		path, want []string
	}{
		{nil, []string{"data", "half-", "srv"}},
		{[]string{"srv"}, []string{"a"}},
		{[]string{"data"}, []string{"dir", "empty", "file", "link"}},
		{[]string{"data", "dir"}, []string{"below"}},
		{[]string{"data", "dir", "below"}, []string{"dir", "empty", "file", "link"}},
	} {
		all := list(t, p, c.path, 4096, wire.Fattr4RdattrError, wire.Fattr4FSID, wire.Fattr4Filehandle, wire.Fattr4FileID, wire.Fattr4MountedOnFileID)
		if got := namesOf(all); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.path, got, c.want)
		}
		for _, e := range all {
			path := append(slices.Clone(c.path), e.name)
			mask, d := valuesOf(t, p, path, wire.Fattr4RdattrError, wire.Fattr4FSID, wire.Fattr4Filehandle, wire.Fattr4FileID, wire.Fattr4MountedOnFileID)
			if mask != e.mask || string(d.Rest()) != string(e.values) {
				t.Errorf("%v: listed as %x, is %x", path, e.values, d.Rest())
			}
		}
	}
}

func TestFileSystemsDiffer(t *testing.T) {
	p := treeSite(t, "/data", "/data/dir").Peer(0)
	seen := map[[2]uint64]bool{}
	for _, path := range [][]string{nil, {"data"}, {"data", "dir"}} {
		_, d := valuesOf(t, p, path, wire.Fattr4FSID)
		seen[[2]uint64{d.Uint64(), d.Uint64()}] = true
	}
	if len(seen) != 3 {
		t.Errorf("%v", seen)
	}
	// The root of an export covers an object of another file system. Other objects cover
	// nothing.
	_, d := valuesOf(t, p, []string{"data", "dir"}, wire.Fattr4FileID, wire.Fattr4MountedOnFileID)
	if root, covered := d.Uint64(), d.Uint64(); root == covered {
		t.Errorf("the root of an export has number %d, and covers %d", root, covered)
	}
	_, d = valuesOf(t, p, []string{"data", "file"}, wire.Fattr4FileID, wire.Fattr4MountedOnFileID)
	if file, covered := d.Uint64(), d.Uint64(); file != covered {
		t.Errorf("a file has number %d, and covers %d", file, covered)
	}
}

// An export can itself be the root of the tree.
func TestExportAsRoot(t *testing.T) {
	for _, c := range []struct {
		root  string
		names []string
		path  []string
		in    string
	}{
		{"", []string{"/", "/dir/below"}, []string{"file"}, "/"},
		{"", []string{"/", "/dir/below"}, []string{"dir", "below", "file"}, "/dir/below"},
		{"", []string{"/", "/dir/below"}, []string{"dir", "below", ".."}, "/"},
		{"/srv", []string{"/srv", "/srv/dir/below"}, []string{"dir", "below"}, "/srv/dir/below"},
		{"/srv", []string{"/srv", "/dir/other"}, []string{"dir", "other"}, "/dir/other"},
		{"/srv", []string{"/srv"}, nil, "/srv"},
		{"/srv-", []string{"/srv-", "/srv-/seen"}, []string{"seen", "file"}, "/srv-/seen"},
	} {
		s := treeSite(t, c.names...)
		for _, e := range s.Exports.All() {
			e.Root = e.Name == c.root
		}
		if err := s.Exports.Replace(slices.Clone(s.Exports.All())); err != nil {
			t.Fatal(err)
		}
		o, err := s.Exports.Find(handleOf(t, s.Peer(0), c.path...))
		if err != nil || o.Export.Name != c.in {
			t.Errorf("%v: %v leads into %v, %v", c.names, c.path, o, err)
		}
	}
}

func TestDirectoryInManyResults(t *testing.T) {
	s := treeSite(t, "/data", "/data/many/x7", "/data/many/x8")
	e := s.Exports.All()[2]
	op := vfs.Op{Cred: &vfs.Cred{}}
	dir, _, err := e.FS.Mkdir(&op, e.FS.Root(), []byte("many"), &vfs.SetAttr{SetMode: true, Mode: 0o755})
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range 40 {
		name := "x" + string(rune('0'+i/10)) + string(rune('0'+i%10))
		if i == 7 || i == 8 {
			name = "x" + string(rune('0'+i))
		}
		if _, _, err := e.FS.Mkdir(&op, dir.Handle, []byte(name), &vfs.SetAttr{}); err != nil {
			t.Fatal(err)
		}
		want = append(want, name)
	}
	slices.Sort(want)
	for _, maxcount := range []uint32{80, 100, 200, 1000, 1 << 20} {
		all := list(t, s.Peer(2), []string{"data", "many"}, maxcount, wire.Fattr4RdattrError, wire.Fattr4FileID)
		if got := namesOf(all); !slices.Equal(got, want) {
			t.Errorf("in results of %d bytes: %v", maxcount, got)
		}
	}
}
