package nfs4

import (
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/identity"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// exclusive are the attributes that OPEN sets in a file that it creates exclusively
// (RFC 8881 §5.8.1.14): neither times, in which the file system may keep the verifier,
// nor a size.
var exclusive = wire.Bits(wire.Fattr4Mode, wire.Fattr4Owner, wire.Fattr4OwnerGroup, wire.Fattr4ModeUmask)

// An assignment is what a client sets: a fattr4 of SETATTR, CREATE or OPEN, decoded.
type assignment struct {
	k   *Compound
	set vfs.SetAttr
	// rest is set without the size, where that is set apart.
	rest vfs.SetAttr
	// asked are the attributes that are set.
	asked wire.Bitmap4
	// status is what is wrong with a value that could be decoded.
	status Status
	// values is what is left of the values, while they are decoded.
	values xdr.Decoder
}

// assign decodes what a client sets: NFS4_OK, NFS4ERR_ATTRNOTSUPP, NFS4ERR_INVAL for
// what can only be got, NFS4ERR_BADXDR where the values are not those of the mask, or
// what is wrong with a value (RFC 8881 §18.30.3); Blocked where an owner's number is not
// known yet. Nothing in a refers to the arguments.
func (k *Compound) assign(from *wire.FAttr4, a *assignment) Status {
	*a = assignment{k: k, asked: from.Attrmask}
	if unknown := a.asked.Without(&supported[k.Minor]); !unknown.IsEmpty() {
		return wire.NFS4ErrAttrNotSupp
	}
	if fixed := a.asked.Without(&settable); !fixed.IsEmpty() {
		return wire.NFS4ErrInvalid
	}
	d := &a.values
	d.Reset(from.AttrVals, 0, nil)
	defer d.Reset(nil, 0, nil)
	for i := range bitmapWords {
		for word := a.asked.Word(i); word != 0; word &= word - 1 {
			attributes[bit(i, word)].set(d, a)
		}
	}
	if d.Finish() != nil {
		return wire.NFS4ErrBadXDR
	}
	return a.status
}

// fail notes what is wrong with a value, if it is the first.
func (a *assignment) fail(s Status) {
	if a.status == wire.NFS4OK {
		a.status = s
	}
}

func setSize(d *xdr.Decoder, a *assignment) {
	a.set.SetSize, a.set.Size = true, d.Uint64()
}

// setMode takes no bits but those that the protocol has (RFC 8881 §6.2.4).
func setMode(d *xdr.Decoder, a *assignment) {
	a.set.SetMode, a.set.Mode = true, d.Uint32()
	if a.set.Mode&^0o7777 != 0 {
		a.fail(wire.NFS4ErrInvalid)
	}
}

// setModeUmask is a mode for a creation, which says itself what is taken off it (RFC 8275
// §5). It comes in the place of a mode.
func setModeUmask(d *xdr.Decoder, a *assignment) {
	if a.set.SetMode {
		a.fail(wire.NFS4ErrInvalid)
	}
	setMode(d, a)
	a.set.UseUmask, a.set.Umask = true, d.Uint32()
	if a.set.Umask&^0o777 != 0 {
		a.fail(wire.NFS4ErrInvalid)
	}
}

// applied are the attributes of a creation that o was given: an owner or a group that
// the caller may not give is left out of it.
func (a *assignment) applied(o *vfs.Object) wire.Bitmap4 {
	set := a.asked
	if a.set.SetUID && (!o.HasAttr || o.Attr.UID != a.set.UID) {
		set.Clear(wire.Fattr4Owner)
	}
	if a.set.SetGID && (!o.HasAttr || o.Attr.GID != a.set.GID) {
		set.Clear(wire.Fattr4OwnerGroup)
	}
	return set
}

func setOwner(d *xdr.Decoder, a *assignment) {
	a.set.SetUID = true
	a.set.UID = a.number(identity.User, d.Opaque(xdr.NoLimit))
}

func setGroup(d *xdr.Decoder, a *assignment) {
	a.set.SetGID = true
	a.set.GID = a.number(identity.Group, d.Opaque(xdr.NoLimit))
}

// leaveBirth takes a time of creation, which the standards let clients set and no file
// system does. It is left out of what the answer says was set, so that a client that
// sends all that it knows of a file can make it.
func leaveBirth(d *xdr.Decoder, a *assignment) {
	var t wire.NFSTime4
	if t.Decode(d); t.Nseconds >= 1e9 {
		a.fail(wire.NFS4ErrInvalid)
	}
	a.asked.Clear(wire.Fattr4TimeCreate)
}

func setAtime(d *xdr.Decoder, a *assignment) { a.set.AtimeHow, a.set.Atime = a.time(d) }

func setMtime(d *xdr.Decoder, a *assignment) { a.set.MtimeHow, a.set.Mtime = a.time(d) }

// time decodes a settime4.
func (a *assignment) time(d *xdr.Decoder) (vfs.TimeHow, vfs.Time) {
	var t wire.Settime4
	t.Decode(d)
	if t.SetIt != wire.SetToClientTime4 {
		return vfs.ServerTime, vfs.Time{}
	}
	if t.Time.Nseconds >= 1e9 {
		a.fail(wire.NFS4ErrInvalid)
	}
	return vfs.ClientTime, vfs.Time{Sec: t.Time.Seconds, Nsec: t.Time.Nseconds}
}
