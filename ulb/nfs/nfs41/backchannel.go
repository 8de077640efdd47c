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

// free returns the index of a free slot that the client wants the server to use, or -1.
func (b *calls) free() int {
	for i := range b.slots {
		if !b.slots[i].busy && uint32(i) <= b.target {
			return i
		}
	}
	return -1
}

// give assigns slot i, which is free, to c.
func (b *calls) give(i int, c *call) {
	b.slots[i].busy = true
	c.slot, c.probe = i, b.slots[i].uncertain
}

func startAll(calls []*call) {
	for _, c := range calls {
		c.start()
	}
}

// queue gives c a slot and returns true, or lets c wait for a slot and returns false. It returns
// ErrNoPath if the session has ended or no credential for callbacks is usable, and ErrTooMany if
// maxQueue calls wait already.
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

// release frees slot i and sets its backSlot.uncertain. It gives free slots to queued calls and
// returns these calls; the caller starts them.
func (s *Session) release(i int, uncertain bool) (next []*call) {
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

// protect chooses the security of the call x on the connection k. With an RPCSEC_GSS context, it
// returns a Caller that protects calls on k. Otherwise it returns k, and sets the credential of x.
// size is the length of the whole call, in bytes. ok is false if no usable credential or context is
// left.
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

// connected reports whether the session has a connection to call the client over, and the client
// answers there (neither down nor fault is set).
func (s *Session) connected() bool {
	if s.down.Load() || s.fault.Load() {
		return false
	}
	return slices.ContainsFunc(*s.conns.Load(), func(b *binding) bool { return b.back && b.conn.Caller() != nil })
}

// status returns the status flags of a SEQUENCE result for the session and its client.
func (s *Session) status() uint32 {
	flags := s.minor.state.Status(s.owner)
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

// Call starts a callback to a client. It prefers a session over which the client can be called. It
// returns at once; b.Done gets the result.
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
