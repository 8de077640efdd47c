package nfs4suite

import (
	"bytes"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

func rename(from, to string) nfs4test.Op {
	return op(wire.OpRename, &wire.Rename4Args{Oldname: wire.UTF8String(from), Newname: wire.UTF8String(to)})
}

func link(name string) nfs4test.Op {
	return op(wire.OpLink, &wire.Link4Args{Newname: wire.UTF8String(name)})
}

func secinfo(name string) nfs4test.Op {
	return op(wire.OpSecInfo, &wire.SecInfo4Args{Name: wire.UTF8String(name)})
}

// SECINFO_NO_NAME in its two styles: for the current file handle, and for the parent.
var (
	noName       = op(wire.OpSecInfoNoName, words(0))
	noNameParent = op(wire.OpSecInfoNoName, words(1))
)

var (
	lookupp  = op(wire.OpLookupp)
	readlink = op(wire.OpReadlink)
)

func access(bits uint32) nfs4test.Op { return op(wire.OpAccess, &wire.Access4Args{Access: bits}) }

func commit(offset uint64, count uint32) nfs4test.Op {
	return op(wire.OpCommit, &wire.Commit4Args{Offset: offset, Count: count})
}

func readdir(cookie uint64, maxcount uint32, numbers ...uint32) nfs4test.Op {
	return op(wire.OpReaddir, &wire.Readdir4Args{Cookie: cookie, Dircount: maxcount, Maxcount: maxcount, AttrRequest: wire.Bits(numbers...)})
}

func verify(n wire.OpNum, f wire.FAttr4) nfs4test.Op {
	return op(n, &wire.Verify4Args{Attributes: f})
}

// Operations that need a current file handle fail without one.
func TestWithoutAHandle(t *testing.T) {
	s := newSession(t, newSite(t, nil, state.Config{}), 1, "client")
	for _, o := range []nfs4test.Op{
		getFH, saveFH, lookup("x"), lookupp, getattr(wire.Fattr4Size), access(1), readdir(0, 4096), readlink, secinfo("x"), noName,
		verify(wire.OpVerify, attrs().size(0).f), verify(wire.OpNverify, attrs().size(0).f), setattr(anonymous, attrs().size(0)),
		create(wire.NF4Dir, "x"), remove("x"), rename("x", "y"), link("x"), readOp(anonymous, 0, 1), writeOp(anonymous, 0, "x"), commit(0, 0),
		open(openArgs("x", "o", read, 0)), closeOp(anonymous), downgrade(anonymous, read, 0), lockNew(anonymous, "l", wire.ReadLt, 0, 1),
		lockTest("l", wire.ReadLt, 0, 1), unlock(anonymous, 0, 1), op(wire.OpRestoreFH),
	} {
		s.want(o.Number.String(), wire.NFS4ErrNoFileHandle, o)
		if o.Number != wire.OpRestoreFH {
			s.want(o.Number.String()+" behind SECINFO_NO_NAME", wire.NFS4ErrNoFileHandle, putRoot, noName, o)
		}
	}
	for _, o := range []nfs4test.Op{rename("x", "y"), link("x"), op(wire.OpRestoreFH)} {
		s.want(o.Number.String()+" without a saved handle", wire.NFS4ErrNoFileHandle, putRoot, o)
	}
}

// Each operation returns the right error for objects of the wrong type (RFC 8881 §18).
func TestObjectsOfOtherTypes(t *testing.T) {
	const isDir, notDir, symlink, wrongType = wire.NFS4ErrIsDir, wire.NFS4ErrNotDir, wire.NFS4ErrSymlink, wire.NFS4ErrWrongType
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 1, "client")
		all := s.populate()
		// wants has the status for each of objects, in order: a file, a directory, a link, a
		// FIFO, a socket.
		for _, c := range []struct {
			what  string
			ops   []nfs4test.Op
			wants [5]wire.NFSStat4
		}{
			{"LOOKUP", []nfs4test.Op{lookup("x")}, [5]wire.NFSStat4{notDir, wire.NFS4ErrNoEnt, symlink, notDir, notDir}},
			{"LOOKUPP", []nfs4test.Op{lookupp}, [5]wire.NFSStat4{notDir, ok, symlink, notDir, notDir}},
			{"READDIR", []nfs4test.Op{readdir(0, 4096)}, [5]wire.NFSStat4{notDir, ok, notDir, notDir, notDir}},
			{"READLINK", []nfs4test.Op{readlink}, [5]wire.NFSStat4{wrongType, wrongType, ok, wrongType, wrongType}},
			{"READ", []nfs4test.Op{readOp(anonymous, 0, 10)}, [5]wire.NFSStat4{ok, isDir, symlink, wrongType, wrongType}},
			{"READ of nothing", []nfs4test.Op{readOp(anonymous, 0, 0)}, [5]wire.NFSStat4{ok, isDir, symlink, wrongType, wrongType}},
			{"WRITE", []nfs4test.Op{writeOp(anonymous, 0, "0")}, [5]wire.NFSStat4{ok, isDir, symlink, wrongType, wrongType}},
			{"WRITE of nothing", []nfs4test.Op{writeOp(anonymous, 0, "")}, [5]wire.NFSStat4{ok, isDir, symlink, wrongType, wrongType}},
			{"COMMIT", []nfs4test.Op{commit(0, 0)}, [5]wire.NFSStat4{ok, isDir, symlink, wrongType, wrongType}},
			{"CREATE", []nfs4test.Op{create(wire.NF4Fifo, "made")}, [5]wire.NFSStat4{notDir, ok, notDir, notDir, notDir}},
			{"REMOVE", []nfs4test.Op{remove("x")}, [5]wire.NFSStat4{notDir, wire.NFS4ErrNoEnt, notDir, notDir, notDir}},
			{"SECINFO", []nfs4test.Op{secinfo("x")}, [5]wire.NFSStat4{notDir, wire.NFS4ErrNoEnt, notDir, notDir, notDir}},
			{"SECINFO_NO_NAME", []nfs4test.Op{noName}, [5]wire.NFSStat4{ok, ok, ok, ok, ok}},
			{"SECINFO_NO_NAME of the parent", []nfs4test.Op{noNameParent}, [5]wire.NFSStat4{notDir, ok, notDir, notDir, notDir}},
			{"a size", []nfs4test.Op{setattr(anonymous, attrs().size(10))}, [5]wire.NFSStat4{ok, wrongType, wrongType, wrongType, wrongType}},
			{"GETATTR", []nfs4test.Op{getattr(wire.Fattr4Type)}, [5]wire.NFSStat4{ok, ok, ok, ok, ok}},
			{"ACCESS", []nfs4test.Op{access(0x3f)}, [5]wire.NFSStat4{ok, ok, ok, ok, ok}},
			{"LINK to it", []nfs4test.Op{saveFH, putRoot, link("linked"), remove("linked")}, [5]wire.NFSStat4{ok, isDir, ok, ok, ok}},
			{"RENAME from it", []nfs4test.Op{saveFH, putRoot, rename("x", "y")}, [5]wire.NFSStat4{notDir, wire.NFS4ErrNoEnt, notDir, notDir, notDir}},
		} {
			for i, o := range objects {
				r := s.do(append([]nfs4test.Op{putFH(all[o.name])}, c.ops...)...)
				if r.Status != c.wants[i] {
					t.Errorf("%s of %s: %v, not %v", c.what, o.name, r.Status, c.wants[i])
				}
			}
		}
		for i, want := range [5]wire.NFSStat4{notDir, ok, wire.NFS4ErrNotDir, notDir, notDir} {
			name := objects[i].name
			r := s.do(putFH(all["file"]), saveFH, putFH(all[name]), link("another"))
			if r.Status != want && !(name == "link" && r.Status == symlink) {
				t.Errorf("LINK in %s: %v, not %v", name, r.Status, want)
			}
			r = s.do(putRoot, saveFH, putFH(all[name]), rename("nothing", "y"))
			if want == ok {
				want = wire.NFS4ErrNoEnt
			}
			if r.Status != want {
				t.Errorf("RENAME into %s: %v, not %v", name, r.Status, want)
			}
		}
	})
}

