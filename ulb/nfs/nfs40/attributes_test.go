package nfs40_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

func u32(v uint32) func(*xdr.Writer) { return func(w *xdr.Writer) { w.Uint32(v) } }
func u64(v uint64) func(*xdr.Writer) { return func(w *xdr.Writer) { w.Uint64(v) } }

func text(s string) func(*xdr.Writer) { return func(w *xdr.Writer) { w.String(s) } }

// valuesOf decodes the result of a GETATTR that is the last operation of a compound.
func valuesOf(t *testing.T, r *nfs4test.Result) (wire.Bitmap4, *xdr.Decoder) {
	t.Helper()
	var res wire.Getattr4Res
	last(t, r, &res)
	return res.ResOK.Attributes.Attrmask, xdr.NewDecoder(res.ResOK.Attributes.AttrVals)
}

// typeOf returns the object type from a GETATTR that asks for the type only.
func typeOf(t *testing.T, r *nfs4test.Result) wire.FType4 {
	t.Helper()
	_, d := valuesOf(t, r)
	return wire.FType4(d.Uint32())
}

// required are the attributes that each object has (RFC 7530 §5.6).
var required = []uint32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 19}

// setOnly are the attributes that a client can set but not get.
var setOnly = []uint32{wire.Fattr4TimeAccessSet, wire.Fattr4TimeModifySet}

func TestGetattr(t *testing.T) {
	types := map[string]wire.FType4{
		"file": wire.NF4Reg, "dir": wire.NF4Dir, "link": wire.NF4Lnk, "block": wire.NF4Blk, "char": wire.NF4Chr,
		"socket": wire.NF4Sock, "fifo": wire.NF4Fifo,
	}
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			p := newPeer(t)
			if got := typeOf(t, p.run(t, ok, join(at(kind), getattr(wire.Fattr4Type))...)); got != types[kind] {
				t.Errorf("a %v", got)
			}
			got, _ := valuesOf(t, p.run(t, ok, join(at(kind), getattr(required...))...))
			if want := wire.Bits(required...); got != want {
				t.Errorf("of the required attributes there are %v", got)
			}
			for _, bit := range setOnly {
				p.run(t, wire.NFS4ErrInvalid, join(at(kind), getattr(bit))...)
			}
			// The server leaves out unknown attributes.
			got, _ = valuesOf(t, p.run(t, ok, join(at(kind), getattr(wire.Fattr4Type, 60, 95))...))
			if want := wire.Bits(wire.Fattr4Type); got != want {
				t.Errorf("unknown attributes: %v", got)
			}
			got, d := valuesOf(t, p.run(t, ok, join(at(kind), getattr())...))
			if !got.IsEmpty() || d.Finish() != nil {
				t.Errorf("no attributes: %v", got)
			}
			p.all(t, kind)
		})
	}
}

// all gets each attribute in supported_attrs, alone and together with all others.
func (p *peer) all(t *testing.T, kind string) {
	t.Helper()
	_, d := valuesOf(t, p.run(t, ok, join(at(kind), getattr(wire.Fattr4SupportedAttrs))...))
	var supported wire.Bitmap4
	supported.Decode(d)
	for _, bit := range required {
		if !supported.Has(bit) {
			t.Errorf("attribute %d is required, and not said to be supported", bit)
		}
	}
	var readable []uint32
	for bit := range uint32(96) {
		if !supported.Has(bit) || bit == setOnly[0] || bit == setOnly[1] {
			continue
		}
		readable = append(readable, bit)
		got, _ := valuesOf(t, p.run(t, ok, join(at(kind), getattr(bit))...))
		if want := wire.Bits(bit); got != want {
			t.Errorf("attribute %d is supported, and not returned", bit)
		}
	}
	for _, bit := range []uint32{wire.Fattr4SuppattrExclcreat, wire.Fattr4CloneBlksize, wire.Fattr4ModeUmask, wire.Fattr4XattrSupport} {
		if supported.Has(bit) {
			t.Errorf("attribute %d is none of this minor version", bit)
		}
	}
	got, _ := valuesOf(t, p.run(t, ok, join(at(kind), getattr(readable...))...))
	if want := wire.Bits(readable...); got != want {
		t.Errorf("all attributes: %v, want %v", got, want)
	}
}

