package mem

import "errors"

// PageSize is the unit of allocation, in bytes.
const PageSize = 4096

// ErrTooLarge: the request exceeds what the pool or the share could ever give.
var ErrTooLarge = errors.New("mem: request exceeds the ceiling")

// ErrClosed: the pool or the share was closed before the request was granted.
var ErrClosed = errors.New("mem: closed")

// DeviceHook makes an arena usable by a device before the first block of it is
// handed out (verbs registers it; the software RNIC needs nothing). It is
// called once for each arena and hook.
type DeviceHook func(arena []byte) error

// Config says how large a Pool may get.
type Config struct {
	// Ceiling is the most payload memory at any time, in bytes; rounded down
	// to whole pages. At least 4 MiB.
	Ceiling int64
	// Share is the most that one Share may hold, in bytes; 0 means half of
	// the ceiling.
	Share int64
}

// Stats is a snapshot of a Pool's counters.
type Stats struct {
	Ceiling, InUse, Peak int64 // bytes
	Waiting              int   // requests in the queue
	Granted, Waited      uint64
	Refused              uint64
}
