package tcp

import (
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/busypoll"
	"github.com/nfsrdmad/nfsrdmad/internal/census"
	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// Config configures a Server and its connections. A zero value means the default.
type Config struct {
	// RPC serves the calls. Required.
	RPC *rpc.Server
	// Pool supplies memory for large records and for the payload of results. Required.
	Pool *mem.Pool
	// Census limits the connections of all listeners of the process, and ends connections at its
	// deadlines. If it is nil, the server makes a Census of its own, which admits MaxConns
	// connections (default 10,000) and has no deadlines.
	Census   *census.Census
	MaxConns int
	// MaxInFlight is how many calls of a connection may run on other goroutines or wait for memory
	// (default 128). The server does not read from a connection that has reached this number.
	MaxInFlight int
	// MaxRecord is the longest record accepted; less than 64 KiB counts as 64 KiB. MaxReply is the
	// longest record sent. Both are in bytes (default 2 MiB).
	MaxRecord, MaxReply int
	// MaxQueue is how many bytes of replies may wait to be sent on a connection (default 4 MiB).
	// The server does not read from a connection that has more.
	MaxQueue int
	// Gather is for programs that complete many calls in quick succession, on other
	// goroutines (rpc.Call.Complete). If it is true and several calls of a connection are
	// under way, a separate goroutine writes their replies, together with those that come
	// meanwhile.
	Gather bool
	// Stall is how long a peer may stop in the middle of a record, or read nothing of what is sent
	// to it. Then the server ends the connection (default 30 s).
	Stall time.Duration
	// Unanswered is how long a connection may wait for the answers to its calls after the peer has
	// closed its side. Then the server ends the connection without these answers (default: no
	// limit).
	Unanswered time.Duration
	// Polls is the group of connections that may poll for the next call. If it is nil, no
	// connection polls.
	Polls *busypoll.Group
	// Event, if set, is called for each event of a connection, from any goroutine. It must
	// not block.
	Event func(Event)
	// Idle is how long a connection may last without calls (default: no limit, because clients keep
	// a connection while they have a mount).
	Idle time.Duration
}

func (c Config) withDefaults() Config {
	def := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	def(&c.MaxConns, 10_000)
	if c.Census == nil {
		c.Census = census.New(census.Config{Seats: c.MaxConns})
	}
	def(&c.MaxInFlight, 128)
	def(&c.MaxRecord, 2<<20)
	def(&c.MaxReply, 2<<20)
	def(&c.MaxQueue, 4<<20)
	if c.Stall <= 0 {
		c.Stall = 30 * time.Second
	}
	// MaxRecord is at least ringSize, so that no record which fits into a ring is too long.
	// MaxReply has room for an error reply. Both lengths fit into the header of a fragment.
	c.MaxRecord = min(max(c.MaxRecord, ringSize), maxFragment)
	c.MaxReply = min(max(c.MaxReply, rpc.ErrorReply), maxFragment)
	return c
}
