package rdmacm

import (
	"net/netip"
	"sync/atomic"
	"time"
)

// Seats counts the connections that listeners accept, and decides which of them may stay. Each
// counted connection has a Seat. The program that opens a provider gives it a Seats. Any
// goroutine may call the methods.
//
// The provider calls Arrive as soon as a peer's connection arrives, before the provider reads from the
// connection, allocates memory for it or waits for it. No set-up waits for another peer's set-up.
type Seats interface {
	// Arrive asks for a seat for a connection from peer. To end the connection before Seat.Hold, Seats
	// calls h.End. If Arrive returns an error, the provider closes the connection.
	Arrive(peer netip.AddrPort, h Holder) (Seat, error)
	// Knows reports whether an address has a connection whose peer is known (see Seat.Known). New
	// connections of such addresses come before those of others.
	Knows(peer netip.Addr) bool
	// The listener calls AcceptFailed for each error of accept(2). AcceptFailed returns the
	// time to wait before the next accept.
	AcceptFailed(err error) (pause time.Duration)
	// EvictStranger ends a connection whose peer is not known (see Seat.Known). It does nothing
	// if there is no such connection, or if a connection that was told to end has not left its
	// seat yet. The provider calls it when it refuses a connection because memory, descriptors or
	// objects of a device are used up.
	EvictStranger()
}

// A Seat is the entry of one connection in Seats, from its arrival until its end. Any goroutine
// may call the methods.
type Seat interface {
	// Hold records that the connection is set up, and replaces its Holder by h. The provider
	// calls it in Request.Accept, and the ULP when it takes the connection over. moved is a
	// counter that grows with the connection's activity, or nil if the activity is not known. If
	// Seats has already decided to end the connection, Hold calls h.End.
	Hold(h Holder, moved *atomic.Uint64)
	// Heard records that the peer has sent something. The provider calls it when a whole message has
	// arrived; the software RNIC calls it at the peer's first FPDU. Heard takes no lock.
	Heard()
	// Known records that the peer is a client. The ULP calls it when the peer has sent something
	// that strangers do not have, such as a file handle or a session of the server.
	Known()
	// Leave gives the seat up. The provider calls it when the connection has released all scarce
	// resources of the machine, such as its descriptor, whatever the reason for its end. A
	// second call does nothing.
	Leave()
}

// A Holder is the connection that has a seat. Seats calls its methods from any goroutine.
// They must not wait.
type Holder interface {
	// End ends the connection. why is the reason. Seats calls End at most once.
	End(why error)
	// Busy reports whether a call of the peer is under way. If so, the peer may be waiting for
	// this side, and Seats does not end the connection because the peer is silent.
	Busy() bool
}

// HolderOf returns the Holder of a connection that no ULP holds yet: End aborts c, and c is never busy.
func HolderOf(c Conn) Holder { return holder{c} }

type holder struct{ Conn }

func (h holder) End(why error) { h.Abort(why) }
func (h holder) Busy() bool    { return false }

// Uncounted is the Seat of a connection that is not counted: this side dialed, or the provider
// was given no Seats.
var Uncounted Seat = uncounted{}

type uncounted struct{}

func (uncounted) Hold(Holder, *atomic.Uint64) {}
func (uncounted) Heard()                      {}
func (uncounted) Known()                      {}
func (uncounted) Leave()                      {}
