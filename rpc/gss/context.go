package gss

import (
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/queue"
)

// handleSize is the length of a handle, in bytes. A handle is random, so that nobody can guess it,
// and so that the server does not know the handles of its earlier runs.
const handleSize = 16

type handle [handleSize]byte

// A serverContext is the server's data of one context. The context is established, or half made: it
// still needs a token of the initiator.
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
	// used is the time of the context's last use, in seconds since 1970.
	used atomic.Int64
	who  *caller

	// backs has the handles for the server's calls to the context's client.
	backs backs
	// destroyed is true if the client has destroyed the context.
	destroyed atomic.Bool

	// The following fields are data of the table.
	queue.Links[serverContext] // links in the list of contexts of its holder
	holder                     *holder
	at                         int   // index in the table's list of its principal's contexts
	seen                       int64 // the value of used when eviction last visited it
}

// touch sets used to the present time. It loads the old value before it stores, because a store to
// memory that other processors read is slow.
func (x *serverContext) touch(now time.Time) {
	if s := now.Unix(); x.used.Load() != s {
		x.used.Store(s)
	}
}

// over reports whether the table has to delete x: its ticket has ended, or the time since its last
// use is at least as long as the parameter idle.
func (x *serverContext) over(now time.Time, idle time.Duration) bool {
	return !now.Before(x.expiry) || now.Unix()-x.used.Load() >= int64(idle/time.Second)
}