// Operations refuse invalid names.
func TestNames(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 1, "client")
		s.makeFile("file")
		for name, want := range badNames {
			for _, ops := range [][]nfs4test.Op{
				{putRoot, lookup(name)}, {putRoot, remove(name)}, {putRoot, secinfo(name)}, {putRoot, create(wire.NF4Dir, name)}, {putRoot, create(wire.NF4Lnk, name)},
				{putRoot, saveFH, rename(name, "x")}, {putRoot, saveFH, rename("file", name)}, {putRoot, lookup("file"), saveFH, putRoot, link(name)},
			} {
				s.want("a bad name", want, ops...)
			}
		}
		for _, name := range []string{strings.Repeat("x", 255), "a:b", "\\", "...", " ", "*", "\xff\xfe", "ü", "\n"} {
			s.want(name, ok, putRoot, create(wire.NF4Dir, name), putRoot, lookup(name), putRoot, remove(name))
		}
		s.want("REMOVE of what there is not", wire.NFS4ErrNoEnt, putRoot, remove("nothing"))
		for _, bad := range []raw{words(4), words(1 << 31), words(5, 0x61616161)} {
			s.want("a name that is not there", wire.NFS4ErrBadXDR, putRoot, op(wire.OpLookup, bad))
		}
	})
}

