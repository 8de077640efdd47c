package nfs4

import (
	"errors"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/identity"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// setattr is SETATTR (RFC 8881 §18.30, RFC 7530 §16.32). The file system sets all attributes or none, so
// the result of a failed SETATTR lists none, unless setSize has already set the size.
func setattr(k *Compound, args *wire.Setattr4Args) Status {
	a := &k.assignment
	if s := k.assign(&args.ObjAttributes, a); s != wire.NFS4OK {
		return s
	}
	if a.set.UseUmask {
		// mode_umask is only for creations (RFC 8275 §5).
		return wire.NFS4ErrInvalid
	}
	s := wire.NFS4OK
	if a.set.SetSize {
		s = k.setSize(&args.Stateid, a)
	} else if !a.set.IsZero() {
		if s = k.maySet(state.UseAttributes, &k.Current, nil, &a.set); s == wire.NFS4OK {
			s = k.settled(k.set(&a.set))
		}
	}
	if s == wire.NFS4OK {
		a.asked.Encode(k.W)
	}
	return s
}

// set sets attributes of the current object.
func (k *Compound) set(s *vfs.SetAttr) error {
	_, err := k.FS().SetAttr(&k.Op, k.Current.Handle, s, nil)
	return err
}

// settled returns the status of a SETATTR that ended with err.
func (k *Compound) settled(err error) Status {
	switch {
	case err == nil:
		return wire.NFS4OK
	case errors.Is(err, vfs.ErrNotSupported), errors.Is(err, syscall.EOPNOTSUPP):
		return wire.NFS4ErrAttrNotSupp
	case k.Minor > 0 && k.assignment.set.SetSize && (errors.Is(err, syscall.EISDIR) || errors.Is(err, syscall.EINVAL)):
		if s := k.regular(); s != wire.NFS4OK {
			return s
		}
	}
	return k.Failed(err)
}

// setSize sets attributes including the size: the size through the open file of the stateid, with the
// rights that the OPEN was granted, and the others with the caller's rights.
func (k *Compound) setSize(id *wire.StateID4, a *assignment) Status {
	f, s := k.openFor(&k.Current, id, state.AccessWrite)
	if s != wire.NFS4OK {
		return s
	}
	rest := &a.rest
	*rest = a.set
	if rest.SetSize = false; !rest.IsZero() {
		if s = k.maySet(state.UseAttributes, &k.Current, nil, rest); s != wire.NFS4OK {
			return s
		}
	}
	if f == nil {
		return k.settled(k.set(&a.set))
	}
	if !rest.IsZero() && k.Op.Try {
		// SETATTR takes two steps here. Under Try it must not do the first step alone, and
		// the second step might have to wait.
		return k.Block(k.FS().Lane())
	}
	if _, err := f.SetSize(&k.Op, a.set.Size); err != nil {
		return k.closedOr(err)
	}
	if rest.IsZero() {
		return wire.NFS4OK
	}
	// Setting the size changes the file's times, so the other attributes (times among them)
	// are set after it.
	if s = k.settled(k.set(rest)); s != wire.NFS4OK {
		k.KeepBody()
		done := wire.Bits(wire.Fattr4Size)
		done.Encode(k.W)
	}
	return s
}

// exclusive is the set of attributes that an OPEN may set in a file that it creates exclusively (RFC 8881
// §5.8.1.14): no times, because the file system may keep the verifier in them, and no size.
var exclusive = wire.Bits(wire.Fattr4Mode, wire.Fattr4Owner, wire.Fattr4OwnerGroup, wire.Fattr4ModeUmask)

// An assignment is a decoded fattr4 of SETATTR, CREATE or OPEN: the attributes and values
// that the client sets.
type assignment struct {
	k   *Compound
	set vfs.SetAttr
	// rest is a copy of set without the size, for a SETATTR that sets the size in a step of its own.
	rest vfs.SetAttr
	// asked holds the attributes that the client sets.
	asked wire.Bitmap4
	// status is the error of the first value that was decoded but is not valid, or NFS4_OK.
	status Status
	// values decodes the attribute values.
	values xdr.Decoder
}

// assign decodes the fattr4 of a client into a, which keeps no reference to it. It returns
// NFS4ERR_ATTRNOTSUPP for an unsupported attribute, NFS4ERR_INVAL for one that can only be read,
// NFS4ERR_BADXDR if the values do not match the mask, the error of the first bad value (RFC 8881
// §18.30.3), or Blocked if the number of an owner or group is not known yet.
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
		for m := a.asked.Word(i); m != 0; m &= m - 1 {
			row(i, m).set(d, a)
		}
	}
	if d.Finish() != nil {
		return wire.NFS4ErrBadXDR
	}
	return a.status
}

// fail records s as the status, unless an earlier value has already failed.
func (a *assignment) fail(s Status) {
	if a.status == wire.NFS4OK {
		a.status = s
	}
}

func setSize(d *xdr.Decoder, a *assignment) {
	a.set.SetSize, a.set.Size = true, d.Uint64()
}

// setMode decodes a mode, and refuses bits that the protocol does not define (RFC 8881 §6.2.4).
func setMode(d *xdr.Decoder, a *assignment) {
	a.set.SetMode, a.set.Mode = true, d.Uint32()
	if a.set.Mode&^0o7777 != 0 {
		a.fail(wire.NFS4ErrInvalid)
	}
}

// setModeUmask decodes a mode together with the umask to apply to it (RFC 8275 §5). Only a
// creation may set it, and not together with a mode.
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

// applied returns those attributes of a creation that the new object o really has. It leaves out an
// owner or a group that o does not have: the file system did not let the caller set it.
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

// leaveBirth decodes a creation time and ignores it, because no file system can set one. The reply does
// not list it. The operation does not fail: the standards let clients set the attribute, and a client that
// sends every attribute it knows must still be able to create files.
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
