package rpc

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// A Conn is the rpc package's record of one connection. A transport makes it with Server.NewConn, and
// calls Close when the connection has ended. Both ends may make calls (RFC 8167).
type Conn struct {
	// ID is unique within its Server, and never reused.
	ID uint64
	// Peer and Local are the addresses of the two ends.
	Peer, Local netip.AddrPort
	// Transport is the netid without its address family: "tcp", "rdma" or "udp".
	Transport string
	// Privileged is true if the peer's TCP port is below 1024, which only a privileged process can
	// use. It is true for every RDMA peer, as in knfsd.
	Privileged bool

	// Window is the largest number of calls that the peer may have outstanding. The transport sets
	// it before the first call.
	Window int
	// Left, if not nil, reports whether the peer has closed its side, does not acknowledge data, or
	// may already use another connection. The transport sets it before the first call. It may be
	// called from any goroutine, also after the connection's end. It must not block, nor call the
	// Server.
	Left func() bool

	client netip.Addr  // the address under which the executor counts the peer's calls
	server *Server     // nil for a Conn that no Server made
	owner  *replyOwner // guarded by replyCache.mu
	// lanes has every lane in which a call of the connection waits, and may have others.
	// executor.mu guards it.
	lanes []*lane

	began      time.Time
	marks      marks
	heard      atomic.Int64 // see ConnInfo.Heard; nanoseconds since 1970
	introduced atomic.Pointer[introduction]

	caller  atomic.Pointer[Caller]
	known   atomic.Bool
	onKnown func()

	mu   sync.Mutex
	ends map[*func()]struct{} // the functions registered with OnClose
	gone atomic.Bool

	_   [64]byte // calls read what comes before, and write to use: they do not share a cache line
	use connUse
}

// Caller returns the Caller for calls to the peer. It returns nil if the peer takes no calls, or if
// the connection has ended.
func (c *Conn) Caller() Caller {
	if k := c.caller.Load(); k != nil {
		return *k
	}
	return nil
}

// SetCaller sets the Caller for calls to the peer. The transport calls it.
func (c *Conn) SetCaller(k Caller) { c.caller.Store(&k) }

// Known reports whether the peer has sent something that only a client of this server has, such as
// one of its file handles (Judgement.Known) or a session (MarkKnown).
func (c *Conn) Known() bool { return c.known.Load() }

// OnKnown registers f, which is called once, when Known becomes true, on the goroutine that admits or
// serves a call of the peer. f must not block. The transport calls OnKnown before the first call.
func (c *Conn) OnKnown(f func()) { c.onKnown = f }

// MarkKnown makes Known return true. A program calls it after it has executed a call that names
// something that only a client of this server has, such as a session. It stores to the flag only
// once, because a store to memory that other processors read is slow.
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
	c.mu.Lock()
	if c.gone.Load() {
		c.mu.Unlock()
		f()
		return func() {}
	}
	defer c.mu.Unlock()
	if c.ends == nil {
		c.ends = make(map[*func()]struct{})
	}
	c.ends[&f] = struct{}{}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.ends, &f)
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
		c.server.uses.leave(c)
	}
	for f := c.takeEnd(); f != nil; f = c.takeEnd() {
		(*f)()
	}
}

// takeEnd removes and returns one of the functions registered with OnClose, or nil. Close takes one at
// a time, so that a function may forget the others.
func (c *Conn) takeEnd() *func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for f := range c.ends {
		delete(c.ends, f)
		return f
	}
	return nil
}