// With the option utf8 an export refuses names that are not UTF-8 (RFC 8881 §14.5).
func TestNamesOfAnExportOfUTF8(t *testing.T) {
	site := newSite(t, nil, state.Config{})
	s := newSession(t, site, 1, "client")
	site.Exports.Root().UTF8 = true
	s.makeFile("file")
	for _, name := range []string{"\xff", "a\xc0\x80", "\xed\xa0\x80", "\xf5\x80\x80\x80", "ab\xe2\x82"} {
		for _, ops := range [][]nfs4test.Op{
			{putRoot, lookup(name)}, {putRoot, remove(name)}, {putRoot, create(wire.NF4Dir, name)}, {putRoot, saveFH, rename("file", name)},
			{putRoot, saveFH, rename(name, "x")}, {putRoot, lookup("file"), saveFH, putRoot, link(name)}, {putRoot, secinfo(name)},
			{putRoot, open(openArgs(name, "o", read, 0))}, {putRoot, open(creating(openArgs(name, "o", read, 0), wire.Unchecked4, attrs().f, 0))},
		} {
			s.want("a name that is no UTF-8", wire.NFS4ErrInvalid, ops...)
		}
	}
	s.want("one that is", ok, putRoot, create(wire.NF4Dir, "ü€😀"))
}

