package rpc

// Flavor is an authentication flavor (RFC 5531 §8.2).
type Flavor uint32

// Flavors.
const (
	AuthNone  Flavor = 0
	AuthSys   Flavor = 1
	AuthShort Flavor = 2
	AuthGSS   Flavor = 6
	AuthTLS   Flavor = 7
)

// AcceptStat is the status of an accepted call (RFC 5531 §9).
type AcceptStat uint32

// Statuses of accepted calls.
const (
	Success            AcceptStat = 0
	AcceptProgUnavail  AcceptStat = 1
	AcceptProgMismatch AcceptStat = 2
	AcceptProcUnavail  AcceptStat = 3
	AcceptGarbageArgs  AcceptStat = 4
	AcceptSystemErr    AcceptStat = 5
)

// AuthStat is why authentication failed (RFC 5531 §9); AuthOK is none.
type AuthStat uint32

// Reasons of AUTH_ERROR.
const (
	AuthOK           AuthStat = 0
	AuthBadCred      AuthStat = 1
	AuthRejectedCred AuthStat = 2
	AuthBadVerf      AuthStat = 3
	AuthRejectedVerf AuthStat = 4
	AuthTooWeak      AuthStat = 5
)

// A CallHeader is the fixed part of a call (RFC 5531 §9).
type CallHeader struct {
	XID                         uint32
	Program, Version, Procedure uint32
	Cred, Verf                  AuthBytes
	// Size is the header's length: where the arguments start.
	Size int
}

// callState is what the server keeps in a Call.
type callState struct{}
