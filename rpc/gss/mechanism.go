package gss

import (
	"context"
	"fmt"
	"time"
)

// A Mechanism is a mechanism of the Generic Security Service (RFC 2743). It makes contexts. Its
// methods may be called from many goroutines at once.
type Mechanism interface {
	// OID returns the object identifier of the mechanism: the content octets of its DER encoding,
	// without tag and length.
	OID() []byte
	// Acceptor returns an Acceptor for a new context. It does not block.
	Acceptor() Acceptor
	// Initiate starts a context with an acceptor such as "nfs@server.example.com" (RFC 2743 §4.1).
	// It may send requests to other machines, such as a KDC, and waits for their answers until ctx
	// ends. The error is an *Error.
	Initiate(ctx context.Context, target string) (Initiator, error)
}

// An Acceptor makes one context, from one or more tokens of the initiator. One goroutine at a time
// uses it.
type Acceptor interface {
	// Accept takes the initiator's next token (GSS_Accept_sec_context, RFC 2743 §2.2.2). reply is
	// the token to send to the initiator, or nil if there is none. c is nil while the Acceptor needs
	// further tokens to establish the context. The error is an *Error; if reply is not nil as well,
	// it tells the initiator the reason. An error ends the negotiation, unless its Major is
	// ContinueNeeded: then the initiator may, when it has reply, send another token.
	// Accept does not use token after it has returned. It may read files, and computes for several
	// hundred microseconds, so it must not be called on a goroutine that receives for a connection.
	Accept(token []byte, now time.Time) (c Context, reply []byte, err error)
}

// An Initiator makes one context. One goroutine at a time uses it.
type Initiator interface {
	// Step takes the acceptor's token, nil at first, and returns the token to send, or nil if
	// there is none (GSS_Init_sec_context, RFC 2743 §2.2.1). c is nil until the context is
	// established. The error is an *Error and ends the context.
	Step(token []byte, now time.Time) (reply []byte, c Context, err error)
}

// MaxPrincipal is the longest name of a principal, in bytes. It is limited because the server
// stores the name with each context, and with each NFSv4 client on disk.
const MaxPrincipal = 1 << 10

// A Context is an established security context. Its methods may be called from many goroutines at
// once and do not wait. The mechanism puts a sequence number into each token but does not check the
// order of tokens, because RPCSEC_GSS has its own sequence numbers.
//
// The parameter pieces is a message in several slices: the message is their concatenation. To avoid
// an allocation for each call, a caller may reuse one slice of slices and pass it as pieces... .
type Context interface {
	// Principal returns the peer's name, such as user@REALM or nfs/host@REALM. It has MaxPrincipal
	// bytes at most.
	Principal() string
	// Own returns the name of this end of the context. For an acceptor, it is the name for which
	// the initiator got its ticket.
	Own() string
	// Expiry returns when the context ends. The methods of Context do not check it.
	Expiry() time.Time
	// MICSize returns the length, in bytes, of a token that MIC makes. It is the same for all
	// messages.
	MICSize() int
	// MIC appends to dst the token that proves the message's origin and integrity
	// (GSS_GetMIC, RFC 2743 §2.3.1).
	MIC(dst []byte, pieces ...[]byte) []byte
	// VerifyMIC checks a token of the peer's MIC. The error is an *Error.
	VerifyMIC(token []byte, pieces ...[]byte) error
	// WrapSize returns how many bytes Wrap adds before and after a message. Both numbers are the
	// same for all messages; the first is a multiple of four.
	WrapSize() (before, behind int)
	// Wrap encrypts and protects a message in place (GSS_Wrap, RFC 2743 §2.3.3). The first and the
	// last of the pieces are space for the bytes that Wrap adds, with the lengths that WrapSize
	// returns; the message is between them. Afterwards the pieces are the token. No piece may
	// overlap another.
	Wrap(pieces ...[]byte)
	// Unwrap removes the protection from a token of the peer's Wrap, in place: afterwards
	// token[from:to] is the message. The error is an *Error, and the token's bytes are then
	// undefined. A token that is not encrypted is an error.
	Unwrap(token []byte) (from, to int, err error)
}

// Major is the part of a status that all mechanisms share (RFC 2744 §3.9.1). RPCSEC_GSS sends it
// in the results of a call that makes a context.
type Major uint32

// Values of Major: routine errors, in bits 16 to 23, and supplementary bits, from bit 0 on.
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
