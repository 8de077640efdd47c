package client

import "time"

// keep is the session's keeper: a goroutine that runs until the session ends. It renews the lease,
// repeats delayed requests, tells the server when the session uses fewer slots, binds a connection
// for callbacks, and offers contexts for callbacks.
func (s *Session) keep() {
	renew := time.NewTimer(s.renewal())
	defer renew.Stop()
	alone := &Compound{}
	idle := make(chan struct{}, 1)
	idle <- struct{}{}
	alone.Done = func(*Compound) { idle <- struct{}{} }
	sequence := func() {
		select {
		case <-idle:
			s.Start(alone)
		default: // the last SEQUENCE is not answered yet
		}
	}
	for {
		select {
		case <-s.life.Done():
			return
		case <-renew.C:
			every := s.renewal()
			renew.Reset(every)
			if s.now()-time.Duration(s.renewed.Load()) >= every/2 {
				sequence()
			}
			if s.flags.Load()&needsBinding != 0 {
				s.bindAgain()
			}
			s.offerAgain()
		case <-s.delay.C:
			s.mu.Lock()
			for c := s.delayed.pop(); c != nil; c = s.delayed.pop() {
				s.parked.push(c)
			}
			s.mu.Unlock()
			s.dispatch()
		case <-s.wake:
			renew.Reset(s.renewal())
			tasks := s.tasks.Swap(0)
			if tasks&taskBind != 0 {
				s.bindAgain()
			}
			if tasks&taskTell != 0 {
				sequence()
			}
			if tasks&taskOffer != 0 {
				s.offerAgain()
			}
		}
	}
}

// Tasks of the keeper, in Session.tasks until the keeper begins them.
const (
	taskBind  uint32 = 1 << iota // bind a connection as the backchannel
	taskTell                     // report a smaller number of slots to the server
	taskOffer                    // offer another RPCSEC_GSS context for callbacks
)

// ask wakes the keeper, for the given tasks.
func (s *Session) ask(tasks uint32) {
	s.tasks.Or(tasks)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// renewal returns the interval at which the keeper checks whether to renew the lease.
func (s *Session) renewal() time.Duration { return max(s.Lease()/3, 100*time.Millisecond) }

// bindAgain binds a connection for callbacks, because the server has none.
func (s *Session) bindAgain() {
	if conn := s.anyConn(); conn != nil {
		_ = s.bind(s.life, conn) // after a failure, the server's flags will ask for a binding again
	}
}
