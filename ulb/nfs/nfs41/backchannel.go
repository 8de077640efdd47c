package nfs41

import (
	"slices"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// Limits of one session's backchannel: the maximum number of calls under way, and of calls that
// wait for a slot.
const (
	maxBackSlots = 16
	maxQueue     = 1024
)

// calls holds a session's calls to its client. The session's mutex guards it.
type calls struct {
	ping  ping
	slots []backSlot
	// target is the highest slot that the client wants the server to use.
	target uint32
	queue  []*call
	ended  bool
}

// A backSlot is the server's view of one slot of the backchannel.
type backSlot struct {
	sequence uint32 // of the latest call that the client has seen
	busy     bool
	// uncertain is true if the client may or may not have seen the next sequence number.
	uncertain bool
}

// freeLocked returns the index of a free slot that the client wants the server to use, or -1.
func (b *calls) freeLocked() int {
	for i := range b.slots {
		if !b.slots[i].busy && uint32(i) <= b.target {
			return i
		}
	}
	return -1
}

// giveLocked assigns slot i, which is free, to c.
func (b *calls) giveLocked(i int, c *call) {
	b.slots[i].busy = true
	c.slot, c.probe = i, b.slots[i].uncertain
}

func startAll(calls []*call) {
	for _, c := range calls {
		c.start()
	}
}

// queue gives c a slot and returns true, or lets c wait for one and returns false. The error is ErrNoPath
// if the session has ended or no credential is usable, and ErrTooMany if maxQueue calls wait already.
func (s *Session) queue(c *call) (ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch i := s.calls.freeLocked(); {
	case s.calls.ended || !s.security.Load().usable(time.Now()):
		return false, ErrNoPath
	case i >= 0:
		s.calls.giveLocked(i, c)
		return true, nil
	case len(s.calls.queue) >= maxQueue:
		return false, ErrTooMany
	}
	s.calls.queue = append(s.calls.queue, c)
	return false, nil
}

// release frees slot i and sets its backSlot.uncertain. It gives free slots to queued calls and
// returns these calls; the caller starts them.
func (s *Session) release(i int, uncertain bool) (next []*call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := &s.calls
	b.slots[i].busy, b.slots[i].uncertain = false, uncertain
	for len(b.queue) > 0 {
		i := b.freeLocked()
		if i < 0 {
			break
		}
		c := b.queue[0]
		b.queue[0] = nil
		b.queue = b.queue[1:]
		b.giveLocked(i, c)
		next = append(next, c)
	}
	return next
}

// A ping is a CB_NULL that checks whether a session's client answers. A session has at most one at a time,
// because each may wait up to callTime for a silent client. The session's mutex guards the ping.
type ping struct {
	// x is the CB_NULL under way, or nil. over is the connection that it uses. by is the Caller
	// that can cancel x; by is nil until x has started.
	x        *rpc.Exchange
	over, by rpc.Caller
	// next is the connection for another CB_NULL after x has ended, or nil.
	next rpc.Caller
}

// giveUp cancels the CB_NULL, if one is under way.
func (p ping) giveUp(err error) {
	if p.by != nil {
		p.by.Cancel(p.x, err)
	}
}

// ping sends CB_NULL over k. CB_NULL needs no session, so it may reach the client before the reply
// to CREATE_SESSION. If a CB_NULL is under way over another connection, ping cancels it, and the
// method pinged then sends one over k. If a CB_NULL is under way over k, ping does nothing.
func (s *Session) ping(k rpc.Caller) {
	s.mu.Lock()
	if s.calls.ended {
		s.mu.Unlock()
		return
	}
	if asked := s.calls.ping; asked.x != nil {
		if asked.over != k {
			s.calls.ping.next = k
		}
		s.mu.Unlock()
		if asked.over != k {
			asked.giveUp(ErrUnanswered)
		}
		return
	}
	x := &rpc.Exchange{Program: s.program, Version: wire.CallbackVersion, Procedure: wire.ProcCBNull}
	s.calls.ping.x, s.calls.ping.over = x, k
	s.mu.Unlock()
	over, _, ok := s.protect(k, x)
	if !ok {
		s.pinged(x)
		return
	}
	x.Done = func(x *rpc.Exchange) {
		if x.Err == nil {
			s.down.Store(false)
			s.answered.Store(true)
		}
		s.pinged(x)
	}
	startUntil(over, x, time.Now().Add(callTime))
	s.mu.Lock()
	ended := s.calls.ended
	if s.calls.ping.x == x {
		s.calls.ping.by = over
	}
	s.mu.Unlock()
	if ended { // endCalls ran before by was set and could not cancel x
		over.Cancel(x, ErrNoPath)
	}
}

// pinged records the end of the CB_NULL x. If ping was called for another connection meanwhile,
// pinged sends a CB_NULL over that connection.
func (s *Session) pinged(x *rpc.Exchange) {
	s.mu.Lock()
	next := s.calls.ping.next
	s.calls.ping = ping{}
	s.mu.Unlock()
	if next != nil {
		s.ping(next)
	}
}

// protect chooses the security of the call x on the connection k: a Caller that protects calls on k under
// an RPCSEC_GSS context, or k itself, with the credential in x. size is the length of the whole call, in
// bytes. ok is false if no usable credential or context is left.
func (s *Session) protect(k rpc.Caller, x *rpc.Exchange) (over rpc.Caller, size int, ok bool) {
	sec, now := s.security.Load(), time.Now()
	if c := sec.context(now); c != nil {
		return c.Caller(k), c.CallSize(x.MaxArgs), true
	}
	x.Cred = sec.cred
	return k, x.HeaderSize() + x.MaxArgs, sec.plain
}

// endCalls ends the backchannel. The CB_NULL under way and all calls that wait for a slot fail with
// ErrNoPath.
func (s *Session) endCalls() {
	s.mu.Lock()
	s.calls.ended = true
	queue, asked := s.calls.queue, s.calls.ping
	s.calls.queue, s.calls.ping.next = nil, nil
	s.mu.Unlock()
	asked.giveUp(ErrNoPath)
	for _, c := range queue {
		c.fail(ErrNoPath)
	}
}

// caller returns the latest bound connection over which the client can be called, or nil.
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

// reachable reports whether the session has a connection to call the client over and, if the client
// offered RPCSEC_GSS contexts, a usable context or credential.
func (s *Session) reachable() bool {
	sec := s.security.Load()
	return s.connected() && (len(sec.contexts) == 0 || sec.usable(time.Now()))
}

// Call starts a callback to a client. It prefers a session over which the client can be called. It
// returns at once; b.Done gets the result.
func Call(c *state.Client, b *Callback) {
	if x := clientOf(c); x != nil {
		if s := x.callable(); s != nil {
			s.Call(b)
			return
		}
	}
	b.Done(0, nil, ErrNoPath)
}

// callable returns the session over which the server calls the client back: the newest reachable
// one or, if none is reachable, the newest. It returns nil if the client has no session.
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
