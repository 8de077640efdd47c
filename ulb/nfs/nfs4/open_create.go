package nfs4

import (
	"errors"
	"syscall"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// modeOfCreate maps each createmode4 to the mode of the file system's Create.
var modeOfCreate = [...]vfs.CreateMode{
	wire.Unchecked4: vfs.Unchecked, wire.Guarded4: vfs.Guarded,
	wire.Exclusive4: vfs.Exclusive, wire.Exclusive41: vfs.Exclusive,
}

// create creates the file, or finds it. It does not truncate an existing file, because the
// check for conflicting opens comes later.
func (o *opening) create() Status {
	k := o.k
	name := o.args.Claim.File
	if s := k.checkName(name); s != wire.NFS4OK {
		return s
	}
	how := &o.args.Openhow.How
	var a assignment
	c := vfs.CreateHow{Mode: modeOfCreate[how.Mode], Verifier: how.Createverf}
	switch how.Mode {
	case wire.Unchecked4, wire.Guarded4:
		if s := k.assign(&how.Createattrs, &a); s != wire.NFS4OK {
			return s
		}
	case wire.Exclusive41:
		c.Verifier = how.Createboth.Verf
		if s := k.assign(&how.Createboth.Attrs, &a); s != wire.NFS4OK {
			return s
		}
		if beyond := how.Createboth.Attrs.Attrmask.Without(&exclusive); !beyond.IsEmpty() {
			return wire.NFS4ErrInvalid
		}
	}
	if s := k.Program.state.RoomToOpen(o.client, state.DomainOf(k.FS())); s != wire.NFS4OK {
		return s
	}
	c.Attr = a.set
	c.Attr.SetSize, c.Attr.Size = false, 0
	made, ch, err := k.FS().Create(&k.Op, k.Current.Handle, name, &c)
	if err != nil {
		return o.notMade(err, c.Mode)
	}
	o.object, o.made = Object{k.Current.Export, made.Handle}, made.Created
	o.change = changeInfo(&ch)
	if s := o.kindOf(&made); s != wire.NFS4OK {
		return s
	}
	o.assigned(&a, &made, how.Mode)
	return wire.NFS4OK
}

// notMade returns the status after Create failed. If an UNCHECKED4 OPEN fails because the
// name belongs to an object that is no regular file, the status names the object's type.
func (o *opening) notMade(err error, mode vfs.CreateMode) Status {
	if mode == vfs.Unchecked && errors.Is(err, syscall.EEXIST) {
		if s := o.lookup(); s != wire.NFS4OK {
			return s
		}
	}
	return o.k.notDirectory(err)
}

// assigned records which attributes were set, and the size that is still to be set. This size is
// the requested size of a new file, or 0 for an existing file that is truncated (RFC 8881
// §18.16.3).
func (o *opening) assigned(a *assignment, made *vfs.Object, mode wire.Createmode4) {
	if o.made {
		o.set = a.applied(made)
		o.resize, o.size = a.set.SetSize && a.set.Size > 0, a.set.Size
	} else {
		o.resize = a.set.SetSize && a.set.Size == 0
	}
	if mode == wire.Exclusive4 || mode == wire.Exclusive41 {
		// The file system may keep the verifier in the times, so the client must set the times
		// again.
		o.set.Set(wire.Fattr4TimeAccess)
		o.set.Set(wire.Fattr4TimeModify)
	}
}

// kindOf checks that Create found or made a regular file.
func (o *opening) kindOf(found *vfs.Object) Status {
	k := o.k
	if !found.HasAttr {
		if err := k.FS().GetAttr(&k.Op, found.Handle, &found.Attr); err != nil {
			return k.Failed(err)
		}
		found.HasAttr = true
	}
	return k.mustBeRegular(found.Attr.Type)
}
