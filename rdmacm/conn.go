package rdmacm

import "net/netip"

// Limits are the limits of the work requests of a connection. Provider.Limits and Listener.Limits
// return them before the connection exists. Those that Conn.Limits returns are never stricter.
type Limits struct {
	// MaxSend is the largest message that a Send can carry, in bytes.
	MaxSend int
	// MaxLocal is the largest number of pieces in Work.Local.
	MaxLocal int
	// RemoteInvalidation is true if Send with Invalidate (RFC 5040 §5.3) works in both
	// directions. This side may then post OpSendInvalidate, and the peer may invalidate any STag
	// that Register returned on this connection. When the provider passes a message with
	// Recv.Invalidated to the Handler, the peer can no longer reach the memory of that STag, and
	// Deregister has nothing left to do. If the peer names an STag of another connection, or one
	// that, as far as the provider remembers, Register has never returned, the connection ends.
	// If the peer names an STag that was deregistered, however long ago, nothing happens,
	// because the peer's answer to a call may come after this side has abandoned the call.
	//
	// If RemoteInvalidation is false, a chain with OpSendInvalidate fails, none of its work is
	// carried out, and the connection continues. A ULP announces remote invalidation to its peer
	// only if RemoteInvalidation is true (RFC 8797 §3.2).
	RemoteInvalidation bool
}

// A Conn is a reliable connected queue pair. Any goroutine may call any method; no method
// blocks. The provider sends chains in the order of the calls of Post.
type Conn interface {
	Peer() netip.AddrPort
	Local() netip.AddrPort
	// Carrier describes the provider, the device and the protocol that carry the connection.
	Carrier() Carrier
	Limits() Limits
	// PeerPrivateData is the private data that the peer's ULP sent at set-up.
	PeerPrivateData() []byte
	// ReadDepth is the number of RDMA Reads that this side may have outstanding. The caller
	// must not exceed it over all its chains together. A Read beyond it is a programmer's
	// error: its chain fails with ErrReadDepth.
	ReadDepth() int

	// Provide promises to accept count more messages of up to size bytes each, in addition to
	// earlier promises. The peer may rely on the promise only after it has received a message
	// that this side posted after Provide, because the device may not have the receives earlier.
	// Each message that arrives uses up one receive. A message without a receive, or a longer
	// message, ends the connection. size must not be smaller than ConnParam.ReceiveSize.
	Provide(count, size int)

	// Post hands over a chain. It never blocks and never fails: Done reports every error,
	// also that the connection is already closed.
	Post(c *Chain)
	// SendShort sends the pieces in local as one message. If invalidate is not 0, it is an STag
	// of the peer that the message invalidates. SendShort copies the pieces before it returns,
	// so the caller may use them and the slice local again at once. No completion follows: a
	// failure shows only as the end of the connection.
	//
	// If the device cannot take the Send this way now, SendShort returns false and has done
	// nothing. The caller then posts the Send as a chain. A device takes only short Sends, and
	// only while no earlier work waits, so messages go out in the order of the calls of Post
	// and SendShort. If the peer does not read, this side buffers at most one batch of a few
	// KiB of such Sends. Unsent does not count them.
	SendShort(local [][]byte, invalidate uint32) bool
	// Flush sends the work that was posted but not sent yet. While the provider calls the Handler or
	// a Done, posted work may wait until the Handler has got all messages that have arrived, or many
	// of them. The provider sends all other work at once. So only a caller that wants its work sent
	// earlier needs Flush.
	Flush()

	// Unsent returns the number of posted chains whose Send the provider has not handed to the
	// network yet, so that the peer cannot have received it. With Unsent the ULP notices a peer
	// that does not read, without waiting for Done, which the provider may call much later.
	Unsent() int

	// Progress returns a counter of bytes. It grows with each byte of posted work that the
	// network takes, and with each byte that an RDMA Read brings. A provider that does not see
	// single bytes counts the bytes of work that completed.
	//
	// The provider also watches whether the posted work moves on. If none of it does during the
	// provider's stall timeout, the provider ends the connection with ErrStalled. A slow peer
	// that still makes progress keeps its connection.
	Progress() uint64

	// Register exposes memory to the peer. The peer may read or write the memory, as access
	// allows, by the region's STag and offsets from Region.Offset, until Deregister or until the
	// peer invalidates the STag. The memory must stay valid that long.
	Register(memory []byte, access Access) (Region, error)

	// Disconnect ends the connection in an orderly way: the provider completes the work that was posted
	// before, and then disconnects. If the peer does not let that work complete within a time limit
	// that the provider sets, the connection ends nevertheless. Handler.Closed reports the end.
	Disconnect()
	// Abort ends the connection at once. The provider calls Done of outstanding chains with
	// ErrFlushed. Closed gets err, or ErrAborted if err is nil.
	Abort(err error)
	// Done returns a channel that is closed after Handler.Closed has returned.
	Done() <-chan struct{}
}

