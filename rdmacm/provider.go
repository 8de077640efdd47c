package rdmacm

import (
	"context"
	"net/netip"

	"github.com/nfsrdmad/nfsrdmad/internal/census"
)

// A Provider opens endpoints of one kind of device. Its methods may be called
// from any goroutine, but never from a thread whose credentials were switched.
type Provider interface {
	// Name is how logs and metrics call the provider, such as "iwarp".
	Name() string
	// Limits are those of the connections that Dial opens.
	Limits() Limits
	// Listen starts to accept connections at addr. Port 0 asks for a free one.
	Listen(addr netip.AddrPort) (Listener, error)
	// Dial connects to addr and returns when the connection may carry work.
	// A refusal by the peer is a *RejectedError with its private data.
	Dial(ctx context.Context, addr netip.AddrPort, p ConnParam) (Conn, error)
}

// A Listener hands out connection requests.
//
// A provider that is told of a Census asks it for a seat as soon as a peer's
// connection arrives, before it reads of it, allocates for it or waits for it. If
// there is none it closes the connection. It holds the seat until the ULP does
// (census.Seat.Hold), tells it when a whole message has come (Heard), and leaves it
// when nothing is left of the connection that the machine has few of, such as its
// descriptor. No set-up waits for another peer's.
type Listener interface {
	// Accept waits for the next request. After Close it returns net.ErrClosed.
	// Peers that fail to complete the set-up within its deadline never
	// show up here.
	Accept() (Request, error)
	// Limits are those of the connections that are accepted here.
	Limits() Limits
	// Addr is the address listened on.
	Addr() netip.AddrPort
	// Close stops listening. Requests not yet accepted are dropped;
	// connections live on.
	Close() error
}

// A Request is a peer that asks for a connection. Exactly one of Accept and
// Reject is called, from any goroutine, before the provider's set-up deadline.
type Request interface {
	Peer() netip.AddrPort
	Local() netip.AddrPort
	// PrivateData is what the peer's ULP sent with its request, without
	// anything of the provider's. It may have foreign bytes around what is
	// looked for (RFC 8797 §5.2). Valid until Accept or Reject.
	PrivateData() []byte
	// Seat is the connection's, or nil where the provider has no Census. The ULP
	// may hold it, from Accept on, and says when the peer is known; it does not
	// leave it.
	Seat() *census.Seat
	// Accept completes the connection. Receives are promised before: the
	// first Provide is part of p.
	Accept(p ConnParam) (Conn, error)
	// Reject refuses, with private data for the peer's ULP: at most MaxRejectData
	// bytes, behind which zeros may follow.
	Reject(privateData []byte) error
}

// Lengths of private data that every provider can carry, in bytes. They are InfiniBand's
// (rdma_cm's header of 36 bytes taken off a REQ), where messages have one size: what the
// ULP says is followed by zeros.
const (
	MaxRequestData = 56
	MaxAcceptData  = 196
	MaxRejectData  = 148
)

// ConnParam is what one side says and wants of a new connection.
type ConnParam struct {
	// PrivateData goes to the peer's ULP: at most MaxRequestData bytes in a
	// request, MaxAcceptData in its answer. Zeros may follow it at the peer.
	PrivateData []byte
	// Handler gets what arrives. Required.
	Handler Handler
	// Receives messages of ReceiveSize bytes are accepted from the first
	// moment: the first Provide.
	Receives, ReceiveSize int
	// MaxReceives is the most messages that will be promised and not have arrived, over
	// the connection's life; 0 means Receives. A device makes its receive queue as
	// long, and no more can be promised.
	MaxReceives int
	// InboundReads is how many RDMA Reads by the peer this side wants to
	// serve at a time (IRD); 0 where it never exposes memory for reading.
	InboundReads int
	// OutboundReads is how many RDMA Reads this side wants to have
	// outstanding (ORD). What the peer allows is Conn.ReadDepth.
	OutboundReads int
}

// A Handler receives what a connection brings. Calls come one at a time and
// must not block: not for memory, not for a file system, not for the peer.
type Handler interface {
	// Received hands over a message. r must be given back by r.Release,
	// from any goroutine.
	Received(r *Recv)
	// Drained says that no more input is at hand for now: replies held back
	// to be sent together should go. At least once after each run of Received.
	Drained()
	// Closed is the last call, once, after every posted chain came back.
	// err is nil after an orderly end.
	Closed(err error)
}

// A Recv is an arrived message.
type Recv struct {
	// Bytes is the message. Valid until Release.
	Bytes []byte
	// Invalidated is the STag that the message invalidated here (Send with
	// Invalidate), or 0.
	Invalidated uint32
	// Free takes the buffer back; set by the provider.
	Free func(r *Recv)
	// Provider is for the provider's own use.
	Provider any
}

// Release gives the message's buffer back. The receive it used up is not
// promised anew by that: see Conn.Provide.
func (r *Recv) Release() { r.Free(r) }
