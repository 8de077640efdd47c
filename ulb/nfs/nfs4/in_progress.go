package nfs4

import (
	"github.com/nfsrdmad/nfsrdmad/rpc"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// tellWhat tells package rpc which operation begins, and on which object, for lists of the calls in progress. An operation
// with Op.Try ends at once, and is in no list.
func (k *Compound) tellWhat(op *Operation) {
	switch e := k.Current.Export; {
	case k.Op.Try:
	case e == nil:
		k.Call.Doing(uint32(op.Number), 0, nil)
	default:
		k.Call.Doing(uint32(op.Number), e.ID, k.Current.Handle.Bytes())
	}
}

// putsOff has the statuses after which a client or its program waits and tries again, with what it waits for. A LOCK
// that was denied is not here: the state manager lists the owners that wait.
var putsOff = map[Status]rpc.Wait{
	wire.NFS4ErrGrace: rpc.WaitGrace, wire.NFS4ErrShareDenied: rpc.WaitShare, wire.NFS4ErrLocked: rpc.WaitShare, wire.NFS4ErrFileOpen: rpc.WaitShare, wire.NFS4ErrDelay: rpc.WaitUnknown,
}

// tellEnd tells package rpc how an operation has ended: for a trace, and if its client will try again, for the list of
// calls.
func (k *Compound) tellEnd(s Status) {
	var group uint32
	var object []byte
	if e := k.Current.Export; e != nil {
		group, object = e.ID, k.Current.Handle.Bytes()
	}
	k.Call.Did(uint32(k.Number), uint32(s), group, object)
	if why, puts := putsOff[s]; puts {
		k.Call.PutOff(why, uint32(k.Number), group, object)
	}
}