// A Handler receives the messages and the end of a connection. The provider makes one call at a time.
// The calls must not block: not for memory, not for a file system, not for the peer.
type Handler interface {
	// Received passes a message. The Handler must give r back by r.Release, from any goroutine.
	Received(r *Recv)
	// Closed is the last call. The provider makes it once, after it has called Done of every
	// posted chain. err is nil after an orderly end.
	Closed(err error)
}

// A Recv is a received message.
type Recv struct {
	// Bytes is the message. Valid until Release.
	Bytes []byte
	// Invalidated is this side's STag that the message invalidated (Send with Invalidate), or 0.
	Invalidated uint32
	// Free takes the buffer back. The provider sets it.
	Free func(r *Recv)
	// Provider is for the provider's own use.
	Provider any
}

// Release gives the message's buffer back. It does not promise a receive in place of the one
// that the message used: see Conn.Provide.
func (r *Recv) Release() { r.Free(r) }

// Access is the set of rights that a Region grants to the peer.
type Access uint8

// Rights that Register can grant.
const (
	RemoteRead Access = 1 << iota
	RemoteWrite
)

// A Region is memory exposed to the peer of one connection.
type Region interface {
	// STag returns the steering tag to advertise. It is never 0. Peers cannot guess it, unless
	// the device has the shortcoming GuessableSTags.
	STag() uint32
	// Offset returns the tagged offset of the first byte.
	Offset() uint64
	// Deregister revokes the peer's access. When it returns without an error, the peer can no longer
	// reach the memory, even if transfers are still under way. The caller may call it twice, and after
	// the peer invalidated the STag. An error means that access could not be revoked: the caller must
	// end the connection before it uses the memory (RFC 8166 §4.5.4).
	Deregister() error
}

// Op is the kind of a work request.
type Op uint8

// Kinds of work.
const (
	// OpWrite places Local at Remote (RDMA Write).
	OpWrite Op = iota + 1
	// OpRead fills Local with the peer's bytes from Remote on (RDMA Read). The content of Local
	// is undefined until the Read is done, and if the Read fails.
	OpRead
	// OpSend sends Local as one message.
	OpSend
	// OpSendInvalidate sends Local as one message, which also invalidates the peer's STag
	// Work.Invalidate.
	OpSendInvalidate
)

var opNames = [...]string{"Op(?)", "RDMA Write", "RDMA Read", "Send", "Send with Invalidate"}

// String names the operation as the standards do.
func (o Op) String() string {
	if int(o) >= len(opNames) {
		return opNames[0]
	}
	return opNames[o]
}

// Remote names memory of the peer by its STag and the tagged offset of its first byte.
type Remote struct {
	STag   uint32
	Offset uint64
}

// A Work is one work request.
type Work struct {
	Op Op
	// Local lists the pieces of this side's memory, in order. The provider refers to the list and to
	// the pieces until Done. It never changes the list, and writes to the pieces only for an OpRead.
	// The pieces of a Send or an RDMA Write must not change until Done.
	//
	// The pieces may lie anywhere in the process, Go's heap included, and need not be aligned.
	// Some devices reach only memory that was registered with them. The provider of such a
	// device registers the arena of payload memory (mem.Pool.OnArena). If a piece lies
	// elsewhere, the provider copies it, or registers it until the work is done. So the caller
	// should keep payload in the arena, where the device accesses it directly. A message's
	// header and XDR are short, and may lie where they were encoded.
	Local [][]byte
	// Remote is the memory of the peer that an OpWrite or OpRead names.
	Remote Remote
	// Invalidate is the peer's STag that an OpSendInvalidate invalidates: see
	// Limits.RemoteInvalidation. 0 means no STag, so a peer's STag 0 cannot be invalidated.
	Invalidate uint32
}

// Length is the number of bytes that w moves.
func (w *Work) Length() int {
	n := 0
	for _, b := range w.Local {
		n += len(b)
	}
	return n
}

// A Chain is a list of work requests that are posted together: any number of Reads and
// Writes, then at most one Send. The provider owns it from Post until Done.
type Chain struct {
	// Work is carried out in order. A Read's data is in place when Done is called.
	Work []Work
	// The provider calls Done exactly once for each chain, in the order of Post, also if the
	// connection has ended. If all of Work completed, err is nil, and the caller may use the
	// local memory again. A nil err does not mean that the peer received anything.
	//
	// If err is not nil, errors.Is tells the cause. ErrFlushed means that the connection ended while
	// the work was outstanding. err then also wraps the reason for the end. If this side aborted, the
	// reason is the error given to Abort. ErrClosed means that the connection had ended before Post.
	// Any other error means that work of this chain failed, because the peer refused it or the device
	// could not do it, and that it would fail again. failed is the index of the work request that
	// failed or did not complete, or -1 if the provider cannot name one.
	//
	// The provider may call Done from within Post. Done must not block.
	Done func(c *Chain, err error, failed int)
	// Context is for the caller. Providers do not use it.
	Context any
	// Provider is for the provider. It is nil in a new chain. The caller does not change it, so
	// that the provider finds its data again if the chain is posted again.
	Provider any
	// Next links the chains in the provider's queues between Post and Done.
	Next *Chain
}
