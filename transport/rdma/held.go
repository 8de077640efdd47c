package rdma

import (
	"encoding/binary"
	"sync"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// pressedChains is how much one peer may owe while memory is short: RDMA Reads to
// answer, and replies to take. What it sends beyond waits as it arrived: the message
// alone. Calls that a file system keeps do not count, since others behind them may be
// for another one.
const pressedChains = 4

// heldCost is what a message that is held is reckoned to occupy beside its bytes.
const heldCost = 256

// held are calls that wait, as messages, until others of their connection have
// ended: a peer that takes no replies, or answers no Reads, while memory is short
// pins its own messages and little more.
type held struct {
	count    atomic.Int32 // of messages
	mu       sync.Mutex
	messages []*recv // the oldest first
	going    bool    // a goroutine begins them
	closed   bool
}

// full says that the peer owes as much as it may now, or that as much is kept for it as may be
// (mem.Share.Full).
func (s *responder) full() bool {
	if s.pool == nil {
		return false
	}
	return s.share.Full(s.k.calls.Load()&^drainBit) ||
		s.pool.Pressed() && s.k.sent.Load() >= s.k.back.Load()+pressedChains
}

// hold puts a message aside. It is false where the connection is gone.
func (s *responder) hold(r *recv) bool {
	h := &s.held
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return false
	}
	h.messages = append(h.messages, r)
	h.count.Add(1)
	h.mu.Unlock()
	s.ledger.Add(heldCost + cap(r.Bytes))
	s.k.stats.Held.Add(1)
	// The last call may have ended meanwhile, and found nothing to go on with.
	s.goOn()
	return true
}

// goOn sees to it that calls that were held begin, as far as there is room for them.
// They do on a goroutine of their own: the caller's may belong to another connection.
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

// resume begins calls that were held, one after the other: what each of them owes
// shows before the next one begins.
func (s *responder) resume() {
	for r := s.nextHeld(); r != nil; r = s.nextHeld() {
		if s.k.enter() > 0 {
			s.take(r)
		} else {
			s.k.drop(faultDraining, binary.BigEndian.Uint32(r.Bytes), r)
		}
	}
}

// nextHeld is the oldest message that was held, taken out, or nil where there is none,
// or no room for it: then resume ends. Whatever makes room from then on finds that, and
// starts it again.
func (s *responder) nextHeld() *recv {
	h := &s.held
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.messages) == 0 || s.full() {
		h.going = false
		return nil
	}
	r := h.messages[0]
	h.messages[0] = nil
	if h.messages = h.messages[1:]; len(h.messages) == 0 {
		h.messages = nil
	}
	h.count.Add(-1)
	s.ledger.Add(-heldCost - cap(r.Bytes))
	return r
}

// take begins a call that was held, and entered.
func (s *responder) take(r *recv) {
	var header wire.Header
	if f := judge(&header, r.Bytes); f != faultNone {
		panic("rdma: a header does not parse that did: " + f.Error())
	}
	s.begin(&header, r)
}

// dropHeld forgets what is held, at the connection's end.
func (s *responder) dropHeld() {
	h := &s.held
	h.mu.Lock()
	h.closed = true
	left := h.messages
	h.messages = nil
	h.count.Store(0)
	h.mu.Unlock()
	for _, r := range left {
		s.ledger.Add(-heldCost - cap(r.Bytes))
		r.Release()
	}
}
