package nfs4

import (
	"errors"
	"syscall"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// changeInfo converts the change of a directory to change_info4 (RFC 8881 §3.3.1). If the
// value before or after the change is not known, the result is not atomic.
func changeInfo(ch *vfs.Change) (c wire.ChangeInfo4) {
	if ch.HasAfter {
		c.After = ch.After.Change
	}
	if ch.HasBefore {
		c.Before = ch.Before.Change
	}
	c.Atomic = ch.Atomic && ch.HasBefore && ch.HasAfter
	return c
}

// unchanged returns the status of a REMOVE, RENAME or LINK that failed in the file system.
// The standards have no NFS4ERR_PERM for these operations. The file system returns EPERM
// for a sticky directory, so EPERM becomes NFS4ERR_ACCESS.
func (k *Compound) unchanged(err error) Status {
	if errors.Is(err, syscall.EPERM) {
		return wire.NFS4ErrAccess
	}
	return k.Failed(err)
}

// leads checks that a name in directory o does not lead into another export, because the operation
// must not touch such a name. If the name does, leads returns the given status. Otherwise leads
// returns NFS4_OK, or the status of a failed lookup.
func (k *Compound) leads(o *Object, name []byte, status Status) Status {
	e, s := k.belowOf(o, name)
	if e != nil {
		return status
	}
	return s
}
