package nfs4_test

import (
	"slices"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest"
)

// eachWay runs a test on several sites with the exports /data and /other. The file system of
// the first never has to wait. That of the second has to wait in every call. Each of the others
// has to wait in one method.
func eachWay(t *testing.T, test func(t *testing.T, s *nfs4test.Site)) {
	plainly := func(fs vfs.FileSystem) vfs.FileSystem { return fs }
	t.Run("at once", func(t *testing.T) { test(t, treeSiteOf(t, plainly, "/data", "/other")) })
	for _, only := range [][]string{nil, {"GetAttr"}, {"SetAttr"}, {"Lookup"}, {"Access"}, {"Remove"}, {"Rmdir"}, {"Mkdir"}, {"ReadDir"}, {"Info"}, {"Usage"}} {
		name := "waiting"
		if only != nil {
			name += " for " + only[0]
		}
		t.Run(name, func(t *testing.T) {
			test(t, treeSiteOf(t, func(fs vfs.FileSystem) vfs.FileSystem { return vfstest.Hesitant(fs, only...) }, "/data", "/other"))
		})
	}
}

// wantChange checks the change of a directory that a result reports against the directory's
// attributes before and after.
func wantChange(t *testing.T, what string, c wire.ChangeInfo4, before, after vfs.Attr) {
	t.Helper()
	if !c.Atomic || c.Before != before.Change || c.After != after.Change || c.Before == c.After {
		t.Errorf("%s: %+v, want %d to %d", what, c, before.Change, after.Change)
	}
}

func TestCreate(t *testing.T) {
	eachWay(t, func(t *testing.T, s *nfs4test.Site) {
		for minor := range uint32(3) {
			p := s.Peer(minor)
			for i, kind := range []wire.FType4{wire.NF4Dir, wire.NF4Lnk, wire.NF4Sock, wire.NF4Fifo, wire.NF4Chr, wire.NF4Blk} {
				name := "new" + string(rune('a'+3*i+int(minor)))
				before := attrOf(t, p, "data")
				attrs := fattr(func(w *xdr.Writer) { w.Uint32(0o741); w.String("7") }, wire.Fattr4Mode, wire.Fattr4Owner)
				r := p.Compound(append(at(), create(kind, name, attrs), op(wire.OpGetFH), getattr(wire.Fattr4Type, wire.Fattr4Owner))...)
				if r.Status != wire.NFS4OK {
					t.Fatalf("%v: %v", kind, statuses(r))
				}
				var res wire.Create4Res
				r.Ops[2].Into(t, &res)
				wantChange(t, name, res.ResOK.Cinfo, before, attrOf(t, p, "data"))
				if res.ResOK.Attrset != attrs.Attrmask {
					t.Errorf("%v: %v set", kind, res.ResOK.Attrset)
				}
				var fh wire.GetFH4Res
				r.Ops[3].Into(t, &fh)
				if string(fh.ResOK.Object) != string(handleOf(t, p, "data", name)) {
					t.Errorf("%v: the current handle is another's", kind)
				}
				var got wire.Getattr4Res
				r.Ops[4].Into(t, &got)
				d := xdr.NewDecoder(got.ResOK.Attributes.AttrVals)
				if is, owner := wire.FType4(d.Uint32()), string(d.Opaque(9)); is != kind || owner != "7" {
					t.Errorf("%v: became %v of %s", kind, is, owner)
				}
			}
		}
	})
}

// If the caller may not set an owner, CREATE does not list the owner as set.
func TestCreateListsOnlySetAttributes(t *testing.T) {
	p := treeSite(t, "/data").Peer(0)
	p.UID, p.GID = 1000, 1000
	attrs := fattr(func(w *xdr.Writer) { w.Uint32(0o700); w.String("7"); w.String("1000") }, wire.Fattr4Mode, wire.Fattr4Owner, wire.Fattr4OwnerGroup)
	r := p.Compound(append(at(), create(wire.NF4Dir, "mine", attrs))...)
	var res wire.Create4Res
	r.Ops[len(r.Ops)-1].Into(t, &res)
	if want := wire.Bits(wire.Fattr4Mode, wire.Fattr4OwnerGroup); r.Status != wire.NFS4OK || res.ResOK.Attrset != want {
		t.Errorf("%v: %v set", r.Status, res.ResOK.Attrset)
	}
	if a := attrOf(t, p, "data", "mine"); a.UID != 1000 {
		t.Errorf("the owner is %d", a.UID)
	}
}

