package iwarp

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/census"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// A Conn is a connection in full operation. It implements rdmacm.Conn.
type Conn struct {
	p           *Provider
	sock        *net.TCPConn
	raw         syscall.RawConn
	handler     rdmacm.Handler
	agreed      Setup
	responder   bool
	seat        *census.Seat // nil: this side dialed
	depth       int          // RDMA Reads that the ULP may have outstanding
	peer, local netip.AddrPort
	private     []byte
	done        chan struct{}

	unsent       atomic.Int64 // see Unsent
	promised     atomic.Int64 // messages that may still arrive
	promisedSize atomic.Int64

	mu   sync.Mutex
	cond sync.Cond

	// Work posted and not yet given back; cursor is the first chain that the
	// transmitter is not through with.
	head, tail, cursor *rdmacm.Chain
	readsPosted        int
	completing         bool
	heldChains         int

	owned      bool // a goroutine is the transmitter
	fenced     bool // nothing may be sent before the peer's first FPDU
	held       bool // posts wait for Drained
	broken     bool // the socket takes no more
	reset      bool // the transmitter was told that the peer reset it
	refusing   bool // what is posted now fails
	leaving    bool // Disconnect was called, or the peer closed its half
	finSent    bool
	flushing   bool // everything outstanding comes back
	flushErr   error
	lost       bool // a chain came back with flushErr
	flushed    bool // everything has come back
	rtr        wire.RTR
	reads      readQueue
	answers    answerQueue
	terminate  []byte // FPDU of a Terminate that wants to go
	terminated bool   // it is the transmitter's
	endErr     error  // why the connection ends; the first reason counts
	abortive   bool

	stopping atomic.Bool // endErr was set: receive no more
	faulty   atomic.Bool // terminate was set

	tx      transmitter
	rx      receiver
	exposed exposed
	regions regions
	watch   watch
	nudge   *time.Timer // of an initiator
}

var _ rdmacm.Conn = (*Conn)(nil)

func newConn(p *Provider, sock *net.TCPConn, param *rdmacm.ConnParam, s Setup, private []byte) (*Conn, error) {
	raw, err := sock.SyscallConn()
	if err != nil {
		return nil, err
	}
	c := &Conn{
		p: p, sock: sock, raw: raw, handler: param.Handler, agreed: s,
		depth: min(s.ORD, param.OutboundReads),
		peer:  addrPort(sock.RemoteAddr()), local: addrPort(sock.LocalAddr()),
		private: private,
		done:    make(chan struct{}),
	}
	c.cond.L = &c.mu
	c.promised.Store(int64(param.Receives))
	c.promisedSize.Store(int64(param.ReceiveSize))
	if err := c.tx.init(c); err != nil {
		return nil, err
	}
	c.rx.init(c)
	return c, nil
}

// start puts the connection into full operation.
func (c *Conn) start() {
	c.p.counters.connections.Add(1)
	c.p.event(Event{Kind: EventConnected, Peer: c.peer, Local: c.local, Setup: c.agreed})
	c.watch.start(c)
	if !c.responder && !c.p.cfg.ClientServer {
		c.nudgeLater()
	}
	go c.receive()
	c.Flush() // the ready-to-receive message
}

func (c *Conn) Peer() netip.AddrPort    { return c.peer }
func (c *Conn) Local() netip.AddrPort   { return c.local }
func (c *Conn) PeerPrivateData() []byte { return c.private }
func (c *Conn) ReadDepth() int          { return c.depth }
func (c *Conn) Done() <-chan struct{}   { return c.done }

// Setup is what the two sides agreed on.
func (c *Conn) Setup() Setup { return c.agreed }

func (c *Conn) Limits() rdmacm.Limits {
	return rdmacm.Limits{MaxSend: maxSend, MaxLocal: maxLocal, RemoteInvalidation: true}
}

// Unsent is how many chains with a Send have one that TCP did not take whole.
func (c *Conn) Unsent() int { return int(c.unsent.Load()) }

// Provide promises to accept count further messages of up to size bytes.
func (c *Conn) Provide(count, size int) {
	if count < 0 || size < 0 {
		panic("iwarp: Provide of a negative number")
	}
	for {
		old := c.promisedSize.Load()
		if int64(size) <= old || c.promisedSize.CompareAndSwap(old, int64(size)) {
			break
		}
	}
	c.promised.Add(int64(count))
}

// Disconnect ends the connection in order.
func (c *Conn) Disconnect() {
	c.mu.Lock()
	c.refusing, c.leaving = true, true
	own := c.acquire()
	c.watch.limit(time.Now().Add(c.p.cfg.StallTimeout), rdmacm.ErrTimeout)
	c.mu.Unlock()
	if own {
		c.transmit()
		return
	}
	c.finish()
}

// finish closes this side's half of the TCP connection once nothing is
// outstanding and Disconnect was called.
func (c *Conn) finish() {
	c.mu.Lock()
	fin := c.leaving && !c.finSent && !c.owned && c.head == nil && c.answers.count == 0 &&
		c.terminate == nil && !c.broken
	c.finSent = c.finSent || fin
	c.mu.Unlock()
	if fin {
		c.sock.CloseWrite()
	}
}

// Abort ends the connection at once.
func (c *Conn) Abort(err error) {
	if err == nil {
		err = rdmacm.ErrAborted
	}
	c.end(err, true)
}

// end makes the receiving goroutine end the connection.
func (c *Conn) end(err error, abortive bool) {
	c.mu.Lock()
	c.endLocked(err, abortive)
	c.mu.Unlock()
}

func (c *Conn) endLocked(err error, abortive bool) {
	c.refusing = true
	if c.endErr == nil {
		c.endErr = err
	}
	c.abortive = c.abortive || abortive
	c.stopping.Store(true)
	// The socket may not be closed from within its own callbacks: a deadline
	// in the past wakes whoever waits for it.
	c.sock.SetDeadline(longAgo)
	c.cond.Broadcast()
}

var longAgo = time.Unix(1, 0)
