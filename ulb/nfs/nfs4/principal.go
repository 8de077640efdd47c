package nfs4

import (
	"encoding/hex"
	"strconv"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// principal is who makes the call.
func (k *Compound) principal() state.Principal {
	if c := &k.Call.Cred; c.Principal == "" {
		return state.Principal{UID: c.UID}
	}
	return state.Principal{Proven: k.Call.Cred.Principal}
}

// PrincipalOf writes down who makes a call, as state.Client.Principal has it: two callers
// are the same where it is.
func PrincipalOf(c *rpc.Cred) string {
	switch c.Flavor {
	case rpc.AuthGSS:
		return "gss " + hex.EncodeToString(c.Mechanism) + " " + c.Principal
	case rpc.AuthSys, rpc.AuthTLS:
		return "uid " + strconv.FormatUint(uint64(c.UID), 10)
	}
	return "flavor " + strconv.FormatUint(uint64(c.Flavor), 10)
}
