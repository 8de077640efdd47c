package nfs41

import (
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A ping is the question to a session's client whether it answers. There is one at a time,
// however often the client binds connections: each of them would wait for callTime where the
// client says nothing. The session's mutex guards it.
type ping struct {
	// x is what is under way over a connection, nil where nothing is. by, which may end it,
	// is nil until it has begun.
	x        *rpc.Exchange
	over, by rpc.Caller
	// next is the connection to ask over then, or nil.
	next rpc.Caller
}

// giveUp ends the question, if there is one.
func (p ping) giveUp(err error) {
	if p.by != nil {
		p.by.Cancel(p.x, err)
	}
}

// ping asks the client for an answer by CB_NULL, which needs no session: it may arrive
// before the reply that makes one. What is asked over another connection is given up.
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
	if ended { // meanwhile, and found nothing to give up
		over.Cancel(x, ErrNoPath)
	}
}

// pinged is for the end of a question: the next may be asked.
func (s *Session) pinged(x *rpc.Exchange) {
	s.mu.Lock()
	next := s.calls.ping.next
	s.calls.ping = ping{}
	s.mu.Unlock()
	if next != nil {
		s.ping(next)
	}
}
