package client

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// Attributes4 are attributes of NFS version 4 (RFC 8881 §5). Given lists those that the
// server returned.
type Attributes4 struct {
	Given     nfs4wire.Bitmap4
	Supported nfs4wire.Bitmap4
	Type      nfs4wire.FType4
	Change    uint64
	Size      uint64
	FSID      nfs4wire.FSID4
	LeaseTime uint32 // seconds
	Handle    Handle
	// Error is rdattr_error: the reason why an entry of a listing has no other attributes.
	Error    nfs4wire.NFSStat4
	FileID   uint64
	MaxRead  uint64
	MaxWrite uint64
	Mode     uint32
	Links    uint32
	Owner    string
	Group    string
	Used     uint64
	Accessed nfs4wire.NFSTime4
	Changed  nfs4wire.NFSTime4 // time_metadata
	Modified nfs4wire.NFSTime4
	// MountedOn is the file ID of the directory that the root of a file system covers.
	MountedOn uint64
}

// attributes4 has, by attribute number, the functions that decode attributes into Attributes4.
var attributes4 = [...]func(a *Attributes4, d *xdr.Decoder){
	nfs4wire.Fattr4SupportedAttrs:  func(a *Attributes4, d *xdr.Decoder) { a.Supported.Decode(d) },
	nfs4wire.Fattr4Type:            func(a *Attributes4, d *xdr.Decoder) { a.Type.Decode(d) },
	nfs4wire.Fattr4Change:          func(a *Attributes4, d *xdr.Decoder) { a.Change = d.Uint64() },
	nfs4wire.Fattr4Size:            func(a *Attributes4, d *xdr.Decoder) { a.Size = d.Uint64() },
	nfs4wire.Fattr4FSID:            func(a *Attributes4, d *xdr.Decoder) { a.FSID.Decode(d) },
	nfs4wire.Fattr4LeaseTime:       func(a *Attributes4, d *xdr.Decoder) { a.LeaseTime = d.Uint32() },
	nfs4wire.Fattr4RdattrError:     func(a *Attributes4, d *xdr.Decoder) { a.Error.Decode(d) },
	nfs4wire.Fattr4Filehandle:      func(a *Attributes4, d *xdr.Decoder) { a.Handle = slices.Clone(d.Opaque(nfs4wire.NFS4FHSize)) },
	nfs4wire.Fattr4FileID:          func(a *Attributes4, d *xdr.Decoder) { a.FileID = d.Uint64() },
	nfs4wire.Fattr4Maxread:         func(a *Attributes4, d *xdr.Decoder) { a.MaxRead = d.Uint64() },
	nfs4wire.Fattr4Maxwrite:        func(a *Attributes4, d *xdr.Decoder) { a.MaxWrite = d.Uint64() },
	nfs4wire.Fattr4Mode:            func(a *Attributes4, d *xdr.Decoder) { a.Mode = d.Uint32() },
	nfs4wire.Fattr4Numlinks:        func(a *Attributes4, d *xdr.Decoder) { a.Links = d.Uint32() },
	nfs4wire.Fattr4Owner:           func(a *Attributes4, d *xdr.Decoder) { a.Owner = string(d.Opaque(xdr.NoLimit)) },
	nfs4wire.Fattr4OwnerGroup:      func(a *Attributes4, d *xdr.Decoder) { a.Group = string(d.Opaque(xdr.NoLimit)) },
	nfs4wire.Fattr4SpaceUsed:       func(a *Attributes4, d *xdr.Decoder) { a.Used = d.Uint64() },
	nfs4wire.Fattr4TimeAccess:      func(a *Attributes4, d *xdr.Decoder) { a.Accessed.Decode(d) },
	nfs4wire.Fattr4TimeMetadata:    func(a *Attributes4, d *xdr.Decoder) { a.Changed.Decode(d) },
	nfs4wire.Fattr4TimeModify:      func(a *Attributes4, d *xdr.Decoder) { a.Modified.Decode(d) },
	nfs4wire.Fattr4MountedOnFileID: func(a *Attributes4, d *xdr.Decoder) { a.MountedOn = d.Uint64() },
}

