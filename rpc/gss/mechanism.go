package gss

import (
	"context"
	"fmt"
	"time"
)

// A Mechanism makes security contexts of one mechanism of the Generic Security
// Service (RFC 2743). Its methods may be called from many goroutines at once.
type Mechanism interface {
	// OID names the mechanism: the content octets of its DER encoding, without tag
	// and length.
	OID() []byte
	// Accept makes the acceptor's context from the token that an initiator sent
	// (GSS_Accept_sec_context, RFC 2743 §2.2.2), and the token that answers it, nil
	// if there is none. One token of the initiator is all that is ever needed. The
	// token is not kept. Where the failure is ContinueNeeded there is a reply that says
	// what was wrong, and the initiator may send another token. bindings is the application data of the channel bindings
	// of the connection, nil if it has none. A failure is an *Error; a reply beside
	// it tells the initiator why. Accept may read files and computes for some
	// hundred microseconds: it has no place where calls are received.
	Accept(token, bindings []byte, now time.Time) (c Context, reply []byte, err error)
	// Initiate starts a context with an acceptor, such as "nfs@server.example.com"
	// (RFC 2743 §4.1). It may ask other machines, and waits for them until ctx ends.
	// A failure is an *Error.
	Initiate(ctx context.Context, target string) (Initiator, error)
}

// An Initiator makes one context. It is used by one goroutine at a time.
type Initiator interface {
	// Step takes the token that the acceptor sent, nil at first, and gives the one
	// to send, nil if there is none (GSS_Init_sec_context, RFC 2743 §2.2.1). The
	// Context is nil until it is established. A failure is an *Error and ends the
	// making.
	Step(token []byte, now time.Time) (reply []byte, c Context, err error)
}

// MaxPrincipal is the length of the longest principal that is served, in bytes. It is kept with
// each context, and with each NFSv4 client on disk.
const MaxPrincipal = 1 << 10

// A Context is an established security context. Its methods may be called from many
// goroutines at once and do not wait. Messages are numbered by the mechanism, but
// their order is not looked at: RPCSEC_GSS has sequence numbers of its own.
//
// A message is given in pieces, which stand for their concatenation. Callers on the
// hot path keep a slice of pieces and pass it as pieces..., as then nothing is
// allocated.
type Context interface {
	// Principal is the peer's name: user@REALM, nfs/host@REALM. It has MaxPrincipal bytes
	// at most.
	Principal() string
	// Own is our name towards the peer: of an acceptor, the one that the initiator
	// asked for.
	Own() string
	// Expiry is when the context ends. No method looks at it.
	Expiry() time.Time
	// Bound is true if the peer showed that it uses the channel whose bindings were
	// given to Accept.
	Bound() bool
	// MICSize is the length of a token of MIC, in bytes. It does not change.
	MICSize() int
	// MIC appends to dst the token that proves the message's origin and integrity
	// (GSS_GetMIC, RFC 2743 §2.3.1).
	MIC(dst []byte, pieces ...[]byte) []byte
	// VerifyMIC judges a token of the peer's MIC. A failure is an *Error.
	VerifyMIC(token []byte, pieces ...[]byte) error
	// WrapSize is how many bytes Wrap puts before a message and behind it. They do
	// not depend on the message and do not change; before is a multiple of four.
	WrapSize(sealed bool) (before, behind int)
	// Wrap protects a message in place (GSS_Wrap, RFC 2743 §2.3.3): the token is
	// before, the pieces, which sealed encrypts, and behind. The lengths of before
	// and behind are those of WrapSize. No two of these slices may overlap.
	Wrap(sealed bool, before, behind []byte, pieces ...[]byte)
	// Unwrap takes the protection off a token of the peer's Wrap, in place:
	// afterwards token[from:to] is the message, and sealed tells whether it was
	// encrypted. A failure is an *Error, and the token's bytes are then undefined.
	Unwrap(token []byte) (from, to int, sealed bool, err error)
}

// Major is the part of a status that is the same for all mechanisms (RFC 2744
// §3.9.1). It travels in RPCSEC_GSS's answer to the making of a context.
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

// String is the status in words.
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
	// Text says what happened.
	Text string
}

// Error is the failure in words.
func (e *Error) Error() string { return e.Major.String() + ": " + e.Text }
