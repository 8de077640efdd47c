package iwarp

import (
	"errors"
	"fmt"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// ErrSetup is what every failure to set up a connection wraps, but for a
// refusal by the peer and for what TCP has to say.
var ErrSetup = errors.New("iwarp: connection set-up failed")

// ErrEmpty ends a connection whose peer sends many FPDUs without a byte, and no message.
var ErrEmpty = fmt.Errorf("iwarp: peer sent %d FPDUs that bring nothing, and no message", mostEmpty)

// A TerminateError ends a connection: one of the sides found a fault and said
// so by a Terminate.
type TerminateError struct {
	wire.Cause
	// Remote: the peer found the fault. Otherwise this side did.
	Remote bool
	// Dialect is how a remote Terminate was laid out. With DialectUnknown
	// the cause may also be that of Cause.Swapped.
	Dialect wire.Dialect
	// Detail says more about a fault found here.
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

// Unwrap gives the seam's error for the cause, where it has one.
func (e *TerminateError) Unwrap() []error {
	var errs []error
	if e.Detail != nil {
		errs = append(errs, e.Detail)
	}
	switch {
	case e.Layer <= wire.LayerDDP && e.Type == 1 && e.Cause != wire.DDPTaggedVersion:
		errs = append(errs, rdmacm.ErrNotExposed)
	}
	return errs
}

// A BrokenError: the TCP connection ended where it should not have.
type BrokenError struct {
	// Err is what TCP said, or io.ErrUnexpectedEOF.
	Err error
}

func (e *BrokenError) Error() string { return fmt.Sprintf("iwarp: connection broken: %v", e.Err) }

func (e *BrokenError) Unwrap() error { return e.Err }
