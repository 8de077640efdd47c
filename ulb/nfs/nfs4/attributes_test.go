package nfs4_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// attributeWant describes an attribute, with its expected value for the file "file" of a site.
type attributeWant struct {
	number uint32
	since  uint32
	size   int // size of the value in bytes; -1 if it varies
	value  func(d *xdr.Decoder, a *vfs.Attr) (got, want any)
	set    bool // SETATTR can set the attribute
	only   bool // the attribute can be set but not read
}

// Each of the following functions returns a function that decodes a value and returns it with
// the expected value.

func u32(want func(a *vfs.Attr) uint32) func(d *xdr.Decoder, a *vfs.Attr) (any, any) {
	return func(d *xdr.Decoder, a *vfs.Attr) (any, any) { return d.Uint32(), want(a) }
}

func u64(want func(a *vfs.Attr) uint64) func(d *xdr.Decoder, a *vfs.Attr) (any, any) {
	return func(d *xdr.Decoder, a *vfs.Attr) (any, any) { return d.Uint64(), want(a) }
}

func boolean(want bool) func(d *xdr.Decoder, a *vfs.Attr) (any, any) {
	return func(d *xdr.Decoder, _ *vfs.Attr) (any, any) { return d.Bool(), want }
}

func is32(want uint32) func(d *xdr.Decoder, a *vfs.Attr) (any, any) {
	return u32(func(*vfs.Attr) uint32 { return want })
}

func is64(want uint64) func(d *xdr.Decoder, a *vfs.Attr) (any, any) {
	return u64(func(*vfs.Attr) uint64 { return want })
}

func text(want func(a *vfs.Attr) string) func(d *xdr.Decoder, a *vfs.Attr) (any, any) {
	return func(d *xdr.Decoder, a *vfs.Attr) (any, any) { return string(d.Opaque(1024)), want(a) }
}

func timeOf(want func(a *vfs.Attr) vfs.Time) func(d *xdr.Decoder, a *vfs.Attr) (any, any) {
	return func(d *xdr.Decoder, a *vfs.Attr) (any, any) {
		return vfs.Time{Sec: d.Int64(), Nsec: d.Uint32()}, want(a)
	}
}

// anything accepts any value. It is for values that differ from run to run or have a test of
// their own.
func anything(d *xdr.Decoder, _ *vfs.Attr) (any, any) { return nil, nil }

