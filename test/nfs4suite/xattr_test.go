package nfs4suite

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/pseudo"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
)

func getXattr(name string) nfs4test.Op {
	return op(wire.OpGetXattr, &wire.GetXattr4Args{Name: wire.UTF8String(name)})
}

func setXattr(name, value string, how wire.SetXattrOption4) nfs4test.Op {
	return op(wire.OpSetXattr, &wire.SetXattr4Args{Option: how, Key: wire.UTF8String(name), Value: []byte(value)})
}

func listXattrs(cookie uint64, maxcount uint32) nfs4test.Op {
	return op(wire.OpListXattrs, &wire.ListXattrs4Args{Cookie: cookie, Maxcount: maxcount})
}

func removeXattr(name string) nfs4test.Op {
	return op(wire.OpRemoveXattr, &wire.RemoveXattr4Args{Name: wire.UTF8String(name)})
}

const (
	either      = wire.SetXattr4Either
	onlyCreate  = wire.SetXattr4Create
	onlyReplace = wire.SetXattr4Replace
)

// xattr returns the value of an attribute that exists.
func (s *session) xattr(fh []byte, name string) string {
	s.t.Helper()
	var res wire.GetXattr4Res
	s.must("GETXATTR "+name, putFH(fh), getXattr(name))[1].Into(s.t, &res)
	return string(res.Value)
}

// A page is the result of one LISTXATTRS. size is the size of its LISTXATTRS4resok, in bytes.
type page struct {
	names  []string
	cookie uint64
	eof    bool
	size   int
}

func (s *session) page(fh []byte, cookie uint64, maxcount uint32) (p page) {
	s.t.Helper()
	r := s.must("LISTXATTRS", putFH(fh), listXattrs(cookie, maxcount))
	var res wire.ListXattrs4Res
	r[1].Into(s.t, &res)
	var name wire.UTF8String
	for res.ResOK.Names.Next(&name) {
		p.names = append(p.names, string(name))
	}
	p.cookie, p.eof, p.size = res.ResOK.Cookie, res.ResOK.EOF, r[1].Size-8
	return p
}

// xattrs returns the names of all attributes, sorted, and the number of LISTXATTRS with this maxcount that told
// them. between is called before each further LISTXATTRS; it may be nil.
func (s *session) xattrs(fh []byte, maxcount uint32, between func(page)) (names []string, calls int) {
	s.t.Helper()
	for p := (page{}); !p.eof; calls++ {
		if calls > 0 && between != nil {
			between(p)
		}
		p = s.page(fh, p.cookie, maxcount)
		if p.size > int(maxcount) || len(p.names) == 0 && !p.eof {
			s.t.Fatalf("LISTXATTRS with maxcount %d: %+v", maxcount, p)
		}
		names = append(names, p.names...)
	}
	slices.Sort(names)
	return names, calls
}

// keeping skips the test if the file system of fh has no extended attributes.
func (s *session) keeping(fh []byte) {
	s.t.Helper()
	if s.number(fh, wire.Fattr4XattrSupport) == 0 {
		s.t.Skip("no extended attributes")
	}
}

