package rpc

import (
	"net/netip"
	"sync"
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

	// Window is how many calls the peer may have under way. The transport sets it before
	// the first call.
	Window int
	// Left, where set, says that the peer has closed its side, or does not acknowledge what
	// it is sent, or may have another connection by now. The transport sets it before the first call. It may be called from any
	// goroutine, after the connection's end as well, and must not block.
	Left func() bool

	client netip.Addr  // the address that its calls are counted under
	server *Server     // nil where there is none
	owner  *replyOwner // the mutex of the server's replies guards it

	caller  atomic.Pointer[callerBox]
	known   atomic.Bool
	onKnown func()

	mu   sync.Mutex
	ends *end // the first
	gone atomic.Bool
}

type callerBox struct{ Caller }

// end is one OnClose, in a list: a peer may have bound much to its connection, and each
// of it goes without a look at the others. The connection's mutex guards it.
type end struct {
	f          func()
	prev, next *end
	on         bool // in the list
}

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

// Known says that a program let in a call of the peer's by something that a
// stranger does not have (Judgement.Known).
func (c *Conn) Known() bool { return c.known.Load() }

// OnKnown is for the transport, before the first call: f is called when the peer
// becomes known, once, on the goroutine that admits the call. f must not block.
func (c *Conn) OnKnown(f func()) { c.onKnown = f }

// Meet is for a program: the peer has become known by a call that was executed, such as
// one that showed a session. It reads first: the line is shared.
func (c *Conn) Meet() {
	if !c.known.Load() && c.known.CompareAndSwap(false, true) && c.onKnown != nil {
		c.onKnown()
	}
}

// OnClose has f called when the connection is gone, once, on the goroutine that
// closes it; at once where it is gone already. f must not block. forget takes that
// back: afterwards f is not called any more, unless it was called or is being
// called already. Both may be called from any goroutine, f included.
func (c *Conn) OnClose(f func()) (forget func()) {
	e := &end{f: f}
	c.mu.Lock()
	if c.gone.Load() {
		c.mu.Unlock()
		f()
		return func() {}
	}
	e.on, e.next = true, c.ends
	if c.ends != nil {
		c.ends.prev = e
	}
	c.ends = e
	c.mu.Unlock()
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.remove(e)
	}
}

// remove takes e off the list, if it is there. c.mu is held.
func (c *Conn) remove(e *end) {
	switch {
	case !e.on:
		return
	case e.prev == nil:
		c.ends = e.next
	default:
		e.prev.next = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	}
	e.prev, e.next, e.on = nil, nil, false
}

// Gone says that the connection has ended. It costs one atomic load.
func (c *Conn) Gone() bool { return c.gone.Load() }

// Close is for the transport: the connection is gone. Calls that run, or have run in part,
// run on; their ways drop the replies. Those that wait to begin are dropped.
func (c *Conn) Close() {
	c.mu.Lock()
	if c.gone.Swap(true) {
		c.mu.Unlock()
		return
	}
	c.caller.Store(nil)
	c.mu.Unlock()
	if c.server != nil {
		c.server.replies.ended(c)
		c.server.exec.forget(c)
	}
	// One at a time off the list, so that an f may forget another.
	for {
		c.mu.Lock()
		e := c.ends
		if e == nil {
			c.mu.Unlock()
			return
		}
		c.remove(e)
		c.mu.Unlock()
		e.f()
	}
}
