package rdmatest

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

// link holds the lock that the two ends of a connection share. Because of the common lock, the
// effect of work at the peer and its event in the log are one atomic step.
type link struct {
	mu sync.Mutex
}

// Conn is one end of an in-memory connection. Besides the methods of rdmacm.Conn it has some for
// tests, such as ID, Faults and Held.
//
// Two goroutines run the Conn until Closed was called. One is the device, which carries out
// work. The other calls the handler, and Done of all chains. Only for a chain that is posted
// after the end does Post itself call Done.
type Conn struct {
	provider                 *Provider
	id                       int
	accepted                 bool
	local, peer              netip.AddrPort
	peerData                 []byte
	handler                  rdmacm.Handler
	readDepth                int
	receiveSize, maxReceives int
	link                     *link
	other                    *Conn
	done                     chan struct{}
	faults                   Faults
	seat                     rdmacm.Seat   // Uncounted if this end dialed
	moved                    atomic.Uint64 // messages that arrived

	// link.mu guards the fields below.
	device, events sync.Cond

	chains, works int        // numbers of chains and work requests posted so far
	posted        []*posting // in the order of Post; their Done was not called yet
	issued        int        // number of chains in posted that the device has begun
	parked        []parked   // Writes to be reordered, and Reads that a fault holds
	reads         int        // RDMA Reads outstanding
	batching      bool       // the handler runs, so posts wait
	flush         bool       // the device carries posts out although the handler runs

	promised []promise
	inbox    []*rdmacm.Recv
	regions  map[uint32]*Region
	exposed  int // Register calls so far
	revoked  int // Deregister calls so far
	unfreed  int // number of messages that were not released

	carried atomic.Uint64 // bytes carried out: see Progress
	watch   watch

	leaving  bool // this side called Disconnect, or the peer did and this side answers
	finished bool // all work that was posted before leaving is carried out
	patience *time.Timer
	dead     bool  // the connection has ended: no work is carried out any more
	cause    error // the reason for Closed
	flushed  error // the error of chains that were not carried out
	over     bool  // Closed was called, or is being called
}

// A posting is a chain whose Done was not called yet.
type posting struct {
	chain  *rdmacm.Chain
	number int // number of the chain
	first  int // number of its first work request
	left   int // number of work requests that were not carried out yet
	reads  int
	ready  bool // Done may be called
	err    error
	failed int
}

// parked is a work request that a fault has delayed.
type parked struct {
	p     *posting
	index int
}

// promise is a number of consecutive receives of one size.
type promise struct {
	count, size int
}

// connect makes the two ends of the connection for r: near is the end that accepts, far the end
// that dials. The caller starts their goroutines later.
func (p *Provider) connect(r *request, param rdmacm.ConnParam) (near, far *Conn) {
	l := &link{}
	end := func(accepted bool, local, peer netip.AddrPort, mine, theirs rdmacm.ConnParam) *Conn {
		c := &Conn{
			provider:    p,
			accepted:    accepted,
			local:       local,
			peer:        peer,
			peerData:    append([]byte(nil), theirs.PrivateData...),
			handler:     mine.Handler,
			readDepth:   max(0, min(mine.OutboundReads, theirs.InboundReads, p.cfg.MaxReads)),
			receiveSize: mine.ReceiveSize,
			maxReceives: max(mine.Receives, mine.MaxReceives),
			link:        l,
			seat:        rdmacm.Uncounted,
			done:        make(chan struct{}),
			regions:     make(map[uint32]*Region),
		}
		c.device.L, c.events.L = &l.mu, &l.mu
		c.faults.c = c
		p.mu.Lock()
		p.nextID++
		c.id = p.nextID
		p.mu.Unlock()
		return c
	}
	far = end(false, r.peer, r.local, r.param, param)
	near = end(true, r.local, r.peer, param, r.param)
	near.other, far.other = far, near
	if hook := p.cfg.Conn; hook != nil {
		hook(far)
		hook(near)
	}
	far.Provide(r.param.Receives, r.param.ReceiveSize)
	near.Provide(param.Receives, param.ReceiveSize)
	return near, far
}

func (c *Conn) start() {
	go c.carryOut()
	go c.deliver()
}

// ID returns the number by which the log names this end. The other end has another number.
func (c *Conn) ID() int { return c.id }

// Accepted reports whether this end accepted the connection. Otherwise it dialed.
func (c *Conn) Accepted() bool { return c.accepted }

// Other returns the other end of the connection.
func (c *Conn) Other() *Conn { return c.other }

// Faults returns the faults of this end.
func (c *Conn) Faults() *Faults { return &c.faults }

