package rdma

// A run is what the goroutine that receives keeps of a responder while there is input:
// from the first message that it hands over until Drained. A call that is answered
// within it, in place, costs no record, no room for its reply, no lock and no counter
// of its own. The goroutine's own.
type run struct {
	// entered: the run counts as one call of the connection's, for all that are in
	// place.
	entered bool
	// call is the record for the next one, with room for its reply.
	call *call

	// For the Stats.
	calls, replies, bytesIn, bytesOut int
}

// enterRun begins a call in place for the message r. It is false where there is none:
// the connection drains, or is ended for calling too much.
func (s *responder) enterRun(xid uint32, r *recv) bool {
	n := s.k.calls.Load()
	if !s.run.entered && n&drainBit == 0 {
		n = s.k.enter()
		s.run.entered = n > 0
	}
	if n&drainBit != 0 || !s.run.entered {
		s.k.drop(faultDraining, xid, r)
		return false
	}
	if n > s.mostCalls()+overrunSlack && s.overrun(n) {
		r.Release()
		return false
	}
	return true
}

// endRun gives back what the run has.
func (s *responder) endRun() {
	u := &s.run
	if u.call != nil {
		u.call.forget()
		callPool.Put(u.call)
	}
	if u.calls > 0 {
		st := s.k.stats
		st.Calls.Add(int64(u.calls))
		st.Replies.Add(int64(u.replies))
		st.BytesInlineIn.Add(int64(u.bytesIn))
		st.BytesInlineOut.Add(int64(u.bytesOut))
	}
	entered := u.entered
	*u = run{}
	if entered {
		s.k.leave()
	}
}

// leaveRun makes the call one of its own, that any goroutine may go on with.
func (c *call) leaveRun() {
	if !c.inRun {
		return
	}
	c.inRun = false
	s := c.responder
	// The run is counted, so that the connection does not drain meanwhile.
	s.k.calls.Add(1)
	n := callCost + cap(c.recv.Bytes)
	if c.short != nil {
		n += shortWords
	}
	if c.long != nil {
		n += wordsSize
	}
	c.charge(n)
}
