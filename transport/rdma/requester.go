package rdma

import (
	"errors"
	"fmt"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// A requester makes calls on one connection. It sends as many as the peer
// grants, in the order of Start, and exposes memory for each just before.
type requester struct {
	k           *connection
	noPlacement bool
	// shortOnly: nothing is exposed; every message fits a Send.
	shortOnly  bool
	maxSegment int
	timeout    time.Duration // 0: none, for calls to a client

	*caller
	credits credits
	queue   exchangeList
	pending pending
	pumping bool
	// dying: the device says that the connection ended, closed will follow.
	dying bool
	ended bool
	why   error
	// givenUp are calls whose callers did not wait, and that hold credits all the same.
	givenUp uint32
	// fencing wait for the end of the connection, because the peer's access to
	// their memory could not be revoked.
	fencing []*exchange
	timer   *time.Timer
	ticking bool
	stuck   *time.Timer // runs where the requester was stuck when it was looked at last
}

// newRequester makes c's calls on k, with so many credits requested.
func newRequester(k *connection, c *caller, requested int) *requester {
	q := &requester{k: k, caller: c, credits: newCredits(requested), pending: newPending(requested)}
	k.requester = q
	return q
}

// enqueue lets e wait for its turn, on a connection that has not ended. It returns
// the call to send now, if any: pump takes it, once mu is let go. mu is held.
func (q *requester) enqueue(e *exchange) (next *exchange) {
	e.q = q
	q.queue.insert(e)
	next = q.begin()
	q.lookIfStuckLocked()
	return next
}

// begin makes the caller the one that pumps, and returns its first call; nil where
// another does, or where there is nothing to send. mu is held.
func (q *requester) begin() *exchange {
	if q.pumping {
		return nil
	}
	q.pumping = true
	return q.next()
}

// next takes the call whose turn it is from the queue; nil ends the pumping. mu is
// held.
func (q *requester) next() *exchange {
	e := q.queue.head
	if q.ended || q.dying || e == nil || !q.credits.may() {
		q.pumping = false
		return nil
	}
	q.queue.remove(e)
	e.stage = stageBuilding
	q.credits.inFlight++
	return e
}

// pump builds and sends e and what follows it while there is credit, one at a time.
func (q *requester) pump(e *exchange) {
	for e != nil {
		q.send(e)
		q.mu.Lock()
		e = q.next()
		q.mu.Unlock()
	}
}

// stuckLocked says whether a call waits for a credit while all credits are held by calls that
// were given up: the server may never answer those. A connection to a client, whose calls
// have no time-out either, is the client's to give up.
func (q *requester) stuckLocked() bool {
	return q.timeout > 0 && !q.ended && !q.dying && q.queue.head != nil && q.givenUp == q.credits.inFlight && !q.credits.may()
}

// lookIfStuckLocked sees to it that the connection ends if it is stuck, and stays so for as
// long as a late answer may take.
func (q *requester) lookIfStuckLocked() {
	if q.stuckLocked() && q.stuck == nil {
		q.stuck = time.AfterFunc(latePatience, q.endIfStuck)
	}
}

// latePatience is how long a late answer may take while nothing else goes.
const latePatience = time.Second

func (q *requester) endIfStuck() {
	q.mu.Lock()
	q.stuck = nil
	stuck := q.stuckLocked()
	q.dying = q.dying || stuck
	q.mu.Unlock()
	if stuck {
		q.k.end(faultUnanswered, fmt.Errorf("rdma: all credits are held by calls that were given up unanswered: %w", rdmacm.ErrTimeout))
	}
}

// resume pumps, if no other goroutine does.
func (q *requester) resume() {
	q.mu.Lock()
	e := q.begin()
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
		// What was exposed is fenced before the caller gets it back.
		q.abandon(e, err)
		return
	}
	q.mu.Lock()
	if e.cancelled != nil || q.ended {
		q.mu.Unlock()
		q.abandon(e, nil)
		return
	}
	e.stage = stageSent
	q.pending.put(e)
	e.parts.Store(2)
	if q.timeout > 0 && !q.ticking {
		q.ticking = true
		q.tickIn()
	}
	e.putCall(q.credits.requested)
	q.mu.Unlock()
	if len(e.local) > q.k.maxLocal {
		var flat []byte
		for _, b := range e.local {
			flat = append(flat, b...)
		}
		e.local = append(e.local[:0], flat)
		e.work[0].Local = e.local
	}
	// For the answer (RFC 8166 §3.3.1).
	q.k.device.Provide(1, q.k.receiveSize)
	if q.k.device.SendShort(e.local, 0) {
		e.part(q)
		return
	}
	e.chain.Work = e.work[:]
	q.k.post(&e.chain)
}