// CREATE makes objects of some types and refuses the others (RFC 8881 §18.4).
func TestCreate(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 1, "client")
		root := s.find()
		for _, o := range objects[1:] {
			before := s.number(root, wire.Fattr4Change)
			r := s.must("CREATE", putRoot, create(o.kind, o.name), getFH, getattr(wire.Fattr4Type))
			after := s.number(root, wire.Fattr4Change)
			var res wire.Create4Res
			r[1].Into(t, &res)
			if c := res.ResOK.Cinfo; c.After != after || c.Atomic && c.Before != before || before == after {
				t.Errorf("%s: change_info %+v, and change went from %d to %d", o.name, c, before, after)
			}
			fh := s.handle(&r[2])
			if kind := s.number(fh, wire.Fattr4Type); kind != uint64(o.kind) {
				t.Errorf("%s is of type %d", o.name, kind)
			}
			if !bytes.Equal(fh, s.find(o.name)) {
				t.Errorf("%s: CREATE and LOOKUP lead to two handles", o.name)
			}
			for _, kind := range []wire.FType4{wire.NF4Dir, wire.NF4Lnk, wire.NF4Fifo, wire.NF4Sock} {
				s.want("again", wire.NFS4ErrExist, putRoot, create(kind, o.name))
			}
		}
		for _, kind := range []wire.FType4{wire.NF4Reg, wire.NF4Attrdir, wire.NF4Namedattr} {
			s.want("CREATE of a type that it does not make", wire.NFS4ErrBadType, putRoot, create(kind, "new"))
		}
		args := append(words(77, 3), "new\x00\x00\x00\x00\x00\x00\x00\x00\x00"...)
		if r := s.do(putRoot, op(wire.OpCreate, args)); r.Status != wire.NFS4ErrBadType && r.Status != wire.NFS4ErrBadXDR {
			t.Errorf("CREATE of a type that there is not: %v", r.Status)
		}
		s.want("a link to nothing", wire.NFS4ErrInvalid, putRoot, func() nfs4test.Op {
			c := create(wire.NF4Lnk, "new")
			c.Args.(*wire.Create4Args).Objtype.Linkdata.Data = nil
			return c
		}())
		for _, c := range wrongAttributes() {
			for _, o := range objects[1:] {
				made := create(o.kind, "new")
				made.Args.(*wire.Create4Args).Createattrs = c.f
				s.want(o.name+": "+c.what, c.want, putRoot, made)
			}
		}
		s.want("LOOKUP", wire.NFS4ErrNoEnt, putRoot, lookup("new"))
		made := create(wire.NF4Dir, "with mode")
		made.Args.(*wire.Create4Args).Createattrs = attrs().mode(0o751).f
		s.must("CREATE", putRoot, made)
		if n := s.number(s.find("with mode"), wire.Fattr4Mode); n != 0o751 {
			t.Errorf("mode %o", n)
		}
	})
}

// RENAME replaces an existing target only if the types permit it (RFC 8881 §18.26).
func TestRename(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 1, "client")
		s.populate()
		s.makeFile("other")
		s.must("CREATE", putRoot, create(wire.NF4Dir, "empty"), putRoot, create(wire.NF4Dir, "full"), create(wire.NF4Dir, "within"))
		in := func(from, to string) []nfs4test.Op { return []nfs4test.Op{putRoot, saveFH, rename(from, to)} }
		for _, c := range []struct {
			from, to string
			want     wire.NFSStat4
		}{
			{"nothing", "x", wire.NFS4ErrNoEnt}, {"nothing", "file", wire.NFS4ErrNoEnt}, {"file", "dir", wire.NFS4ErrExist}, {"dir", "file", wire.NFS4ErrExist},
			{"dir", "link", wire.NFS4ErrExist}, {"link", "dir", wire.NFS4ErrExist}, {"dir", "full", wire.NFS4ErrNotEmpty}, {"file", "file", ok}, {"dir", "dir", ok},
			{"full", "full", ok},
		} {
			r := s.do(in(c.from, c.to)...)
			if r.Status != c.want && !(c.want == wire.NFS4ErrNotEmpty && r.Status == wire.NFS4ErrExist) {
				t.Errorf("%s to %s: %v, not %v", c.from, c.to, r.Status, c.want)
			}
		}
		root, full := s.find(), s.find("full")
		s.want("a directory into itself", wire.NFS4ErrInvalid, putRoot, saveFH, putFH(full), rename("full", "x"))
		s.want("a directory beneath itself", wire.NFS4ErrInvalid, putRoot, saveFH, putFH(full), lookup("within"), rename("full", "x"))
		s.must("LINK", putRoot, lookup("file"), saveFH, putRoot, link("same"))
		r := s.must("two names of one file", in("file", "same")...)
		var res wire.Rename4Res
		r[2].Into(t, &res)
		if c := res.ResOK.SourceCinfo; c.Before != c.After || c.After != s.number(root, wire.Fattr4Change) || res.ResOK.TargetCinfo != c {
			t.Errorf("nothing is renamed: %+v", res.ResOK)
		}
		r = s.must("a directory to its own name", in("full", "full")...)
		r[2].Into(t, &res)
		if c := res.ResOK.SourceCinfo; c.Before != c.After || res.ResOK.TargetCinfo != c {
			t.Errorf("nothing is renamed: %+v", res.ResOK)
		}
		s.want("both are there", ok, putRoot, lookup("file"), putRoot, lookup("same"))

		before, beforeFull := s.number(root, wire.Fattr4Change), s.number(full, wire.Fattr4Change)
		r = s.must("to another directory", putRoot, saveFH, putFH(full), rename("other", "moved"))
		r[3].Into(t, &res)
		after, afterFull := s.number(root, wire.Fattr4Change), s.number(full, wire.Fattr4Change)
		if c := res.ResOK.SourceCinfo; c.After != after || c.Atomic && c.Before != before || before == after {
			t.Errorf("source %+v, and change went from %d to %d", c, before, after)
		}
		if c := res.ResOK.TargetCinfo; c.After != afterFull || c.Atomic && c.Before != beforeFull || beforeFull == afterFull {
			t.Errorf("target %+v, and change went from %d to %d", c, beforeFull, afterFull)
		}
		s.want("onto an empty directory", ok, in("dir", "empty")...)
		s.want("onto a file", ok, in("link", "fifo")...)
		s.want("REMOVE of a full directory", wire.NFS4ErrNotEmpty, putRoot, remove("full"))
		before = s.number(root, wire.Fattr4Change)
		r = s.must("REMOVE", putRoot, remove("same"))
		var removed wire.Remove4Res
		r[1].Into(t, &removed)
		if c := removed.ResOK.Cinfo; c.After != s.number(root, wire.Fattr4Change) || c.Atomic && c.Before != before || c.After == before {
			t.Errorf("REMOVE: %+v after %d", c, before)
		}
		s.want("LINK to a name that is taken", wire.NFS4ErrExist, putRoot, lookup("file"), saveFH, putRoot, link("file"))
	})
}

