package nfs41

import (
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// protection is how a client wants its state protected (RFC 8881 §2.10.8.3). The zero
// value is SP4_NONE.
type protection struct {
	// machine: SP4_MACH_CRED. Only principal, over RPCSEC_GSS with integrity at least,
	// may use the operations in enforce, and may use those in allow for state that is
	// another principal's.
	machine        bool
	principal      string
	enforce, allow wire.Bitmap4
}

// maintenance are the operations that SP4_MACH_CRED is for: a caller that may do
// them could take the client's state over.
var maintenance = wire.Bits(uint32(wire.OpBackchannelCtl), uint32(wire.OpBindConnToSession), uint32(wire.OpExchangeID),
	uint32(wire.OpCreateSession), uint32(wire.OpDestroySession), uint32(wire.OpDestroyClientID), uint32(wire.OpDelegpurge))

// allowable are the operations that a client may ask to do with its machine credential.
// WRITE and COMMIT are not among them: Linux's client would then send all data of its
// users under its own flavor, which is integrity where they asked for privacy.
var allowable = wire.Bits(uint32(wire.OpClose), uint32(wire.OpOpenDowngrade), uint32(wire.OpLocku), uint32(wire.OpDelegreturn),
	uint32(wire.OpTestStateID), uint32(wire.OpFreeStateID),
	uint32(wire.OpExchangeID), uint32(wire.OpBindConnToSession), uint32(wire.OpDestroySession), uint32(wire.OpDestroyClientID))

// protectionOf is what a client gets of what it asks for. SP4_MACH_CRED takes RPCSEC_GSS
// with integrity at least; the secret state verifier is not done: no algorithm of it is,
// and the caller is told so whatever its flavor.
func protectionOf(cred *rpc.Cred, a *wire.StateProtect4A) (protection, nfs4.Status) {
	switch a.How {
	case wire.Sp4None:
		return protection{}, wire.NFS4OK
	case wire.Sp4MachCred:
		if !intact(cred) {
			return protection{}, wire.NFS4ErrInvalid
		}
		p := protection{machine: true, principal: nfs4.PrincipalOf(cred)}
		p.enforce = a.MachOps.MustEnforce.And(&maintenance)
		p.allow = a.MachOps.MustAllow.And(&allowable)
		return p, wire.NFS4OK
	}
	if p := &a.SsvParms; p.HashAlgs.Len() == 0 || p.EncrAlgs.Len() == 0 || p.Window == 0 {
		return protection{}, wire.NFS4ErrInvalid
	}
	return protection{}, wire.NFS4ErrEncrAlgUnsupp
}

// binds says that a connection carries requests only when it was bound by an operation of
// its own (RFC 8881 §18.35.3).
func (p *protection) binds() bool {
	return p.machine && p.enforce.Has(uint32(wire.OpBindConnToSession))
}

// proven says that the principal of a call was proven, and not only said.
func proven(c *rpc.Cred) bool { return c.Flavor == rpc.AuthGSS }

// mayManage says whether a call may make sessions of the client, or end it: from an address
// where the client has shown itself, or within one of its sessions, or by a principal that
// was proven to be the client's. The client's identity alone is no secret: a client that is
// denied a lock is told it.
func (c *client) mayManage(k *nfs4.Compound) bool {
	cred := &k.Call.Cred
	return k.Client == c.Client || proven(cred) && nfs4.PrincipalOf(cred) == c.Principal ||
		c.minor.state.Met(c.Client, k.Call.Conn.Peer.Addr())
}

// intact says that a call came over RPCSEC_GSS with integrity or privacy.
func intact(c *rpc.Cred) bool {
	return c.Flavor == rpc.AuthGSS && (c.GSS == rpc.GSSIntegrity || c.GSS == rpc.GSSPrivacy)
}

// result is what EXCHANGE_ID says of it.
func (p *protection) result() (r wire.StateProtect4R) {
	if p.machine {
		r.How = wire.Sp4MachCred
		r.MachOps = wire.StateProtectOps4{MustEnforce: p.enforce, MustAllow: p.allow}
	}
	return r
}

// permits says whether a caller may do an operation that maintains the client.
func (p *protection) permits(cred *rpc.Cred, op wire.OpNum) bool {
	if !p.machine || !p.enforce.Has(uint32(op)) {
		return true
	}
	return intact(cred) && nfs4.PrincipalOf(cred) == p.principal
}

// MachineMay says that the caller has the client's machine credential, and that the
// client wants it to be good for an operation on state of any of its principals
// (RFC 8881 §2.10.8.3).
func (s *Session) MachineMay(cred *rpc.Cred, op wire.OpNum) bool {
	p := &s.client.protect
	return p.machine && p.allow.Has(uint32(op)) && intact(cred) && nfs4.PrincipalOf(cred) == p.principal
}

// MachineMay implements nfs4.Maintainer.
func (l *slot) MachineMay(cred *rpc.Cred, op wire.OpNum) bool {
	return l.session.MachineMay(cred, op)
}
