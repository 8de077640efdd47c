package rdmacm

import (
	"context"
	"net/netip"
)

// A Provider makes connections over one kind of device. Any goroutine may call its methods, but not
// while the goroutine's OS thread has the credentials of another user: the kernel refuses a call for an
// RDMA device by a thread whose credentials differ from those with which the device was opened.
//
// A connection takes at most one descriptor of the process, and only while it has its seat.
type Provider interface {
	// Name is the provider's name in logs and metrics, such as "iwarp".
	Name() string
	// Limits are those of the connections that Dial opens.
	Limits() Limits
	// Listen starts to accept connections at addr. Port 0 asks for a free port.
	Listen(addr netip.AddrPort) (Listener, error)
	// Dial connects to addr and returns when the connection may carry work. If the peer refuses,
	// the error wraps a *RejectedError with the private data of the refusal.
	Dial(ctx context.Context, addr netip.AddrPort, p ConnParam) (Conn, error)
}

// A Listener hands out connection requests. If the provider was given Seats, each connection has
// a seat from its arrival on.
type Listener interface {
	// Accept waits for the next request. After Close it returns net.ErrClosed. It returns no
	// request whose set-up deadline has passed.
	Accept() (Request, error)
	// Limits are those of the connections that this Listener accepts.
	Limits() Limits
	// Addr is the address at which the Listener accepts connections.
	Addr() netip.AddrPort
	// Close stops listening. It drops the requests that Accept has not returned yet. Accepted
	// connections stay open.
	Close() error
}

// A Request is a peer's request for a connection. The ULP calls exactly one of Accept and
// Reject, from any goroutine, before the provider's set-up deadline.
type Request interface {
	Peer() netip.AddrPort
	Local() netip.AddrPort
	// PrivateData is the private data that the peer's ULP sent with its request, without
	// the provider's own part. Foreign bytes may surround the data that the ULP looks for
	// (RFC 8797 §5.2). It is valid until Accept or Reject.
	PrivateData() []byte
	// Seat is the connection's seat, or Uncounted if the provider has no Seats. After Accept the ULP
	// may call Hold and Known of the seat. It must not call Leave, because the provider does.
	Seat() Seat
	// Accept answers the request and returns the connection. It promises p.Receives messages, as
	// a first call of Conn.Provide would.
	Accept(p ConnParam) (Conn, error)
	// Reject refuses the connection and sends private data of at most MaxRejectData bytes to
	// the peer's ULP. The peer's ULP may get zeros after this data.
	Reject(privateData []byte) error
}

// Largest lengths of private data that every provider can carry, in bytes. They are those of
// InfiniBand. For a request, the 36 bytes of rdma_cm's header are subtracted. InfiniBand's
// messages have a fixed size, so zeros follow the ULP's data.
const (
	MaxRequestData = 56
	MaxAcceptData  = 196
	MaxRejectData  = 148
)

// ConnParam holds one side's parameters of a new connection.
type ConnParam struct {
	// PrivateData goes to the peer's ULP. It has at most MaxRequestData bytes in a request, and
	// MaxAcceptData in the answer. The peer's ULP may get zeros after this data.
	PrivateData []byte
	// Handler receives messages and the end of the connection. Required.
	Handler Handler
	// Receives is the number of messages of up to ReceiveSize bytes that are accepted from the
	// beginning, as if by a first call of Provide.
	Receives, ReceiveSize int
	// MaxReceives is the largest number of unused receives that the ULP will ever promise: those
	// promised so far, less the messages that have arrived. 0 means the value of Receives. A
	// device makes a receive queue of this length, so the ULP cannot promise more.
	MaxReceives int
	// InboundReads is the number of RDMA Reads by the peer that this side wants to serve at
	// a time (IRD). It is 0 if this side never exposes memory for reading.
	InboundReads int
	// OutboundReads is the number of RDMA Reads that this side wants to have outstanding
	// (ORD). Conn.ReadDepth is the number that the peer allows.
	OutboundReads int
}
