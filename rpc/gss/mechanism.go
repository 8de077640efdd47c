package gss

import (
	"context"
	"fmt"
	"time"
)

// A Mechanism makes contexts of one mechanism of the Generic Security Service (RFC 2743). Its
// methods may be called from many goroutines at once.
type Mechanism interface {
	// OID identifies the mechanism: the content octets of its DER encoding, without tag and
	// length.
	OID() []byte
	// Accept makes the acceptor's context from the initiator's token (GSS_Accept_sec_context, RFC
	// 2743 §2.2.2). It returns the token of the answer, or nil if there is none. The mechanism
	// never needs a second token. Accept does not keep the token. bindings is the application
	// data of the connection's channel bindings, or nil. The error is an *Error; a reply beside
	// it tells the initiator the reason. With the error ContinueNeeded, the initiator may send
	// another token after it got the reply. Accept may read files, and computes for some hundred
	// microseconds: do not call it on a receiving goroutine.
	Accept(token, bindings []byte, now time.Time) (c Context, reply []byte, err error)
	// Initiate starts a context with an acceptor such as "nfs@server.example.com" (RFC 2743
	// §4.1). It may ask other machines, and waits for them until ctx ends. The error is an
	// *Error.
	Initiate(ctx context.Context, target string) (Initiator, error)
}

// An Initiator makes one context. One goroutine at a time uses it.
type Initiator interface {
	// Step takes the acceptor's token, nil at first, and returns the token to send, or nil if
	// there is none (GSS_Init_sec_context, RFC 2743 §2.2.1). c is nil until the context is
	// established. The error is an *Error and ends the context.
	Step(token []byte, now time.Time) (reply []byte, c Context, err error)
}

// MaxPrincipal is the longest principal that is served, in bytes. The server stores it with each
// context, and with each NFSv4 client on disk.
const MaxPrincipal = 1 << 10

// A Context is an established security context. Its methods may be called from many goroutines at
// once and do not wait. The mechanism numbers messages but does not check their order: RPCSEC_GSS
// has its own sequence numbers.
//
// A message is given in pieces, and consists of their concatenation. To avoid allocation,
// frequent callers keep a slice of pieces and pass it as pieces... .
type Context interface {
	// Principal returns the peer's name: user@REALM, nfs/host@REALM. It has MaxPrincipal bytes at
	// most.
	Principal() string
	// Own returns this end's name towards the peer. For an acceptor, it is the name that the
	// initiator asked for.
	Own() string
	// Expiry returns when the context ends. The methods of Context do not check it.
	Expiry() time.Time
	// Bound reports that the peer has proven that it uses the channel whose bindings Accept got.
	Bound() bool
	// MICSize returns the length of a token of MIC, in bytes. It is constant.
	MICSize() int
	// MIC appends to dst the token that proves the message's origin and integrity
	// (GSS_GetMIC, RFC 2743 §2.3.1).
	MIC(dst []byte, pieces ...[]byte) []byte
	// VerifyMIC checks a token of the peer's MIC. The error is an *Error.
	VerifyMIC(token []byte, pieces ...[]byte) error
	// WrapSize returns how many bytes Wrap puts before and after a message. They are the same for
	// all messages; before is a multiple of four.
	WrapSize(sealed bool) (before, behind int)
	// Wrap protects a message in place (GSS_Wrap, RFC 2743 §2.3.3). The token consists of before,
	// the pieces, and behind. With sealed, Wrap encrypts the pieces. The lengths of before and
	// behind are those of WrapSize. No two of these slices may overlap.
	Wrap(sealed bool, before, behind []byte, pieces ...[]byte)
	// Unwrap removes the protection from a token of the peer's Wrap, in place: afterwards
	// token[from:to] is the message. sealed reports whether it was encrypted. The error is an
	// *Error, and the token's bytes are then undefined.
	Unwrap(token []byte) (from, to int, sealed bool, err error)
}

// Major is the part of a status that all mechanisms share (RFC 2744 §3.9.1). RPCSEC_GSS sends it
// in the results of a call that makes a context.
type Major uint32

// Routine errors, in bits 16 to 23, and supplementary bits.
const (
	Complete       Major = 0
	ContinueNeeded Major = 1

	BadMech            Major = 1 << 16
	BadName            Major = 2 << 16
	BadNameType        Major = 3 << 16
	BadBindings        Major = 4 << 16
	BadStatus          Major = 5 << 16
	BadMIC             Major = 6 << 16
	NoCredential       Major = 7 << 16
	NoContext          Major = 8 << 16
	DefectiveToken     Major = 9 << 16
	DefectiveCred      Major = 10 << 16
	CredentialsExpired Major = 11 << 16
	ContextExpired     Major = 12 << 16
	Failure            Major = 13 << 16
	DuplicateToken     Major = 1 << 1
)

var majorNames = map[Major]string{
	Complete: "complete", ContinueNeeded: "continue needed",
	BadMech: "bad mechanism", BadName: "bad name", BadNameType: "bad name type",
	BadBindings: "channel bindings do not match", BadStatus: "bad status",
	BadMIC: "bad integrity check", NoCredential: "no credential", NoContext: "no context",
	DefectiveToken: "defective token", DefectiveCred: "defective credential",
	CredentialsExpired: "credential expired", ContextExpired: "context expired",
	Failure: "failure", DuplicateToken: "duplicate token",
}

// String returns the status in words.
func (m Major) String() string {
	if name := majorNames[m]; name != "" {
		return name
	}
	return fmt.Sprintf("GSS status %#x", uint32(m))
}

// Error is a failure of a mechanism.
type Error struct {
	Major Major
	// Minor is the mechanism's own code, 0 if there is none.
	Minor uint32
	// Text describes the failure.
	Text string
}

// Error returns the failure in words.
func (e *Error) Error() string { return e.Major.String() + ": " + e.Text }
