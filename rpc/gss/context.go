package gss

import (
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/queue"
)

// handleSize is the length of a handle, in bytes: the index in the table, and a random part. The
// random part prevents guessing. It also lets the table reject handles of an earlier context at
// that index, or of an earlier start of the server.
const handleSize = 4 + 12

type handle [handleSize]byte

// A serverContext is the server's data of one context, established or half made.
type serverContext struct {
	handle handle
	// acceptor continues the negotiation. It is nil once the context is established.
	acceptor Acceptor

	// These fields are set when the context is established, and constant afterwards.
	ctx       Context
	principal string
	own       string
	mechanism []byte
	expiry    time.Time

	window window
	// used is when the context was last used, in seconds since 1970.
	used atomic.Int64
	// who holds the caller's user and group numbers. refreshing: they are being looked up anew.
	who        atomic.Pointer[identity]
	refreshing atomic.Bool

	// backs are the handles for calls to the context's client.
	backs backs
	// destroyed: the client has destroyed the context.
	destroyed atomic.Bool

	// The table's own fields.
	queue.Links[serverContext] // in the list of its holder
	place                      uint32
	holder                     *holder
	at                         int   // index among its principal's contexts
	seen                       int64 // the value of used when eviction last visited it
}

// touch notes that x is used. It loads before it stores, because other processors share the cache
// line.
func (x *serverContext) touch(now time.Time) {
	if s := now.Unix(); x.used.Load() != s {
		x.used.Store(s)
	}
}

// over reports whether to forget x: its ticket has ended, or it was not used for the time idle.
func (x *serverContext) over(now time.Time, idle time.Duration) bool {
	return !now.Before(x.expiry) || now.Unix()-x.used.Load() >= int64(idle/time.Second)
}
