package restarts

import (
	"slices"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// ownHandle is the result of GETFH. own is a copy of the handle that stays valid after the reply.
type ownHandle struct {
	nfs4wire.GetFH4Res
	own client.Handle
}

// Decode implements client.Decoder.
func (r *ownHandle) Decode(d *xdr.Decoder) {
	r.GetFH4Res.Decode(d)
	r.own = slices.Clone(client.Handle(r.ResOK.Object))
}
