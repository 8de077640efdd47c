package iwarp

import (
	"fmt"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// ErrEmpty ends a connection if the peer sends mostEmpty FPDUs without payload and
// completes no message.
var ErrEmpty = fmt.Errorf("iwarp: peer sent %d empty FPDUs, and no message", mostEmpty)

// A TerminateError ends a connection: one of the sides found a fault and sent a Terminate.
type TerminateError struct {
	wire.Cause
	// Remote is true if the peer found the fault, and false if this side did.
	Remote bool
	// Dialect is the layout of a remote Terminate. With DialectUnknown the layout is
	// uncertain, and the other possible cause is Cause.Swapped.
	Dialect wire.Dialect
	// Detail has the particulars of a fault found by this side, or nil.
	Detail error
}

func (e *TerminateError) Error() string {
	if e.Remote {
		if s := e.Cause.Swapped(); e.Dialect == wire.DialectUnknown && s != e.Cause {
			return fmt.Sprintf("iwarp: peer terminated: %v (or %v, if the peer is siw)", e.Cause, s)
		}
		return fmt.Sprintf("iwarp: peer terminated: %v", e.Cause)
	}
	if e.Detail != nil {
		return fmt.Sprintf("iwarp: terminated: %v: %v", e.Cause, e.Detail)
	}
	return fmt.Sprintf("iwarp: terminated: %v", e.Cause)
}

// Unwrap returns Detail and rdmacm's error for the cause, as far as they exist.
func (e *TerminateError) Unwrap() []error {
	var errs []error
	if e.Detail != nil {
		errs = append(errs, e.Detail)
	}
	if e.Layer <= wire.LayerDDP && e.Type == 1 && e.Cause != wire.DDPTaggedVersion {
		errs = append(errs, rdmacm.ErrNotExposed)
	}
	return errs
}

// A BrokenError reports that the TCP connection failed, or that the peer closed it too early.
type BrokenError struct {
	// Err is the error of the socket, or io.ErrUnexpectedEOF if the peer closed the connection.
	Err error
}

func (e *BrokenError) Error() string { return fmt.Sprintf("iwarp: connection broken: %v", e.Err) }

func (e *BrokenError) Unwrap() error { return e.Err }
