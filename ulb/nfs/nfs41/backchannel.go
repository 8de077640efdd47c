package nfs41

import (
	"slices"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// Bounds of a backchannel: how many calls are under way at most, and how many wait.
const (
	maxBackSlots = 16
	maxQueue     = 1024
)

// calls are a session's calls to its client. They are guarded by the session's mutex.
type calls struct {
	ping  ping
	slots []backSlot
	// target is the highest slot that the client wants to be used.
	target uint32
	queue  waiting
	ended  bool
}

// A backSlot numbers the calls that go out in it.
type backSlot struct {
	sequence uint32 // of the latest that the client has seen
	busy     bool
	// uncertain: whether the client has seen the next is not known.
	uncertain bool
}

// waiting are calls that have no slot yet, or have just got one.
type waiting []*call

func (w waiting) startAll() {
	for _, c := range w {
		c.start()
	}
}

// begin sets up the backchannel with the limits that the client has set.
func (b *calls) begin(c *channel) {
	b.slots = make([]backSlot, min(c.Maxrequests, maxBackSlots))
	b.target = maxBackSlots
}

// highest is the highest slot in use.
func (b *calls) highest() (n uint32) {
	for i := range b.slots {
		if b.slots[i].busy {
			n = uint32(i)
		}
	}
	return n
}

// free is a slot for a call, or -1.
func (b *calls) free() int {
	for i := range b.slots {
		if !b.slots[i].busy && uint32(i) <= b.target {
			return i
		}
	}
	return -1
}

// give gives slot i to c.
func (b *calls) give(i int, c *call) {
	b.slots[i].busy = true
	c.slot, c.probe = i, b.slots[i].uncertain
}

// queue gives a call a slot, where ok is true, or has it wait for one.
func (s *Session) queue(c *call) (ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch i := s.calls.free(); {
	case s.calls.ended || !s.security.Load().usable(time.Now()):
		return false, ErrNoPath
	case i >= 0:
		s.calls.give(i, c)
		return true, nil
	case len(s.calls.queue) >= maxQueue:
		return false, ErrTooMany
	}
	s.calls.queue = append(s.calls.queue, c)
	return false, nil
}

// release gives a slot back. What may begin now is to be started by the caller.
func (s *Session) release(i int, uncertain bool) (next waiting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := &s.calls
	b.slots[i].busy, b.slots[i].uncertain = false, uncertain
	for len(b.queue) > 0 {
		i := b.free()
		if i < 0 {
			break
		}
		c := b.queue[0]
		b.queue[0] = nil
		b.queue = b.queue[1:]
		b.give(i, c)
		next = append(next, c)
	}
	return next
}

// advance notes that the client has seen the next sequence of a slot.
func (s *Session) advance(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls.slots[i].sequence++
}

// heard notes that the client answers, and how many slots it wants to be used.
func (s *Session) heard(target uint32) {
	s.mu.Lock()
	s.calls.target = target
	s.mu.Unlock()
	s.down.Store(false)
	s.answered.Store(true)
}

// protect gives x what it goes out under, and the Caller that it is made on instead of k.
// size is how long the call gets. ok is false where there is nothing that it may go out
// under any more.
func (s *Session) protect(k rpc.Caller, x *rpc.Exchange) (over rpc.Caller, size int, ok bool) {
	sec, now := s.security.Load(), time.Now()
	if c := sec.context(now); c != nil {
		return c.Caller(k), c.CallSize(x.MaxArgs), true
	}
	x.Cred = sec.cred
	return k, x.HeaderSize() + x.MaxArgs, sec.plain
}

// endCalls ends the backchannel; those who wait are told.
func (s *Session) endCalls() {
	s.mu.Lock()
	s.calls.ended = true
	queue, asked := s.calls.queue, s.calls.ping
	s.calls.queue, s.calls.ping.next = nil, nil
	s.mu.Unlock()
	asked.giveUp(ErrNoPath)
	for _, c := range queue {
		c.end(ErrNoPath)
	}
}

// setDown notes that the client does not answer. It is told in each SEQUENCE, until it
// has bound a connection, or answers.
func (s *Session) setDown() { s.down.Store(true) }

// setFault notes that the client and we count its backchannel's calls in another way. That
// is not mended: the client is to end the session (RFC 8881 §18.46.3).
func (s *Session) setFault() { s.fault.Store(true) }

// caller is a connection to call the client over, the one bound last; nil: there is none.
func (s *Session) caller() rpc.Caller {
	for _, b := range slices.Backward(*s.conns.Load()) {
		if b.back {
			if k := b.conn.Caller(); k != nil {
				return k
			}
		}
	}
	return nil
}

// reachable says whether the client can be called over the session.
func (s *Session) reachable() bool {
	sec := s.security.Load()
	return s.connected() && (len(sec.contexts) == 0 || sec.usable(time.Now()))
}

// connected says whether the session has a connection to call the client over.
func (s *Session) connected() bool {
	if s.down.Load() || s.fault.Load() {
		return false
	}
	return slices.ContainsFunc(*s.conns.Load(), func(b *binding) bool { return b.back && b.conn.Caller() != nil })
}

// status is what SEQUENCE says about the session and its client.
func (s *Session) status() uint32 {
	flags := s.minor.state.Status(s.client.Client)
	if s.fault.Load() {
		flags |= wire.Seq4StatusBackchannelFault
	}
	if sec := s.security.Load(); len(sec.contexts) > 0 {
		flags |= sec.status(time.Now(), s.minor.state.Lease())
	}
	if s.wanted.Load() && !s.connected() {
		flags |= wire.Seq4StatusCBPathDownSession
		if !s.client.anySession((*Session).connected) {
			flags |= wire.Seq4StatusCBPathDown
		}
	}
	return flags
}

// Reachable says whether a client can be called back, over one of its sessions.
func Reachable(c *state.Client) bool {
	x := clientOf(c)
	return x != nil && x.reachable()
}

// Answered says whether a client can be called back, and has answered before: what it is
// given that may have to be recalled is given then only.
func Answered(c *state.Client) bool {
	x := clientOf(c)
	return x != nil && x.anySession(func(s *Session) bool { return s.answered.Load() && s.reachable() })
}

// Call has a client do an operation, over one of its sessions: one over which it can be
// called, where there is such. It returns at once.
func Call(c *state.Client, b *Callback) {
	x := clientOf(c)
	if x == nil {
		b.Done(0, nil, ErrNoPath)
		return
	}
	s := x.callable()
	if s == nil {
		b.Done(0, nil, ErrNoPath)
		return
	}
	s.Call(b)
}

// callable is the session of a client that calls go over: the newest one that is
// reachable, else the newest.
func (c *client) callable() *Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range slices.Backward(c.sessions) {
		if s.reachable() {
			return s
		}
	}
	if n := len(c.sessions); n > 0 {
		return c.sessions[n-1]
	}
	return nil
}
