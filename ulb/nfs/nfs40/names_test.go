package nfs40_test

import (
	"strings"
	"testing"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// badNames are invalid names. Each operation with such a name fails with the status want (RFC 7530
// §12.7). The list has no invalid UTF-8, because the server accepts it.
var badNames = []struct {
	label, name string
	want        status
}{
	{"no name", "", wire.NFS4ErrInvalid},
	{"dot", ".", wire.NFS4ErrBadName},
	{"dot dot", "..", wire.NFS4ErrBadName},
	{"slash", "a/b", wire.NFS4ErrBadChar},
	{"only a slash", "/", wire.NFS4ErrBadChar},
	{"zero byte", "a\x00b", wire.NFS4ErrBadChar},
	{"too long", strings.Repeat("n", 256), wire.NFS4ErrNameTooLong},
	{"much too long", strings.Repeat("n", 5000), wire.NFS4ErrNameTooLong},
}

func TestBadNames(t *testing.T) {
	for label, ops := range map[string]func(name string) []op{
		"LOOKUP":            func(n string) []op { return []op{lookup(n)} },
		"REMOVE":            func(n string) []op { return []op{remove(n)} },
		"RENAME from":       func(n string) []op { return []op{saveFH, rename(n, "new")} },
		"RENAME to":         func(n string) []op { return []op{saveFH, rename("file", n)} },
		"LINK":              func(n string) []op { return []op{lookup("file"), saveFH, putRootFH, link(n)} },
		"SECINFO":           func(n string) []op { return []op{secinfo(n)} },
		"CREATE directory":  func(n string) []op { return []op{create(n, wire.NF4Dir, mode(0o755))} },
		"CREATE link":       func(n string) []op { return []op{create(n, wire.NF4Lnk, mode(0o755))} },
		"CREATE fifo":       func(n string) []op { return []op{create(n, wire.NF4Fifo, mode(0o755))} },
		"CREATE device":     func(n string) []op { return []op{create(n, wire.NF4Blk, mode(0o755))} },
		"LOOKUP in a child": func(n string) []op { return []op{lookup("dir"), lookup(n)} },
	} {
		for _, c := range badNames {
			t.Run(label+" "+c.label, func(t *testing.T) {
				newPeer(t).run(t, c.want, join(at(), ops(c.name)...)...)
			})
		}
	}
}

// Names are bytes. The server keeps names in other encodings than UTF-8 unchanged.
func TestNamesThatAreNotUTF8(t *testing.T) {
	p := newPeer(t)
	for _, name := range []string{"\xff\xfe", "cut \xc3", "\xed\xa0\x80", "gr\u00fcn", "\u65e5\u672c"} {
		p.run(t, ok, putRootFH, create(name, wire.NF4Dir, mode(0o755)))
		p.run(t, ok, putRootFH, lookup(name))
		p.run(t, ok, putRootFH, remove(name))
	}
}

func TestLookup(t *testing.T) {
	byKind(t, map[string]status{"dir": wire.NFS4ErrNoEnt, "link": wire.NFS4ErrSymlink}, wire.NFS4ErrNotDir, lookup("missing"))
	byKind(t, nil, ok) // each object can be looked up
	table(t, []row{
		{name: "missing", ops: at("missing"), want: wire.NFS4ErrNoEnt},
		{name: "inner", ops: at("dir", "inner"), want: ok},
		{name: "a name of full length", ops: at(strings.Repeat("n", 255)), want: wire.NFS4ErrNoEnt},
	})
}

func TestLookupp(t *testing.T) {
	byKind(t, map[string]status{"dir": ok, "link": wire.NFS4ErrSymlink}, wire.NFS4ErrNotDir, lookupp)
	newPeer(t).run(t, wire.NFS4ErrNoEnt, putRootFH, lookupp)
	p := newPeer(t)
	var res, root wire.GetFH4Res
	last(t, p.run(t, ok, join(at("dir"), lookupp, getFH)...), &res)
	last(t, p.run(t, ok, putRootFH, getFH), &root)
	if string(res.ResOK.Object) != string(root.ResOK.Object) {
		t.Error("the parent of a directory of the root is not the root")
	}
}

func TestCreate(t *testing.T) {
	plain := mode(0o755)
	for name, kind := range map[string]wire.FType4{
		"directory": wire.NF4Dir, "link": wire.NF4Lnk, "block": wire.NF4Blk, "char": wire.NF4Chr, "socket": wire.NF4Sock, "fifo": wire.NF4Fifo,
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t)
			r := p.run(t, ok, putRootFH, create("new", kind, plain), getattr(wire.Fattr4Type))
			var made wire.Create4Res
			r.Ops[1].Into(t, &made)
			if c := made.ResOK.Cinfo; c.After == c.Before {
				t.Errorf("the directory did not change: %+v", c)
			}
			if got := made.ResOK.Attrset; !got.Has(wire.Fattr4Mode) {
				t.Error("the mode was not set")
			}
			if got := typeOf(t, r); got != kind {
				t.Errorf("made a %v", got)
			}
			p.run(t, wire.NFS4ErrExist, putRootFH, create("new", kind, plain))
		})
		t.Run(name+" in what is no directory", func(t *testing.T) {
			byKind(t, map[string]status{"dir": ok}, wire.NFS4ErrNotDir, create("new", kind, plain))
		})
		t.Run(name+" with attributes that cannot be set", func(t *testing.T) {
			p := newPeer(t)
			p.run(t, wire.NFS4ErrInvalid, putRootFH, create("new", kind, attrs(u64(5), wire.Fattr4FileID)))
			p.run(t, wire.NFS4ErrAttrNotSupp, putRootFH, create("new", kind, attrs(u32(1), wire.Fattr4Hidden)))
			p.run(t, wire.NFS4ErrNoEnt, at("new")...)
		})
	}
	table(t, []row{
		{name: "regular file", ops: []op{putRootFH, create("new", wire.NF4Reg, plain)}, want: wire.NFS4ErrBadType},
		{name: "attribute directory", ops: []op{putRootFH, create("new", wire.NF4Attrdir, plain)}, want: wire.NFS4ErrBadType},
		{name: "named attribute", ops: []op{putRootFH, create("new", wire.NF4Namedattr, plain)}, want: wire.NFS4ErrBadType},
		{name: "no type", ops: []op{putRootFH, create("new", 99, plain)}, want: wire.NFS4ErrBadType, or: wire.NFS4ErrBadXDR},
	})
}