// Attributes of files and directories are set, told, listed and removed as they were sent: no byte of a name or a
// value has a meaning (XA-3, XA-4). Each change changes the change attribute and time_metadata (XA-11), and the
// result tells the change attribute before and after (XA-12).
func TestXattrs(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 2, "client")
		all := s.populate()
		s.keeping(all["file"])
		for _, object := range []string{"file", "dir"} {
			fh := all[object]
			change := func(what string, o nfs4test.Op) {
				t.Helper()
				before, ctime := s.number(fh, wire.Fattr4Change), s.attribute(fh, wire.Fattr4TimeMetadata)
				r := s.must(what, putFH(fh), o, getattr(wire.Fattr4Change))
				var res wire.SetXattr4Res // REMOVEXATTR's result has the same form
				r[1].Into(t, &res)
				after := s.number(fh, wire.Fattr4Change)
				if res.Info.Before < before || res.Info.After != after || res.Info.After <= res.Info.Before {
					t.Errorf("%s of %s: %+v, with change attribute %d before and %d after", what, object, res.Info, before, after)
				}
				if string(s.attribute(fh, wire.Fattr4TimeMetadata)) < string(ctime) {
					t.Errorf("%s of %s: time_metadata went back", what, object)
				}
			}
			names := []string{"name", "user.name", "security.capability", "a/b", "..", "\xff\x01", strings.Repeat("n", 250)}
			values := []string{"value", "", "a\x00b\xff", strings.Repeat("long", 300)}
			for i, name := range names {
				value := values[i%len(values)]
				change("SETXATTR", setXattr(name, value, either))
				if got := s.xattr(fh, name); got != value {
					t.Errorf("%s: %q is %q, not %q", object, name, got, value)
				}
			}
			change("SETXATTR of another value", setXattr("name", "later", either))
			if got := s.xattr(fh, "name"); got != "later" {
				t.Errorf("%s: %q after a second SETXATTR", object, got)
			}
			slices.Sort(names)
			if got, _ := s.xattrs(fh, 8192, nil); !slices.Equal(got, names) {
				t.Errorf("%s: listed are %q, not %q", object, got, names)
			}
			for _, name := range names {
				change("REMOVEXATTR", removeXattr(name))
				s.want("GETXATTR of what was removed", wire.NFS4ErrNoXattr, putFH(fh), getXattr(name))
			}
			if p := s.page(fh, 0, 16); !p.eof || len(p.names) != 0 {
				t.Errorf("%s without attributes: %+v", object, p)
			}
		}
	})
}

// SETXATTR4_CREATE makes an attribute that does not exist (XA-6), SETXATTR4_REPLACE changes one that exists (XA-7),
// and SETXATTR4_EITHER does both (XA-8). What is not there cannot be told or removed (XA-4, XA-17).
func TestXattrOptions(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 2, "client")
		fh := s.makeFile("file")
		s.keeping(fh)
		for _, c := range []struct {
			op   nfs4test.Op
			want wire.NFSStat4
			has  string // the value afterwards, or empty if there is no attribute
		}{
			{getXattr("name"), wire.NFS4ErrNoXattr, ""},
			{removeXattr("name"), wire.NFS4ErrNoXattr, ""},
			{setXattr("name", "a", onlyReplace), wire.NFS4ErrNoXattr, ""},
			{setXattr("name", "b", onlyCreate), ok, "b"},
			{setXattr("name", "c", onlyCreate), wire.NFS4ErrExist, "b"},
			{setXattr("name", "d", onlyReplace), ok, "d"},
			{setXattr("name", "e", either), ok, "e"},
			{removeXattr("name"), ok, ""},
			{setXattr("name", "f", either), ok, "f"},
			{op(wire.OpSetXattr, append(words(3, 4), "name\x00\x00\x00\x00"...)), wire.NFS4ErrBadXDR, "f"},
		} {
			s.want(c.op.Number.String(), c.want, putFH(fh), c.op)
			if c.has == "" {
				s.want("GETXATTR", wire.NFS4ErrNoXattr, putFH(fh), getXattr("name"))
			} else if got := s.xattr(fh, "name"); got != c.has {
				t.Errorf("%q after %v, not %q", got, c.op.Number, c.has)
			}
		}
	})
}

