package nfs4

import (
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// setSize sets attributes including the size. It sets the size through the open file of the
// stateid, with the rights that the OPEN was granted. It sets the other attributes with the
// caller's rights.
func (k *Compound) setSize(id *wire.StateID4, a *assignment) Status {
	f, s := k.OpenFor(id, state.AccessWrite)
	if s != wire.NFS4OK {
		return s
	}
	if f == nil {
		return k.settled(k.set(&a.set))
	}
	rest := &a.rest
	*rest = a.set
	rest.SetSize = false
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
