package rpc

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// Version is the version of the RPC protocol that this package implements (RFC 5531 §8).
const Version = 2

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

// MsgType is the type of a message: call or reply (RFC 5531 §9).
type MsgType uint32

// Message types.
const (
	TypeCall  MsgType = 0
	TypeReply MsgType = 1
)

// replyStat is the first word of a reply's body (RFC 5531 §9).
type replyStat uint32

const (
	msgAccepted replyStat = 0
	msgDenied   replyStat = 1
)

// rejectStat is the reason why a call was denied (RFC 5531 §9).
type rejectStat uint32

const (
	rejectMismatch rejectStat = 0
	rejectAuth     rejectStat = 1
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

var acceptNames = [...]string{"SUCCESS", "PROG_UNAVAIL", "PROG_MISMATCH", "PROC_UNAVAIL", "GARBAGE_ARGS", "SYSTEM_ERR"}

func (s AcceptStat) String() string {
	if int(s) < len(acceptNames) {
		return acceptNames[s]
	}
	return fmt.Sprintf("accept_stat %d", uint32(s))
}

// AuthStat is the reason for a failed authentication (RFC 5531 §9). AuthOK means no failure.
type AuthStat uint32

// Reasons of AUTH_ERROR.
const (
	AuthOK           AuthStat = 0
	AuthBadCred      AuthStat = 1
	AuthRejectedCred AuthStat = 2
	AuthBadVerf      AuthStat = 3
	AuthRejectedVerf AuthStat = 4
	AuthTooWeak      AuthStat = 5
	// These two are for RPCSEC_GSS (RFC 5531 §9, RFC 2203 §5.3.3.3). After either of them, the
	// client makes a new context: after GSSCredProblem because the server does not know the context
	// of the call, after GSSCtxProblem because that context can no longer be used.
	GSSCredProblem AuthStat = 13
	GSSCtxProblem  AuthStat = 14
)

var authNames = [...]string{
	"AUTH_OK", "AUTH_BADCRED", "AUTH_REJECTEDCRED", "AUTH_BADVERF", "AUTH_REJECTEDVERF", "AUTH_TOOWEAK",
	GSSCredProblem: "RPCSEC_GSS_CREDPROBLEM", GSSCtxProblem: "RPCSEC_GSS_CTXPROBLEM",
}

func (s AuthStat) String() string {
	if int(s) < len(authNames) && authNames[s] != "" {
		return authNames[s]
	}
	return fmt.Sprintf("auth_stat %d", uint32(s))
}

// Sizes of the fixed parts of messages, in bytes.
const (
	// callFixed is the size of XID, type, rpcvers, program, version and procedure.
	callFixed = 6 * 4
	// authFixed is the size of an authenticator without its body: flavor and length.
	authFixed = 2 * 4
	// VerifierAt is the offset of the verifier in an accepted reply: after XID, type and
	// MSG_ACCEPTED.
	VerifierAt = 3 * 4
	// ReplyHeader is the size of the header of a successful reply under AUTH_NONE and AUTH_SYS:
	// XID, type, MSG_ACCEPTED, an empty verifier, SUCCESS.
	ReplyHeader = 6 * 4
	// ErrorReply is the size of the longest reply without results, PROG_MISMATCH, with an empty
	// verifier.
	ErrorReply = ReplyHeader + 2*4
)

// MaxCallHeader is the longest header of a call (RFC 5531 §8.2), in bytes.
const MaxCallHeader = callFixed + 2*(authFixed+MaxAuthBytes)

// A CallHeader is the part of a call before the arguments (RFC 5531 §9).
type CallHeader struct {
	XID                         uint32
	Program, Version, Procedure uint32
	Cred, Verf                  AuthBytes
	// Size is the header's length in bytes. The arguments start at this offset.
	Size int
}

// MessageType returns the XID and the type of a message. ok is false if message is too short or
// the type is neither call nor reply.
func MessageType(message []byte) (xid uint32, t MsgType, ok bool) {
	if len(message) < 8 {
		return 0, 0, false
	}
	xid, t = binary.BigEndian.Uint32(message), MsgType(binary.BigEndian.Uint32(message[4:]))
	return xid, t, t <= TypeReply
}

// PutCall writes the header of a call. The arguments follow.
func PutCall(w *xdr.Writer, h *CallHeader) {
	putCallFixed(w, h.XID, h.Program, h.Version, h.Procedure)
	putAuth(w, &h.Cred)
	putAuth(w, &h.Verf)
}

// putCallFixed writes the part of a call before the authenticators.
func putCallFixed(w *xdr.Writer, xid, program, version, procedure uint32) {
	w.Uint32(xid)
	w.Uint32(uint32(TypeCall))
	w.Uint32(Version)
	w.Uint32(program)
	w.Uint32(version)
	w.Uint32(procedure)
}

func putAuth(w *xdr.Writer, a *AuthBytes) {
	w.Uint32(uint32(a.Flavor))
	w.Opaque(a.Body)
}

// PutAccepted writes the header of an accepted reply with an empty verifier. The caller writes the
// data of the status after it: the results for Success, the versions for AcceptProgMismatch,
// nothing otherwise.
func PutAccepted(w *xdr.Writer, xid uint32, stat AcceptStat) {
	putReply(w, xid, msgAccepted)
	putAuth(w, &AuthBytes{})
	w.Uint32(uint32(stat))
}

// putReply writes the part of a reply that is the same for all.
func putReply(w *xdr.Writer, xid uint32, stat replyStat) {
	w.Uint32(xid)
	w.Uint32(uint32(TypeReply))
	w.Uint32(uint32(stat))
}

// PutAuthError writes a whole AUTH_ERROR reply.
func PutAuthError(w *xdr.Writer, xid uint32, why AuthStat) {
	putDenied(w, xid, rejectAuth)
	w.Uint32(uint32(why))
}

// PutRPCMismatch writes a whole RPC_MISMATCH reply.
func PutRPCMismatch(w *xdr.Writer, xid uint32) {
	putDenied(w, xid, rejectMismatch)
	w.Uint32(Version)
	w.Uint32(Version)
}

func putDenied(w *xdr.Writer, xid uint32, why rejectStat) {
	putReply(w, xid, msgDenied)
	w.Uint32(uint32(why))
}

// ErrBadReply means that the reply violates the format of RFC 5531.
var ErrBadReply = errors.New("rpc: malformed reply")

// A ReplyError is a reply other than SUCCESS: the server refused the call, or could not execute it
// (RFC 5531 §9).
type ReplyError struct {
	// Denied is true if the reply is MSG_DENIED. Auth is then the reason; AuthOK means that the
	// server does not support the RPC version of the call. If Denied is false, Stat is the reason.
	Denied bool
	Auth   AuthStat
	Stat   AcceptStat
	// If the server does not support the version of RPC or of the program, Low and High are the
	// lowest and the highest version that it supports.
	Low, High uint32
}

func (e *ReplyError) Error() string {
	switch {
	case e.Denied && e.Auth != AuthOK:
		return "rpc: denied: " + e.Auth.String()
	case e.Denied:
		return fmt.Sprintf("rpc: denied: RPC version mismatch (%d to %d served)", e.Low, e.High)
	case e.Stat == AcceptProgMismatch:
		return fmt.Sprintf("rpc: %v (%d to %d served)", e.Stat, e.Low, e.High)
	}
	return "rpc: " + e.Stat.String()
}

// ReadReply reads a reply's header. d must be at the reply's XID. Afterwards it is at the results.
// err is nil for SUCCESS, a *ReplyError for every other status, or wraps ErrBadReply.
func ReadReply(d *xdr.Decoder) (xid uint32, verf AuthBytes, err error) {
	xid = d.Uint32()
	t := MsgType(d.Uint32())
	stat := replyStat(d.Uint32())
	if d.Err() != nil || t != TypeReply || stat > msgDenied {
		return xid, verf, badReply(d)
	}
	var re ReplyError // The error is a copy of re, so that only an unsuccessful reply allocates memory.
	if stat == msgDenied {
		re.Denied = true
		switch rejectStat(d.Uint32()) {
		case rejectMismatch:
			re.Low, re.High = d.Uint32(), d.Uint32()
		case rejectAuth:
			if re.Auth = AuthStat(d.Uint32()); re.Auth == AuthOK {
				d.Fail(xdr.ErrBadValue)
			}
		default:
			d.Fail(xdr.ErrBadValue)
		}
	} else {
		verf.Flavor = Flavor(d.Uint32())
		verf.Body = d.Opaque(MaxAuthBytes)
		re.Stat = AcceptStat(d.Uint32())
		switch {
		case re.Stat == AcceptProgMismatch:
			re.Low, re.High = d.Uint32(), d.Uint32()
		case re.Stat > AcceptSystemErr:
			d.Fail(xdr.ErrBadValue)
		case re.Stat == Success && d.Err() == nil:
			return xid, verf, nil
		}
	}
	if d.Err() != nil {
		return xid, verf, badReply(d)
	}
	refused := re
	return xid, verf, &refused
}

func badReply(d *xdr.Decoder) error {
	if d.Err() != nil {
		return fmt.Errorf("%w: %w", ErrBadReply, d.Err())
	}
	return ErrBadReply
}
