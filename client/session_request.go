package client

import (
	"errors"
	"fmt"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// retryDelay is how long the session waits before it repeats a request whose SEQUENCE got
// NFS4ERR_DELAY.
const retryDelay = 20 * time.Millisecond

// Start begins a request; c.Done is called at its end. New requests get slots in the order of
// Start.
func (s *Session) Start(c *Compound) {
	c.prepare(s)
	s.mu.Lock()
	c.flight = flight{link: c.link}
	if s.phase == phaseDead {
		why := s.why
		s.mu.Unlock()
		c.finish(why)
		return
	}
	s.waiting.push(c)
	first := s.nextLocked()
	s.mu.Unlock()
	s.sendFrom(first)
}

// Cancel gives up a request. Unless the request has ended already, the session soon calls c.Done,
// and c.Err is err. The server may have executed the request.
func (s *Session) Cancel(c *Compound, err error) {
	s.mu.Lock()
	switch {
	case c.in != nil:
		had := c.slot
		c.in.remove(c)
		s.mu.Unlock()
		if had != nil {
			s.settle(had, c.link)
		}
		c.finish(err)
	case c.cancelled == nil:
		// The transport has the request, or another goroutine is looking at its reply. If the reply
		// says that the request is to be sent again, again ends it instead.
		c.cancelled = err
		conn, begun := c.conn, c.sent && c.begun
		s.mu.Unlock()
		if begun {
			conn.Caller().Cancel(&c.x, err)
		}
	default:
		s.mu.Unlock()
	}
}

// dispatch sends all requests that can be sent now.
func (s *Session) dispatch() {
	s.mu.Lock()
	first := s.nextLocked()
	s.mu.Unlock()
	s.sendFrom(first)
}

// sendFrom sends c, which came from nextLocked, and then every other request that can be sent now.
// If c is nil, it does nothing.
func (s *Session) sendFrom(c *Compound) {
	for c != nil {
		c = s.send(c)
	}
}

// nextLocked chooses the next request to send, and gives it a slot and a connection. It returns nil
// if none can be sent.
func (s *Session) nextLocked() *Compound {
	if s.phase != phaseUp || s.parked.Len+s.waiting.Len == 0 {
		return nil
	}
	from := &s.parked
	if from.Len == 0 {
		from = &s.waiting
	}
	c := from.First
	l := s.pickLocked(c.link)
	if l == nil {
		return nil
	}
	if c.slot == nil {
		if c.slot = s.slots.take(); c.slot == nil {
			return nil
		}
		c.number()
	}
	from.remove(c)
	c.link, c.conn = l, l.conn
	c.sent, c.begun = true, false
	c.answeredBefore = l.conn.answered
	c.serial++
	return c
}

// number sets the arguments of a request's SEQUENCE. They stay the same each time the request is
// sent on this slot, because a server may compare a repeated request with the first one.
func (c *Compound) number() {
	t := c.slot.table
	c.sequence = nfs4wire.Sequence4Args{
		Sessionid: t.session, Sequenceid: c.slot.seq, Slotid: c.slot.id, HighestSlotid: t.highest(), Cachethis: c.Cache,
	}
}

// pickLocked returns a link that has a connection, or nil if no link has one. If wanted has a
// connection, pickLocked returns wanted; otherwise it takes the links in turn.
func (s *Session) pickLocked(wanted *link) *link {
	if wanted != nil && wanted.conn != nil {
		return wanted
	}
	for range s.links {
		l := s.links[s.turn%len(s.links)]
		s.turn++
		if l.conn != nil {
			return l
		}
	}
	return nil
}

// send passes c to the transport. It returns the request to send next, or nil.
func (s *Session) send(c *Compound) (then *Compound) {
	serial, conn := c.serial, c.conn
	conn.Caller().Start(&c.x)
	// From here on, c may be finished, and its owner may have started it again.
	s.mu.Lock()
	var cancelled error
	if c.serial == serial && c.sent {
		c.begun = true
		cancelled = c.cancelled
	}
	then = s.nextLocked()
	s.mu.Unlock()
	if cancelled != nil {
		conn.Caller().Cancel(&c.x, cancelled)
	}
	return then
}

// done is called when the transport has finished the call.
func (c *Compound) done(x *rpc.Exchange) {
	s := c.session
	s.mu.Lock()
	c.sent = false
	lost := x.Err != nil && c.cancelled == nil && (errors.Is(x.Err, rpc.ErrCallLost) || c.link.conn != c.conn)
	if lost {
		c.doubtful = true
		s.lossLocked(c)
		s.lostLocked(c.link, c.conn)
		if c.losses < maxLosses || c.settle {
			s.again(c, &s.parked)
			return
		}
		x.Err = fmt.Errorf("%w: %w", ErrEndsConnections, x.Err)
	}
	cancelled := c.cancelled
	s.mu.Unlock()
	if x.Err != nil {
		switch {
		case cancelled != nil:
			x.Err = cancelled
		case c.long != nil:
			x.Err = c.long
		}
		c.astray(x.Err)
		return
	}
	c.answered(&x.Results)
}

// maxLosses is the number of connections that one request may lose in a row: after it was sent, they
// answered nothing more, and the later one was made after the earlier one had ended. The server then
// most likely ends them because of the request. A network that fails again and again rarely does this to
// the same request.
const maxLosses = 4

// lossLocked counts the loss of the connection on which c was sent.
func (s *Session) lossLocked(c *Compound) {
	if c.conn.number <= c.newest || c.conn.answered != c.answeredBefore {
		c.losses = 0
	}
	c.losses++
	c.newest = s.dialled
}

// again queues a request in the list l to be sent once more. It ends the request if it was
// cancelled, or if it cannot be sent again. The caller holds s.mu; this method unlocks it.
func (s *Session) again(c *Compound, l *compoundList) {
	if why := c.cancelled; why != nil {
		had := c.slot
		s.mu.Unlock()
		s.settle(had, c.link)
		c.finish(why)
		return
	}
	why := s.orphanedLocked(c)
	if why == nil && c.slot != nil {
		l.push(c)
	}
	s.mu.Unlock()
	if why != nil {
		c.finish(why)
		return
	}
	s.dispatch()
}

// orphanedLocked prepares a request to be sent again. If its slot is one of an earlier session, it
// queues the request for a new slot. It returns an error if the request cannot be sent again.
func (s *Session) orphanedLocked(c *Compound) (why error) {
	switch {
	case s.phase == phaseDead:
		return s.why
	case c.slot.table == s.slots:
		return nil
	case c.settle || c.doubtful && c.Cache:
		return ErrDoubtful
	}
	c.slot, c.doubtful = nil, false
	s.waiting.push(c)
	return nil
}

// broken records that the server no longer knows c's session, starts to make a new session, and
// queues c to be sent again.
func (s *Session) broken(c *Compound) {
	s.mu.Lock()
	if c.slot.table == s.slots && s.phase == phaseUp {
		s.phase = phaseBroken
		s.slots = newSlotTable(nfs4wire.SessionID4{}, 1) // an empty table, so that no request has a slot of it
		s.mendLocked()
	}
	s.again(c, nil)
}

// answered processes a reply.
func (c *Compound) answered(d *xdr.Decoder) {
	s := c.session
	n, status := beginResults(d)
	if n == 0 || d.Err() != nil {
		err := d.Err()
		if err == nil && status != nfs4wire.NFS4OK {
			s.release(c.slot, false)
			c.finish(&OpError{0, status})
			return
		}
		c.astray(fmt.Errorf("%w: no SEQUENCE in the reply", rpc.ErrBadReply))
		return
	}
	op := nfs4wire.OpNum(d.Uint32())
	c.res.Decode(d)
	switch {
	case d.Err() != nil || op != nfs4wire.OpSequence:
		c.astray(fmt.Errorf("%w: a reply that does not begin with SEQUENCE: %v", rpc.ErrBadReply, op))
		return
	case c.res.Status != nfs4wire.NFS4OK:
		c.refused(c.res.Status)
		return
	}
	r := &c.res.ResOK
	if r.Sessionid != c.sequence.Sessionid || r.Slotid != c.sequence.Slotid || r.Sequenceid != c.sequence.Sequenceid {
		c.astray(fmt.Errorf("%w: SEQUENCE of another slot", rpc.ErrBadReply))
		return
	}
	var err error
	if !c.settle {
		c.Executed, err = readOps(d, c.Ops, n-1, status)
	}
	s.renewed.Store(int64(s.now()))
	s.setFlags(r.StatusFlags)
	s.sendFrom(s.aimed(c, min(r.TargetHighestSlotid, r.HighestSlotid)))
	c.finish(err)
}

// now returns the time since the session was made. It reads only the monotonic clock, while
// time.Now also reads the wall clock.
func (s *Session) now() time.Duration { return time.Since(s.made) }

// astray ends a request whose reply does not show whether the server used up the sequence number
// of its slot. It starts settle to find that out. If the request itself comes from settle, the
// session is given up instead, and a new one is made.
func (c *Compound) astray(err error) {
	if c.settle {
		c.session.broken(c)
		return
	}
	c.session.settle(c.slot, c.link)
	c.finish(err)
}

// refused handles a SEQUENCE that failed with status.
func (c *Compound) refused(status nfs4wire.NFSStat4) {
	s := c.session
	c.losses = 0
	switch status {
	case nfs4wire.NFS4ErrDelay:
		s.mu.Lock()
		if s.delayed.Len == 0 {
			s.delay.Reset(retryDelay)
		}
		s.again(c, &s.delayed)
	case nfs4wire.NFS4ErrConnNotBoundToSession:
		s.mu.Lock()
		s.lostLocked(c.link, c.conn) // its replacement will be bound
		s.again(c, &s.parked)
	case nfs4wire.NFS4ErrBadSession, nfs4wire.NFS4ErrDeadSession, nfs4wire.NFS4ErrSeqMisordered,
		nfs4wire.NFS4ErrBadSlot, nfs4wire.NFS4ErrBadHighSlot:
		s.broken(c)
	default:
		// If used is true, the server executed a request with this sequence number, and kept no reply
		// or the reply to another request. Whether it executed this request remains unknown.
		used := status == nfs4wire.NFS4ErrRetryUncachedRep || status == nfs4wire.NFS4ErrSeqFalseRetry
		s.release(c.slot, used)
		c.finish(&OpError{nfs4wire.OpSequence, status})
	}
}

// aimed releases the slot of an executed request, and stores the server's target for the highest
// slot. It returns the next request to send.
func (s *Session) aimed(c *Compound, target uint32) *Compound {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.conn.answered++
	sl := c.slot
	sl.seq++
	sl.busy = false
	sl.table.aim(target)
	return s.nextLocked()
}

// release frees a slot, for the next request. If used is true, the server has used up the slot's sequence number, so the next
// request on the slot takes the number after it.
func (s *Session) release(sl *slot, used bool) {
	s.mu.Lock()
	if used {
		sl.seq++
	}
	sl.busy = false
	first := s.nextLocked()
	s.mu.Unlock()
	s.sendFrom(first)
}

// settle makes the slot of a request that was given up usable again. It is not known whether the
// server has executed that request. So settle sends a SEQUENCE alone, with the same sequence
// number. If the server has executed the request, it repeats its reply; otherwise it executes the
// SEQUENCE. In either case the sequence number is used up afterwards.
func (s *Session) settle(sl *slot, l *link) {
	c := &Compound{Done: func(*Compound) {}}
	c.link = l
	c.prepare(s)
	s.mu.Lock()
	if s.phase == phaseDead || sl.table != s.slots {
		s.mu.Unlock()
		return
	}
	c.slot, c.settle = sl, true
	c.number()
	s.parked.push(c)
	s.mu.Unlock()
	s.dispatch()
}

// finish ends a request. The session does not use c afterwards.
func (c *Compound) finish(err error) {
	c.Err = err
	if c.Done != nil {
		c.Done(c)
	}
}
