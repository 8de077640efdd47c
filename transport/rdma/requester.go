package rdma

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// A requester makes calls on one connection. It sends as many as the peer has granted credits for,
// in the order of Start, and exposes memory for each just before it sends the call.
type requester struct {
	k           *connection
	noPlacement bool
	// If shortOnly is true, the requester exposes no memory, and every message must fit
	// into a Send.
	shortOnly bool
	// maxSegment is the length of the longest segment, in bytes, and maxSegments the greatest number of
	// segments in one call. The peer may allow less than ownSegment, which is DialConfig.maxSegment.
	maxSegment, ownSegment, maxSegments int
	timeout                             time.Duration // DialConfig.Timeout, or 0 without a limit, for calls to a client

	*caller
	credits credits
	queue   exchangeList
	pending pending
	pumping bool
	// dying is true once the connection is about to end, before the device calls closed.
	dying bool
	ended bool
	why   error
	// givenUp is the number of cancelled calls that still use credits.
	givenUp uint32
	// fencing lists exchanges that end only with the connection, because the peer's access
	// to their memory could not be revoked.
	fencing []*exchange
	timer   *time.Timer
	ticking bool
	stuck   *time.Timer // timer of lookIfStuckLocked, or nil
}

// newRequester returns the requester for calls of c on the connection k. requested is the number of
// credits that each call requests.
func newRequester(k *connection, c *caller, requested int) *requester {
	q := &requester{k: k, caller: c, credits: newCredits(requested), maxSegments: math.MaxInt}
	k.requester = q
	return q
}

// enqueueLocked queues e, on a connection that has not ended. It returns the call to send
// now, or nil. The caller releases mu and passes the result to pump.
func (q *requester) enqueueLocked(e *exchange) (next *exchange) {
	e.q = q
	q.queue.insert(e)
	next = q.beginLocked()
	q.lookIfStuckLocked()
	return next
}

// beginLocked makes the calling goroutine the one that sends calls, and returns the first call to
// send, for pump. It returns nil if another goroutine already sends calls, or if there is nothing
// to send.
func (q *requester) beginLocked() *exchange {
	if q.pumping {
		return nil
	}
	q.pumping = true
	return q.nextLocked()
}

// nextLocked takes the first call from the queue. If no call may be sent, it returns nil, and the
// calling goroutine sends no more.
func (q *requester) nextLocked() *exchange {
	e := q.queue.First
	if q.ended || q.dying || e == nil || !q.credits.may() {
		q.pumping = false
		return nil
	}
	if !q.k.framing.mayCall() {
		q.pumping = false
		q.tickOnLocked() // the peer may never permit it
		return nil
	}
	q.queue.remove(e)
	e.stage = stageBuilding
	q.credits.inFlight++
	return e
}

// pump sends e, and then the calls in the queue, one at a time, while there are credits.
func (q *requester) pump(e *exchange) {
	for e != nil {
		q.send(e)
		q.mu.Lock()
		e = q.nextLocked()
		q.mu.Unlock()
	}
}

// stuckLocked reports whether a call waits for a credit while cancelled calls use all credits. The
// server may never answer the cancelled calls. On a connection to a client it always returns false,
// because calls to a client have no time-out: the client decides when to end the connection.
func (q *requester) stuckLocked() bool {
	return q.timeout > 0 && !q.ended && !q.dying && q.queue.First != nil && q.givenUp == q.credits.inFlight && !q.credits.may()
}

// lookIfStuckLocked starts the timer that ends the connection if the requester is stuck now
// and still stuck after latePatience.
func (q *requester) lookIfStuckLocked() {
	if q.stuckLocked() && q.stuck == nil {
		q.stuck = time.AfterFunc(latePatience, q.endIfStuck)
	}
}

// latePatience is how long cancelled calls may use all credits while another call waits.
const latePatience = time.Second

func (q *requester) endIfStuck() {
	q.mu.Lock()
	q.stuck = nil
	stuck := q.stuckLocked()
	q.dying = q.dying || stuck
	q.mu.Unlock()
	if stuck {
		q.k.endConnection(faultUnanswered, fmt.Errorf("rdma: all credits are held by calls that were given up unanswered: %w", rdmacm.ErrTimeout))
	}
}