// allAttributes lists the served attributes, in the order of RFC 8881 §5.8 and RFC 7862 §12.
var allAttributes = []attributeWant{
	{number: wire.Fattr4SupportedAttrs, size: -1, value: anything},
	{number: wire.Fattr4Type, size: 4, value: is32(uint32(wire.NF4Reg))},
	{number: wire.Fattr4FHExpireType, size: 4, value: is32(wire.FH4Persistent)},
	{number: wire.Fattr4Change, size: 8, value: u64(func(a *vfs.Attr) uint64 { return a.Change })},
	{number: wire.Fattr4Size, size: 8, value: u64(func(a *vfs.Attr) uint64 { return a.Size }), set: true},
	{number: wire.Fattr4LinkSupport, size: 4, value: boolean(true)},
	{number: wire.Fattr4SymlinkSupport, size: 4, value: boolean(true)},
	{number: wire.Fattr4NamedAttr, size: 4, value: boolean(false)},
	{number: wire.Fattr4FSID, size: 16, value: anything},
	{number: wire.Fattr4UniqueHandles, size: 4, value: boolean(true)},
	{number: wire.Fattr4LeaseTime, size: 4, value: is32(90)},
	{number: wire.Fattr4RdattrError, size: 4, value: is32(0)},
	{number: wire.Fattr4Aclsupport, size: 4, value: anything},
	{number: wire.Fattr4Cansettime, size: 4, value: boolean(true)},
	{number: wire.Fattr4CaseInsensitive, size: 4, value: boolean(false)},
	{number: wire.Fattr4CasePreserving, size: 4, value: boolean(true)},
	{number: wire.Fattr4ChownRestricted, size: 4, value: boolean(true)},
	{number: wire.Fattr4Filehandle, size: -1, value: anything},
	{number: wire.Fattr4FileID, size: 8, value: u64(func(a *vfs.Attr) uint64 { return a.FileID })},
	{number: wire.Fattr4FilesAvail, size: 8, value: anything},
	{number: wire.Fattr4FilesFree, size: 8, value: anything},
	{number: wire.Fattr4FilesTotal, size: 8, value: is64(1 << 20)},
	{number: wire.Fattr4FsLocations, size: -1, value: anything},
	{number: wire.Fattr4Homogeneous, size: 4, value: boolean(true)},
	{number: wire.Fattr4Maxfilesize, size: 8, value: is64(1<<63 - 1)},
	{number: wire.Fattr4Maxlink, size: 4, value: is32(1 << 16)},
	{number: wire.Fattr4Maxname, size: 4, value: is32(255)},
	{number: wire.Fattr4Maxread, size: 8, value: is64(nfs.MaxTransfer)},
	{number: wire.Fattr4Maxwrite, size: 8, value: is64(nfs.MaxTransfer)},
	{number: wire.Fattr4Mode, size: 4, value: u32(func(a *vfs.Attr) uint32 { return a.Mode }), set: true},
	{number: wire.Fattr4NoTrunc, size: 4, value: boolean(true)},
	{number: wire.Fattr4Numlinks, size: 4, value: u32(func(a *vfs.Attr) uint32 { return a.Nlink })},
	{number: wire.Fattr4Owner, size: -1, value: text(func(a *vfs.Attr) string { return fmt.Sprint(a.UID) }), set: true},
	{number: wire.Fattr4OwnerGroup, size: -1, value: text(func(a *vfs.Attr) string { return fmt.Sprint(a.GID) }), set: true},
	{number: wire.Fattr4Rawdev, size: 8, value: is64(0)},
	{number: wire.Fattr4SpaceAvail, size: 8, value: anything},
	{number: wire.Fattr4SpaceFree, size: 8, value: anything},
	{number: wire.Fattr4SpaceTotal, size: 8, value: is64(1 << 30)},
	{number: wire.Fattr4SpaceUsed, size: 8, value: u64(func(a *vfs.Attr) uint64 { return a.Used })},
	{number: wire.Fattr4TimeAccess, size: 12, value: timeOf(func(a *vfs.Attr) vfs.Time { return a.Atime })},
	{number: wire.Fattr4TimeAccessSet, size: 16, set: true, only: true},
	{number: wire.Fattr4TimeCreate, size: 12, value: timeOf(func(a *vfs.Attr) vfs.Time { return a.Birth })},
	{number: wire.Fattr4TimeDelta, size: 12, value: timeOf(func(*vfs.Attr) vfs.Time { return vfs.Time{Nsec: 1} })},
	{number: wire.Fattr4TimeMetadata, size: 12, value: timeOf(func(a *vfs.Attr) vfs.Time { return a.Ctime })},
	{number: wire.Fattr4TimeModify, size: 12, value: timeOf(func(a *vfs.Attr) vfs.Time { return a.Mtime })},
	{number: wire.Fattr4TimeModifySet, size: 16, set: true, only: true},
	{number: wire.Fattr4MountedOnFileID, size: 8, value: u64(func(a *vfs.Attr) uint64 { return a.FileID })},
	{number: wire.Fattr4SuppattrExclcreat, since: 1, size: -1, value: anything},
	{number: wire.Fattr4ChangeAttrType, since: 2, size: 4, value: anything},
	{number: wire.Fattr4ModeUmask, since: 2, size: 8, set: true, only: true},
	{number: wire.Fattr4XattrSupport, since: 2, size: 4, value: anything},
	{number: wire.Fattr4OpenArguments, since: 1, size: -1, value: anything},
}