// The operations refuse bad names and arguments, and objects of other types, with errors that the standard has for
// them (XA-18).
func TestXattrErrors(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 2, "client")
		all := s.populate()
		fh := all["file"]
		s.keeping(fh)
		of := map[wire.OpNum]func(name string) nfs4test.Op{
			wire.OpGetXattr: getXattr, wire.OpRemoveXattr: removeXattr,
			wire.OpSetXattr: func(name string) nfs4test.Op { return setXattr(name, "value", either) },
		}
		for n, o := range of {
			s.want(n.String()+" of no name", wire.NFS4ErrInvalid, putFH(fh), o(""))
			s.want(n.String()+" of a name with a zero byte", wire.NFS4ErrInvalid, putFH(fh), o("a\x00b"))
			s.want(n.String()+" of a long name", wire.NFS4ErrNameTooLong, putFH(fh), o(strings.Repeat("n", 251)))
			for _, object := range []string{"link", "fifo", "socket"} {
				want := wire.NFSStat4(wire.NFS4ErrPerm)
				if n == wire.OpGetXattr {
					want = wire.NFS4ErrNoXattr
				}
				s.want(n.String()+" of "+object, want, putFH(all[object]), o("name"))
			}
		}
		of[wire.OpListXattrs] = func(string) nfs4test.Op { return listXattrs(0, 100) }
		for n, o := range of {
			s.want(n.String()+" without a handle", wire.NFS4ErrNoFileHandle, o("name"))
			s.want(n.String()+" without arguments", wire.NFS4ErrBadXDR, putFH(fh), op(n))
		}
		for _, object := range []string{"link", "fifo", "socket"} {
			if p := s.page(all[object], 0, 100); len(p.names) != 0 || !p.eof {
				t.Errorf("LISTXATTRS of %s: %+v", object, p)
			}
		}
		if site.Exports == nil {
			return
		}
		s.must("SETXATTR", putFH(fh), setXattr("name", "value", either))
		site.Exports.Root().UTF8 = true
		for n, o := range of {
			if n != wire.OpListXattrs {
				s.want(n.String()+" of a name that is not UTF-8", wire.NFS4ErrInvalid, putFH(fh), o("\xff"))
			}
		}
		site.Exports.Root().UTF8 = false
		site.Exports.Root().ReadOnly = true
		s.want("SETXATTR where nothing may change", wire.NFS4ErrROFS, putFH(fh), setXattr("name", "other", either))
		s.want("REMOVEXATTR where nothing may change", wire.NFS4ErrROFS, putFH(fh), removeXattr("name"))
		if got := s.xattr(fh, "name"); got != "value" {
			t.Errorf("the value is %q", got)
		}
	})
}

// A listing begins at cookie 0 and goes on at the cookie of the last result. It tells each name once, and eof with
// the last (XA-13). No result is longer than maxcount, with the cookie, the number of names and eof (XA-14). If not
// even one name fits, the answer is NFS4ERR_TOOSMALL (XA-15).
func TestXattrLists(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 2, "client")
		fh := s.makeFile("file")
		s.keeping(fh)
		var want []string
		longest := 0
		for i := range 40 {
			name := strings.Repeat("n", i) + fmt.Sprintf("%02d", i)
			want, longest = append(want, name), max(longest, 4+(len(name)+3)/4*4)
			s.must("SETXATTR", putFH(fh), setXattr(name, "", onlyCreate))
		}
		slices.Sort(want)
		for maxcount := uint32(0); maxcount < uint32(16+8); maxcount++ {
			s.want("LISTXATTRS without room", wire.NFS4ErrTooSmall, putFH(fh), listXattrs(0, maxcount))
		}
		for _, maxcount := range []uint32{uint32(16 + longest), uint32(16 + longest + 1), 100, 500, 1<<32 - 1} {
			if got, calls := s.xattrs(fh, maxcount, nil); !slices.Equal(got, want) || maxcount > 10_000 && calls > 1 {
				t.Errorf("with maxcount %d: %d calls tell %q, not %q", maxcount, calls, got, want)
			}
		}
		whole := s.page(fh, 0, 8192)
		if p := s.page(fh, 0, uint32(whole.size)); !p.eof || p.size != whole.size {
			t.Errorf("with the maxcount that is enough for all: %+v", p)
		}
		if p := s.page(fh, 0, uint32(whole.size-1)); p.eof || len(p.names) != len(want)-1 {
			t.Errorf("with a byte less: %+v", p)
		}
		if p := s.page(fh, whole.cookie, 100); !p.eof || len(p.names) != 0 || p.cookie != whole.cookie {
			t.Errorf("behind the end: %+v", p)
		}
	})
}