// resume sends queued calls, unless another goroutine does so.
func (q *requester) resume() {
	q.mu.Lock()
	e := q.beginLocked()
	q.mu.Unlock()
	q.pump(e)
}

// send encodes e, exposes its memory and posts the call.
func (q *requester) send(e *exchange) {
	need, err := e.encode(q)
	if err == nil {
		err = e.expose(q, make([]byte, need))
	}
	if err != nil {
		// abandon revokes the peer's access before the caller gets its memory back.
		q.abandon(e, err)
		return
	}
	q.mu.Lock()
	if e.cancelled != nil || q.ended {
		q.mu.Unlock()
		q.abandon(e, nil)
		return
	}
	e.stage, e.age = stageSent, 0
	q.pending.insert(e)
	e.parts.Store(2)
	q.tickOnLocked()
	q.mu.Unlock()
	e.putCall(q.k.framing, q.credits.requested)
	if q.k.framing.post(&e.out) {
		e.part(q)
	}
}

// abandon ends e, whose call was not sent: because of err, because it was cancelled, or because the
// connection ended. If err shows that the connection is about to end, takeOver gets e.
func (q *requester) abandon(e *exchange, err error) {
	q.mu.Lock()
	q.credits.inFlight--
	switch {
	case e.cancelled != nil:
		err = e.cancelled
	case q.ended:
		e.lost, err = true, q.why
	case flushed(err):
		q.dying, e.lost = true, true
		err = fmt.Errorf("%w: %w", rpc.ErrCallLost, err)
	}
	e.stage = stageEnded
	q.mu.Unlock()
	e.parts.Store(1)
	q.settle(e, err)
}

// settle is called once the outcome of e is known. It revokes the peer's access to the memory of e
// before the caller of the exchange gets the outcome. If the access cannot be revoked, settle ends
// the connection first (RFC 8166 §4.5.4).
func (q *requester) settle(e *exchange, err error) {
	e.err = err
	var failed error
	for _, r := range e.regions {
		if err := r.Deregister(); err != nil {
			failed = err
		}
	}
	if failed != nil {
		q.mu.Lock()
		if !q.ended {
			q.fencing = append(q.fencing, e)
			q.mu.Unlock()
			q.k.endConnection(faultFence, fmt.Errorf("rdma: memory of call %#x could not be fenced: %w", e.xid, failed))
			return
		}
		q.mu.Unlock()
	}
	e.part(q)
}

// part is called for each of the events that e.parts counts: the completion of the Send, and the
// outcome of the call. After the last one the caller gets the outcome. But if the connection ended
// before the reply came, takeOver gets e.
func (e *exchange) part(q *requester) {
	if e.parts.Add(-1) > 0 {
		return
	}
	if e.lost {
		why := e.err
		e.reset()
		q.takeOver(e, why)
		return
	}
	e.finish(&q.mu, e.err)
}

// The method sent is called with the outcome of the call's Send. If the Send itself failed, its
// call fails (RFC 8166 §4.5.4). If the end of the connection flushed the Send, closed handles the
// call.
func (e *exchange) sent(err error, failed int) {
	q := e.q
	if err != nil && failed >= 0 && !flushed(err) && q.claimEnd(e) {
		// This side stays ready to receive an answer to this call, although none will come. That
		// does no harm.
		q.settle(e, err)
		q.mu.Lock()
		q.credits.inFlight--
		q.mu.Unlock()
		q.resume()
	}
	e.part(q)
}

// flushed reports whether work failed only because its connection had ended.
func flushed(err error) bool {
	return errors.Is(err, rdmacm.ErrFlushed) || errors.Is(err, rdmacm.ErrClosed)
}

// claimEnd removes e from the pending calls, so that the calling goroutine may end it. It
// returns false if another goroutine ends e.
func (q *requester) claimEnd(e *exchange) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e.stage != stageSent || q.pending.of(e.xid) != e {
		return false
	}
	q.pending.remove(e.xid)
	e.stage = stageEnded
	return true
}

