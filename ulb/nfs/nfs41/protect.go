package nfs41

import (
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// protection is the state protection that a client asked for (RFC 8881 §2.10.8.3). The zero
// value is SP4_NONE.
type protection struct {
	// With SP4_MACH_CRED only a caller with this principal, over RPCSEC_GSS with integrity or
	// privacy, may use the operations in enforce. Such a caller may also use the operations in
	// allow on state of other principals.
	principal      string
	enforce, allow wire.Bitmap4
}

// machine reports whether the protection is SP4_MACH_CRED.
func (p *protection) machine() bool { return !p.enforce.IsEmpty() }

// proves reports whether a caller has the client's principal, over RPCSEC_GSS with integrity or privacy.
func (p *protection) proves(cred *rpc.Cred) bool {
	return intact(cred) && nfs4.PrincipalOf(cred) == p.principal
}

// maintenance is the set of operations that SP4_MACH_CRED can restrict. A caller that may do
// them could take over the client's state.
var maintenance = wire.Bits(uint32(wire.OpBackchannelCtl), uint32(wire.OpBindConnToSession), uint32(wire.OpExchangeID),
	uint32(wire.OpCreateSession), uint32(wire.OpDestroySession), uint32(wire.OpDestroyClientID), uint32(wire.OpDelegpurge))

// always is the part of maintenance that SP4_MACH_CRED restricts even if the client does not ask for it
// (RFC 8881 §18.37.3, §2.10.8.3). It contains only operations that Linux's client itself asks to restrict,
// because that client gives up on a server that requires more.
var always = wire.Bits(uint32(wire.OpExchangeID), uint32(wire.OpCreateSession), uint32(wire.OpDestroySession), uint32(wire.OpDestroyClientID))

// allowable is the set of operations that a client may ask to do with its machine credential. WRITE
// and COMMIT are not in it: Linux's client would then send all data of its users with its machine
// credential, and perhaps protect only the integrity of data for which the users asked for privacy.
var allowable = wire.Bits(uint32(wire.OpClose), uint32(wire.OpOpenDowngrade), uint32(wire.OpLocku), uint32(wire.OpDelegreturn),
	uint32(wire.OpTestStateID), uint32(wire.OpFreeStateID),
	uint32(wire.OpExchangeID), uint32(wire.OpBindConnToSession), uint32(wire.OpDestroySession), uint32(wire.OpDestroyClientID))

// protectionOf returns the protection that a client gets. SP4_MACH_CRED requires RPCSEC_GSS with integrity
// or privacy. SP4_SSV is not supported: callers of any flavor get NFS4ERR_ENCR_ALG_UNSUPP for it.
func protectionOf(cred *rpc.Cred, a *wire.StateProtect4A) (protection, nfs4.Status) {
	switch a.How {
	case wire.Sp4None:
		return protection{}, wire.NFS4OK
	case wire.Sp4MachCred:
		if !intact(cred) {
			return protection{}, wire.NFS4ErrInvalid
		}
		p := protection{principal: nfs4.PrincipalOf(cred)}
		p.enforce = a.MachOps.MustEnforce.And(&maintenance)
		p.enforce = p.enforce.Or(&always)
		p.allow = a.MachOps.MustAllow.And(&allowable)
		return p, wire.NFS4OK
	}
	if p := &a.SsvParms; p.HashAlgs.Len() == 0 || p.EncrAlgs.Len() == 0 || p.Window == 0 {
		return protection{}, wire.NFS4ErrInvalid
	}
	return protection{}, wire.NFS4ErrEncrAlgUnsupp
}

// binds reports whether a connection must be bound by BIND_CONN_TO_SESSION before it carries
// requests (RFC 8881 §18.35.3).
func (p *protection) binds() bool { return p.enforce.Has(uint32(wire.OpBindConnToSession)) }

// mayManage reports whether a call may create sessions of the client c or end it: it comes in one of its
// sessions, or from a caller that speaks for it (state.Manager.SpeaksFor).
func mayManage(k *nfs4.Compound, c *state.Client) bool { return k.Client == c || k.SpeaksFor(c) }

// intact reports whether a call came over RPCSEC_GSS with integrity or privacy.
func intact(c *rpc.Cred) bool {
	return c.Flavor == rpc.AuthGSS && (c.GSS == rpc.GSSIntegrity || c.GSS == rpc.GSSPrivacy)
}

// result returns the protection as the result of EXCHANGE_ID.
func (p *protection) result() (r wire.StateProtect4R) {
	if p.machine() {
		r.How = wire.Sp4MachCred
		r.MachOps = wire.StateProtectOps4{MustEnforce: p.enforce, MustAllow: p.allow}
	}
	return r
}

// permits reports whether a caller may do op, an operation of the set maintenance: if the client asked the
// server to restrict op, only a caller that proves the client's principal (see proves).
func (p *protection) permits(cred *rpc.Cred, op wire.OpNum) bool {
	return !p.enforce.Has(uint32(op)) || p.proves(cred)
}

// MachineMay implements nfs4.Maintainer (RFC 8881 §2.10.8.3).
func (l *slot) MachineMay(cred *rpc.Cred, op wire.OpNum) bool {
	p := &l.session.client.protect
	return p.allow.Has(uint32(op)) && p.proves(cred)
}
