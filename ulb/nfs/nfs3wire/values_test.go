package nfs3wire

import (
	"errors"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr/xdrtest"
)

// If a union or the server depends on an enum, other values do not decode. A status may have
// any value.
func TestUnknownEnums(t *testing.T) {
	word := []byte{0, 0, 0, 8}
	for _, c := range []struct {
		v    xdrtest.Value
		want error
	}{
		{new(FType3), xdr.ErrBadValue},
		{new(StableHow), xdr.ErrBadValue},
		{new(CreateMode3), xdr.ErrBadValue},
		{new(TimeHow), xdr.ErrBadValue},
		{new(NFSStat3), nil},
	} {
		d := xdr.NewDecoder(word)
		c.v.Decode(d)
		if err := d.Finish(); !errors.Is(err, c.want) {
			t.Errorf("%T: %v, want %v", c.v, err, c.want)
		}
	}
	if s := NFSStat3(8).String(); s != "nfsstat3(8)" {
		t.Error(s)
	}
	if s := NFS3ErrNameTooLong.String(); s != "NFS3ERR_NAMETOOLONG" {
		t.Error(s)
	}
}

// A union whose discriminant has no arm cannot be encoded.
func TestUnionWithoutArm(t *testing.T) {
	w := xdr.NewWriter(make([]byte, 0, 256))
	(&CreateHow3{Mode: 7}).Encode(w)
	if !w.Overflow() {
		t.Errorf("encoded as %x", w.Bytes())
	}
}

// A handle of more than 64 bytes is neither decoded nor encoded.
func TestHandleLimit(t *testing.T) {
	fh := FileHandle3{Data: make([]byte, FileHandleSize+1)}
	w := xdr.NewWriter(make([]byte, 0, 256))
	fh.Encode(w)
	if !w.Overflow() {
		t.Error("too long a handle is sent")
	}
	w.Reset(make([]byte, 0, 256))
	w.Opaque(fh.Data)
	d := xdr.NewDecoder(w.Bytes())
	fh.Decode(d)
	if !errors.Is(d.Err(), xdr.ErrTooLong) {
		t.Error(d.Err())
	}
}

// Each MaxSize constant is the encoded size of the type's largest value.
func TestMaxSizes(t *testing.T) {
	full := FileHandle3{Data: make([]byte, FileHandleSize)}
	attr := PostOpAttr{AttributesFollow: true}
	wcc := WccData{Before: PreOpAttr{AttributesFollow: true}, After: attr}
	for _, c := range []struct {
		v    xdrtest.Value
		want int
	}{
		{&Fattr3{}, Fattr3MaxSize},
		{&full, FileHandle3MaxSize},
		{&wcc, WccDataMaxSize},
		{&Lookup3Res{ResOK: Lookup3ResOK{Object: full, ObjAttributes: attr, DirAttributes: attr}}, Lookup3ResMaxSize},
		{&Create3Res{ResOK: Create3ResOK{PostOpFH3{true, full}, attr, wcc}}, Create3ResMaxSize},
		{&Rename3Res{Status: NFS3ErrIO, ResFail: Rename3ResFail{wcc, wcc}}, Rename3ResMaxSize},
		{&Read3Res{ResOK: Read3ResOK{FileAttributes: attr, Data: xdr.Eligible{Data: make([]byte, 99)}}}, Read3ResMaxReducedSize},
		{&Readlink3Res{ResOK: Readlink3ResOK{attr, xdr.Eligible{Data: make([]byte, 3)}}}, Readlink3ResMaxReducedSize},
		{&Write3Args{FileHandle: full, Data: xdr.Eligible{Data: make([]byte, 5)}}, Write3ArgsMaxReducedSize},
	} {
		w := xdr.NewWriter(make([]byte, 0, 1024))
		c.v.Encode(w)
		if w.Len() != c.want {
			t.Errorf("%T: %d bytes, constant %d", c.v, w.Len(), c.want)
		}
	}
}