// SECINFO and SECINFO_NO_NAME consume the current file handle if they succeed, and leave it if
// they fail (RFC 8881 §2.6.3.1.1.8, §18.29.3, §18.45.3).
func TestSecinfoConsumesTheHandle(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 1, "client")
		s.populate()
		for _, o := range []nfs4test.Op{secinfo("file"), secinfo("dir"), noName} {
			r := s.want("GETFH", wire.NFS4ErrNoFileHandle, putRoot, o, getFH)
			var res wire.SecInfo4Res
			r[1].Into(t, &res)
			var one wire.Secinfo4
			if !res.ResOK.Next(&one) || one.Flavor != wire.AuthSys {
				t.Errorf("the first flavour is %+v", one)
			}
			s.want("PUTROOTFH", ok, putRoot, o, putRoot, getFH)
		}
		s.want("the parent of a directory", ok, putRoot, lookup("dir"), noNameParent)
		s.want("the parent of the root", wire.NFS4ErrNoEnt, putRoot, noNameParent)
		s.want("a style that there is not", wire.NFS4ErrBadXDR, putRoot, op(wire.OpSecInfoNoName, words(2)))
		s.want("what is saved is restored", ok, putRoot, saveFH, secinfo("file"), op(wire.OpRestoreFH), getFH)
	})
}

