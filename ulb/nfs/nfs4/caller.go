package nfs4

import (
	"encoding/hex"
	"strconv"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// PrincipalOf returns a caller's identity as a string, for state.Client.Principal. Equal
// strings mean the same caller.
func PrincipalOf(c *rpc.Cred) string {
	switch c.Flavor {
	case rpc.AuthGSS:
		return "gss " + hex.EncodeToString(c.Mechanism) + " " + c.Principal
	case rpc.AuthSys, rpc.AuthTLS:
		return "uid " + strconv.FormatUint(uint64(c.UID), 10)
	}
	return "flavor " + strconv.FormatUint(uint64(c.Flavor), 10)
}

// Caller returns the sender of the compound.
func (k *Compound) Caller() state.Caller {
	by := k.provenCaller()
	by.Principal = PrincipalOf(&k.Call.Cred)
	return by
}

// provenCaller is Caller, without a Principal that is only claimed. For AUTH_SYS it allocates nothing.
func (k *Compound) provenCaller() state.Caller {
	c, conn := &k.Call.Cred, k.Call.Conn
	by := state.Caller{
		Proven: c.Flavor == rpc.AuthGSS, Intact: c.Flavor == rpc.AuthGSS && (c.GSS == rpc.GSSIntegrity || c.GSS == rpc.GSSPrivacy),
		Address: conn.Peer.Addr(), Privileged: conn.Privileged,
	}
	if by.Proven {
		by.Principal = PrincipalOf(c)
	}
	return by
}

// SpeaksFor reports whether the compound counts as one of the client whose client ID it has: see
// state.Manager.SpeaksFor.
func (k *Compound) SpeaksFor(c *state.Client) bool {
	by := k.provenCaller()
	return k.Program.state.SpeaksFor(c, &by)
}