// Held returns the number of messages that were not released, and the number of regions that
// are still exposed. Both are 0 if the user of the connection leaks nothing.
func (c *Conn) Held() (messages, regions int) {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	for _, r := range c.regions {
		if !r.revoked {
			regions++
		}
	}
	return c.unfreed, regions
}

func (c *Conn) Peer() netip.AddrPort  { return c.peer }
func (c *Conn) Local() netip.AddrPort { return c.local }
func (c *Conn) Carrier() rdmacm.Carrier {
	return rdmacm.Carrier{Provider: c.provider.Name(), Protocol: "RDMA"}
}
func (c *Conn) PeerPrivateData() []byte { return c.peerData }
func (c *Conn) ReadDepth() int          { return c.readDepth }
func (c *Conn) Done() <-chan struct{}   { return c.done }

func (c *Conn) Limits() rdmacm.Limits { return c.provider.Limits() }

func (c *Conn) note(e Event) {
	e.Conn = c.id
	c.provider.log.add(e)
}

func (c *Conn) Provide(count, size int) {
	if count < 0 || size < c.receiveSize {
		panic(fmt.Sprintf("rdmatest: Provide(%d, %d) after %d bytes at set-up", count, size, c.receiveSize))
	}
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	if n := c.promisedLocked() + count; n > c.maxReceives {
		panic(fmt.Sprintf("rdmatest: %d messages are promised, MaxReceives is %d", n, c.maxReceives))
	}
	if count == 0 {
		return
	}
	c.note(Event{Kind: KindProvide, Count: count, Size: size})
	if n := len(c.promised); n > 0 && c.promised[n-1].size == size {
		c.promised[n-1].count += count
		return
	}
	c.promised = append(c.promised, promise{count, size})
}

// MaxReceives returns the largest number of unused receives that this end may promise
// (rdmacm.ConnParam.MaxReceives). Provide panics if it would exceed the number.
func (c *Conn) MaxReceives() int { return c.maxReceives }

// Promised returns the number of receives that no message has used yet.
func (c *Conn) Promised() int {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	return c.promisedLocked()
}

func (c *Conn) promisedLocked() (n int) {
	for _, p := range c.promised {
		n += p.count
	}
	return n
}

// Progress returns the number of bytes that the finished work requests of this end have
// moved.
func (c *Conn) Progress() uint64 { return c.carried.Load() }

// Unsent returns the number of chains whose Send was not carried out yet.
func (c *Conn) Unsent() (n int) {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	for _, p := range c.posted {
		if w := p.chain.Work; !p.ready && len(w) > 0 && w[len(w)-1].Op >= rdmacm.OpSend {
			n++
		}
	}
	return n
}

func (c *Conn) Post(ch *rdmacm.Chain) {
	checkChain(ch)
	c.link.mu.Lock()
	if c.over {
		c.link.mu.Unlock()
		ch.Done(ch, rdmacm.ErrClosed, -1)
		return
	}
	p := &posting{chain: ch, number: c.chains, first: c.works, left: len(ch.Work), failed: -1}
	c.chains++
	c.works += len(ch.Work)
	c.notePost(p)
	p.failed, p.err = c.unfit(p)
	p.ready = p.err != nil || p.left == 0
	if p.err == nil {
		c.reads += p.reads
	} else {
		p.reads = 0
	}
	c.posted = append(c.posted, p)
	c.watchOn()
	c.device.Broadcast()
	if p.ready {
		c.events.Broadcast()
	}
	c.link.mu.Unlock()
}

// shortSend is the size of the longest message that SendShort takes, in bytes.
const shortSend = 512

// SendShort implements rdmacm.Conn. It copies the message, posts the copy as a separate chain, and
// returns true. It does nothing and returns false if Config.ShortSends is false, if the message is
// longer than shortSend, or if the connection is ending.
func (c *Conn) SendShort(local [][]byte, invalidate uint32) bool {
	m := gather(local)
	if !c.provider.cfg.ShortSends || len(m) > shortSend {
		return false
	}
	c.link.mu.Lock()
	ends := c.dead || c.leaving || c.over
	c.link.mu.Unlock()
	if ends {
		return false
	}
	w := rdmacm.Work{Op: rdmacm.OpSend, Local: [][]byte{m}}
	if invalidate != 0 {
		w.Op, w.Invalidate = rdmacm.OpSendInvalidate, invalidate
	}
	c.Post(&rdmacm.Chain{Work: []rdmacm.Work{w}, Done: func(*rdmacm.Chain, error, int) {}})
	return true
}

