package rpc

import (
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// Serve runs an admitted call whose message, excised items and memory are all
// here: at once on this goroutine as far as that does not block, otherwise on
// the executor. The way may be used before Serve returns, or later.
func (s *Server) Serve(c *Call) {
	if s.cfg.Observe != nil {
		c.state.took = time.Now()
	}
	if !s.enter() {
		s.drop(c)
		return
	}
	c.moved()
	if c.state.row.Once && !s.replies.begin(s, c) {
		return
	}
	c.Try = true
	s.run(c)
}

// run executes the call on the calling goroutine.
func (s *Server) run(c *Call) {
	w := c.Way.Writer(c.state.plan.Reply)
	PutAccepted(w, c.Header.XID, Success)
	results := c.ResultsAt
	out := c.state.program.Serve(c, w)
	switch {
	case out.Pending:
		// c may be answered by now, and somebody else's.
		return
	case out.Block && c.Try:
		// The next run has all of the memory again that this one gave back.
		w.Release()
		c.ResultsAt = results
		c.Detach()
		c.Try = false
		s.handed.Add(1)
		s.exec.submit(c, out.Lane)
		return
	case c.Try:
		s.inPlace.Add(1)
	}
	s.conclude(c, w, out)
}

// runBlocking is run for the executor.
func (s *Server) runBlocking(c *Call) {
	if s.closed.Load() {
		s.abandon(c)
		return
	}
	s.run(c)
}

// complete is Call.Complete.
func (s *Server) complete(c *Call, results func(w *xdr.Writer) Outcome) {
	w := c.Way.Writer(c.state.plan.Reply)
	PutAccepted(w, c.Header.XID, Success)
	s.conclude(c, w, results(w))
}

// conclude frames what came of the call and uses its way, or the way of the
// duplicate that took over.
func (s *Server) conclude(c *Call, w *xdr.Writer, out Outcome) {
	if out.Block || out.Pending || out.Stat > AcceptSystemErr {
		out = SystemErr // the program's fault: there is no such end
	}
	if out.Dropped {
		w.Release()
		s.abandon(c)
		return
	}
	if w.Overflow() && out.Auth == AuthOK && out.Stat == Success {
		if c.state.entry == nil && !carries(c.Way.Room(), c.state.plan.Reply, 0) {
			w.Release()
			s.refuse(c, RefuseRoom)
			s.leave()
			return
		}
		s.overflows.Add(1)
		out = SystemErr
	}
	how := putFailure(w, c, out.Auth, out.Stat)
	if e := c.state.entry; e != nil {
		c.state.entry = nil
		if heir, kept := s.replies.finish(e, w, out); heir != nil {
			s.answer(heir, &kept)
			w.Release()
			s.supersede(c)
			return
		}
	}
	s.ended(c, how)
	c.Way.Send()
	s.leave()
}

// putFailure makes w a reply without results, unless the call succeeded.
func putFailure(w *xdr.Writer, c *Call, auth AuthStat, stat AcceptStat) Status {
	if auth == AuthOK && stat == Success {
		return StatusSuccess
	}
	w.Truncate(0)
	switch {
	case auth != AuthOK:
		PutAuthError(w, c.Header.XID, auth)
		return StatusAuthError
	case stat == AcceptProgMismatch:
		PutProgMismatch(w, c.Header.XID, c.state.program.low, c.state.program.high)
	default:
		PutAccepted(w, c.Header.XID, stat)
	}
	return Status(stat)
}

// answer frames results of an earlier call for its duplicate c.
func (s *Server) answer(c *Call, r *results) {
	w := c.Way.Writer(max(ReplyHeader+r.words, ErrorReply))
	PutAccepted(w, c.Header.XID, Success)
	if putFailure(w, c, r.auth, r.stat) == StatusSuccess {
		r.put(w)
	}
	if w.Overflow() {
		w.Release()
		s.refuse(c, RefuseRoom)
	} else {
		s.ended(c, StatusReplayed)
		c.Way.Send()
	}
	s.leave()
}

// supersede drops a call whose answer goes to a later duplicate.
func (s *Server) supersede(c *Call) {
	s.ended(c, StatusSuperseded)
	c.Way.Drop()
	s.leave()
}

// abandon drops a call that will not be answered, and whoever took over.
func (s *Server) abandon(c *Call) {
	if e := c.state.entry; e != nil {
		c.state.entry = nil
		if heir := s.replies.forget(e); heir != nil {
			s.drop(heir)
			s.leave()
		}
	}
	s.drop(c)
	s.leave()
}
