package nfs4

import (
	"slices"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// A Sequencer is the Minor of a minor version whose owners of opens and locks number their requests: minor version 0
// (RFC 7530 §9.1.7).
type Sequencer interface {
	// InTurn runs an operation that carries a seqid of owner o, when it is the owner's turn: run does the work. A
	// repeated operation gets the stored result.
	InTurn(k *Compound, o *state.Owner, seqid uint32, run func() Status) Status
	// Introduce runs lock, the first LOCK of the lock-owner o, which also carries a seqid of its open-owner.
	Introduce(o *state.Owner, seqid uint32, lock func() Status) Status
	// Counts reports whether an operation that ends with status s uses up the seqid that it carries. It is false for
	// operations that carry none.
	Counts(n wire.OpNum, s Status) bool
}

// numbered runs an operation that carries a seqid of owner o. Without a Sequencer there is no owner, and numbered only
// calls run.
func (k *Compound) numbered(o *state.Owner, seqid uint32, run func() Status) Status {
	if q := k.minor.sequencer; q != nil {
		return q.InTurn(k, o, seqid, func() Status {
			if k.postponed != wire.NFS4OK {
				return k.postponed
			}
			return run()
		})
	}
	return run()
}

// ownerOf returns the owner whose seqids order the operations on a stateid of the given kind, or nil without a
// Sequencer.
func (k *Compound) ownerOf(id *state.StateID, kind state.Kind) (*state.Owner, Status) {
	if k.minor.sequencer == nil {
		return nil, wire.NFS4OK
	}
	o, v := k.Program.state.OwnerOfState(id, kind)
	if v == state.Granted {
		k.Program.state.Renew(o.Client)
	}
	return o, k.Answer(v)
}

// Arguments returns the arguments of the running operation, which it has decoded. They are valid while it runs. Without
// a Sequencer they are not kept.
func (k *Compound) Arguments() []byte { return k.given[:len(k.given)-k.Args.Len()] }

// Result returns a copy of the part of the running operation's result that follows the status s. at is the offset in k.W
// at which that part begins.
func (k *Compound) Result(at int, s Status) []byte {
	if s != wire.NFS4OK && !k.keepBody {
		return nil
	}
	return slices.Clone(k.W.Bytes()[at:])
}

// Principal returns who acts on the current object: see state.Principal.
func (k *Compound) Principal() state.Principal { return k.principal(&k.Current) }
