package rdmacm

import (
	"errors"
	"fmt"
)

// Errors of every provider. A provider wraps what it knows more about.
var (
	// ErrClosed: the connection had ended before the work was posted.
	ErrClosed = errors.New("rdmacm: connection closed")
	// ErrFlushed: the connection ended while the work was outstanding.
	ErrFlushed = errors.New("rdmacm: work flushed by the end of the connection")
	// ErrAborted: this side aborted the connection.
	ErrAborted = errors.New("rdmacm: connection aborted")
	// ErrReadDepth: more RDMA Reads posted than Conn.ReadDepth allows.
	ErrReadDepth = errors.New("rdmacm: more RDMA Reads than the peer allows")
	// ErrTimeout: the peer did not take part in time.
	ErrTimeout = errors.New("rdmacm: peer did not answer in time")
	// ErrStalled: the peer took nothing of what was posted, brought nothing of what an
	// RDMA Read asks for, or stopped within a message, for as long as the provider waits.
	// It is an ErrTimeout.
	ErrStalled = fmt.Errorf("rdmacm: peer left work undone: %w", ErrTimeout)
	// ErrNotExposed: the peer asked for memory that is not exposed to it, or
	// this side named memory that the peer refuses.
	ErrNotExposed = errors.New("rdmacm: memory is not exposed")
)

// A RejectedError is a peer's refusal of a connection.
type RejectedError struct {
	PrivateData []byte
}

func (e *RejectedError) Error() string {
	return fmt.Sprintf("rdmacm: peer rejected the connection (%d bytes of private data)", len(e.PrivateData))
}

// A RefusedError: the peer ended the connection because it refuses what this side posted.
// Where a provider tells chains of work that the peer may never have got that they are done
// (Chain.Done), this error, which is part of what Closed says, may be all that blames such
// work. It is an ErrNotExposed.
type RefusedError struct {
	// Op is the kind of work, and STag the memory that it named: that of
	// Work.Remote, or Work.Invalidate.
	Op   Op
	STag uint32
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("rdmacm: peer refuses an %v that names STag %#x", e.Op, e.STag)
}

func (e *RefusedError) Unwrap() error { return ErrNotExposed }

// A LengthError: a message does not fit what was promised for it.
type LengthError struct {
	Length, Limit int
}

func (e *LengthError) Error() string {
	return fmt.Sprintf("rdmacm: message of %d bytes exceeds the %d bytes provided", e.Length, e.Limit)
}
