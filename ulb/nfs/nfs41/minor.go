package nfs41

import (
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// Config is how a Minor works.
type Config struct {
	State *state.Manager
	// Exports seals handles for calls to clients; nil: they are not told of locks that
	// they wait for.
	Exports *export.Table
	// Owner and OwnerMinor are the server owner, and Scope the server scope: addresses
	// for which they are the same lead to the same server (RFC 8881 §2.10.4, §2.10.5).
	// Neither may change while a client remembers them, over restarts too.
	Owner, Scope []byte
	OwnerMinor   uint64
	// Domain, Name and Date say which implementation this is, where Name is not empty.
	Domain, Name string
	Date         time.Time
	// Slots is the most that a session gets; 0: 1024.
	Slots int
	// CacheMemory is what all replies that are kept may take, in bytes; 0: 128 MiB.
	CacheMemory int64
	// BackContext finds a context of RPCSEC_GSS that a caller made, for calls to it: by
	// the server's handle, with the one that the caller knows it by in these calls, which
	// are under a service. nil, or where it returns nil: there is none.
	BackContext func(by *rpc.Cred, server, client []byte, service rpc.GSSService) BackContext
}

// A Minor is minor versions 1 and 2. It is used for either, or both.
type Minor struct {
	cfg      Config
	state    *state.Manager
	sessions table
	cache    cache
}

// New returns a Minor.
func New(cfg Config) *Minor {
	if cfg.Slots == 0 {
		cfg.Slots = 1024
	}
	if cfg.CacheMemory == 0 {
		cfg.CacheMemory = 128 << 20
	}
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
		{Number: wire.OpBackchannelCtl, Run: m.backchannelCtl},
		{Number: wire.OpBindConnToSession, Run: m.bindConnToSession},
		{Number: wire.OpExchangeID, Run: m.exchangeID, Once: true, Most: nfs4ExchangeID},
		{Number: wire.OpCreateSession, Run: m.createSession, Once: true, Most: wire.CreateSession4ResOKMaxSize},
		{Number: wire.OpDestroySession, Run: m.destroySession, Once: true},
		{Number: wire.OpSequence, Run: m.sequence},
		{Number: wire.OpSetSSV, Run: m.setSSV},
		{Number: wire.OpDestroyClientID, Run: m.destroyClientID, Once: true},
		{Number: wire.OpReclaimComplete, Run: m.reclaimComplete, Once: true},
	}
}

// Before implements nfs4.Minor: which operations may stand where (RFC 8881 §2.10.2.1,
// §18.46.3). Those that make a session, or end one, may stand alone.
func (m *Minor) Before(k *nfs4.Compound, op *nfs4.Operation) nfs4.Status {
	if k.Index == 0 {
		return first(k, op.Number)
	}
	switch run := k.Session.(type) {
	case *slot:
		if k.Call.Conn.Gone() && !run.session.bound() && mayWait(op.Number) {
			// The client asks for the reply when it comes back, and then for the rest.
			return wire.NFS4ErrDelay
		}
		run.once = run.once || op.Once
		if op.Number == wire.OpDelegpurge && !run.session.client.protect.permits(&k.Call.Cred, op.Number) {
			return wire.NFS4ErrWrongCred
		}
	case *retry:
		return wire.NFS4ErrRetryUncachedRep
	}
	switch op.Number {
	case wire.OpSequence:
		return wire.NFS4ErrSequencePos
	case wire.OpBindConnToSession:
		return wire.NFS4ErrNotOnlyOp
	}
	return wire.NFS4OK
}

// mayWait says whether a compound may end with NFS4ERR_DELAY before an operation. GETFH, SAVEFH
// and RESTOREFH cannot be answered so (RFC 8881 §15.2). GETATTR and ACCESS stand behind an
// operation that made something, which a client that asks for the whole once more would find.
// None of these takes long.
func mayWait(op wire.OpNum) bool {
	switch op {
	case wire.OpGetFH, wire.OpSaveFH, wire.OpRestoreFH, wire.OpGetattr, wire.OpAccess:
		return false
	}
	return true
}

// first says whether an operation may be the first of a compound.
func first(k *nfs4.Compound, op wire.OpNum) nfs4.Status {
	switch op {
	case wire.OpSequence:
		return wire.NFS4OK
	case wire.OpExchangeID, wire.OpCreateSession, wire.OpDestroySession, wire.OpDestroyClientID, wire.OpBindConnToSession:
		if k.Count > 1 {
			return wire.NFS4ErrNotOnlyOp
		}
		return wire.NFS4OK
	}
	return wire.NFS4ErrOpNotInSession
}

// After implements nfs4.Minor.
func (m *Minor) After(k *nfs4.Compound) {
	if run, ok := k.Session.(*slot); ok {
		run.finish(k)
	}
}

// SessionOf is the session that a compound came in, or nil.
func SessionOf(k *nfs4.Compound) *Session {
	if run, ok := k.Session.(*slot); ok {
		return run.session
	}
	return nil
}
