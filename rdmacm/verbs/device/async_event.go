package device

import "fmt"

// AsyncType is the type of an asynchronous event of a device (enum ibv_event_type).
type AsyncType int32

// Asynchronous events that the provider tells apart.
const (
	CQError     AsyncType = 0
	QPFatal     AsyncType = 1
	QPRequest   AsyncType = 2
	QPAccess    AsyncType = 3
	DeviceFatal AsyncType = 8
	PortActive  AsyncType = 9
	PortError   AsyncType = 10
)

var asyncNames = [...]string{
	"CQ_ERR", "QP_FATAL", "QP_REQ_ERR", "QP_ACCESS_ERR", "COMM_EST", "SQ_DRAINED", "PATH_MIG", "PATH_MIG_ERR", "DEVICE_FATAL",
	"PORT_ACTIVE", "PORT_ERR", "LID_CHANGE", "PKEY_CHANGE", "SM_CHANGE", "SRQ_ERR", "SRQ_LIMIT_REACHED", "QP_LAST_WQE_REACHED",
	"CLIENT_REREGISTER", "GID_CHANGE", "WQ_FATAL",
}

// String returns the name in ibv_get_async_event(3), without IBV_EVENT_.
func (t AsyncType) String() string {
	if t >= 0 && int(t) < len(asyncNames) {
		return asyncNames[t]
	}
	return fmt.Sprintf("asynchronous event %d", int32(t))
}

// An AsyncEvent is an event that a device reports outside of completions and of the connection manager.
type AsyncEvent struct {
	Type AsyncType
	// ID is the number of the ID whose queue pair or completion queue the event is about. It is
	// 0 if the event is about the device.
	ID uint64
}
