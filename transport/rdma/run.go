package rdma

// A run is the state of a responder while there is input: from the first message that the
// receiving goroutine passes on until Drained. A call that is answered within the run, in
// place, needs no record, no room for its reply, no lock and no counter of its own. The run
// belongs to the receiving goroutine.
type run struct {
	// entered: the run counts as one call of the connection, for all calls served in place.
	entered bool
	// call is the record for the next call, with room for its reply.
	call *call

	// Counts for the Stats.
	calls, replies, bytesIn, bytesOut int
}

// enterRun begins a call in place for the message m. It returns false if the connection
// drains, or was ended because of too many calls.
func (s *responder) enterRun(m *inbound) bool {
	n := s.k.calls.Load()
	if !s.run.entered && n&drainBit == 0 {
		n = s.k.enter()
		s.run.entered = n > 0
	}
	if n&drainBit != 0 || !s.run.entered {
		s.k.drop(faultDraining, m)
		return false
	}
	if n > s.mostCalls()+overrunSlack && s.overrun(n) {
		m.recv.Release()
		return false
	}
	return true
}

// endRun releases what the run holds.
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

// leaveRun takes the call out of the run, so that any goroutine may continue it.
func (c *call) leaveRun() {
	if !c.inRun {
		return
	}
	c.inRun = false
	s := c.responder
	// The run counts as a call too, so the connection cannot finish draining meanwhile.
	s.k.calls.Add(1)
	n := callCost + cap(c.in.recv.Bytes)
	if c.short != nil {
		n += shortWords
	}
	if c.long != nil {
		n += wordsSize
	}
	c.charge(n)
}
