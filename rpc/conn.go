package rpc

import (
	"net/netip"
	"sync/atomic"
)

// A Conn is one connection as RPC sees it: symmetrical, for both ends may call
// (RFC 8167). A transport makes one for each of its connections with
// Server.NewConn, and calls Close on it when the connection is gone.
type Conn struct {
	// ID is unique in its Server and never reused.
	ID uint64
	// Peer and Local are the two ends.
	Peer, Local netip.AddrPort
	// Transport is the netid without its address family: "tcp" or "rdma".
	Transport string
	// Privileged: the peer counts as one that only a privileged process could
	// be (a TCP port below 1024; any RDMA peer, as knfsd has it).
	Privileged bool

	caller atomic.Pointer[callerBox]
	done   chan struct{}
	closed atomic.Bool
}

type callerBox struct{ Caller }

// Caller is how to call the peer on this connection, or nil where that is not
// possible (any more).
func (c *Conn) Caller() Caller {
	if b := c.caller.Load(); b != nil {
		return b.Caller
	}
	return nil
}

// SetCaller is for the transport.
func (c *Conn) SetCaller(k Caller) { c.caller.Store(&callerBox{k}) }

// Done is closed when the connection is gone.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Close is for the transport: the connection is gone. Calls in progress run on;
// their ways drop the replies.
func (c *Conn) Close() {
	if c.closed.CompareAndSwap(false, true) {
		c.caller.Store(nil)
		close(c.done)
	}
}