func TestGetattrOfSize(t *testing.T) {
	_, d := valuesOf(t, newPeer(t).run(t, ok, join(at("file"), getattr(wire.Fattr4Size))...))
	if got := d.Uint64(); got != uint64(len(content)) {
		t.Error(got)
	}
}

func TestLeaseTime(t *testing.T) {
	p := newPeer(t)
	_, d := valuesOf(t, p.run(t, ok, putRootFH, getattr(wire.Fattr4LeaseTime)))
	if got := d.Uint32(); float64(got) != lease.Seconds() {
		t.Errorf("%d s", got)
	}
}

func TestSetattr(t *testing.T) {
	p := newPeer(t)
	for _, kind := range kinds {
		if kind == "link" {
			continue // the mode of a symbolic link has no meaning
		}
		p.run(t, ok, join(at(kind), setattr(anonymous, mode(0o700)))...)
		_, d := valuesOf(t, p.run(t, ok, join(at(kind), getattr(wire.Fattr4Mode))...))
		if got := d.Uint32(); got != 0o700 {
			t.Errorf("%s: mode %o", kind, got)
		}
	}
}

// SETATTR returns the list of the attributes that it has set, even if it fails.
func TestSetattrListsSetAttributes(t *testing.T) {
	p := newPeer(t)
	var res wire.Setattr4Res
	last(t, p.run(t, ok, join(at("file"), setattr(anonymous, mode(0o644)))...), &res)
	if res.Attrsset != wire.Bits(wire.Fattr4Mode) {
		t.Errorf("%v", res.Attrsset)
	}
	last(t, p.run(t, wire.NFS4ErrInvalid, join(at("file"), setattr(anonymous, attrs(u32(1), wire.Fattr4Type)))...), &res)
	if !res.Attrsset.IsEmpty() {
		t.Errorf("after a failure: %v", res.Attrsset)
	}
}

func TestSetattrOfSize(t *testing.T) {
	byKind(t, map[string]status{"file": ok, "dir": wire.NFS4ErrIsDir}, wire.NFS4ErrInvalid, setattr(anonymous, size(5)))
	for _, n := range []uint64{0, 3, 1000} {
		p := newPeer(t)
		r := p.run(t, ok, join(at("file"), setattr(anonymous, size(n)), getattr(wire.Fattr4Size))...)
		if _, d := valuesOf(t, r); d.Uint64() != n {
			t.Errorf("set to %d", n)
		}
	}
}

func TestSetattrThatCannotBe(t *testing.T) {
	toClient := func(sec int64, nsec uint32) func(*xdr.Writer) {
		return func(w *xdr.Writer) { w.Uint32(1); w.Int64(sec); w.Uint32(nsec) }
	}
	for _, c := range []struct {
		name     string
		attr     wire.FAttr4
		want, or status
	}{
		{"read-only attribute", attrs(u32(1), wire.Fattr4Type), wire.NFS4ErrInvalid, 0},
		{"change", attrs(u64(1), wire.Fattr4Change), wire.NFS4ErrInvalid, 0},
		{"number of links", attrs(u32(1), wire.Fattr4Numlinks), wire.NFS4ErrInvalid, 0},
		{"time that cannot be set so", attrs(func(w *xdr.Writer) { w.Int64(1); w.Uint32(0) }, wire.Fattr4TimeModify), wire.NFS4ErrInvalid, 0},
		{"not supported", attrs(u32(1), wire.Fattr4Hidden), wire.NFS4ErrAttrNotSupp, 0},
		{"unknown", attrs(u32(1), 95), wire.NFS4ErrAttrNotSupp, 0},
		{"values that are cut off", attrs(u32(1), wire.Fattr4Size), wire.NFS4ErrBadXDR, 0},
		{"no values", attrs(nil, wire.Fattr4Mode), wire.NFS4ErrBadXDR, 0},
		{"values left over", attrs(u64(1), wire.Fattr4Mode), wire.NFS4ErrBadXDR, 0},
		{"mode with more bits", attrs(u32(0o10000), wire.Fattr4Mode), wire.NFS4ErrInvalid, 0},
		{"way of setting a time that is none", attrs(u32(7), wire.Fattr4TimeModifySet), wire.NFS4ErrBadXDR, wire.NFS4ErrInvalid},
		{"too many nanoseconds", attrs(toClient(1, 1_000_000_000), wire.Fattr4TimeModifySet), wire.NFS4ErrInvalid, 0},
		{"owner without a name", attrs(text(""), wire.Fattr4Owner), wire.NFS4ErrInvalid, 0},
		{"group without a name", attrs(text(""), wire.Fattr4OwnerGroup), wire.NFS4ErrInvalid, 0},
		{"owner that is unknown", attrs(text("nobody knows@nowhere.invalid"), wire.Fattr4Owner), wire.NFS4ErrBadOwner, 0},
		{"group that is unknown", attrs(text("nobody knows@nowhere.invalid"), wire.Fattr4OwnerGroup), wire.NFS4ErrBadOwner, 0},
		{"size beyond the file system", size(1 << 63), wire.NFS4ErrFBig, wire.NFS4ErrInvalid},
		{"largest size", size(1<<64 - 1), wire.NFS4ErrFBig, wire.NFS4ErrInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := []status{c.want}
			if c.or != 0 {
				want = append(want, c.or)
			}
			p := newPeer(t)
			p.oneOf(t, want, join(at("file"), setattr(anonymous, c.attr))...)
			_, d := valuesOf(t, p.run(t, ok, join(at("file"), getattr(wire.Fattr4Size))...))
			if d.Uint64() != uint64(len(content)) {
				t.Error("the size changed")
			}
		})
	}
}

