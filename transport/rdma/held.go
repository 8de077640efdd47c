package rdma

import (
	"sync"
	"sync/atomic"
	"time"
)

// pressedChains is the number of chains that one peer may owe while memory is short: RDMA
// Reads to answer, and replies to take. Further messages wait as they arrived. Calls that
// wait for a file system do not count, because later calls may be for another file system.
const pressedChains = 4

// heldCost is the estimated memory of a held message beside its bytes.
const heldCost = 384

// held keeps calls as messages until other calls of their connection have ended. So while
// memory is short, a peer that takes no replies or answers no Reads occupies its own
// messages and little more.
type held struct {
	count    atomic.Int32 // number of messages
	mu       sync.Mutex
	messages []inbound   // oldest first
	going    bool        // a goroutine processes them
	look     *time.Timer // set while messages wait; see lookLaterLocked
	closed   bool
}

// full reports that the connection's share of memory is used up (mem.Share.Full), or that
// memory is short and the peer owes pressedChains chains.
func (s *responder) full() bool {
	if s.pool == nil {
		return false
	}
	return s.share.Full(s.k.calls.Load()&^drainBit) ||
		s.pool.Pressed() && s.k.sent.Load() >= s.k.back.Load()+pressedChains
}

// hold keeps a message for later. It returns false if the connection is gone.
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
	s.ledger.Add(heldCost + cap(m.recv.Bytes))
	s.k.stats.Held.Add(1)
	// The last call may have ended meanwhile and found no held message.
	s.goOn()
	return true
}

// goOn starts held calls, if there is room for them. They run on a goroutine of their own,
// because the caller's goroutine may belong to another connection.
func (s *responder) goOn() {
	h := &s.held
	if h.count.Load() == 0 || s.full() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.going && len(h.messages) > 0 {
		h.going = true
		go s.resume()
	}
}

// lookInterval is the time between two looks at held calls.
const lookInterval = time.Second

// lookLaterLocked starts the timer for another look at the held calls. Other connections
// give back memory too, and no event of this connection shows that.
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

// resume starts held calls, one after the other. nextHeld checks for room before each,
// because the call before it may have used the room.
func (s *responder) resume() {
	for m, ok := s.nextHeld(); ok; m, ok = s.nextHeld() {
		if s.k.enter() > 0 {
			s.begin(&m)
		} else {
			s.k.drop(faultDraining, &m)
		}
	}
}

// nextHeld takes out the oldest held message. It returns false if there is none, or no room
// for it: then resume ends, and the next event that makes room, or the next look, starts it
// again.
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
	s.ledger.Add(-heldCost - cap(m.recv.Bytes))
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
		r := left[i].recv
		s.ledger.Add(-heldCost - cap(r.Bytes))
		r.Release()
	}
}
