package gss

import (
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/queue"
)

// handleSize is the length of a handle, in bytes: the place in the table, and a
// random part by which a handle of another context at that place, or of an earlier
// life of the server, is known as unknown, and none can be guessed.
const handleSize = 4 + 12

type handle [handleSize]byte

// A serverContext is one context as the server keeps it, established or half made.
type serverContext struct {
	handle handle
	// acceptor makes the context on; nil once it is established.
	acceptor Acceptor

	// What is established. It does not change.
	ctx       Context
	principal string
	own       string
	mechanism []byte
	expiry    time.Time

	window window
	// used is when the context was last used, in seconds since 1970.
	used atomic.Int64
	// who has the caller's user and group numbers; refreshing says that they are being
	// looked up anew.
	who        atomic.Pointer[identity]
	refreshing atomic.Bool

	// backs are how its client wants to be called under it.
	backs backs
	// destroyed: its client has ended it.
	destroyed atomic.Bool

	// The table's own.
	queue.Links[serverContext] // among its holder's
	place                      uint32
	holder                     *holder
	at                         int   // among its principal's
	seen                       int64 // used, when the context was passed over last
}

// touch takes note that x is used. It reads first: the line is shared.
func (x *serverContext) touch(now time.Time) {
	if s := now.Unix(); x.used.Load() != s {
		x.used.Store(s)
	}
}

// over says whether x is to be forgotten: its ticket ended, or it was not used for
// long.
func (x *serverContext) over(now time.Time, idle time.Duration) bool {
	return !now.Before(x.expiry) || now.Unix()-x.used.Load() >= int64(idle/time.Second)
}
