package nfs4

import (
	"errors"
	"syscall"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// setattr is SETATTR (RFC 8881 §18.30, RFC 7530 §16.32). The file system sets all
// attributes or none. The result of a failed SETATTR therefore lists no attribute, unless
// setSize has already set the size.
func setattr(k *Compound) Status {
	var args wire.Setattr4Args
	args.Decode(k.Args)
	if !k.Decoded() {
		return wire.NFS4ErrBadXDR
	}
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
		if s = k.may(state.UseAttributes, &k.Current, nil, nil); s == wire.NFS4OK {
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
