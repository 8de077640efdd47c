package rpc

import (
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/internal/queue"
)

// A Conn is the rpc package's record of one connection. Both ends of a connection may make calls
// (RFC 8167). A transport makes a Conn for each connection with Server.NewConn, and calls Close on
// it when the connection has ended.
type Conn struct {
	// ID is unique within its Server, and never reused.
	ID uint64
	// Peer and Local are the addresses of the two ends.
	Peer, Local netip.AddrPort
	// Transport is the netid without its address family: "tcp" or "rdma".
	Transport string
	// Privileged is true if the peer's TCP port is below 1024, which only a privileged process can
	// use. It is true for every RDMA peer, as in knfsd.
	Privileged bool

	// Window is the largest number of calls that the peer may have outstanding. The transport sets
	// it before the first call.
	Window int
	// Left, if not nil, reports whether the peer has closed its side, does not acknowledge data
	// sent to it, or may already use another connection. The transport sets it before the first
	// call. It may be called from any goroutine, also after the connection's end. It must not
	// block, nor call the Server.
	Left func() bool

	client netip.Addr  // the address under which the executor counts the peer's calls
	server *Server     // nil for a Conn that no Server made
	owner  *replyOwner // guarded by replyCache.mu

	caller  atomic.Pointer[callerBox]
	known   atomic.Bool
	onKnown func()

	mu   sync.Mutex
	ends queue.List[end, *end] // the newest first
	gone atomic.Bool
}

type callerBox struct{ Caller }

// An end is one function registered with OnClose. Conn.mu guards it.
type end struct {
	queue.Links[end]
	f  func()
	on bool // in Conn.ends
}

// Caller returns the Caller for calls to the peer on this connection. It returns nil if the peer
// takes no calls, or if the connection has ended.
func (c *Conn) Caller() Caller {
	if b := c.caller.Load(); b != nil {
		return b.Caller
	}
	return nil
}

// SetCaller sets the Caller for calls to the peer. The transport calls it.
func (c *Conn) SetCaller(k Caller) { c.caller.Store(&callerBox{k}) }

// Known reports whether the peer has sent something that only a client of this server has, such as
// one of its file handles (Judgement.Known) or a session (MarkKnown).
func (c *Conn) Known() bool { return c.known.Load() }

// OnKnown registers f, which is called once, when Known becomes true. The transport calls OnKnown
// before the first call arrives. f runs on the goroutine that admits or serves a call of the peer,
// and must not block.
func (c *Conn) OnKnown(f func()) { c.onKnown = f }

// MarkKnown makes Known return true. A program calls it after it has executed a call that names
// something that only a client of this server has, such as a session. MarkKnown first loads the
// flag, and stores to it only if it is not set, because a store to memory that other processors
// read is slow.
func (c *Conn) MarkKnown() {
	if !c.known.Load() && c.known.CompareAndSwap(false, true) && c.onKnown != nil {
		c.onKnown()
	}
}

// OnClose registers f, which is called once when the connection ends, on the goroutine that closes
// it. If the connection has already ended, OnClose calls f at once. f must not block. forget
// removes f, unless the call of f has begun. OnClose and forget may be called from any goroutine,
// also from f.
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

// removeLocked removes e from c.ends, if it is there.
func (c *Conn) removeLocked(e *end) {
	if e.on {
		c.ends.Remove(e)
		e.on = false
	}
}

// Gone reports whether the connection has ended. It costs one atomic load.
func (c *Conn) Gone() bool { return c.gone.Load() }

// Close ends the Conn. The transport calls it when the connection has ended. Calls that have begun
// run to their end, and their Ways drop the replies. Calls that have not begun are dropped.
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
	// Remove one function at a time, so that a function may cancel a later one.
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