func TestHandles(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 1, "client")
		fh := s.makeFile("file")
		for _, bad := range [][]byte{nil, []byte("abc"), make([]byte, 128), append(bytes.Clone(fh), 0), fh[:len(fh)-1]} {
			s.want("PUTFH", wire.NFS4ErrBadHandle, putFH(bad))
		}
		for i := range fh {
			bad := bytes.Clone(fh)
			bad[i] ^= 0x10
			if r := s.do(putFH(bad), getattr(wire.Fattr4Type)); r.Status != wire.NFS4ErrBadHandle && r.Status != wire.NFS4ErrStale {
				t.Errorf("a handle of which byte %d is another: %v", i, r.Status)
			}
		}
		s.want("a handle beyond the longest", wire.NFS4ErrBadXDR, op(wire.OpPutFH, append(words(129), make([]byte, 132)...)))
		r := s.must("PUTPUBFH", op(wire.OpPutPubFH), getFH, putRoot, getFH)
		if !bytes.Equal(s.handle(&r[1]), s.handle(&r[3])) {
			t.Error("the public handle is not the root's")
		}
		s.must("REMOVE", putRoot, remove("file"))
		s.want("what was removed", wire.NFS4ErrStale, putFH(fh), getattr(wire.Fattr4Type))
		r = s.must("saved", putRoot, saveFH, create(wire.NF4Dir, "dir"), getFH, op(wire.OpRestoreFH), getFH)
		if bytes.Equal(s.handle(&r[3]), s.handle(&r[5])) || !bytes.Equal(s.handle(&r[5]), s.find()) {
			t.Error("RESTOREFH does not lead to the root")
		}
	})
}

// A file that was removed exists as long as it is open.
func TestRemovedAndOpen(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 1, "client")
		s.makeFile("file")
		o := s.open(openArgs("file", "owner", both, 0))
		s.must("REMOVE", putRoot, remove("file"))
		s.want("LOOKUP", wire.NFS4ErrNoEnt, putRoot, lookup("file"))
		s.want("READ and WRITE", ok, putFH(o.fh), readOp(o.Stateid, 0, 10), writeOp(o.Stateid, 0, "new"), getattr(wire.Fattr4Numlinks), setattr(o.Stateid, attrs().size(3)))
		if got := s.bytesOf(o.fh); got != "new" {
			t.Errorf("it holds %q", got)
		}
		if n := s.number(o.fh, wire.Fattr4Numlinks); n != 0 {
			t.Errorf("it has %d names", n)
		}
		s.makeFile("file")
		if bytes.Equal(s.find("file"), o.fh) {
			t.Error("a new file has the handle of the old one")
		}
		s.close(&o)
		s.want("after CLOSE", wire.NFS4ErrStale, putFH(o.fh), getattr(wire.Fattr4Size))
	})
}

// While a client has a file open with a deny mode against writing, no other client can remove the
// file, or replace it by a RENAME. Others can rename it.
func TestDenyModeRefusesRemoveByOtherClients(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 1, "client")
		s.makeFile("file")
		s.makeFile("other")
		o := s.open(openArgs("file", "owner", read, write))
		other := newSessionOf(site.Other(1), "other")
		other.want("REMOVE", wire.NFS4ErrFileOpen, putRoot, remove("file"))
		other.want("RENAME onto it", wire.NFS4ErrFileOpen, putRoot, saveFH, rename("other", "file"))
		other.want("RENAME of it", ok, putRoot, saveFH, rename("file", "moved"))
		s.close(&o)
		other.want("REMOVE", ok, putRoot, remove("moved"))
		// The client that has the file open may remove it.
		s.makeFile("file")
		o = s.open(openArgs("file", "owner", read, write))
		s.want("REMOVE", ok, putRoot, remove("file"), putFH(o.fh), readOp(o.Stateid, 0, 1), closeOp(o.Stateid))
	})
}

// A listed is the part of a directory's listing in one READDIR reply.
type listed struct {
	names   []string
	cookies []uint64
	eof     bool
}

func (s *session) listed(r *nfs4test.OpResult) (l listed) {
	s.t.Helper()
	var res wire.Readdir4Res
	r.Into(s.t, &res)
	var e wire.Entry4
	for entries := res.ResOK.Reply.Entries; entries.Next(&e); {
		l.names = append(l.names, string(e.Name))
		l.cookies = append(l.cookies, e.Cookie)
	}
	l.eof = res.ResOK.Reply.EOF
	return l
}

