package rpc

import (
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// Serve runs an admitted call. The transport has brought its message, its excised items and its
// memory. Serve runs it at once on this goroutine as long as it does not block, and then on the
// executor. The way may be used before Serve returns, or later.
func (s *Server) Serve(c *Call) {
	c.state.lender = nil
	s.start(c, false)
}

// Hand is Serve for a goroutine with other duties, such as one that gives back memory or closes
// another connection. The call runs on the executor.
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

// whole reports whether all arguments have arrived. They have not if the program answers the call
// by the start of a long message (Early).
func (c *Call) whole() bool {
	return !c.Early || len(c.Message) == c.MessageLen && len(c.Excised) == len(c.Placed)
}

// beginLater has the executor begin a detached call.
func (s *Server) beginLater(c *Call) {
	c.state.waits = true
	s.submit(c, startLane{})
}

// lost reports that c has not begun, and that its connection has ended.
func (c *Call) lost() bool { return c.Conn.Gone() && c.Progress == nil }

// startLane is the lane of calls that have not been tried yet. Nothing in it stalls.
type startLane struct{}

// begin starts a call that has arrived completely, on a goroutine that may not wait.
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
		// c may already be answered, and its record reused for another call.
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

// runBlocking is run on a worker of the executor.
func (s *Server) runBlocking(c *Call) {
	st := &c.state
	st.lender = nil // this goroutine is a worker
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

// complete does Call.Complete.
func (s *Server) complete(c *Call, results func(w *xdr.Writer) Outcome) {
	w := c.state.w
	s.conclude(c, w, s.encode(c, w, results))
}

// conclude frames the result of the call, and answers the copies that wait for it. Each copy is
// answered on its own connection, because a client waits there: a client of NFSv4 does not repeat
// a call on the same connection (RFC 7530 §3.1.1).
func (s *Server) conclude(c *Call, w *xdr.Writer, out Outcome) {
	st := &c.state
	if out.Block || out.Pending || out.Stat > AcceptSystemErr {
		out = SystemErr // a fault of the program: Serve may not return this here
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

// putEnd turns w, which holds the results of a successful call, into the reply for out. It
// returns false if the reply cannot be protected.
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

// answer frames the kept result for the copy c.
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

// abandon drops a call that gets no answer. Its waiting copies begin anew.
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