// Attributes that come and go between two LISTXATTRS do not change what is told of the others: those that are there
// all the time are told once (XA-16). The file system may list them in another order after each change.
func TestXattrListWhileOthersChange(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 2, "client")
		fh := s.makeFile("file")
		s.keeping(fh)
		var want []string
		for i := range 30 {
			want = append(want, fmt.Sprintf("stays%02d", i))
			s.must("SETXATTR", putFH(fh), setXattr(want[i], "", either), setXattr(fmt.Sprintf("goes%02d", i), "", either))
		}
		n := 0
		got, _ := s.xattrs(fh, 100, func(page) {
			if n < 30 {
				s.must("a change", putFH(fh), removeXattr(fmt.Sprintf("goes%02d", n)), setXattr(fmt.Sprintf("comes%02d", n), "", either),
					setXattr(want[n], strings.Repeat("v", n), onlyReplace))
			}
			n++
		})
		got = slices.DeleteFunc(got, func(name string) bool { return !strings.HasPrefix(name, "stays") })
		if !slices.Equal(got, want) || n < 5 {
			t.Errorf("after %d changes listed are %q, not %q", n, got, want)
		}
	})
}

// A value that is longer than the reply or the file system allows is refused: NFS4ERR_REP_TOO_BIG (XA-5),
// NFS4ERR_XATTR2BIG (XA-10). A request longer than the channel allows gets NFS4ERR_REQ_TOO_BIG (XA-9).
func TestXattrSizes(t *testing.T) {
	s := newSession(t, newSite(t, nil, state.Config{}), 2, "small")
	args := createArgs(exchanged(s.Peer, "large", 1).Clientid, 1)
	args.ForeChanAttrs.Maxrequestsize, args.ForeChanAttrs.Maxresponsesize = 1<<20, 1<<20
	large := sessionOf(s.Peer, args)
	large.want("RECLAIM_COMPLETE", ok, op(wire.OpReclaimComplete, &wire.ReclaimComplete4Args{}))
	fh := s.makeFile("file")
	value := strings.Repeat("v", vfs.MaxXattr)
	large.want("SETXATTR of the longest value", ok, putFH(fh), setXattr("name", value, either))
	if got := large.xattr(fh, "name"); got != value {
		t.Errorf("%d bytes are %d", len(value), len(got))
	}
	large.want("SETXATTR of a longer value", wire.NFS4ErrXattr2Big, putFH(fh), setXattr("name", value+"v", either))
	for i := range 3 {
		large.want("SETXATTR", ok, putFH(fh), setXattr(fmt.Sprint(i), value[:60_000], either))
	}
	large.want("SETXATTR of what has no room beside the others", wire.NFS4ErrNoSpace, putFH(fh), setXattr("more", value, either))
	s.want("GETXATTR of a value longer than the channel allows", wire.NFS4ErrRepTooBig, putFH(fh), getXattr("name"))
	if r := s.do(putFH(fh), setXattr("name", value, either)); r.Status != wire.NFS4ErrReqTooBig {
		t.Errorf("SETXATTR of a value longer than the channel allows: %v", r.Status)
	}
	most := int(usual.Maxresponsesize)
	fits := func(n int) bool {
		t.Helper()
		large.must("SETXATTR", putFH(fh), setXattr("name", value[:n], either))
		r := s.do(putFH(fh), getXattr("name"))
		if r.Status != ok && r.Status != wire.NFS4ErrRepTooBig {
			t.Fatalf("GETXATTR of %d bytes: %v", n, r.Status)
		}
		return r.Status == ok
	}
	for n := most - 400; n <= most; n += 4 {
		if !fits(n) {
			for more := n; more < n+8; more++ {
				if fits(more) {
					t.Errorf("%d bytes are too many, %d are not", n, more)
				}
			}
			return
		}
	}
	t.Error("a value as long as the longest reply fits into one")
}