func (c *Conn) notePost(p *posting) {
	if c.provider.cfg.Quiet {
		return
	}
	for i := range p.chain.Work {
		w := &p.chain.Work[i]
		e := Event{Kind: KindPost, Chain: p.number, Work: i, Op: w.Op, Remote: w.Remote, Length: w.Length()}
		switch w.Op {
		case rdmacm.OpSendInvalidate:
			e.Invalidate = w.Invalidate
			fallthrough
		case rdmacm.OpSend:
			e.Bytes = gather(w.Local)
			e.Remote = rdmacm.Remote{}
		}
		c.note(e)
	}
}

// unfit checks a chain. If the device refuses it, unfit returns the reason, and the index of
// the faulty work request. Otherwise err is nil.
func (c *Conn) unfit(p *posting) (failed int, err error) {
	if c.dead || c.leaving {
		return -1, rdmacm.ErrClosed
	}
	if err, ok := c.faults.failPost[p.number]; ok {
		return 0, err
	}
	for i := range p.chain.Work {
		w := &p.chain.Work[i]
		if len(w.Local) > c.provider.cfg.MaxLocal {
			return i, fmt.Errorf("rdmatest: %d local pieces exceed %d", len(w.Local), c.provider.cfg.MaxLocal)
		}
		switch w.Op {
		case rdmacm.OpRead:
			if p.reads++; c.reads+p.reads > c.readDepth {
				return i, rdmacm.ErrReadDepth
			}
		case rdmacm.OpSend, rdmacm.OpSendInvalidate:
			if n := w.Length(); n > c.provider.cfg.MaxSend {
				return i, &rdmacm.LengthError{Length: n, Limit: c.provider.cfg.MaxSend}
			}
			if w.Op == rdmacm.OpSendInvalidate && c.provider.cfg.NoRemoteInvalidation {
				return i, errors.New("rdmatest: Send with Invalidate is not offered")
			}
		}
	}
	return -1, nil
}

// checkChain panics if the chain has no Done, has work of an unknown kind, or has a Send before
// its last work.
func checkChain(ch *rdmacm.Chain) {
	if ch.Done == nil {
		panic("rdmatest: chain without Done")
	}
	for i := range ch.Work {
		switch ch.Work[i].Op {
		case rdmacm.OpWrite, rdmacm.OpRead:
		case rdmacm.OpSend, rdmacm.OpSendInvalidate:
			if i != len(ch.Work)-1 {
				panic("rdmatest: a Send must be the last of its chain")
			}
		default:
			panic(fmt.Sprintf("rdmatest: work of kind %v", ch.Work[i].Op))
		}
	}
}

func (c *Conn) Flush() {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	c.flush = true
	c.device.Broadcast()
}

func (c *Conn) Disconnect() {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	if c.dead || c.leaving {
		return
	}
	c.note(Event{Kind: KindDisconnect})
	c.leave()
}

// leave begins this end's part of an orderly end: later posts fail, and if the end takes
// longer than Config.Patience, the connection is lost. The caller holds link.mu.
func (c *Conn) leave() {
	c.leaving = true
	c.patience = time.AfterFunc(c.provider.cfg.Patience, func() {
		c.link.mu.Lock()
		defer c.link.mu.Unlock()
		c.kill(rdmacm.ErrTimeout, ErrLost)
	})
	c.device.Broadcast()
	c.events.Broadcast()
}

func (c *Conn) Abort(err error) {
	if err == nil {
		err = rdmacm.ErrAborted
	}
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	if c.dead {
		return
	}
	c.note(Event{Kind: KindAbort, Err: err})
	// Messages that were not delivered yet are dropped, because the connection ends at once.
	c.unfreed -= len(c.inbox)
	c.inbox = nil
	c.kill(err, ErrLost)
}

// kill ends both ends of the connection at once. Closed gets the error mine at this end, and the
// error theirs at the other end. The caller holds link.mu.
func (c *Conn) kill(mine, theirs error) {
	if !c.dead {
		c.end(mine)
	}
	if !c.other.dead {
		c.other.end(theirs)
	}
}

// end ends c: c and its peer have no more effect on each other. The caller holds link.mu.
func (c *Conn) end(cause error) {
	c.dead = true
	c.cause = cause
	c.flushed = rdmacm.ErrFlushed
	if cause != nil {
		c.flushed = fmt.Errorf("%w: %w", rdmacm.ErrFlushed, cause)
	}
	if c.patience != nil {
		c.patience.Stop()
	}
	c.watch.stop()
	c.parked = nil
	c.device.Broadcast()
	c.events.Broadcast()
}

func gather(pieces [][]byte) []byte {
	var b []byte
	for _, p := range pieces {
		b = append(b, p...)
	}
	return b
}
