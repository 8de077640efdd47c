package nfs41

import (
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// exchangeFlags are the flags that a client may set. Minor version 2 has one more (RFC 7862 §14.1).
const (
	exchangeFlags = wire.Exchgid4FlagSuppMovedRefer | wire.Exchgid4FlagSuppMovedMigr | wire.Exchgid4FlagBindPrincStateid |
		wire.Exchgid4FlagMaskPNFS | wire.Exchgid4FlagUpdConfirmedRecA
	exchangeFlags2 = exchangeFlags | wire.Exchgid4FlagSuppFenceOps
)

// exchangeID is EXCHANGE_ID (RFC 8881 §18.35).
func (m *Minor) exchangeID(k *nfs4.Compound, args *wire.ExchangeID4Args) nfs4.Status {
	if !k.Served() {
		return nfs4.Denied
	}
	known := uint32(exchangeFlags)
	if k.Minor > 1 {
		known = exchangeFlags2
	}
	if args.Flags&^known != 0 {
		return wire.NFS4ErrInvalid
	}
	if impl := &args.ClientImplID; impl.Present && impl.Value.Date.Nseconds >= 1e9 {
		return wire.NFS4ErrInvalid // not a valid time (RFC 8881 §3.3.1)
	}
	protect, s := protectionOf(&k.Call.Cred, &args.StateProtect)
	if s != wire.NFS4OK {
		return s
	}
	id := state.Identity{
		Owner: args.Clientowner.Ownerid, Verifier: state.Verifier(args.Clientowner.Verifier),
		Caller: k.Caller(), Guarded: protect.machine(),
		Companion: &client{protect: protect, told: toldOf(k.Minor, &args.ClientImplID)},
	}
	for {
		x := m.state.ExchangeID(&id, args.Flags&wire.Exchgid4FlagUpdConfirmedRecA != 0)
		switch {
		case x.Expired == nil && x.Verdict == state.Granted:
			return m.exchanged(k, &x)
		case x.Expired == nil:
			return k.Answer(x.Verdict)
		case k.Call.Try:
			return k.Block(state.Disk{})
		}
		if m.state.Evict(x.Expired) != nil {
			return wire.NFS4ErrDelay
		}
	}
}

// exchanged writes the result of EXCHANGE_ID.
func (m *Minor) exchanged(k *nfs4.Compound, x *state.Registration) nfs4.Status {
	c := clientOf(x.Client)
	res := wire.ExchangeID4ResOK{
		// A confirmed client may use this number for its next CREATE_SESSION, although the RFC does
		// not tell it to.
		Clientid: x.Client.ID, Sequenceid: c.sequence.Load() + 1, Flags: wire.Exchgid4FlagUseNonPNFS,
		StateProtect: c.protect.result(),
		ServerOwner:  wire.ServerOwner4{MinorID: m.cfg.OwnerMinor, MajorID: m.cfg.Owner},
		ServerScope:  m.cfg.Scope,
	}
	if x.Confirmed {
		res.Flags |= wire.Exchgid4FlagConfirmedR
	}
	if m.cfg.Name != "" {
		res.ServerImplID.Present = true
		v := &res.ServerImplID.Value
		v.Domain, v.Name = wire.UTF8String(m.cfg.Domain), wire.UTF8String(m.cfg.Name)
		if !m.cfg.Date.IsZero() {
			v.Date = wire.NFSTime4{Seconds: m.cfg.Date.Unix(), Nseconds: uint32(m.cfg.Date.Nanosecond())}
		}
	}
	res.Encode(k.W)
	return wire.NFS4OK
}
