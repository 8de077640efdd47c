package verbs

import (
	"errors"
	"fmt"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/device"
)

var (
	// ErrDeviceGone: the device was removed.
	ErrDeviceGone = errors.New("verbs: the RDMA device is gone")
	// errFault: the queue pair went into the error state, and no event gave a reason.
	errFault = errors.New("verbs: the device ended the connection (the peer broke a rule, or is not reachable)")
	// errNoMessage: the peer took a receive for something else than a message.
	errNoMessage = errors.New("verbs: the peer wrote with immediate data, which no message of RPC-over-RDMA does: the connection ends")
)

// A StatusError means that a device could not carry out a request.
type StatusError struct {
	Status device.Status
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("verbs: work request failed: %v", e.Status)
}

// Unwrap returns the rdmacm error that corresponds to the status, or nil.
func (e *StatusError) Unwrap() error {
	switch e.Status {
	case device.RemoteAccess:
		return rdmacm.ErrNotExposed
	case device.RetriesExceeded, device.ResponseTimeout:
		return rdmacm.ErrTimeout
	}
	return nil
}
