package rpc

import (
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/internal/queue"
)

// A Conn is one connection as RPC sees it. Both ends may make calls (RFC 8167). A transport makes
// a Conn for each connection with Server.NewConn, and calls Close on it when the connection has
// ended.
type Conn struct {
	// ID is unique within its Server, and never reused.
	ID uint64
	// Peer and Local are the addresses of the two ends.
	Peer, Local netip.AddrPort
	// Transport is the netid without its address family: "tcp" or "rdma".
	Transport string
	// Privileged: only a privileged process can be the peer. That is so for a TCP port below
	// 1024; every RDMA peer counts as privileged, as with knfsd.
	Privileged bool

	// Window is the largest number of calls that the peer may have under way. The transport sets
	// it before the first call.
	Window int
	// Left, if not nil, reports that the peer has closed its side, does not acknowledge data sent
	// to it, or may already use another connection. The transport sets it before the first call.
	// It may be called from any goroutine, also after the connection's end. It must not block, nor
	// call the Server.
	Left func() bool

	client netip.Addr  // the address under which its calls are counted
	server *Server     // nil if there is none
	owner  *replyOwner // guarded by the mutex of the server's replies

	caller  atomic.Pointer[callerBox]
	known   atomic.Bool
	onKnown func()

	mu   sync.Mutex
	ends queue.List[end, *end] // the newest first
	gone atomic.Bool
}

type callerBox struct{ Caller }

// An end is one OnClose. Conn.mu guards it.
type end struct {
	queue.Links[end]
	f  func()
	on bool // in the list
}

// Caller returns the way to call the peer on this connection, or nil if that is not possible, or
// no longer.
func (c *Conn) Caller() Caller {
	if b := c.caller.Load(); b != nil {
		return b.Caller
	}
	return nil
}

// SetCaller gives the Conn the way to call its peer. The transport calls it.
func (c *Conn) SetCaller(k Caller) { c.caller.Store(&callerBox{k}) }

// Known reports that a program accepted a call of the peer because it showed something that
// strangers do not have (Judgement.Known).
func (c *Conn) Known() bool { return c.known.Load() }

// OnKnown has f called once, when the peer becomes known. The transport calls OnKnown before the
// first call arrives. f runs on the goroutine that admits or serves a call of the peer, and must
// not block.
func (c *Conn) OnKnown(f func()) { c.onKnown = f }

// Meet makes the peer known. A program calls it when a call that was executed showed something
// that strangers do not have, such as a session. It loads before it stores, because other
// processors share the cache line.
func (c *Conn) Meet() {
	if !c.known.Load() && c.known.CompareAndSwap(false, true) && c.onKnown != nil {
		c.onKnown()
	}
}

// OnClose has f called once when the connection ends, on the goroutine that closes it. If the
// connection has already ended, OnClose calls f at once. f must not block. forget cancels the
// call of f, unless it has begun. OnClose and forget may be called from any goroutine, also from
// f.
func (c *Conn) OnClose(f func()) (forget func()) {
	e := &end{f: f}
	c.mu.Lock()
	if c.gone.Load() {
		c.mu.Unlock()
		f()
		return func() {}
	}
	e.on = true
	c.ends.Push(e)
	c.mu.Unlock()
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.removeLocked(e)
	}
}

// removeLocked takes e off the list, if it is on it.
func (c *Conn) removeLocked(e *end) {
	if e.on {
		c.ends.Remove(e)
		e.on = false
	}
}

// Gone reports that the connection has ended. It costs one atomic load.
func (c *Conn) Gone() bool { return c.gone.Load() }

// Close ends the Conn. The transport calls it when the connection has ended. Calls that have
// begun run on, and their ways drop the replies. Calls that wait to begin are dropped.
func (c *Conn) Close() {
	c.mu.Lock()
	if c.gone.Swap(true) {
		c.mu.Unlock()
		return
	}
	c.caller.Store(nil)
	c.mu.Unlock()
	if c.server != nil {
		c.server.exec.abandonAll(c.server.replies.ended(c))
		c.server.exec.forget(c)
	}
	// Take one off the list at a time, so that an f may cancel another.
	for {
		c.mu.Lock()
		e := c.ends.First
		if e == nil {
			c.mu.Unlock()
			return
		}
		c.removeLocked(e)
		c.mu.Unlock()
		e.f()
	}
}
