package nfs4

import (
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// setSize sets attributes of the current object, the size among them, in the name of a
// stateid: as far as the size goes with the rights by which the file was opened.
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
		// Two steps, of which the second might have to wait.
		return k.Block(k.FS().Lane())
	}
	if _, err := f.SetSize(&k.Op, a.set.Size); err != nil {
		return k.closedOr(err)
	}
	if rest.IsZero() {
		return wire.NFS4OK
	}
	// A size that is set marks the file as modified: times that are set as well come after.
	if s = k.settled(k.set(rest)); s != wire.NFS4OK {
		k.KeepBody()
		done := wire.Bits(wire.Fattr4Size)
		done.Encode(k.W)
	}
	return s
}