// mode_umask sets the mode and the umask together. It excludes mode (RFC 8275 §5).
func TestCreateWithUmask(t *testing.T) {
	p := treeSite(t, "/data").Peer(2)
	for _, c := range []struct {
		name  string
		attrs wire.FAttr4
		want  wire.NFSStat4
		mode  uint32
	}{
		{"masked", fattr(func(w *xdr.Writer) { w.Uint32(0o777); w.Uint32(0o27) }, wire.Fattr4ModeUmask), wire.NFS4OK, 0o750},
		{"twice", fattr(func(w *xdr.Writer) { w.Uint32(0o777); w.Uint32(0o777); w.Uint32(0) }, wire.Fattr4Mode, wire.Fattr4ModeUmask), wire.NFS4ErrInvalid, 0},
		{"odd", fattr(func(w *xdr.Writer) { w.Uint32(0o777); w.Uint32(0o1000) }, wire.Fattr4ModeUmask), wire.NFS4ErrInvalid, 0},
		{"cut", fattr(func(w *xdr.Writer) { w.Uint32(0o777) }, wire.Fattr4ModeUmask), wire.NFS4ErrBadXDR, 0},
	} {
		r := p.Compound(append(at(), create(wire.NF4Dir, c.name, c.attrs))...)
		if r.Status != c.want {
			t.Errorf("%s: %v", c.name, r.Status)
		} else if c.want == wire.NFS4OK {
			if got := attrOf(t, p, "data", c.name).Mode; got != c.mode {
				t.Errorf("%s: mode %o", c.name, got)
			}
		}
	}
}

func TestRemoveRenameLink(t *testing.T) {
	eachWay(t, func(t *testing.T, s *nfs4test.Site) {
		p := s.Peer(1)
		run := func(res interface{ Decode(*xdr.Decoder) }, ops ...nfs4test.Op) {
			t.Helper()
			r := p.Compound(ops...)
			if r.Status != wire.NFS4OK {
				t.Fatalf("%v", statuses(r))
			}
			r.Ops[len(r.Ops)-1].Into(t, res)
		}
		var linked wire.Link4Res
		before := attrOf(t, p, "data", "dir")
		run(&linked, append(saved([]string{"data", "file"}, []string{"data", "dir"}), link("hard"))...)
		wantChange(t, "LINK", linked.ResOK.Cinfo, before, attrOf(t, p, "data", "dir"))
		if a := attrOf(t, p, "data", "dir", "hard"); a.Nlink != 2 {
			t.Errorf("%d names", a.Nlink)
		}
		var renamed wire.Rename4Res
		before, target := attrOf(t, p, "data", "dir"), attrOf(t, p, "data", "empty")
		run(&renamed, append(saved([]string{"data", "dir"}, []string{"data", "empty"}), rename("hard", "soft"))...)
		wantChange(t, "RENAME, source", renamed.ResOK.SourceCinfo, before, attrOf(t, p, "data", "dir"))
		wantChange(t, "RENAME, target", renamed.ResOK.TargetCinfo, target, attrOf(t, p, "data", "empty"))
		for _, c := range []struct{ in, name string }{{"empty", "soft"}, {"dir", "below"}} {
			var removed wire.Remove4Res
			before = attrOf(t, p, "data", c.in)
			run(&removed, append(at(c.in), remove(c.name))...)
			wantChange(t, "REMOVE of "+c.name, removed.ResOK.Cinfo, before, attrOf(t, p, "data", c.in))
			if r := p.Compound(append(at(c.in), lookup(c.name))...); r.Status != wire.NFS4ErrNoEnt {
				t.Errorf("%s is still there: %v", c.name, r.Status)
			}
		}
	})
}

func TestReadlink(t *testing.T) {
	eachWay(t, func(t *testing.T, s *nfs4test.Site) {
		r := s.Peer(0).Compound(append(at("link"), op(wire.OpReadlink))...)
		var res wire.Readlink4Res
		r.Ops[len(r.Ops)-1].Into(t, &res)
		if r.Status != wire.NFS4OK || string(res.ResOK.Link.Data) != "file" {
			t.Errorf("%v %q", r.Status, res.ResOK.Link.Data)
		}
	})
}

