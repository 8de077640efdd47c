package rpc

import (
	"encoding/binary"
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

// Statuses of replies (reply_stat), and reasons why a call was denied (reject_stat) (RFC 5531 §9).
const (
	msgAccepted, msgDenied     uint32 = 0, 1
	rejectMismatch, rejectAuth uint32 = 0, 1
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
	// These two are for RPCSEC_GSS (RFC 5531 §9, RFC 2203 §5.3.3.3): the server does not know the
	// context of the call, or the context can no longer be used. The client then makes a new one.
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

// MaxAuthBytes is the longest body of an authenticator, in bytes (RFC 5531 §8.2).
const MaxAuthBytes = 400

// MaxGroups is the largest number of supplementary groups in AUTH_SYS (RFC 5531 §14).
const MaxGroups = 16

// MaxMachineName is the longest machine name of AUTH_SYS, in bytes (RFC 5531 §14).
const MaxMachineName = 255

// MaxCallHeader is the longest header of a call (RFC 5531 §8.2), in bytes.
const MaxCallHeader = callFixed + 2*(authFixed+MaxAuthBytes)

// AuthBytes is an authenticator on the wire: flavor and body.
type AuthBytes struct {
	Flavor Flavor
	Body   []byte
}

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

// parse reads a call's header from the start of message. The fields alias message. ok is false if
// the message is not a call. Unless version, which is the RPC version, is Version and why is AuthOK,
// only the fields before the fault are set.
func (h *CallHeader) parse(message []byte) (version uint32, why AuthStat, ok bool) {
	*h = CallHeader{}
	var d xdr.Decoder
	d.Reset(message, 0, nil)
	h.XID = d.Uint32()
	t := MsgType(d.Uint32())
	version = d.Uint32()
	if d.Err() != nil || t != TypeCall || version != Version {
		return version, AuthOK, d.Err() == nil && t == TypeCall
	}
	h.Program, h.Version, h.Procedure = d.Uint32(), d.Uint32(), d.Uint32()
	if d.Err() != nil {
		return version, AuthOK, false
	}
	h.Cred.Flavor = Flavor(d.Uint32())
	h.Cred.Body = d.Opaque(MaxAuthBytes)
	if d.Err() != nil {
		return version, AuthBadCred, true
	}
	h.Verf.Flavor = Flavor(d.Uint32())
	h.Verf.Body = d.Opaque(MaxAuthBytes)
	if d.Err() != nil {
		return version, AuthBadVerf, true
	}
	h.Size = d.Position()
	return version, AuthOK, true
}

// A Cred is a caller's verified identity. Groups may alias an array in the Cred itself, so do not
// copy a Cred by value.
type Cred struct {
	Flavor   Flavor
	UID, GID uint32
	Groups   []uint32
	// Machine is AUTH_SYS's machine name; it aliases the message.
	Machine []byte
	// Principal is the caller's name, such as user@REALM, if the flavor proves that name. Otherwise
	// it is "".
	Principal string
	// If Principal is set, Target is the name of this server that the caller authenticated to, such
	// as nfs/host@REALM. Callbacks to the client use the same name (RFC 7530 §3.3.3).
	Target string
	// Anonymous is true if the caller has proven that it is Principal, but Principal has no user
	// number on this machine. UID and GID are then NobodyID.
	Anonymous bool
	// Unsure is true if the server could not find out whether Principal has a user number. Anonymous
	// is set as well, but may be wrong: a program has to tell the client to try later.
	Unsure bool
	// GSS is the service by which RPCSEC_GSS protects the call, 0 for other flavors. Mechanism is
	// the object identifier of the RPCSEC_GSS mechanism: its content octets, which must not be
	// changed.
	GSS       GSSService
	Mechanism []byte

	groups [MaxGroups]uint32
}

// NobodyID is the user number and the group number of callers that have none on this machine, and of those
// whose flavor names no user, such as AUTH_NONE. Linux uses the same number.
const NobodyID = 65534

// GSSService is the protection that RPCSEC_GSS gives a call and its reply (RFC 2203 §5.2.2).
type GSSService uint32

// Services of RPCSEC_GSS. GSSNone authenticates the header alone, GSSIntegrity also protects
// arguments and results against change, and GSSPrivacy encrypts them as well.
const (
	GSSNone      GSSService = 1
	GSSIntegrity GSSService = 2
	GSSPrivacy   GSSService = 3
)

// machineAt is the offset of the machine name in an AUTH_SYS body: after the stamp and the name's
// length.
const machineAt = 8

// parseSys decodes an AUTH_SYS body (RFC 5531 §14). It returns false if the body is malformed, or
// if the name or the list of groups is longer than RFC 5531 allows.
func (c *Cred) parseSys(body []byte) bool {
	var d xdr.Decoder
	d.Reset(body, 0, nil)
	d.Skip(4) // the stamp, which the server does not use
	c.Machine = d.Opaque(MaxMachineName)
	c.UID, c.GID = d.Uint32(), d.Uint32()
	n := d.Count(MaxGroups, 4)
	for i := range n {
		c.groups[i] = d.Uint32()
	}
	c.Groups = c.groups[:n]
	return d.Finish() == nil
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
func putReply(w *xdr.Writer, xid, stat uint32) {
	w.Uint32(xid)
	w.Uint32(uint32(TypeReply))
	w.Uint32(stat)
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

func putDenied(w *xdr.Writer, xid, why uint32) {
	putReply(w, xid, msgDenied)
	w.Uint32(why)
}
