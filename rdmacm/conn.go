package rdmacm

import "net/netip"

// Limits of work requests. A Provider and a Listener tell them before there is a
// connection; a Conn's own are never tighter.
type Limits struct {
	// MaxSend is the largest message that a Send can carry, in bytes.
	MaxSend int
	// MaxLocal is how many local pieces one Work may gather or scatter.
	MaxLocal int
	// RemoteInvalidation: Send with Invalidate (RFC 5040 §5.3) works in both
	// directions. This side may post OpSendInvalidate, and the peer may name
	// any STag that Register gave out on this connection: when Received is
	// called with Recv.Invalidated, the peer can reach that memory no more, and
	// its Deregister has nothing left to do. A peer that names an STag of another
	// connection, or one that cannot have been given out, ends the connection. One that
	// was deregistered is let pass, however long ago that was: the answer to a call
	// that was given up may be late.
	//
	// Where it is false, a chain with OpSendInvalidate fails by itself and
	// nothing of it is carried out. A ULP tells its peer that it takes part
	// only where it is true (RFC 8797 §3.2).
	RemoteInvalidation bool
}

// A Conn is a reliable connected queue pair. All methods may be called from
// any goroutine, none blocks. What Post accepted in one order goes out in that
// order.
type Conn interface {
	Peer() netip.AddrPort
	Local() netip.AddrPort
	Limits() Limits
	// PeerPrivateData is what the peer's ULP said at set-up.
	PeerPrivateData() []byte
	// ReadDepth is how many RDMA Reads this side may have outstanding. The
	// caller keeps to it over all its chains: a Read past it is a
	// programmer's error, answered by failing its chain with ErrReadDepth.
	ReadDepth() int

	// Provide promises to accept count further messages of up to size bytes
	// each, over what was promised before: receives are counted, one is used
	// up by each message that arrives. A message beyond the promise, or
	// longer, ends the connection. size may not be smaller than at set-up.
	Provide(count, size int)

	// Post hands over a chain. It never blocks and never fails: what goes
	// wrong, a connection closed already included, is told by Done.
	Post(c *Chain)
	// SendShort hands over one Send of the pieces in local, with Invalidate
	// where the STag is not 0. They are copied before it returns, so that they
	// and the list are the caller's again, and nothing comes back for it: what
	// becomes of it shows in the end of the connection only.
	//
	// It says false where the device does not take it that way now, and has
	// done nothing: the Send is then posted as a chain. A device takes short
	// Sends only, and only while nothing that was posted before waits. So the
	// order of Posts and SendShorts is the order on the wire, and what a peer
	// that does not read makes this side keep is no more than one batch, of
	// some KiB, and what the ULP keeps of its chains. Unsent does not count it.
	SendShort(local [][]byte, invalidate uint32) bool
	// Flush sends what Post and SendShort hold back. Posts from within Handler
	// calls are held until Drained has returned, others go at once; so Flush is
	// needed only by a Handler that wants something out earlier.
	Flush()

	// Unsent is how many chains with a Send were posted of which the peer
	// cannot have got the Send yet: it is not handed to the network. So a peer
	// that does not read shows, before its deadline and however late Done is
	// called.
	Unsent() int

	// Progress grows with what the peer does of what is posted: by each byte that the
	// network takes of it, and by each byte that an RDMA Read brings. A provider without
	// a view of bytes counts those of work that completed.
	//
	// By the same measure the provider watches its peer: where work is posted and nothing
	// moves for as long as the provider waits, it ends the connection with ErrStalled. A
	// peer that is slow, and goes on, is not ended.
	Progress() uint64

	// Register exposes memory to the peer: it may read or write there, by
	// the region's STag and offsets from Region.Offset, until Deregister or
	// until the peer invalidates the STag. The memory must stay valid that long.
	Register(memory []byte, access Access) (Region, error)

	// Disconnect ends the connection in order: work posted before is
	// carried out, as far as the peer takes part; the provider's deadline
	// bounds it. Handler.Closed tells the end.
	Disconnect()
	// Abort ends the connection at once. Chains outstanding come back as flushed
	// (Chain.Done); err is what Closed will say. nil means ErrAborted.
	Abort(err error)
	// Done is closed after Handler.Closed has returned.
	Done() <-chan struct{}
}

// Access rights of a Region, as the peer sees them.
type Access uint8

// Rights that Register can grant.
const (
	RemoteRead Access = 1 << iota
	RemoteWrite
)

// A Region is memory exposed to the peer of one connection.
type Region interface {
	// STag is the steering tag to advertise; unpredictable, never 0.
	STag() uint32
	// Offset is the tagged offset of the first byte.
	Offset() uint64
	// Deregister revokes the peer's access. When it returns, the peer can
	// reach the memory no more, whatever is still under way. Calling it after
	// the peer invalidated the STag, or twice, is allowed. An error means
	// that access could not be revoked: the connection must be ended before
	// the memory is used (RFC 8166 §4.5.4).
	Deregister() error
}
