package nfs41

import (
	"cmp"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// Config holds the settings of a Minor.
type Config struct {
	State *state.Manager
	// Exports encodes the file handles in calls to clients. If it is nil, the server does not
	// notify clients when locks that they wait for become free.
	Exports *export.Table
	// Owner and OwnerMinor are the server owner, Scope is the server scope. If a client gets the
	// same values at two addresses, it takes both for the same server (RFC 8881 §2.10.4, §2.10.5).
	// The values must not change while a client remembers them, even over a restart.
	Owner, Scope []byte
	OwnerMinor   uint64
	// Domain, Name and Date identify this implementation to clients. If Name is empty, EXCHANGE_ID
	// returns none of them.
	Domain, Name string
	Date         time.Time
	// Slots is the maximum number of slots of a session. 0 means 1024.
	Slots int
	// CacheMemory is the limit of memory for sessions and stored replies, in bytes. 0 means 128 MiB.
	CacheMemory int64
	// BackContext returns an RPCSEC_GSS context for callbacks, or nil if there is none. by is the
	// credential of the caller that created the context and that asks for callbacks under it. server is the
	// server's handle of the context. client is the handle that the client expects in the callbacks, and
	// service is the RPCSEC_GSS service of the callbacks. If BackContext is nil, there is no context.
	BackContext func(by *rpc.Cred, server, client []byte, service rpc.GSSService) BackContext
}

// A Minor implements minor versions 1 and 2. One Minor may serve one of them or both.
type Minor struct {
	cfg      Config
	state    *state.Manager
	sessions table
	cache    cache
}

// New returns a Minor.
func New(cfg Config) *Minor {
	cfg.Slots = cmp.Or(cfg.Slots, 1024)
	cfg.CacheMemory = cmp.Or(cfg.CacheMemory, 128<<20)
	m := &Minor{cfg: cfg, state: cfg.State}
	m.sessions.epoch = cfg.State.Epoch()
	m.cache.init(cfg.CacheMemory)
	if cfg.Exports != nil {
		m.state.NotifyLocks(m.notifyLock)
	}
	return m
}

// Operations implements nfs4.Minor.
func (m *Minor) Operations() []nfs4.Operation {
	return []nfs4.Operation{
		{Number: wire.OpBackchannelCtl, Gate: nfs4.GateNone, Run: nfs4.WithArgs(m.backchannelCtl)},
		{Number: wire.OpBindConnToSession, Gate: nfs4.GateNone, Run: nfs4.WithArgs(m.bindConnToSession)},
		{Number: wire.OpExchangeID, Gate: nfs4.GateNone, Run: nfs4.WithArgs(m.exchangeID), Once: true, Most: nfs.MaxExchangeID4},
		{Number: wire.OpCreateSession, Gate: nfs4.GateNone, Run: nfs4.WithArgs(m.createSession), Once: true, Most: wire.CreateSession4ResOKMaxSize},
		{Number: wire.OpDestroySession, Gate: nfs4.GateNone, Run: nfs4.WithArgs(m.destroySession), Once: true},
		{Number: wire.OpSequence, Gate: nfs4.GateNone, Run: nfs4.WithArgs(m.sequence)},
		{Number: wire.OpSetSSV, Gate: nfs4.GateNone, Run: nfs4.WithArgs(m.setSSV)},
		{Number: wire.OpDestroyClientID, Gate: nfs4.GateNone, Run: nfs4.WithArgs(m.destroyClientID), Once: true},
		{Number: wire.OpReclaimComplete, Gate: nfs4.GateNone, Run: nfs4.WithArgs(m.reclaimComplete), Once: true},
	}
}

// reclaimComplete is RECLAIM_COMPLETE (RFC 8881 §18.51). If the request is about one file system
// only (rca_one_fs), it does nothing, because no file system migrates to this server.
func (m *Minor) reclaimComplete(k *nfs4.Compound, args *wire.ReclaimComplete4Args) nfs4.Status {
	switch {
	case args.OneFs && !k.Current.IsSet():
		return wire.NFS4ErrNoFileHandle
	case args.OneFs:
		return wire.NFS4OK
	}
	return k.Answer(m.state.ReclaimComplete(k.Client, k.Later()))
}

// setSSV is SET_SSV (RFC 8881 §18.47). It always fails, because it needs SP4_SSV and the
// server gives that to no client.
func (m *Minor) setSSV(k *nfs4.Compound, args *wire.SetSsv4Args) nfs4.Status {
	return wire.NFS4ErrInvalid
}
