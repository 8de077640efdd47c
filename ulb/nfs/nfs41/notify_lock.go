package nfs41

import (
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// notifyLock tells a client that a lock that it waits for could be had now, by
// CB_NOTIFY_LOCK (RFC 8881 §20.11). That is a hint: a client that does not hear of it asks
// again after a time.
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