func attributeOf(number uint32) *attributeWant {
	for i := range allAttributes {
		if allAttributes[i].number == number {
			return &allAttributes[i]
		}
	}
	return nil
}

// attrOf returns the file system's attributes of the object at the end of a walk.
func attrOf(t *testing.T, p *nfs4test.Peer, names ...string) (a vfs.Attr) {
	t.Helper()
	o, err := p.Exports.Find(handleOf(t, p, names...))
	if err == nil {
		err = o.Export.FS.GetAttr(&vfs.Op{Cred: &vfs.Cred{}, Want: vfs.WantBirth}, o.Handle, &a)
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// GETATTR returns each attribute that supported_attrs lists, and supported_attrs lists all
// served attributes.
func TestGetEachAttribute(t *testing.T) {
	s := treeSite(t, "/data")
	for minor := range uint32(3) {
		p := s.Peer(minor)
		_, d := valuesOf(t, p, []string{"data", "file"}, wire.Fattr4SupportedAttrs)
		var served wire.Bitmap4
		served.Decode(d)
		for n := range uint32(96) {
			w := attributeOf(n)
			if has := w != nil && w.since <= minor; served.Has(n) != has {
				t.Errorf("4.%d: attribute %d: supported %v, want %v", minor, n, served.Has(n), has)
				continue
			} else if !has || w.only {
				continue
			}
			mask, d := valuesOf(t, p, []string{"data", "file"}, n, wire.Fattr4Hidden)
			if mask != wire.Bits(n) || w.size >= 0 && d.Len() != w.size {
				t.Errorf("4.%d: attribute %d: %d bytes", minor, n, d.Len())
				continue
			}
			a := attrOf(t, p, "data", "file")
			if got, want := w.value(d, &a); got != want {
				t.Errorf("4.%d: attribute %d is %v, want %v", minor, n, got, want)
			}
		}
	}
}

// Values come in ascending order of the attribute numbers, however many attributes the client
// requests.
func TestGetAllAttributes(t *testing.T) {
	s := treeSite(t, "/data")
	var all []uint32
	for _, w := range allAttributes {
		if !w.only {
			all = append(all, w.number)
		}
	}
	for _, path := range [][]string{nil, {"data"}, {"data", "file"}, {"data", "link"}} {
		p := s.Peer(2)
		mask, d := valuesOf(t, p, path, all...)
		want := wire.Bits(all...)
		if path == nil { // the root of the tree is made up and has no birth time
			want.Clear(wire.Fattr4TimeCreate)
		}
		if mask != want {
			t.Errorf("%v: %v", path, mask)
		}
		for _, n := range all {
			_, one := valuesOf(t, p, path, n)
			if got := d.FixedOpaque(one.Len()); string(got) != string(one.Rest()) {
				t.Errorf("%v: attribute %d is %x, and alone %x", path, n, got, one.Rest())
			}
		}
		if d.Finish() != nil {
			t.Errorf("%v: %v", path, d.Finish())
		}
	}
}

// An attribute that an object lacks is not supported for this object, and VERIFY refuses it.
func TestAttributeThatTheObjectHasNot(t *testing.T) {
	p := treeSite(t, "/data").Peer(1)
	_, d := valuesOf(t, p, nil, wire.Fattr4SupportedAttrs)
	var served wire.Bitmap4
	if served.Decode(d); served.Has(wire.Fattr4TimeCreate) {
		t.Error("the root of all has a time of birth")
	}
	born := fattr(func(w *xdr.Writer) { w.Int64(0); w.Uint32(0) }, wire.Fattr4TimeCreate)
	if r := p.Compound(append(walk(), verify(wire.OpVerify, born))...); r.Status != wire.NFS4ErrAttrNotSupp {
		t.Errorf("%v", r.Status)
	}
	for _, e := range list(t, p, nil, 1000, wire.Fattr4TimeCreate) {
		if !e.mask.Has(wire.Fattr4TimeCreate) {
			t.Errorf("the root of an export in memory has no time of birth")
		}
	}
}

// VERIFY accepts each attribute with the value of GETATTR, and no other value.
func TestVerifyEachAttribute(t *testing.T) {
	s := treeSite(t, "/data")
	for minor := range uint32(3) {
		p := s.Peer(minor)
		check := func(what string, attrs wire.FAttr4, verified, unverified wire.NFSStat4) {
			t.Helper()
			for n, want := range map[wire.OpNum]wire.NFSStat4{wire.OpVerify: verified, wire.OpNverify: unverified} {
				if r := p.Compound(append(at("file"), verify(n, attrs))...); r.Status != want {
					t.Errorf("4.%d: %v of %s: %v, want %v", minor, n, what, r.Status, want)
				}
			}
		}
		for n := range uint32(96) {
			w := attributeOf(n)
			what := fmt.Sprint("attribute ", n)
			attrs := wire.FAttr4{Attrmask: wire.Bits(n)}
			switch {
			case w == nil || w.since > minor:
				check(what, attrs, wire.NFS4ErrAttrNotSupp, wire.NFS4ErrAttrNotSupp)
				continue
			case w.only, n == wire.Fattr4RdattrError:
				check(what, attrs, wire.NFS4ErrInvalid, wire.NFS4ErrInvalid)
				continue
			}
			_, d := valuesOf(t, p, []string{"data", "file"}, n)
			attrs.AttrVals = append([]byte(nil), d.Rest()...)
			check(what, attrs, wire.NFS4OK, wire.NFS4ErrSame)
			long := wire.FAttr4{Attrmask: attrs.Attrmask, AttrVals: append(attrs.AttrVals[:len(attrs.AttrVals):len(attrs.AttrVals)], 0, 0, 0, 0)}
			check(what+", too long", long, wire.NFS4ErrBadXDR, wire.NFS4ErrBadXDR)
			short := wire.FAttr4{Attrmask: attrs.Attrmask, AttrVals: attrs.AttrVals[:len(attrs.AttrVals)-4]}
			check(what+", too short", short, wire.NFS4ErrBadXDR, wire.NFS4ErrBadXDR)
			if w.size >= 0 {
				attrs.AttrVals[len(attrs.AttrVals)-1] ^= 1
				check(what+", another value", attrs, wire.NFS4ErrNotSame, wire.NFS4OK)
			}
		}
		check("an owner", fattr(func(w *xdr.Writer) { w.String("12345678") }, wire.Fattr4Owner), wire.NFS4ErrNotSame, wire.NFS4OK)
		check("mode bits that are none", mode(1<<12), wire.NFS4ErrInvalid, wire.NFS4ErrInvalid)
		check("nothing", wire.FAttr4{}, wire.NFS4OK, wire.NFS4ErrSame)
	}
}

// SETATTR can set each settable attribute, and then lists it as set. For other attributes it
// returns the status that fits. It accepts a creation time, but does not list it as set.
func TestSetEachAttribute(t *testing.T) {
	values := map[uint32]func(w *xdr.Writer){
		wire.Fattr4Size:  func(w *xdr.Writer) { w.Uint64(77) },
		wire.Fattr4Mode:  func(w *xdr.Writer) { w.Uint32(0o4711) },
		wire.Fattr4Owner: func(w *xdr.Writer) { w.String("1001") }, wire.Fattr4OwnerGroup: func(w *xdr.Writer) { w.String("1002") },
		wire.Fattr4TimeAccessSet: func(w *xdr.Writer) { w.Uint32(1); w.Int64(-5); w.Uint32(6) },
		wire.Fattr4TimeModifySet: func(w *xdr.Writer) { w.Uint32(1); w.Int64(1 << 40); w.Uint32(8) },
		wire.Fattr4TimeCreate:    func(w *xdr.Writer) { w.Int64(1 << 40); w.Uint32(8) },
	}
	for minor := range uint32(3) {
		p := treeSite(t, "/data").Peer(minor)
		for n := range uint32(96) {
			w := attributeOf(n)
			attrs := fattr(values[n], n)
			want := wire.NFS4OK
			switch {
			case w == nil || w.since > minor:
				want = wire.NFS4ErrAttrNotSupp
			case n == wire.Fattr4TimeCreate:
			case !w.set, n == wire.Fattr4ModeUmask:
				want = wire.NFS4ErrInvalid
			}
			if n == wire.Fattr4ModeUmask {
				attrs.AttrVals = make([]byte, 8)
			}
			before := attrOf(t, p, "data", "file").Change
			r := p.Compound(append(at("file"), setattr(attrs))...)
			var res wire.Setattr4Res
			r.Ops[len(r.Ops)-1].Into(t, &res)
			does := want == wire.NFS4OK && n != wire.Fattr4TimeCreate
			if r.Status != want || does != res.Attrsset.Has(n) {
				t.Errorf("4.%d: attribute %d: %v, %v set", minor, n, r.Status, res.Attrsset)
			}
			if changed := attrOf(t, p, "data", "file").Change != before; changed != does {
				t.Errorf("4.%d: attribute %d: the change attribute changed: %v", minor, n, changed)
			}
		}
		a := attrOf(t, p, "data", "file")
		if a.Size != 77 || a.Mode&0o777 != 0o711 || a.UID != 1001 || a.GID != 1002 || a.Atime != (vfs.Time{Sec: -5, Nsec: 6}) || a.Mtime != (vfs.Time{Sec: 1 << 40, Nsec: 8}) {
			t.Errorf("4.%d: %+v", minor, a)
		}
	}
}

// raw writes arguments that the wire types cannot express.
type raw func(w *xdr.Writer)

func (r raw) Encode(w *xdr.Writer) { r(w) }

func TestErrorsOfSetattr(t *testing.T) {
	two := func(w *xdr.Writer) { w.Uint64(1); w.Uint32(0o600) }
	owner := func(s string) wire.FAttr4 { return fattr(func(w *xdr.Writer) { w.String(s) }, wire.Fattr4Owner) }
	beyond := nfs4test.Op{Number: wire.OpSetattr, Args: raw(func(w *xdr.Writer) {
		w.FixedOpaque(make([]byte, wire.StateID4MaxSize))
		for _, word := range [...]uint32{4, 0, 2, 0, 1, 4, 0o600} { // a bitmap, and values
			w.Uint32(word)
		}
	})}
	s := treeSite(t, "/data")
	runSteps(t, s, []step{
		always("nothing", wire.NFS4OK, at("file"), setattr(wire.FAttr4{})),
		always("values without attributes", wire.NFS4ErrBadXDR, at("file"), setattr(wire.FAttr4{AttrVals: make([]byte, 4)})),
		always("values that are cut off", wire.NFS4ErrBadXDR, at("file"), setattr(wire.FAttr4{Attrmask: wire.Bits(wire.Fattr4Mode)})),
		always("half of the values", wire.NFS4ErrBadXDR, at("file"), setattr(fattr(func(w *xdr.Writer) { w.Uint64(1) }, wire.Fattr4Size, wire.Fattr4Mode))),
		always("more values", wire.NFS4ErrBadXDR, at("file"), setattr(fattr(two, wire.Fattr4Size))),
		always("attributes that have no name", wire.NFS4ErrAttrNotSupp, at("file"), beyond),
		always("mode bits that are none", wire.NFS4ErrInvalid, at("file"), setattr(mode(0o10000))),
		always("a time that is none", wire.NFS4ErrInvalid, at("file"),
			setattr(fattr(func(w *xdr.Writer) { w.Uint32(1); w.Int64(0); w.Uint32(1e9) }, wire.Fattr4TimeModifySet))),
		always("a way to set a time that is none", wire.NFS4ErrBadXDR, at("file"),
			setattr(fattr(func(w *xdr.Writer) { w.Uint32(2) }, wire.Fattr4TimeModifySet))),
		always("the server's time", wire.NFS4OK, at("file"), setattr(fattr(func(w *xdr.Writer) { w.Uint32(0) }, wire.Fattr4TimeModifySet))),
		always("no owner", wire.NFS4ErrInvalid, at("file"), setattr(owner(""))),
		always("an owner that is none", wire.NFS4ErrBadOwner, at("file"), setattr(owner("somebody"))),
		always("an owner beyond numbers", wire.NFS4ErrBadOwner, at("file"), setattr(owner("4294967296"))),
		always("the number that means none", wire.NFS4ErrBadOwner, at("file"), setattr(owner("4294967295"))),
		always("an owner below numbers", wire.NFS4ErrBadOwner, at("file"), setattr(owner("-1"))),
		step{"the size of a directory", append(at("dir"), setattr(fattr(func(w *xdr.Writer) { w.Uint64(0) }, wire.Fattr4Size))), wire.NFS4ErrIsDir, wire.NFS4ErrWrongType},
		step{"the size of a link", append(at("link"), setattr(fattr(func(w *xdr.Writer) { w.Uint64(0) }, wire.Fattr4Size))), wire.NFS4ErrInvalid, wire.NFS4ErrWrongType},
		always("a size beyond all files", wire.NFS4ErrFBig, at("file"), setattr(fattr(func(w *xdr.Writer) { w.Uint64(1<<64 - 1) }, wire.Fattr4Size))),
		always("above the exports", wire.NFS4ErrROFS, walk(), setattr(mode(0o777))),
	})
	p := s.Peer(0)
	p.UID = 1000
	if r := p.Compound(append(at("file"), setattr(mode(0o777)))...); r.Status != wire.NFS4ErrPerm {
		t.Errorf("the mode of another user's file: %v", r.Status)
	}
}

// fs_locations contains the path at which clients find the export.
func TestLocations(t *testing.T) {
	s := treeSite(t, "/srv/data")
	for _, c := range []struct {
		at   []string
		want []string
	}{{nil, nil}, {[]string{"srv"}, nil}, {[]string{"srv", "data", "dir"}, []string{"srv", "data"}}} {
		_, d := valuesOf(t, s.Peer(0), c.at, wire.Fattr4FsLocations)
		var l wire.FsLocations4
		l.Decode(d)
		if d.Finish() != nil {
			t.Fatal(d.Finish())
		}
		var got []string
		var name wire.UTF8String
		for l.FsRoot.Next(&name) {
			got = append(got, string(name))
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%v is at %v", c.at, got)
		}
	}
}

// If the path is too long for the room that a reply reserves for it, fs_locations has no
// location. The attributes after it are returned all the same.
func TestLocationWithALongPath(t *testing.T) {
	var names []string
	for i := range 5 {
		names = append(names, strings.Repeat(string(rune('a'+i)), 250))
	}
	s := treeSite(t, "/"+strings.Join(names, "/"))
	for _, below := range [][]string{names, append(slices.Clone(names), "dir")} {
		mask, d := valuesOf(t, s.Peer(0), below, wire.Fattr4FsLocations, wire.Fattr4Maxfilesize)
		if mask != wire.Bits(wire.Fattr4FsLocations, wire.Fattr4Maxfilesize) {
			t.Errorf("told %v", mask)
		}
		var l wire.FsLocations4
		l.Decode(d)
		var name wire.UTF8String
		var at wire.FsLocation4
		if l.FsRoot.Next(&name) || l.Locations.Next(&at) {
			t.Error("a location that is too long for the reply")
		}
		if size := d.Uint64(); d.Finish() != nil || size == 0 {
			t.Errorf("what follows: %d, %v", size, d.Finish())
		}
	}
}