// waits reports whether a call with this XID is unanswered.
func (q *requester) waits(xid uint32) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.pending.of(xid) != nil
}

// closed is called when the connection has ended. It passes the exchanges without a reply to
// takeOver.
func (q *requester) closed(err error) {
	why := rpc.ErrCallLost
	if err != nil {
		why = fmt.Errorf("%w: %w", rpc.ErrCallLost, err)
	}
	q.mu.Lock()
	q.ended, q.why = true, why
	for _, t := range []*time.Timer{q.timer, q.stuck} {
		if t != nil {
			t.Stop()
		}
	}
	var lost exchangeList
	for e := range q.pending.all {
		if !e.gaveUp {
			e.stage, e.lost = stageEnded, true
			lost.insert(e)
		}
	}
	q.pending = pending{}
	unanswered, queued := lost.removeAll(), q.queue.removeAll()
	fencing := q.fencing
	q.fencing = nil
	q.mu.Unlock()
	for _, e := range fencing {
		e.part(q)
	}
	for _, e := range unanswered {
		q.settle(e, why)
	}
	for _, e := range queued {
		q.takeOver(e, why)
	}
}

// In version 1 credits count calls: a requester may have as many calls outstanding as the
// responder granted (RFC 8166 §3.3.1). Each direction of a connection has credits of its
// own. A requester keeps its calls within the peer's grant. A responder ends the connection
// of a peer that makes many more calls than messages.granted.

// credits is the credit state of a requester. caller.mu guards it.
type credits struct {
	// requested is the number of credits that every call asks for.
	requested uint32
	// granted is the grant in the last reply, or 1 before the first reply (RFC 8166 §3.3.3).
	granted uint32
	// inFlight is the number of unanswered calls, cancelled ones included.
	inFlight uint32
}

func newCredits(requested int) credits {
	return credits{requested: uint32(requested), granted: 1}
}

// may reports whether another call may be sent. A grant of 0 counts as 1, because some peers that
// predate RFC 8166 grant 0. The requester then sends one call at a time, and the answer may bring a
// larger grant.
func (c *credits) may() bool {
	return c.inFlight < max(1, min(c.requested, c.granted))
}

// answered counts an answer and applies the grant in it. An RDMA_ERROR with a grant of 0 leaves the
// present grant unchanged.
func (c *credits) answered(granted uint32, isError bool) {
	c.inFlight--
	if granted > 0 || !isError {
		c.granted = granted
	}
}

// pendingSlots is enough for the calls of DefaultCredits.
const pendingSlots = 128

// pending holds the sent and unanswered calls of one connection, by XID. XIDs are consecutive, so
// nearly every call has a slot of its own. A call whose slot is taken goes into the map.
type pending struct {
	slots  *[pendingSlots]*exchange // nil before the first call
	others map[uint32]*exchange
	n      int
}

// of returns the call with the given XID, or nil.
func (p *pending) of(xid uint32) *exchange {
	if p.n == 0 {
		return nil
	}
	if e := p.slots[xid%pendingSlots]; e != nil && e.xid == xid {
		return e
	}
	return p.others[xid]
}

// insert adds e. p must not contain a call with the same XID.
func (p *pending) insert(e *exchange) {
	if p.slots == nil {
		p.slots, p.others = new([pendingSlots]*exchange), make(map[uint32]*exchange)
	}
	p.n++
	if at := &p.slots[e.xid%pendingSlots]; *at == nil {
		*at = e
	} else {
		p.others[e.xid] = e
	}
}

// remove takes out the call with the given XID, which must be in p.
func (p *pending) remove(xid uint32) {
	p.n--
	if at := &p.slots[xid%pendingSlots]; *at != nil && (*at).xid == xid {
		*at = nil
	} else {
		delete(p.others, xid)
	}
}

// all calls yield for each call, until yield returns false.
func (p *pending) all(yield func(e *exchange) bool) {
	if p.n == 0 {
		return
	}
	for _, e := range p.slots {
		if e != nil && !yield(e) {
			return
		}
	}
	for _, e := range p.others {
		if !yield(e) {
			return
		}
	}
}
