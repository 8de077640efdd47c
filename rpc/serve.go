package rpc

import (
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// Serve runs an admitted call. The transport has set its Message, Excised and Memory. Serve runs
// the call on this goroutine until it would block, and then passes it to the executor. The call may
// end before Serve returns, or later.
func (s *Server) Serve(c *Call) {
	c.state.lender = nil
	s.start(c, false)
}

// Hand is Serve for a goroutine that must not run calls itself, such as one that releases memory or
// closes another connection. The call runs on the executor from its start.
func (s *Server) Hand(c *Call) {
	c.state.lender = nil
	s.start(c, true)
}

func (s *Server) start(c *Call, elsewhere bool) {
	if s.cfg.Observe != nil {
		c.state.took = time.Now()
	}
	if !s.enter() {
		s.drop(c)
		return
	}
	c.moved()
	if elsewhere || c.state.sealed || c.state.wrapsMuch() {
		c.detach()
		s.beginLater(c)
		return
	}
	s.begin(c)
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

// lost reports whether c can be dropped: its connection has ended, and it has not begun.
func (c *Call) lost() bool { return c.Conn.Gone() && c.Progress == nil }

// startLane is the lane of calls that the executor begins. They move to another lane before they
// may block, so this lane does not stall.
type startLane struct{}

// begin starts a call that has arrived, on a goroutine that must not block.
func (s *Server) begin(c *Call) {
	st := &c.state
	if st.sealed {
		if !s.unwrap(c) {
			s.reject(c, GarbageArgs)
			s.leave()
			return
		}
		if !s.hear(c) {
			s.leave()
			return
		}
	}
	c.Args.Reset(c.body(), c.Header.Size+st.from, c.Excised)
	if st.judged.Once && c.whole() && !s.replies.begin(s, c) {
		return
	}
	c.Try = true
	s.run(c)
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

// runBlocking runs a call on a worker of the executor, where it may block.
func (s *Server) runBlocking(c *Call) {
	st := &c.state
	st.lender = nil // this goroutine is a worker already
	switch {
	case s.closed.Load():
		s.abandon(c)
	case st.waits:
		st.waits = false
		s.begin(c)
	default:
		s.run(c)
	}
}

// complete implements Call.Complete.
func (s *Server) complete(c *Call, results func(w *xdr.Writer) Outcome) {
	w := c.state.w
	s.conclude(c, w, s.encode(c, w, results))
}

// conclude sends the reply of the call, and answers the copies of the call that wait for it. It
// answers each copy on the copy's own connection, because the client may wait there: an NFSv4
// client repeats a call only on a new connection (RFC 7530 §3.1.1).
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
	how, ok := s.putEnd(w, c, out)
	if !ok {
		w.Release()
		s.drop(c)
		s.leave()
		return
	}
	s.ended(c, how)
	c.Way.Send()
	s.leave()
}

// putEnd turns w into the reply for out. w holds the results that the call has written. putEnd
// returns false if the reply's verifier cannot be written.
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
		c.state.putVersions(w, out.Low, out.High)
	}
	return Status(out.Stat), true
}

// answer sends the stored result k as the reply to c, a copy of the call that k is from.
func (s *Server) answer(c *Call, k *Kept) {
	o := &c.state.overhead
	size := ReplyHeader + o.Verifier + o.Before + k.words + o.Behind
	put := k.Put
	if o.Wraps {
		put = k.putCopy
		for _, m := range k.marks {
			size += m.length + 3
		}
	}
	w := c.Way.Writer(max(size, ErrorReply+o.Verifier))
	ok := c.putResultsHeader(w)
	out := put(w)
	if w.Overflow() && out.good() {
		w.Release()
		s.refuse(c, RefuseRoom)
		s.leave()
		return
	}
	if ok {
		_, ok = s.putEnd(w, c, out)
	}
	if !ok {
		w.Release()
		s.drop(c)
		s.leave()
		return
	}
	s.ended(c, StatusReplayed)
	c.Way.Send()
	s.leave()
}

// abandon drops a call without a reply. Calls that wait for it are begun instead.
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
