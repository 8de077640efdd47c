package rpc

import (
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// Serve runs an admitted call, whose Message, Excised and Memory the transport has set. Serve runs
// the call on this goroutine until it would block, and then passes it to the executor; at once, if
// unwrapping its arguments or wrapping its results may take long. The call may end before Serve
// returns, or later.
func (s *Server) Serve(c *Call) { s.start(c, false) }

// Hand is Serve for a goroutine that must not run calls itself, such as one that releases memory or
// closes another connection. The call runs on the executor from its start.
func (s *Server) Hand(c *Call) { s.start(c, true) }

func (s *Server) start(c *Call, elsewhere bool) {
	st := &c.state
	if s.observe.Load() != nil || st.traced != nil {
		st.took = time.Now()
	}
	c.Leaves()
	s.inProgress.Add(1)
	if s.draining.Load() {
		s.drop(c)
		s.leave()
		return
	}
	c.moved()
	if elsewhere || st.sealed || st.overhead.Wraps && st.plan.Results > maxUnwrapAtOnce {
		c.detach()
		s.beginLater(c)
		return
	}
	s.startInPlace(c)
}

// whole reports whether all arguments have arrived. It may return false only if the program answers
// from the start of a long message (Early).
func (c *Call) whole() bool {
	return !c.Early || len(c.Message) == c.MessageLen && len(c.Excised) == len(c.Placed)
}

// beginLater makes the executor begin a detached call.
func (s *Server) beginLater(c *Call) {
	c.state.waits = true
	s.submit(c, startLane{})
}

// lost reports whether c can be dropped: its connection has ended, and the program has stored no
// Progress.
func (c *Call) lost() bool { return c.Conn.Gone() && c.Progress == nil }

// startLane is the lane of the calls that beginLater gives to the executor, until they first run.
// Before such a call may block, it moves to the lane of the resource that it waits for. So calls in
// startLane do not delay each other.
type startLane struct{}

// startInPlace starts a call that has arrived. It runs the call with Call.Try, so that the call
// does not block the calling goroutine.
func (s *Server) startInPlace(c *Call) {
	st := &c.state
	if st.sealed {
		if !s.unwrap(c) {
			s.reject(c, GarbageArgs)
			s.leave()
			return
		}
		if !s.consultProgram(c) {
			s.leave()
			return
		}
	}
	c.Args.Reset(c.body(), c.Header.Size+st.from, c.Excised)
	if st.judged.Once && c.whole() && !s.replies.mayExecute(s, c) {
		return
	}
	c.Try = true
	s.run(c)
}

// body returns the arguments in the current Message, without the bytes that Unwrap left around
// them.
func (c *Call) body() []byte {
	return c.Message[c.Header.Size+c.state.from : len(c.Message)-c.state.behind]
}

// run executes the call on the calling goroutine, or continues it.
func (s *Server) run(c *Call) {
	st := &c.state
	w := st.w
	if w == nil {
		w = c.Way.Writer(st.plan.Reply)
		st.w = w
		if !c.putResultsHeader(w) {
			s.abandon(c)
			return
		}
		c.Mark(w)
	}
	out := s.perform(c, w)
	switch {
	case out.Pending:
		// Do not use c: it may already be answered, and its record reused for another call.
		return
	case out.Block && c.Try:
		c.rewind()
		c.detach()
		c.Try = false
		s.handed.Add(1)
		s.submit(c, out.Lane)
		return
	case c.Try:
		s.inPlace.Add(1)
	}
	s.conclude(c, w, out)
}

// putResultsHeader writes everything before the results: the header of a successful reply, and
// space for Overhead.Before.
func (c *Call) putResultsHeader(w *xdr.Writer) bool {
	ok := c.putAccepted(w, Success)
	if n := c.state.overhead.Before; n > 0 {
		w.Reserve(n)
	}
	c.state.results = w.Len()
	return ok
}

// putAccepted writes the header of an accepted reply with the verifier of the call's flavor. It
// returns false if PutVerifier failed.
func (c *Call) putAccepted(w *xdr.Writer, stat AcceptStat) bool {
	g := c.state.guard
	if g == nil {
		PutAccepted(w, c.Header.XID, stat)
		return true
	}
	putReply(w, c.Header.XID, msgAccepted)
	if !g.PutVerifier(w) {
		return false
	}
	w.Uint32(uint32(stat))
	return true
}

// perform calls the Serve of the program or of the flavor's Handler. If Serve panics, perform
// returns SystemErr. If Serve panics after the program has detached the call, perform returns
// Pending, because the program still has to call Complete or Resume, or has already called it on
// another goroutine.
func (s *Server) perform(c *Call, w *xdr.Writer) (out Outcome) {
	row, detached := c.state.row, c.detached.Load()
	defer func() {
		if v := recover(); v != nil {
			s.panicked(row, v)
			if out = SystemErr; c.detached.Load() != detached {
				out = Outcome{Pending: true}
			}
		}
	}()
	if h := c.state.handler; h != nil {
		return h.Serve(c, w)
	}
	return c.state.program.Serve(c, w)
}

// runBlocking runs a call on a worker of the executor, where it may block.
func (s *Server) runBlocking(c *Call) {
	st := &c.state
	st.lender = nil // this goroutine is a worker already
	switch {
	case s.closed.Load():
		s.abandon(c)
	case st.waits:
		st.waits = false
		s.startInPlace(c)
	default:
		s.run(c)
	}
}

// encode calls the function that a program passed to Complete.
func (s *Server) encode(c *Call, w *xdr.Writer, results func(w *xdr.Writer) Outcome) (out Outcome) {
	defer s.caught(c, &out)
	return results(w)
}

// conclude sends the reply of the call, and answers the copies of the call that wait for it, each on
// its own connection, because the client may wait there: an NFSv4 client repeats a call only on a
// new connection (RFC 7530 §3.1.1). Other calls that wait for its end (callState.apart) then begin.
func (s *Server) conclude(c *Call, w *xdr.Writer, out Outcome) {
	st := &c.state
	if out.Block || out.Pending || out.Stat > AcceptSystemErr {
		out = SystemErr // the program is wrong: it must not return such an outcome here
	}
	if out.Dropped {
		w.Release()
		st.close = out.Close
		s.abandon(c)
		return
	}
	if w.Overflow() && out.Auth == AuthOK && out.Stat == Success {
		if st.entry == nil && !c.carries(st.plan.Reply, 0) {
			w.Release()
			s.refuse(c, RefuseRoom)
			s.leave()
			return
		}
		s.overflows.Add(1)
		out = SystemErr
	}
	if e := st.entry; e != nil {
		st.entry = nil
		waiting, kept := s.replies.finish(e, c, w, out)
		for _, next := range waiting {
			if next.state.apart {
				s.beginLater(next)
			} else {
				s.answer(next, &kept)
			}
		}
	}
	if st.traced != nil && st.row != nil && out.good() { // the results of a Handler have no status
		st.traced.answers(w.Bytes()[st.results:])
	}
	how, ok := s.putEnd(w, c, out)
	s.send(c, w, how, ok)
}

// putEnd completes the reply for the outcome out in w, which holds the results that the call has
// written, and returns the call's Status. It returns false if the verifier cannot be written.
func (s *Server) putEnd(w *xdr.Writer, c *Call, out Outcome) (Status, bool) {
	if out.Auth == AuthOK && out.Stat == Success {
		if s.wrap(c, w) {
			if out.Failed {
				return StatusFailed, true
			}
			return StatusSuccess, true
		}
		out = SystemErr
	}
	w.Truncate(0)
	w.Release()
	if out.Auth != AuthOK {
		PutAuthError(w, c.Header.XID, out.Auth)
		return StatusAuthError, true
	}
	if !c.putAccepted(w, out.Stat) {
		return 0, false
	}
	if out.Stat == AcceptProgMismatch {
		c.putVersions(w, out.Low, out.High)
	}
	return Status(out.Stat), true
}

// wrap protects the results, if the Guard wraps results. If it returns false, the server must not
// send them.
func (s *Server) wrap(c *Call, w *xdr.Writer) (ok bool) {
	st := &c.state
	if !st.overhead.Wraps {
		return true
	}
	defer s.failed(c, &ok)
	if st.overhead.Rewrites {
		var own xdr.Releaser // other payloads belong to other replies as well: pages of a file, or a stored result (Kept)
		if c.Memory != nil {
			own = c.Memory
		}
		w.CopyPayloads(own)
	}
	return st.guard.Wrap(w, st.results) && !w.Overflow()
}

// send sends the reply in w. If ok is false, because the reply has no verifier, it drops the call.
func (s *Server) send(c *Call, w *xdr.Writer, how Status, ok bool) {
	if ok {
		s.ended(c, how)
		c.Way.Send()
	} else {
		w.Release()
		s.drop(c)
	}
	s.leave()
}

// ended counts the end of c, releases its Guard, and calls Config.Observe. The server calls it
// before Send, Refuse or Drop of the Way, because the transport may reuse c after these.
func (s *Server) ended(c *Call, how Status) {
	st := &c.state
	if st.guard != nil {
		st.guard.Release()
		st.guard = nil
	}
	if st.row != nil {
		st.row.counts[how].Add(1)
	} else {
		s.unknown[how].Add(1)
	}
	c.Conn.use.calls.Add(1)
	if slow := time.Duration(s.slow.Load()); slow > 0 && !st.first.IsZero() {
		s.tellSlow(c, slow)
	}
	observe := s.observe.Load()
	if observe == nil && st.traced == nil {
		return
	}
	e := &st.event
	*e = Event{
		Conn: c.Conn, Status: how,
		Program: c.Header.Program, Version: c.Header.Version, Procedure: c.Header.Procedure,
	}
	if st.row != nil {
		e.Name = st.row.Name
	}
	if !st.took.IsZero() {
		e.Nanoseconds = int64(time.Since(st.took))
		c.Conn.use.nanoseconds.Add(uint64(e.Nanoseconds))
	}
	if observe != nil {
		(*observe)(e)
	}
	if st.traced != nil {
		s.tellTracers(c, e)
	}
}

func (s *Server) leave() {
	if s.inProgress.Add(-1) == 0 && s.draining.Load() {
		s.wakeDrain()
	}
}

// abandon drops a call without a reply. The executor then begins the calls that waited for the end
// of c.
func (s *Server) abandon(c *Call) {
	st := &c.state
	if e := st.entry; e != nil {
		st.entry = nil
		waiting, _ := s.replies.finish(e, c, nil, Outcome{Dropped: true})
		for _, next := range waiting {
			s.beginLater(next)
		}
	}
	s.turnAway(c, Outcome{Dropped: true, Close: st.close})
	s.leave()
}

// caught is for a defer statement. If the function that defers it panics, caught counts the panic
// and sets *out to SystemErr.
func (s *Server) caught(c *Call, out *Outcome) {
	if v := recover(); v != nil {
		s.panicked(c.state.row, v)
		*out = SystemErr
	}
}

// failed is like caught, but sets *ok to false.
func (s *Server) failed(c *Call, ok *bool) {
	if v := recover(); v != nil {
		s.panicked(c.state.row, v)
		*ok = false
	}
}
