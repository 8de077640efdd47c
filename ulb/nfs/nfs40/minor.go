package nfs40

import (
	"context"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// Config is how a Minor works.
type Config struct {
	State *state.Manager
	// Dial connects to clients, for callbacks, at network "tcp"; nil: there are no
	// callbacks.
	Dial rpc.Dialer
	// Connections is how many of them there are at a time at most; 0: 256.
	Connections int
	// Machine is the name of this machine in credentials of AUTH_SYS, of at most
	// rpc.MaxMachineName bytes.
	Machine string
	// Protect makes what protects callbacks to a client that made itself known by
	// RPCSEC_GSS, with the credential given (RFC 7530 §3.3.3). It is called with the
	// state's mutex held. nil, or where it returns nil: that client is not called.
	Protect func(c *rpc.Cred) Protect
	// Delegated says whether a client holds delegations, and thus has to know when it
	// cannot be called any more; nil: no client does.
	Delegated func(c *state.Client) bool
}

// A Protect gets what calls to one client need that comes from elsewhere, such as a ticket.
// It waits until ctx ends at most. start then has calls of a program on a connection
// protected; the Client does not own the connection, and is closed before it.
type Protect func(ctx context.Context, program, version uint32) (start func(ctx context.Context, k rpc.Caller) (rpc.Client, error), err error)

// A Minor is minor version 0.
type Minor struct {
	cfg    Config
	state  *state.Manager
	dialer *dialer
	cred   rpc.AuthBytes // of callbacks, where they are not signed
}

// New returns a Minor. Close ends its callbacks.
func New(cfg Config) *Minor {
	cred, err := rpc.AuthSysCred(0, cfg.Machine, 0, 0, nil)
	if err != nil {
		panic(err)
	}
	return &Minor{cfg: cfg, state: cfg.State, dialer: newDialer(cfg.Dial, cfg.Connections), cred: cred}
}

// Close gives up on callbacks that are under way, and waits until all their connections
// have ended.
func (m *Minor) Close() { m.dialer.end() }

// Operations implements nfs4.Minor.
func (m *Minor) Operations() []nfs4.Operation {
	return append(nfs4.OwnerOperations(), []nfs4.Operation{
		{Number: wire.OpSetClientID, Run: m.setClientID, Once: true, Most: maxSetClientID},
		{Number: wire.OpSetClientIDConfirm, Run: m.setClientIDConfirm, Once: true},
		{Number: wire.OpRenew, Run: m.renew},
	}...)
}

// Before implements nfs4.Minor: each operation may stand anywhere.
func (m *Minor) Before(*nfs4.Compound, *nfs4.Operation) nfs4.Status { return wire.NFS4OK }

// After implements nfs4.Minor.
func (m *Minor) After(*nfs4.Compound) {}
