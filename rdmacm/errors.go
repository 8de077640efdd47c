package rdmacm

import (
	"errors"
	"fmt"
)

// Errors of every provider. A provider wraps them in errors that say more.
var (
	// ErrClosed: the connection had ended before the work was posted.
	ErrClosed = errors.New("rdmacm: connection closed")
	// ErrFlushed: the connection ended while the work was outstanding.
	ErrFlushed = errors.New("rdmacm: work flushed by the end of the connection")
	// ErrAborted: this side aborted the connection.
	ErrAborted = errors.New("rdmacm: connection aborted")
	// ErrSetup: a peer answered and no connection came of it, because it does not speak the
	// provider's protocol, did not go on, or cannot be agreed with. A refusal by the peer
	// is a RejectedError instead.
	ErrSetup = errors.New("rdmacm: connection set-up failed")
	// ErrNoAgreement: both sides speak the protocol and want different things. It is an
	// ErrSetup.
	ErrNoAgreement = fmt.Errorf("%w: no agreement with the peer", ErrSetup)
	// ErrReadDepth: more RDMA Reads posted than Conn.ReadDepth allows.
	ErrReadDepth = errors.New("rdmacm: more RDMA Reads than the peer allows")
	// ErrTimeout: the peer did not take part in time.
	ErrTimeout = errors.New("rdmacm: peer did not answer in time")
	// ErrStalled: for as long as the provider waits, the peer took nothing of the posted
	// work, answered no RDMA Read, or stopped within a message. It is an ErrTimeout.
	ErrStalled = fmt.Errorf("rdmacm: peer left work undone: %w", ErrTimeout)
	// ErrNoMemory: what the provider may take for the messages of connections is taken.
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

// A RefusedError: the peer ended the connection because it refuses work that this side
// posted. It is part of the error that Closed gets. Some providers report a chain as done
// (Chain.Done) before the peer has its work; then only this error names the refused work.
// It is an ErrNotExposed.
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

// A LengthError: a message is longer than the receive provided for it.
type LengthError struct {
	Length, Limit int
}

func (e *LengthError) Error() string {
	return fmt.Sprintf("rdmacm: message of %d bytes exceeds the %d bytes provided", e.Length, e.Limit)
}
