package nfs41

import (
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A ping is a CB_NULL that checks whether a session's client answers. A session has at most one at
// a time, however often the client binds connections, because each CB_NULL may wait up to callTime
// for a silent client. The session's mutex guards the ping.
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
