package nfs4

import (
	"errors"
	"syscall"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// changeInfo is how a directory changed (RFC 8881 §3.3.1). Where a half is not known, it
// says so by not being atomic.
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

// unchanged is the status of a REMOVE, RENAME or LINK that the file system did not do:
// their standards have no NFS4ERR_PERM for what a sticky directory keeps.
func (k *Compound) unchanged(err error) Status {
	if errors.Is(err, syscall.EPERM) {
		return wire.NFS4ErrAccess
	}
	return k.Failed(err)
}

// mayChangeNames says whether names may be taken away or given now: not while clients
// claim what they held before a restart, and may claim it by these names (RFC 8881 §8.4.2).
func (k *Compound) mayChangeNames() Status {
	if k.Program.state.InGrace() {
		return wire.NFS4ErrGrace
	}
	return wire.NFS4OK
}

// leads says whether a name in directory o leads into an export: whatever is to be done
// about the name itself is refused with status then.
func (k *Compound) leads(o *Object, name []byte, status Status) Status {
	e, s := k.belowOf(o, name)
	if e != nil {
		return status
	}
	return s
}
