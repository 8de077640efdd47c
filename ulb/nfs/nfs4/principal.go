package nfs4

import (
	"encoding/hex"
	"strconv"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// principal returns the identity of the caller.
func (k *Compound) principal() state.Principal {
	if c := &k.Call.Cred; c.Principal == "" {
		return state.Principal{UID: c.UID}
	}
	return state.Principal{Proven: k.Call.Cred.Principal}
}

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
