package nfs4

import (
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// closeFile is CLOSE (RFC 8881 §18.2, RFC 7530 §16.2).
func closeFile(k *Compound) Status {
	var args wire.Close4Args
	args.Decode(k.Args)
	if !k.Decoded() {
		return wire.NFS4ErrBadXDR
	}
	return k.onState(&args.OpenStateid, state.KindOpen, args.Seqid, func(r *state.Ref) (wire.StateID4, Status) {
		id, s := k.Program.state.CloseOpen(r, k.Op.Try)
		if s == state.WouldWait {
			return wire.StateID4{}, k.Block(k.FS().Lane())
		}
		if k.Minor > 0 {
			id = state.InvalidID // RFC 8881 §18.2.4
		}
		return id, s
	})
}

// openDowngrade is OPEN_DOWNGRADE (RFC 8881 §18.18, RFC 7530 §16.19).
func openDowngrade(k *Compound) Status {
	var args wire.OpenDowngrade4Args
	args.Decode(k.Args)
	if !k.Decoded() {
		return wire.NFS4ErrBadXDR
	}
	return k.onState(&args.OpenStateid, state.KindOpen, args.Seqid, func(r *state.Ref) (wire.StateID4, Status) {
		access, deny, s := shareOf(args.ShareAccess, args.ShareDeny, k.Minor)
		if s != wire.NFS4OK {
			return wire.StateID4{}, s
		}
		return k.Program.state.Downgrade(r, access, deny)
	})
}

// onState runs an operation on a stateid of the given kind. The function run does the work and
// returns the stateid that replaces the old one. onState writes the new stateid as the result
// and makes it the current stateid.
func (k *Compound) onState(id *wire.StateID4, kind state.Kind, seqid uint32, run func(r *state.Ref) (wire.StateID4, Status)) Status {
	r, s := k.ref(id)
	if s != wire.NFS4OK {
		return s
	}
	owner, s := k.ownerOf(&r.ID, kind)
	if s != wire.NFS4OK {
		return k.orOfType(s)
	}
	return k.numbered(owner, seqid, func() Status {
		next, s := run(&r)
		if s == wire.NFS4OK {
			next.Encode(k.W)
			k.SetStateID(next)
		}
		return k.orOfType(s)
	})
}