func TestSetattrOfTimes(t *testing.T) {
	p := newPeer(t)
	set := attrs(func(w *xdr.Writer) { w.Uint32(1); w.Int64(1_000_000); w.Uint32(5) }, wire.Fattr4TimeModifySet)
	for _, kind := range kinds {
		if kind == "link" {
			continue
		}
		r := p.run(t, ok, join(at(kind), setattr(anonymous, set), getattr(wire.Fattr4TimeModify))...)
		if _, d := valuesOf(t, r); d.Int64() != 1_000_000 || d.Uint32() != 5 {
			t.Errorf("%s: another time", kind)
		}
		p.run(t, ok, join(at(kind), setattr(anonymous, attrs(u32(0), wire.Fattr4TimeAccessSet)))...)
	}
}

// A client may set the creation time, although no file system can store it. The server accepts it
// and does not list it as set (RFC 7530 §5.7, §16.32.4).
func TestSettingTheTimeOfCreation(t *testing.T) {
	birth := func(nsec uint32) wire.FAttr4 {
		return attrs(func(w *xdr.Writer) { w.Uint32(0o700); w.Int64(1); w.Uint32(nsec) }, wire.Fattr4Mode, wire.Fattr4TimeCreate)
	}
	c := newClient(t)
	var set wire.Setattr4Res
	last(t, c.run(t, ok, join(at("file"), setattr(anonymous, birth(0)))...), &set)
	var made wire.Create4Res
	last(t, c.run(t, ok, putRootFH, create("new", wire.NF4Dir, birth(0))), &made)
	o := c.owner("o")
	res := opened(t, c.run(t, ok, putRootFH, o.openHow("made", bothMode, denyNone, creating(wire.Guarded4, birth(0)))), 1)
	for what, got := range map[string]wire.Bitmap4{"SETATTR": set.Attrsset, "CREATE": made.ResOK.Attrset, "OPEN": res.Attrset} {
		if got != wire.Bits(wire.Fattr4Mode) {
			t.Errorf("%s set %v", what, got)
		}
	}
	c.run(t, wire.NFS4ErrInvalid, join(at("file"), setattr(anonymous, birth(1e9)))...)
	c.run(t, wire.NFS4ErrBadXDR, join(at("file"), setattr(anonymous, attrs(u64(1), wire.Fattr4TimeCreate)))...)
}

