package rpc_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// The constants have the numbers of RFC 5531 §8.2 and §9, RFC 2203 and RFC 9289 §4.1.
// Other tests use the constants, so they would not notice a wrong one.
func TestNumbersOfTheStandard(t *testing.T) {
	for name, c := range map[string][2]uint32{
		"rpcvers":           {rpc.Version, 2},
		"CALL":              {uint32(rpc.TypeCall), 0},
		"REPLY":             {uint32(rpc.TypeReply), 1},
		"AUTH_NONE":         {uint32(rpc.AuthNone), 0},
		"AUTH_SYS":          {uint32(rpc.AuthSys), 1},
		"AUTH_SHORT":        {uint32(rpc.AuthShort), 2},
		"RPCSEC_GSS":        {uint32(rpc.AuthGSS), 6},
		"AUTH_TLS":          {uint32(rpc.AuthTLS), 7},
		"SUCCESS":           {uint32(rpc.Success), 0},
		"PROG_UNAVAIL":      {uint32(rpc.AcceptProgUnavail), 1},
		"PROG_MISMATCH":     {uint32(rpc.AcceptProgMismatch), 2},
		"PROC_UNAVAIL":      {uint32(rpc.AcceptProcUnavail), 3},
		"GARBAGE_ARGS":      {uint32(rpc.AcceptGarbageArgs), 4},
		"SYSTEM_ERR":        {uint32(rpc.AcceptSystemErr), 5},
		"AUTH_OK":           {uint32(rpc.AuthOK), 0},
		"AUTH_BADCRED":      {uint32(rpc.AuthBadCred), 1},
		"AUTH_REJECTEDCRED": {uint32(rpc.AuthRejectedCred), 2},
		"AUTH_BADVERF":      {uint32(rpc.AuthBadVerf), 3},
		"AUTH_REJECTEDVERF": {uint32(rpc.AuthRejectedVerf), 4},
		"AUTH_TOOWEAK":      {uint32(rpc.AuthTooWeak), 5},
		"CREDPROBLEM":       {uint32(rpc.GSSCredProblem), 13},
		"CTXPROBLEM":        {uint32(rpc.GSSCtxProblem), 14},
		"svc_none":          {uint32(rpc.GSSNone), 1},
		"svc_integrity":     {uint32(rpc.GSSIntegrity), 2},
		"svc_privacy":       {uint32(rpc.GSSPrivacy), 3},
		"bytes of a body":   {rpc.MaxAuthBytes, 400},
		"accepted header":   {rpc.ReplyHeader, 24},
	} {
		if c[0] != c[1] {
			t.Errorf("%s is %d, want %d", name, c[0], c[1])
		}
	}
}