func TestRemove(t *testing.T) {
	byKind(t, map[string]status{"dir": ok}, wire.NFS4ErrNotDir, remove("inner"))
	for _, kind := range append(kinds, "empty") {
		t.Run(kind+" as the target", func(t *testing.T) {
			want := ok
			if kind == "dir" {
				want = wire.NFS4ErrNotEmpty
			}
			newPeer(t).run(t, want, putRootFH, remove(kind))
		})
	}
	newPeer(t).run(t, wire.NFS4ErrNoEnt, putRootFH, remove("missing"))
}

func TestRename(t *testing.T) {
	eachKind(t, map[string]status{"dir": ok}, wire.NFS4ErrNotDir, func(kind string) []op {
		return join(at(kind), saveFH, putRootFH, rename("inner", "new"))
	})
	eachKind(t, map[string]status{"dir": ok}, wire.NFS4ErrNotDir, func(kind string) []op {
		return []op{putRootFH, saveFH, lookup(kind), rename("file", "new")}
	})
	in := func(from, to string) []op { return []op{putRootFH, saveFH, rename(from, to)} }
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			p := newPeer(t)
			p.run(t, ok, in(kind, kind)...)
			p.run(t, ok, in(kind, "new")...)
			p.run(t, wire.NFS4ErrNoEnt, at(kind)...)
			p.run(t, ok, at("new")...)
		})
	}
	for _, from := range kinds {
		for _, to := range append(kinds, "empty") {
			want := ok
			switch {
			case from == to:
			case to == "dir", (from == "dir") != (to == "empty"):
				// The kinds do not match, or the directory is not empty.
				want = wire.NFS4ErrExist
			}
			t.Run(from+" onto "+to, func(t *testing.T) { newPeer(t).run(t, want, in(from, to)...) })
		}
	}
	table(t, []row{
		{name: "missing", ops: in("missing", "new"), want: wire.NFS4ErrNoEnt},
		{name: "into itself", ops: []op{putRootFH, saveFH, lookup("dir"), rename("dir", "new")}, want: wire.NFS4ErrInvalid},
	})
}

// A RENAME between two names of one file does nothing (RFC 7530 §16.27.4).
func TestRenameOntoAnotherNameOfTheSame(t *testing.T) {
	p := newPeer(t)
	p.run(t, ok, join(at("file"), saveFH, putRootFH, link("second"))...)
	for _, to := range []string{"second", "file"} {
		var res wire.Rename4Res
		last(t, p.run(t, ok, putRootFH, saveFH, rename("file", to)), &res)
		for _, c := range []wire.ChangeInfo4{res.ResOK.SourceCinfo, res.ResOK.TargetCinfo} {
			if c.Before != c.After {
				t.Errorf("onto %q: nothing was done, and the directory changed: %+v", to, c)
			}
		}
	}
	p.run(t, ok, at("file")...)
	p.run(t, ok, at("second")...)
}

func TestLink(t *testing.T) {
	// A directory cannot have a second name.
	eachKind(t, map[string]status{"dir": wire.NFS4ErrIsDir}, ok, func(kind string) []op {
		return join(at(kind), saveFH, putRootFH, link("new"))
	})
	eachKind(t, map[string]status{"dir": ok}, wire.NFS4ErrNotDir, func(kind string) []op {
		return join(at("file"), saveFH, putRootFH, lookup(kind), link("new"))
	})
	eachKind(t, nil, wire.NFS4ErrExist, func(kind string) []op {
		return join(at("file"), saveFH, putRootFH, link(kind))
	})
}

func TestReadlink(t *testing.T) {
	byKind(t, map[string]status{"link": ok}, wire.NFS4ErrInvalid, readlink)
	var res wire.Readlink4Res
	last(t, newPeer(t).run(t, ok, join(at("link"), readlink)...), &res)
	if got := string(res.ResOK.Link.Data); got != "file" {
		t.Errorf("the text is %q", got)
	}
}

func TestSecinfo(t *testing.T) {
	byKind(t, map[string]status{"dir": ok}, wire.NFS4ErrNotDir, secinfo("inner"))
	for _, kind := range kinds {
		newPeer(t).run(t, ok, putRootFH, secinfo(kind))
	}
	newPeer(t).run(t, wire.NFS4ErrNoEnt, putRootFH, secinfo("missing"))
	var res wire.SecInfo4Res
	last(t, newPeer(t).run(t, ok, putRootFH, secinfo("file")), &res)
	sys := false
	for f := (wire.Secinfo4{}); res.ResOK.Next(&f); {
		sys = sys || f.Flavor == 1
	}
	if !sys {
		t.Error("AUTH_SYS is not among the flavors")
	}
}
