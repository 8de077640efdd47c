package nfs4

import (
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A need is a set of bits: the facts that must be looked up before an attribute can be
// encoded.
type need uint8

// The facts are: the object's attributes; the fixed properties of its file system; the space and
// files used in it; the file ID of the object that an export's root covers; the birth time; and the
// names of the owner and the group. needBirth, needOwner and needGroup have an effect only together
// with needAttr: facts.look looks up these facts with the object's attributes.
const (
	needAttr need = 1 << iota
	needInfo
	needUsage
	needCovered
	needBirth
	needOwner
	needGroup
)

// An attribute is one row of attributeTable (RFC 8881 §5.8, RFC 7530 §5.8, RFC 7862 §12).
type attribute struct {
	number uint32
	// since is the first minor version that has the attribute.
	since uint32
	need  need
	// most is the length of the longest value, in bytes. If skip is nil, all values are that
	// long. Otherwise skip steps over one value.
	most int
	skip func(d *xdr.Decoder)
	// fill encodes a value that is always most bytes long; get encodes a value of variable
	// length. If both are nil, the attribute can only be set.
	fill func(b []byte, f *facts)
	get  func(w *xdr.Writer, f *facts)
	// set decodes a value from a client. If it is nil, the attribute cannot be set.
	set func(d *xdr.Decoder, a *assignment)
}

// attributes holds the served attributes, indexed by number.
var attributes [96]*attribute

// rowOf holds each attribute's index in attributeTable, by attribute number.
var rowOf [96]uint8

// Sets of attributes.
var (
	// supported holds the attributes of each minor version, readable the attributes that a
	// client can get, and settable the attributes that it can set.
	supported          [3]wire.Bitmap4
	readable, settable wire.Bitmap4
	// ofObject holds the attributes that differ between the entries of a directory and are
	// not known from the entry's name.
	ofObject wire.Bitmap4
)

func init() {
	for i := range attributeTable {
		a := &attributeTable[i]
		attributes[a.number], rowOf[a.number] = a, uint8(i)
		for minor := a.since; minor < uint32(len(supported)); minor++ {
			supported[minor].Set(a.number)
		}
		if a.fill != nil || a.get != nil {
			readable.Set(a.number)
		}
		if a.set != nil {
			settable.Set(a.number)
		}
		if a.need&needAttr != 0 || a.number == wire.Fattr4Filehandle {
			ofObject.Set(a.number)
		}
	}
}