// abandon ends e, which was not sent: for err, because it was cancelled, or
// because the connection ended.
func (q *requester) abandon(e *exchange, err error) {
	q.mu.Lock()
	q.credits.inFlight--
	if err != nil && flushed(err) && e.cancelled == nil && !q.ended {
		q.mu.Unlock()
		for _, r := range e.regions {
			_ = r.Deregister() // the peer cannot reach them any more
		}
		e.reset()
		q.mu.Lock()
		if e.cancelled == nil && !q.ended {
			q.dying = true
			e.stage = stageWaiting
			q.queue.insert(e)
			q.mu.Unlock()
			return
		}
	}
	e.stage = stageEnded
	if e.cancelled != nil {
		err = e.cancelled
	}
	e.lost = err == nil || e.cancelled == nil && q.ended
	if e.lost {
		err = q.why
	}
	q.mu.Unlock()
	e.parts.Store(1)
	q.settle(e, err)
}

// settle is called once the outcome of e is known: it fences e's memory before
// the caller sees it. Where that fails the connection ends first (RFC 8166 §4.5.4).
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
			q.k.end(faultFence, fmt.Errorf("rdma: memory of call %#x could not be fenced: %w", e.xid, failed))
			return
		}
		q.mu.Unlock()
	}
	e.part(q)
}

// part counts off what was to come; with the last, the caller gets to know.
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

// exchangeSent is the Done of a call's Send. A Send that failed by itself fails
// its call (RFC 8166 §4.5.4); what the end of the connection took is up to
// closed.
func exchangeSent(chain *rdmacm.Chain, err error, failed int) {
	e := chain.Context.(*exchange)
	q := e.q
	q.k.returned()
	if err != nil && failed >= 0 && !flushed(err) && q.take(e) {
		// The receive promised for the answer stays: one too many does no harm.
		q.settle(e, err)
		q.mu.Lock()
		q.credits.inFlight--
		q.mu.Unlock()
		q.resume()
	}
	e.part(q)
}

// flushed says that work came back because its connection had ended.
func flushed(err error) bool {
	return errors.Is(err, rdmacm.ErrFlushed) || errors.Is(err, rdmacm.ErrClosed)
}

// take makes the calling goroutine the one that ends e, unless another is.
func (q *requester) take(e *exchange) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e.stage != stageSent || q.pending.of(e.xid) != e {
		return false
	}
	q.pending.remove(e.xid)
	e.stage = stageEnded
	return true
}

// waits says whether a call with this XID is not answered yet.
func (q *requester) waits(xid uint32) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.pending.of(xid) != nil
}

// closed ends all exchanges with the connection.
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
	q.pending.all(func(e *exchange) {
		q.pending.remove(e.xid)
		if !e.gaveUp {
			e.stage, e.lost = stageEnded, true
			lost.insert(e)
		}
	})
	var queued []*exchange
	for e := q.queue.head; e != nil; e = q.queue.head {
		q.queue.remove(e)
		queued = append(queued, e)
	}
	fencing := q.fencing
	q.fencing = nil
	q.mu.Unlock()
	for _, e := range fencing {
		e.part(q)
	}
	for e := lost.head; e != nil; e = lost.head {
		lost.remove(e)
		q.settle(e, why)
	}
	for _, e := range queued {
		q.takeOver(e, why)
	}
}
