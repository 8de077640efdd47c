package tcp

import (
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/busypoll"
	"github.com/nfsrdmad/nfsrdmad/internal/census"
	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// Config bounds a Server and its connections. Zero values are the defaults.
type Config struct {
	// RPC serves the calls. Required.
	RPC *rpc.Server
	// Pool is where large records and results' payload live. Required.
	Pool *mem.Pool
	// Census has the seats of the connections, beside those of other listeners
	// of the process, and their deadlines. nil: the server counts its own, to
	// MaxConns (10,000), without deadlines.
	Census   *census.Census
	MaxConns int
	// MaxInFlight is the most calls of a connection under way beside those
	// served in place (128). A connection that has so many is not read from.
	MaxInFlight int
	// MaxRecord is the longest record accepted, and MaxReply the longest sent,
	// in bytes (2 MiB).
	MaxRecord, MaxReply int
	// MaxQueue is how many bytes of replies may wait before a connection is
	// not read from any more (4 MiB).
	MaxQueue int
	// Gather: programs complete many calls soon after one another, from elsewhere
	// (rpc.Call.Complete). While several calls of a connection are under way, a
	// goroutine of its own writes their replies, with what comes meanwhile.
	Gather bool
	// Stall is how long a peer may stop in the middle of a record, or take
	// nothing of what is sent to it, before it loses its connection (30 s).
	Stall time.Duration
	// Unanswered is how long the calls of a peer that has closed its side may wait
	// for their answers, before the connection ends without them (default: for
	// ever).
	Unanswered time.Duration
	// Polls is the group of connections that may poll for the next call. nil: none does.
	Polls *busypoll.Group
	// Event, where set, is told of connections, from any goroutine. It must not
	// block.
	Event func(Event)
	// Idle is how long a connection without calls may last (default: for
	// ever, as clients hold their mounts by it).
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
	// The RPC message's first words must fit, and more than the ring be allowed.
	c.MaxRecord = min(max(c.MaxRecord, ringSize), maxFragment)
	c.MaxReply = min(max(c.MaxReply, rpc.ErrorReply), maxFragment)
	return c
}
