package nfs40

import (
	"context"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// Config holds the settings of a Minor.
type Config struct {
	State *state.Manager
	// Dial connects to clients for callbacks, on network "tcp". If it is nil, there are no callbacks.
	Dial rpc.Dialer
	// Connections is the maximum number of connections for callbacks at once. 0 means 256.
	Connections int
	// Machine is the name of this machine for AUTH_SYS credentials, at most rpc.MaxMachineName bytes long.
	Machine string
	// Protect returns the protection of callbacks to a client whose SETCLIENTID used RPCSEC_GSS with
	// credential c (RFC 7530 §3.3.3). If Protect is nil or returns nil, the server does not call such a
	// client back.
	Protect func(c *rpc.Cred) Protect
	// Delegated reports whether a client holds delegations. RENEW tells such a client if the server
	// cannot call it back. If Delegated is nil, no client holds any.
	Delegated func(c *state.Client) bool
}

// A Protect prepares protected calls to one client until ctx ends, for example by fetching a Kerberos
// ticket from another server. The function start, which it returns, makes a protected Client on the
// connection k, for calls of the given program and version. The user of that Client closes it before k.
type Protect func(ctx context.Context, program, version uint32) (start func(ctx context.Context, k rpc.Caller) (rpc.Client, error), err error)

// A Minor implements minor version 0.
type Minor struct {
	cfg    Config
	state  *state.Manager
	dialer *dialer
	cred   rpc.AuthBytes // of callbacks without RPCSEC_GSS
}

// New returns a Minor. Close ends its callbacks.
func New(cfg Config) *Minor {
	cred, err := rpc.AuthSysCred(0, cfg.Machine, 0, 0, nil)
	if err != nil {
		panic(err)
	}
	return &Minor{cfg: cfg, state: cfg.State, dialer: newDialer(cfg.Dial, cfg.Connections), cred: cred}
}

// Close cancels running callbacks and waits until all their connections have ended.
func (m *Minor) Close() { m.dialer.stopAndWait() }

// Operations implements nfs4.Minor.
func (m *Minor) Operations() []nfs4.Operation {
	return []nfs4.Operation{
		{Number: wire.OpOpenConfirm, Gate: nfs4.GateNone, Run: nfs4.WithArgs(m.openConfirm), Handle: true, Once: true, Most: wire.StateID4MaxSize},
		{Number: wire.OpReleaseLockOwner, Gate: nfs4.GateNone, Run: nfs4.WithArgs(m.releaseLockOwner), Once: true},
		{Number: wire.OpSetClientID, Gate: nfs4.GateNone, Run: nfs4.WithArgs(m.setClientID), Once: true, Most: maxSetClientID},
		{Number: wire.OpSetClientIDConfirm, Gate: nfs4.GateNone, Run: nfs4.WithArgs(m.setClientIDConfirm), Once: true},
		{Number: wire.OpRenew, Gate: nfs4.GateNone, Run: nfs4.WithArgs(m.renew)},
	}
}

// Before implements nfs4.Minor. It allows every operation at every position in a compound of a caller that an export
// serves. It denies all others the whole compound, because a compound of version 0 needs no session, and long replies
// about the root of names would be cheap to ask for.
func (m *Minor) Before(k *nfs4.Compound, _ *nfs4.Operation) nfs4.Status {
	if k.Index == 0 && !k.Call.Conn.Known() && !k.Served() {
		return nfs4.Denied
	}
	return wire.NFS4OK
}

// After implements nfs4.Minor.
func (m *Minor) After(*nfs4.Compound) {}