// The server accepts an owner or a group in the form of a number.
func TestSetattrOfOwners(t *testing.T) {
	p := newPeer(t)
	both := attrs(func(w *xdr.Writer) { w.String("12"); w.String("34") }, wire.Fattr4Owner, wire.Fattr4OwnerGroup)
	r := p.run(t, ok, join(at("file"), setattr(anonymous, both), getattr(wire.Fattr4Owner, wire.Fattr4OwnerGroup))...)
	_, d := valuesOf(t, r)
	if u, g := string(d.Opaque(100)), string(d.Opaque(100)); u != "12" || g != "34" {
		t.Errorf("%q %q", u, g)
	}
}

func TestVerify(t *testing.T) {
	same, other := size(uint64(len(content))), size(5)
	table(t, []row{
		{name: "VERIFY same", ops: join(at("file"), verify(same)), want: ok},
		{name: "VERIFY other", ops: join(at("file"), verify(other)), want: wire.NFS4ErrNotSame},
		{name: "NVERIFY same", ops: join(at("file"), nverify(same)), want: wire.NFS4ErrSame},
		{name: "NVERIFY other", ops: join(at("file"), nverify(other)), want: ok},
	})
	for name, make := range map[string]func(wire.FAttr4) op{"VERIFY": verify, "NVERIFY": nverify} {
		for _, kind := range kinds {
			t.Run(name+" "+kind, func(t *testing.T) {
				p := newPeer(t)
				for _, bit := range append(setOnly, wire.Fattr4RdattrError) {
					p.run(t, wire.NFS4ErrInvalid, join(at(kind), make(attrs(func(w *xdr.Writer) { w.Uint32(0) }, bit)))...)
				}
				p.run(t, wire.NFS4ErrAttrNotSupp, join(at(kind), make(attrs(u32(1), wire.Fattr4Hidden)))...)
				p.run(t, wire.NFS4ErrAttrNotSupp, join(at(kind), make(attrs(u32(1), 95)))...)
			})
		}
	}
}

// shared are attributes that other users of the file system, or its delayed allocation, may change
// at any time.
var shared = wire.Bits(wire.Fattr4FilesAvail, wire.Fattr4FilesFree, wire.Fattr4FilesTotal,
	wire.Fattr4SpaceAvail, wire.Fattr4SpaceFree, wire.Fattr4SpaceTotal, wire.Fattr4SpaceUsed)

// VERIFY of each attribute succeeds with the value that GETATTR returned.
func TestVerifyOfAllAttributes(t *testing.T) {
	p := newPeer(t)
	for _, kind := range kinds {
		_, d := valuesOf(t, p.run(t, ok, join(at(kind), getattr(wire.Fattr4SupportedAttrs))...))
		var supported wire.Bitmap4
		supported.Decode(d)
		for bit := range uint32(96) {
			if !supported.Has(bit) || bit == setOnly[0] || bit == setOnly[1] || bit == wire.Fattr4RdattrError || onDisk && shared.Has(bit) {
				continue
			}
			var res wire.Getattr4Res
			last(t, p.run(t, ok, join(at(kind), getattr(bit))...), &res)
			a := res.ResOK.Attributes
			a.AttrVals = append(wire.Attrlist4(nil), a.AttrVals...)
			p.oneOf(t, []status{ok}, join(at(kind), verify(a))...)
			p.run(t, wire.NFS4ErrSame, join(at(kind), nverify(a))...)
		}
	}
}

func TestAccess(t *testing.T) {
	const all = 0x3f
	p := newPeer(t)
	for _, kind := range kinds {
		for bit := uint32(1); bit <= all; bit <<= 1 {
			var res wire.Access4Res
			last(t, p.run(t, ok, join(at(kind), access(bit))...), &res)
			if r := res.ResOK; r.Supported&^bit != 0 || r.Access&^r.Supported != 0 {
				t.Errorf("%s: asked for %#x, told %+v", kind, bit, r)
			}
		}
		var res wire.Access4Res
		last(t, p.run(t, ok, join(at(kind), access(0))...), &res)
		if res.ResOK != (wire.Access4ResOK{}) {
			t.Errorf("%s: asked for nothing, told %+v", kind, res.ResOK)
		}
	}
	// ACCESS rejects bits that the protocol does not define.
	for _, bits := range []uint32{0x40, 0x80000000, 0xffffffff} {
		p.run(t, wire.NFS4ErrInvalid, join(at("file"), access(bits))...)
	}
}
