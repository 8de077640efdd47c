package rdma

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// A caller makes calls on connections that may end and be replaced. A Client and a
// backchannel are built on it. Its lock guards the exchanges and the requesters of its
// connections, because exchanges move from one connection to the next.
type caller struct {
	mu sync.Mutex
	// xid and order are the numbers of the call that was started last. A retransmission keeps its
	// XID (RFC 8166 §4.5.5). Before the first call, xid is a random number.
	xid   uint32
	order uint64
	// answered is true if a call was answered since the Client last connected.
	answered bool
	// takeOver is called without mu for an exchange whose connection ended before the reply came.
	// The parameter why is the reason for that end. takeOver sends the call again or ends the
	// exchange.
	takeOver func(e *exchange, why error)
}

// numberLocked returns a new exchange for x, with the next XID.
func (c *caller) numberLocked(x *rpc.Exchange) *exchange {
	c.xid++
	c.order++
	return newExchange(x, c.xid, c.order)
}

// Cancel implements rpc.Caller.
func (c *caller) Cancel(x *rpc.Exchange, err error) {
	c.mu.Lock()
	e, ok := x.Transport.(*exchange)
	switch {
	case !ok || e == nil || e.cancelled != nil:
		c.mu.Unlock()
	case e.stage == stageWaiting && e.list != nil:
		e.list.remove(e)
		e.stage = stageEnded
		c.mu.Unlock()
		e.finish(&c.mu, err)
	case e.stage == stageSent:
		q := e.q
		q.pending.remove(e.xid)
		q.pending.insert(&exchange{xid: e.xid, gaveUp: true, stage: stageEnded})
		q.givenUp++
		q.lookIfStuckLocked()
		e.stage = stageEnded
		c.mu.Unlock()
		q.settle(e, err)
	default:
		// Another goroutine is working on the exchange. That goroutine ends the exchange with the
		// error err, unless the outcome is already decided.
		e.cancelled = err
		c.mu.Unlock()
	}
}

// A backchannel makes calls to the peer of an accepted connection (RFC 8167). All its
// messages fit into a Send; it exposes no memory to the peer.
type backchannel struct {
	caller
	q *requester
	// last is the caller's xid, for keepAway.
	last atomic.Uint32
}

var _ rpc.Caller = (*backchannel)(nil)

// newBackchannel returns the backchannel of k. credits is the number of credits that each of its
// calls requests.
func newBackchannel(k *connection, credits int) *backchannel {
	b := &backchannel{}
	b.xid = rand.Uint32()
	b.last.Store(b.xid)
	b.takeOver = b.lose
	b.q = newRequester(k, &b.caller, credits)
	b.q.shortOnly = true
	return b
}

// Start implements rpc.Caller.
func (b *backchannel) Start(x *rpc.Exchange) {
	b.mu.Lock()
	e := b.numberLocked(x)
	b.last.Store(e.xid)
	if b.q.ended {
		why := b.q.why
		b.mu.Unlock()
		b.lose(e, why)
		return
	}
	next := b.q.enqueueLocked(e)
	b.mu.Unlock()
	b.q.pump(next)
}

// nearXIDs is how far the XIDs of a backchannel keep away from those of the peer.
const nearXIDs = 1 << 20

// near reports whether the XIDs a and b differ by less than nearXIDs.
func near(a, b uint32) bool { return a-b+nearXIDs < 2*nearXIDs }

// keepAway is called with the XID of each call of the peer. If the next calls of b could get the same XID, they get
// XIDs that are 2^31 away. Each direction has XIDs of its own (RFC 8167 §2.4.1), but some messages do not tell their
// direction: an RDMA_ERROR, and a message of version 1 with a faulty header. Those are taken for answers to b's calls.
// A peer numbers its calls consecutively, so two calls under way have the same XID only if the peer does not.
func (b *backchannel) keepAway(xid uint32) {
	if !near(xid, b.last.Load()) {
		return // nearly always
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if near(xid, b.xid) {
		b.xid += 1 << 31
		b.last.Store(b.xid)
	}
}

// lose ends an exchange with an error, because only the peer can make a new connection.
func (b *backchannel) lose(e *exchange, why error) {
	b.mu.Lock()
	if e.cancelled != nil {
		why = e.cancelled
	}
	e.stage = stageEnded
	b.mu.Unlock()
	e.finish(&b.mu, why)
}