// ACCESS knows three rights to extended attributes: what the mode allows (XA-19). On a read-only export, nothing may
// be changed. Each operation checks them itself (XA-20).
func TestXattrRights(t *testing.T) {
	const rights = wire.Access4XattrRead | wire.Access4XattrWrite | wire.Access4XattrList
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s, user := newSession(t, site, 2, "client"), newSession(t, site, 2, "user")
		all := s.populate()
		s.keeping(all["file"])
		user.UID, user.GID = 1000, 1000
		granted := func(u *session, fh []byte) (supported, allowed uint32) {
			t.Helper()
			var res wire.Access4Res
			u.must("ACCESS", putFH(fh), access(rights|0x3f))[1].Into(t, &res)
			return res.ResOK.Supported & rights, res.ResOK.Access & rights
		}
		for _, object := range []string{"file", "dir"} {
			fh := all[object]
			s.must("SETXATTR", putFH(fh), setXattr("name", "value", either))
			for mode, want := range map[uint32]uint32{0o700: 0, 0o704: wire.Access4XattrRead | wire.Access4XattrList, 0o702: wire.Access4XattrWrite, 0o706: rights} {
				s.must("SETATTR", putFH(fh), setattr(anonymous, attrs().mode(mode)))
				if supported, got := granted(user, fh); supported != rights || got != want {
					t.Errorf("%s with mode %o: rights %#x of %#x, not %#x", object, mode, got, supported, want)
				}
				user.want("GETXATTR", or(want&wire.Access4XattrRead != 0), putFH(fh), getXattr("name"))
				user.want("LISTXATTRS", or(want&wire.Access4XattrList != 0), putFH(fh), listXattrs(0, 100))
				user.want("SETXATTR", or(want&wire.Access4XattrWrite != 0), putFH(fh), setXattr("other", "value", either))
				s.must("SETXATTR", putFH(fh), setXattr("other", "value", either))
				user.want("REMOVEXATTR", or(want&wire.Access4XattrWrite != 0), putFH(fh), removeXattr("other"))
			}
		}
		if site.Exports != nil {
			site.Exports.Root().ReadOnly = true
			if _, got := granted(s, all["file"]); got != rights&^wire.Access4XattrWrite {
				t.Errorf("on a read-only export: rights %#x", got)
			}
		}
	})
}

// Neither opens nor deny modes nor locks concern extended attributes (XA-20).
func TestXattrsAndDenyModes(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s, other := newSession(t, site, 2, "client"), newSession(t, site, 2, "other")
		fh := s.makeFile("file")
		s.keeping(fh)
		o := s.open(openArgs("file", "owner", both, wire.Open4ShareDenyBoth))
		s.lock(&o, "locker", wire.WriteLt, 0, toEnd)
		other.want("all operations", ok, putFH(fh), setXattr("name", "value", either), getXattr("name"), listXattrs(0, 100), removeXattr("name"))
	})
}

// A repeated SETXATTR or REMOVEXATTR gets the first reply, and is not executed again (XA-21).
func TestXattrsOnce(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 2, "client")
		fh := s.makeFile("file")
		s.keeping(fh)
		for _, o := range []nfs4test.Op{setXattr("name", "value", onlyCreate), removeXattr("name")} {
			args := s.next(1)
			args.Cachethis = true
			var first, again wire.SetXattr4Res
			for _, res := range []*wire.SetXattr4Res{&first, &again} {
				r := s.with(args, putFH(fh), o)
				if r.Status != ok {
					t.Fatalf("%v: %v", o.Number, r.Status)
				}
				r.Ops[2].Into(t, res)
			}
			s.last[1]++
			if first != again || s.number(fh, wire.Fattr4Change) != first.Info.After {
				t.Errorf("%v: %+v, and repeated %+v", o.Number, first, again)
			}
		}
	})
}