func TestAccess(t *testing.T) {
	const (
		all    = wire.Access4Read | wire.Access4Lookup | wire.Access4Modify | wire.Access4Extend | wire.Access4Delete | wire.Access4Execute
		change = wire.Access4Modify | wire.Access4Extend | wire.Access4Delete
	)
	eachWay(t, func(t *testing.T, s *nfs4test.Site) {
		for _, e := range s.Exports.All() {
			e.ReadOnly = e.Name == "/other"
		}
		for _, c := range []struct {
			path      []string
			uid       uint32
			asked     uint32
			supported uint32
			granted   uint32
		}{
			{[]string{"data"}, 0, all, all &^ wire.Access4Execute, all &^ wire.Access4Execute},
			{[]string{"data", "file"}, 1000, all, all &^ (wire.Access4Lookup | wire.Access4Delete), wire.Access4Read | wire.Access4Modify | wire.Access4Extend},
			{[]string{"data", "file"}, 1000, wire.Access4Execute, wire.Access4Execute, 0},
			{[]string{"data", "file"}, 1000, 0, 0, 0},
			{[]string{"data", "file"}, 1000, wire.Access4Delete, 0, 0},
			{[]string{"other"}, 0, all, all &^ wire.Access4Execute, wire.Access4Read | wire.Access4Lookup},
			{nil, 0, all, all &^ wire.Access4Execute, (all &^ wire.Access4Execute) &^ change},
		} {
			p := s.Peer(0)
			p.UID, p.GID = c.uid, c.uid
			r := p.Compound(append(walk(c.path...), nfs4test.Op{Number: wire.OpAccess, Args: &wire.Access4Args{Access: c.asked}})...)
			var res wire.Access4Res
			r.Ops[len(r.Ops)-1].Into(t, &res)
			if r.Status != wire.NFS4OK || res.ResOK.Supported != c.supported || res.ResOK.Access != c.granted {
				t.Errorf("%v of %d, %#x: %v %#x %#x", c.path, c.uid, c.asked, r.Status, res.ResOK.Supported, res.ResOK.Access)
			}
		}
	})
}

// held implements state.Records. One client held state before the server started.
type held struct{}

func (held) Begin() (uint32, []state.Record, error) {
	return 1, []state.Record{{Owner: "gone"}}, nil
}
func (held) Put([]state.Record) error    { return nil }
func (held) Remove([]state.Record) error { return nil }

// While clients reclaim state after a restart, names cannot be changed.
func TestNamesStayDuringGrace(t *testing.T) {
	s := treeSiteWith(t, func(cfg *nfs4test.Config) { cfg.State.Records = held{} }, "/data")
	if !s.State.InGrace() {
		t.Fatal("there is no grace period")
	}
	again := step{"LINK", append(saved([]string{"data", "file"}, []string{"data"}), link("x")), wire.NFS4ErrDelay, wire.NFS4ErrGrace}
	runSteps(t, s, []step{
		always("REMOVE", wire.NFS4ErrGrace, at(), remove("file")),
		always("RENAME", wire.NFS4ErrGrace, saved([]string{"data"}, []string{"data"}), rename("file", "x")),
		again,
		always("LOOKUP", wire.NFS4OK, at(), lookup("file")),
	})
}

// A file that is open with a deny mode against writing keeps its name.
func TestOpenFilesKeepTheirNames(t *testing.T) {
	s := treeSiteWith(t, func(cfg *nfs4test.Config) {
		cfg.Minors = func(m *state.Manager) [3]nfs4.Minor {
			return [3]nfs4.Minor{newNumbered(m), newKnown(m, 1), newKnown(m, 2)}
		}
	}, "/data")
	f := newFiler(t, s, 1)
	f.want(wire.NFS4OK, append(at(), opOpen(openArgs("file", "one", readable, wire.Open4ShareDenyWrite)))...)
	runSteps(t, s, []step{
		always("REMOVE", wire.NFS4ErrFileOpen, at(), remove("file")),
		always("RENAME onto it", wire.NFS4ErrFileOpen, saved([]string{"data"}, []string{"data"}), rename("link", "file")),
		always("REMOVE of nothing", wire.NFS4ErrNoEnt, at(), remove("none")),
	})
	f.want(wire.NFS4OK, append(saved([]string{"data"}, []string{"data"}), rename("file", "moved"))...)
	if names := namesOf(list(t, f.Peer, []string{"data"}, 1000)); !slices.Contains(names, "moved") {
		t.Errorf("%v", names)
	}
}
