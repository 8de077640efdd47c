package rdma

import (
	"sync"
	"sync/atomic"
	"time"
)

// heldCost is an estimate of the bytes that a held message occupies in addition to the received
// bytes.
const heldCost = 384

// held is the queue of received messages whose calls wait while responder.full is true. So while
// memory is short, a peer that takes no replies or answers no Reads occupies little more memory
// than its messages.
type held struct {
	count    atomic.Int32 // number of messages
	mu       sync.Mutex
	messages []inbound   // oldest first
	going    bool        // true while a goroutine starts the calls
	look     *time.Timer // tries again while calls are held; see lookLaterLocked
	closed   bool
}

// hold adds a message to the held calls. It returns false if the connection has ended.
func (s *responder) hold(m *inbound) bool {
	h := &s.held
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return false
	}
	h.messages = append(h.messages, *m)
	h.count.Add(1)
	s.lookLaterLocked()
	h.mu.Unlock()
	s.ledger.Add(heldCost + m.cost())
	s.k.stats.Held.Add(1)
	// The last call under way may have ended before the message was added. Without goOn, only the
	// timer (lookInterval) would then start the message's call.
	s.goOn()
	return true
}

// goOn starts held calls (see held), unless the connection may start no call now (full). They start
// on a goroutine of their own, because the goroutine that calls goOn may belong to another
// connection.
func (s *responder) goOn() {
	h := &s.held
	if s.full() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.going && len(h.messages) > 0 {
		h.going = true
		go s.resume()
	}
}

// lookInterval is how long the timer waits before it tries again to start held calls. A test makes it
// longer, to show that a call goes on without the timer.
var lookInterval = time.Second

// lookLaterLocked starts the timer that tries again to start held calls. The timer is needed
// because memory can also become free on other connections, and this connection is not told of
// that.
func (s *responder) lookLaterLocked() {
	h := &s.held
	if h.look != nil || h.closed {
		return
	}
	h.look = time.AfterFunc(lookInterval, func() {
		h.mu.Lock()
		if h.look = nil; len(h.messages) > 0 {
			s.lookLaterLocked()
		}
		h.mu.Unlock()
		s.goOn()
	})
}

// resume starts held calls, one after the other. nextHeld calls full before each of them, because
// the call before it may have used the memory.
func (s *responder) resume() {
	for m, ok := s.nextHeld(); ok; m, ok = s.nextHeld() {
		s.begin(&m)
	}
}

// nextHeld removes and returns the oldest held message. ok is false if no message is held, or if
// the connection may start no call now (full). resume then ends, and goOn starts it again later.
func (s *responder) nextHeld() (m inbound, ok bool) {
	h := &s.held
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.messages) == 0 || s.full() {
		h.going = false
		return m, false
	}
	m = h.messages[0]
	h.messages[0] = inbound{}
	if h.messages = h.messages[1:]; len(h.messages) == 0 {
		h.messages = nil
	}
	h.count.Add(-1)
	s.ledger.Add(-heldCost - m.cost())
	return m, true
}

// dropHeld discards the held messages, at the end of the connection.
func (s *responder) dropHeld() {
	h := &s.held
	h.mu.Lock()
	h.closed = true
	left := h.messages
	h.messages = nil
	h.count.Store(0)
	if h.look != nil {
		h.look.Stop()
	}
	h.mu.Unlock()
	for i := range left {
		s.ledger.Add(-heldCost - left[i].cost())
		left[i].recv.Release()
	}
}
