package nfs40

import (
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// renew is RENEW (RFC 7530 §16.28). The client's own principal may renew the lease, and so may
// every principal that has opened files for the client. If a client with delegations cannot be
// called back, renew renews the lease, answers NFS4ERR_CB_PATH_DOWN, and tries to reach the client
// in the background.
func (m *Minor) renew(k *nfs4.Compound) nfs4.Status {
	var args wire.Renew4Args
	args.Decode(k.Args)
	if !k.Decoded() {
		return wire.NFS4ErrBadXDR
	}
	c, s := m.client(args.Clientid)
	if s != wire.NFS4OK {
		return s
	}
	if p := nfs4.PrincipalOf(&k.Call.Cred); p != c.Principal && !companion(c).opened(p) {
		return wire.NFS4ErrAccess
	}
	m.state.Renew(c)
	if m.cfg.Delegated == nil || !m.cfg.Delegated(c) {
		return wire.NFS4OK
	}
	ch := companion(c).channel
	if ch != nil && ch.Up() {
		return wire.NFS4OK
	}
	if ch != nil {
		ch.Probe()
	}
	return wire.NFS4ErrCBPathDown
}