// keepsNone is a file system whose kind could have extended attributes, but which has none.
type keepsNone struct{ *memfs.FS }

func (keepsNone) KeepsXattrs() bool { return false }

// xattr_support says whether the object's file system has extended attributes (XA-1). If not, there is none of the
// operations, and no right (XA-2).
func TestXattrSupport(t *testing.T) {
	for what, keeps := range map[string]bool{"a file system with attributes": true, "one without": false} {
		fs := vfs.FileSystem(keepsNone{memfs.New(memfs.Options{RootMode: 0o777})})
		if keeps {
			fs = nil
		}
		s := newSession(t, newSite(t, fs, state.Config{}), 2, "client")
		fh := s.makeFile("file")
		if got := s.number(fh, wire.Fattr4XattrSupport) == 1; got != keeps {
			t.Errorf("%s: xattr_support is %v", what, got)
		}
		want := wire.NFSStat4(ok)
		if !keeps {
			want = wire.NFS4ErrNotSupp
		}
		for _, o := range []nfs4test.Op{setXattr("name", "value", either), getXattr("name"), listXattrs(0, 100), removeXattr("name")} {
			s.want(o.Number.String()+" of "+what, want, putFH(fh), o)
		}
		var res wire.Access4Res
		s.must("ACCESS", putFH(fh), access(wire.Access4Read|wire.Access4XattrRead))[1].Into(t, &res)
		if got := res.ResOK.Supported&wire.Access4XattrRead != 0; got != keeps || res.ResOK.Access&^res.ResOK.Supported != 0 {
			t.Errorf("%s: ACCESS %+v", what, res.ResOK)
		}
	}
}

// In a listing, too, xattr_support is that of the entry's file system (XA-1): the tree of exports has no extended
// attributes, but the exports in it have.
func TestXattrSupportInListing(t *testing.T) {
	site := nfs4test.New(t, nfs4test.Config{Minors: allMinors(t), Root: func(all *export.Table) vfs.FileSystem {
		return pseudo.Seen{FS: pseudo.Attach(all)}
	}})
	s := newSession(t, site, 2, "client")
	r := s.must("READDIR", putRoot, readdir(0, 4096, wire.Fattr4XattrSupport), getFH)
	var root wire.GetFH4Res
	r[2].Into(t, &root)
	if s.number(root.ResOK.Object, wire.Fattr4XattrSupport) != 0 {
		t.Error("xattr_support of the tree of exports is TRUE")
	}
	var res wire.Readdir4Res
	r[1].Into(t, &res)
	var e wire.Entry4
	if !res.ResOK.Reply.Entries.Next(&e) || string(e.Name) != "export" || string(e.Attrs.AttrVals) != string(words(1)) {
		t.Errorf("the entry %q has the attributes %x", e.Name, e.Attrs.AttrVals)
	}
}

// Earlier minor versions have neither the operations nor the attribute nor the rights (XA-22).
func TestXattrsOfEarlierVersions(t *testing.T) {
	each(t, func(t *testing.T, site *nfs4test.Site) {
		s := newSession(t, site, 1, "client")
		fh := s.makeFile("file")
		for _, o := range []nfs4test.Op{setXattr("name", "value", either), getXattr("name"), listXattrs(0, 100), removeXattr("name")} {
			if r := s.do(putFH(fh), o); r.Status != wire.NFS4ErrOpIllegal {
				t.Errorf("%v: %v", o.Number, r.Status)
			}
		}
		s.want("ACCESS", wire.NFS4ErrInvalid, putFH(fh), access(wire.Access4XattrRead))
		var res wire.Getattr4Res
		s.must("GETATTR", putFH(fh), getattr(wire.Fattr4XattrSupport))[1].Into(t, &res)
		if !res.ResOK.Attributes.Attrmask.IsEmpty() {
			t.Error("xattr_support is told")
		}
	})
}
