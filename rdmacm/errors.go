package rdmacm

import (
	"errors"
	"fmt"
)

// Errors of every provider. A provider wraps them in errors with more detail.
var (
	// ErrClosed: the connection had ended before the work was posted.
	ErrClosed = errors.New("rdmacm: connection closed")
	// ErrFlushed: the connection ended while the work was outstanding.
	ErrFlushed = errors.New("rdmacm: work flushed by the end of the connection")
	// ErrAborted: this side aborted the connection.
	ErrAborted = errors.New("rdmacm: connection aborted")
	// ErrSetup: a peer answered, but the connection was not set up, because the peer does not
	// speak the provider's protocol, stopped in the middle of the set-up, or cannot agree with
	// this side. If the peer refuses, the error is a RejectedError instead.
	ErrSetup = errors.New("rdmacm: connection set-up failed")
	// ErrNoAgreement: both sides speak the protocol, but cannot agree on its parameters, such as
	// the number of RDMA Reads. It wraps ErrSetup.
	ErrNoAgreement = fmt.Errorf("%w: no agreement with the peer", ErrSetup)
	// ErrReadDepth: more RDMA Reads posted than Conn.ReadDepth allows.
	ErrReadDepth = errors.New("rdmacm: more RDMA Reads than the peer allows")
	// ErrTimeout: the peer did not answer in time, during the set-up, after Disconnect, or while
	// work was outstanding.
	ErrTimeout = errors.New("rdmacm: peer did not answer in time")
	// ErrStalled: during the provider's stall timeout, the peer took none of the posted work,
	// answered no RDMA Read, or stopped within a message. It wraps ErrTimeout.
	ErrStalled = fmt.Errorf("rdmacm: peer left work undone: %w", ErrTimeout)
	// ErrNoMemory: with the new connection, the memory for messages would exceed a limit of the
	// provider.
	ErrNoMemory = errors.New("rdmacm: no memory for the messages of another connection")
	// ErrNotExposed: the peer asked for memory that is not exposed to it, or the peer
	// refused access to memory that this side named.
	ErrNotExposed = errors.New("rdmacm: memory is not exposed")
)

// A RejectedError is a peer's refusal of a connection.
type RejectedError struct {
	PrivateData []byte
}

func (e *RejectedError) Error() string {
	return fmt.Sprintf("rdmacm: peer rejected the connection (%d bytes of private data)", len(e.PrivateData))
}

// A RefusedError means that the peer ended the connection because it refuses work that this
// side posted. The error that Closed gets wraps it. Some providers call Done of a chain without
// an error before the peer has the work. Then only this error names the refused work. A
// RefusedError wraps ErrNotExposed.
type RefusedError struct {
	// Op is the kind of work. STag is the memory that the work named: the STag of
	// Work.Remote, or Work.Invalidate.
	Op   Op
	STag uint32
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("rdmacm: peer refuses an %v that names STag %#x", e.Op, e.STag)
}

func (e *RefusedError) Unwrap() error { return ErrNotExposed }

// A LengthError means that a received message is longer than the receive provided for it, or
// that a posted work request is larger than the device allows. Both fields are in bytes.
type LengthError struct {
	Length, Limit int
}

func (e *LengthError) Error() string {
	return fmt.Sprintf("rdmacm: message of %d bytes exceeds the %d bytes provided", e.Length, e.Limit)
}
