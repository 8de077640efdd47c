package nfs41

import (
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// reclaimComplete is RECLAIM_COMPLETE (RFC 8881 §18.51). If the request is about one file system
// only (rca_one_fs), it does nothing, because no file system migrates to this server.
func (m *Minor) reclaimComplete(k *nfs4.Compound) nfs4.Status {
	var args wire.ReclaimComplete4Args
	args.Decode(k.Args)
	switch {
	case !k.Decoded():
		return wire.NFS4ErrBadXDR
	case args.OneFs && !k.Current.IsSet():
		return wire.NFS4ErrNoFileHandle
	case args.OneFs:
		return wire.NFS4OK
	}
	s, blocked := m.state.ReclaimComplete(k.Client, k.Call.Try)
	if blocked {
		return k.Block(disk{})
	}
	return s
}

// setSSV is SET_SSV (RFC 8881 §18.47). It always fails, because it needs SP4_SSV and the
// server gives that to no client.
func (m *Minor) setSSV(k *nfs4.Compound) nfs4.Status {
	var args wire.SetSsv4Args
	args.Decode(k.Args)
	if !k.Decoded() {
		return wire.NFS4ErrBadXDR
	}
	return wire.NFS4ErrInvalid
}
