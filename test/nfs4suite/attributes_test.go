package nfs4suite

import (
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

func decoderOf(b []byte) *xdr.Decoder {
	d := new(xdr.Decoder)
	d.Reset(b, 0, nil)
	return d
}

type wrong struct {
	what string
	f    wire.FAttr4
	want wire.NFSStat4
}

// wrongAttributes returns attributes that no object can have, with the error of setting them.
func wrongAttributes() []wrong {
	return []wrong{
		{"one that can only be got", attrs().put(wire.Fattr4Type, words(1)).f, wire.NFS4ErrInvalid},
		{"change", attrs().put(wire.Fattr4Change, words(0, 1)).f, wire.NFS4ErrInvalid},
		{"one that is not supported", attrs().put(wire.Fattr4Archive, words(1)).f, wire.NFS4ErrAttrNotSupp},
		{"one that there is not", attrs().put(95, words(1)).f, wire.NFS4ErrAttrNotSupp},
		{"a mode of two words", attrs().put(wire.Fattr4Mode, words(0o600, 0)).f, wire.NFS4ErrBadXDR},
		{"a mode of nothing", attrs().put(wire.Fattr4Mode, nil).f, wire.NFS4ErrBadXDR},
		{"values without attributes", wire.FAttr4{AttrVals: []byte{0, 0, 0, 1}}, wire.NFS4ErrBadXDR},
		{"a mode with other bits", attrs().mode(0o10600).f, wire.NFS4ErrInvalid},
		{"an owner that there is not", attrs().put(wire.Fattr4Owner, words(4, 0x40404040)).f, wire.NFS4ErrBadOwner},
		{"an owner that is longer than it says", attrs().put(wire.Fattr4Owner, words(400, 0x30303030)).f, wire.NFS4ErrBadXDR},
	}
}
