package nfs41

import (
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// notifyLock sends CB_NOTIFY_LOCK (RFC 8881 §20.11): a lock that the client waits for may be
// free now. It is only a hint: without it, the client asks again after a time.
func (m *Minor) notifyLock(n state.LockNotice) {
	o, ok := n.Tag.(nfs4.Object)
	if !ok || n.Client.Minor == 0 {
		return
	}
	Call(n.Client, &Callback{
		Number: wire.OpCBNotifyLock,
		Args: &wire.CBNotifyLock4Args{
			FH:        m.cfg.Exports.Seal(nil, o.Export, o.Handle),
			LockOwner: wire.StateOwner4{Clientid: n.Client.ID, Owner: []byte(n.Owner)},
		},
		Done: func(wire.NFSStat4, *xdr.Decoder, error) {},
	})
}