// StatAttributes are the attributes that stat(2) shows, and the change attribute.
var StatAttributes = nfs4wire.Bits(
	nfs4wire.Fattr4Type, nfs4wire.Fattr4Change, nfs4wire.Fattr4Size, nfs4wire.Fattr4FSID, nfs4wire.Fattr4FileID,
	nfs4wire.Fattr4Mode, nfs4wire.Fattr4Numlinks, nfs4wire.Fattr4Owner, nfs4wire.Fattr4OwnerGroup,
	nfs4wire.Fattr4SpaceUsed, nfs4wire.Fattr4TimeAccess, nfs4wire.Fattr4TimeMetadata, nfs4wire.Fattr4TimeModify,
)

// Take decodes a server's attributes into a. If the values do not fit the mask, or Attributes4
// has no field for one of the attributes, the error wraps rpc.ErrBadReply.
func (a *Attributes4) Take(v *nfs4wire.FAttr4) error {
	*a = Attributes4{Given: v.Attrmask}
	d := xdr.NewDecoder(v.AttrVals)
	if v.Attrmask.Beyond() {
		return fmt.Errorf("%w: attributes beyond what is known", rpc.ErrBadReply)
	}
	for n := range uint32(3 * 32) {
		if !v.Attrmask.Has(n) {
			continue
		}
		if n >= uint32(len(attributes4)) || attributes4[n] == nil {
			return fmt.Errorf("%w: attribute %d was not asked for", rpc.ErrBadReply, n)
		}
		attributes4[n](a, d)
	}
	if err := d.Finish(); err != nil {
		return fmt.Errorf("%w: attributes: %w", rpc.ErrBadReply, err)
	}
	return nil
}

// Getattr returns attributes of a file (RFC 8881 §18.7). The argument wanted is the set of
// attributes to ask for; the result has those that the server supports. Attributes4 must have a
// field for each of them. A nil file is the server's root.
func (n NFS4) Getattr(ctx context.Context, file Handle, wanted nfs4wire.Bitmap4) (attr Attributes4, err error) {
	args := nfs4wire.Getattr4Args{AttrRequest: wanted}
	var res nfs4wire.Getattr4Res
	err = n.do(ctx, &Compound{Ops: []Op{put(file), {nfs4wire.OpGetattr, &args, &res}}}, func() error {
		return attr.Take(&res.ResOK.Attributes)
	})
	return attr, err
}

// Setattr changes attributes (RFC 8881 §18.30). The argument id is a stateid: to change the size
// of a file that the caller has open or locked, the stateid of the open or of the locks;
// otherwise it may be zero.
func (n NFS4) Setattr(ctx context.Context, file Handle, id nfs4wire.StateID4, change nfs4wire.FAttr4) error {
	args := nfs4wire.Setattr4Args{Stateid: id, ObjAttributes: change}
	var res nfs4wire.Setattr4Res
	return n.change(ctx, file, Op{nfs4wire.OpSetattr, &args, &res})
}

// ModeAttribute returns the attribute mode, in the form that Setattr, Mkdir and Open take.
func ModeAttribute(mode uint32) nfs4wire.FAttr4 {
	return nfs4wire.FAttr4{
		Attrmask: nfs4wire.Bits(nfs4wire.Fattr4Mode), AttrVals: binary.BigEndian.AppendUint32(nil, mode),
	}
}

// SizeAttribute returns the attribute size, in the form that Setattr and Open take.
func SizeAttribute(size uint64) nfs4wire.FAttr4 {
	return nfs4wire.FAttr4{
		Attrmask: nfs4wire.Bits(nfs4wire.Fattr4Size), AttrVals: binary.BigEndian.AppendUint64(nil, size),
	}
}
