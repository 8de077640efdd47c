package nfs4

import (
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A need is what of a file system an attribute costs.
type need uint8

// What attributes need: those of the object, the fixed facts and the fill of its file
// system, the number of the object that it covers, its time of birth, and the names of
// its owner and its group. The last three come with those of the object.
const (
	needAttr need = 1 << iota
	needInfo
	needUsage
	needCovered
	needBirth
	needOwner
	needGroup
)

// An attribute is one row of the table (RFC 8881 §5.8, RFC 7530 §5.8, RFC 7862 §12).
type attribute struct {
	number uint32
	// since is the first minor version that has it.
	since uint32
	need  need
	// most is its longest value, in bytes; all are that long, unless skip is there, which
	// steps over one.
	most int
	skip func(d *xdr.Decoder)
	// fill encodes a value that is always most bytes long, and get one that is not. It
	// can only be set where both are nil.
	fill func(b []byte, f *facts)
	get  func(w *xdr.Writer, f *facts)
	// set decodes a value that a client gives it; nil: it cannot be set.
	set func(d *xdr.Decoder, a *assignment)
}

// attributes are those that are served, by number.
var attributes [96]*attribute

// rowOf is where an attribute stands in attributeTable.
var rowOf [96]uint8

// Sets of attributes.
var (
	// supported are those of each minor version, and readable and settable what of them
	// can be got and set.
	supported          [3]wire.Bitmap4
	readable, settable wire.Bitmap4
	// ofObject are those that differ from entry to entry of a directory and are not
	// known from its name.
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