func TestReaddir(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 1, "client")
		r := s.must("an empty directory", putRoot, readdir(0, 4096, wire.Fattr4FileID))
		if l := s.listed(&r[1]); len(l.names) != 0 || !l.eof {
			t.Errorf("%+v", l)
		}
		s.populate()
		for _, want := range []struct {
			maxcount uint32
			status   wire.NFSStat4
		}{{0, wire.NFS4ErrTooSmall}, {1, wire.NFS4ErrTooSmall}, {15, wire.NFS4ErrTooSmall}, {16, wire.NFS4ErrTooSmall}, {20, wire.NFS4ErrTooSmall}, {1<<32 - 1, ok}} {
			s.want("READDIR", want.status, putRoot, op(wire.OpReaddir, &wire.Readdir4Args{Maxcount: want.maxcount}))
		}
		s.want("dircount 0", ok, putRoot, op(wire.OpReaddir, &wire.Readdir4Args{Maxcount: 4096}))
		for _, cookie := range []uint64{1, 2} {
			s.want("a cookie of . or ..", wire.NFS4ErrBadCookie, putRoot, readdir(cookie, 4096))
		}
		s.want("a verifier with cookie 0", wire.NFS4ErrBadCookie, putRoot, op(wire.OpReaddir, &wire.Readdir4Args{Maxcount: 4096, Cookieverf: wire.Verifier4{1}}))
		s.want("another verifier", wire.NFS4ErrNotSame, putRoot, op(wire.OpReaddir, &wire.Readdir4Args{Cookie: 3, Maxcount: 4096, Cookieverf: wire.Verifier4{1}}))
		for _, cookie := range []uint64{12345, 1 << 31, 1 << 62, 1<<63 + 1, toEnd - 1, toEnd} {
			if r := s.do(putRoot, readdir(cookie, 4096)); r.Status != ok && r.Status != wire.NFS4ErrBadCookie {
				t.Errorf("cookie %d: %v", cookie, r.Status)
			}
		}
		s.want("an attribute that can only be set", wire.NFS4ErrInvalid, putRoot, readdir(0, 4096, wire.Fattr4TimeModifySet))
		s.want("attributes that are not known", ok, putRoot, op(wire.OpReaddir, append(words(0, 0, 0, 0, 4096, 4096, 9), words(0, 0, 0, 0, 0, 0, 0, 0, 1<<31)...)))
		// maxcount allows from one entry in each reply to all entries in one reply.
		for _, maxcount := range []uint32{80, 120, 300, 4096} {
			var seen []string
			cookie, eof := uint64(0), false
			for n := 0; !eof && n < 10; n++ {
				c := s.End(s.Begin(s.Message("", op(wire.OpSequence, s.next(0)), putRoot, readdir(cookie, maxcount, wire.Fattr4FileID))))
				p := s.Parse(c)
				s.last[0]++
				if p.Status != ok {
					t.Fatalf("maxcount %d: %v", maxcount, p.Status)
				}
				l := s.listed(&p.Ops[2])
				if len(l.names) == 0 && !l.eof {
					t.Fatal("nothing, and not the end")
				}
				if size := len(c.Reply) - 24 - 12 - (8 + wire.Sequence4ResOKMaxSize) - 8 - 8; size > int(maxcount) {
					t.Errorf("maxcount %d: %d bytes", maxcount, size)
				}
				seen = append(seen, l.names...)
				for _, c := range l.cookies {
					if c < 3 || c == cookie {
						t.Errorf("cookie %d", c)
					}
					cookie = c
				}
				eof = l.eof
			}
			if len(seen) != len(objects) {
				t.Errorf("maxcount %d: %q", maxcount, seen)
			}
		}
		r = s.must("READDIR", putRoot, readdir(0, 4096))
		l := s.listed(&r[1])
		s.must("REMOVE of where it stands", putRoot, remove(l.names[1]))
		r = s.must("READDIR", putRoot, readdir(l.cookies[1], 4096))
		if rest := s.listed(&r[1]); strings.Join(rest.names, " ") != strings.Join(l.names[2:], " ") || !rest.eof {
			t.Errorf("%q behind a name that was removed, of %q", rest.names, l.names)
		}
	})
}
