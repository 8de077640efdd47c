package rpc

import "github.com/nfsrdmad/nfsrdmad/rpc/xdr"

// refuse, drop, turnAway, reject and deny end a call that the server does not serve. They send an
// error through the call's Way, or drop the call.

func (s *Server) refuse(c *Call, why Refusal) (Plan, bool) {
	s.ended(c, StatusNotACall+Status(why-RefuseNotACall))
	c.Way.Refuse(why)
	return Plan{}, false
}

func (s *Server) drop(c *Call) (Plan, bool) { return s.turnAway(c, Dropped) }

// turnAway ends a call that the server does not serve. out is the outcome that a Protection or a
// Service's Judge returned, or Dropped.
func (s *Server) turnAway(c *Call, out Outcome) (Plan, bool) {
	switch {
	case out.Dropped:
		s.ended(c, StatusDropped)
		if out.Close {
			c.Way.DropAndClose()
		} else {
			c.Way.Drop()
		}
		return Plan{}, false
	case out.Auth != AuthOK:
		return s.deny(c, out.Auth)
	case out.Block || out.Pending || out.Stat == Success || out.Stat > AcceptSystemErr:
		out = SystemErr // the program is wrong: Judge must not return such an outcome
	}
	return s.reject(c, out)
}

// reject sends a reply with the status of out, which is not Success.
func (s *Server) reject(c *Call, out Outcome) (Plan, bool) {
	w := c.Way.Writer(ErrorReply + c.state.overhead.Verifier)
	if !c.putAccepted(w, out.Stat) {
		return s.drop(c)
	}
	if out.Stat == AcceptProgMismatch {
		c.putVersions(w, out.Low, out.High)
	}
	s.ended(c, Status(out.Stat))
	c.Way.Send()
	return Plan{}, false
}

// putVersions writes the data of PROG_MISMATCH: low and high or, if both are 0, the lowest and the
// highest registered version of the program.
func (c *Call) putVersions(w *xdr.Writer, low, high uint32) {
	if low == 0 && high == 0 {
		for _, v := range c.state.server.table.Load().versions {
			if v.number == c.Header.Program {
				if high == 0 {
					low = v.low
				}
				low, high = min(low, v.low), max(high, v.high)
			}
		}
	}
	w.Uint32(low)
	w.Uint32(high)
}

// deny replies MSG_DENIED. If the argument why is AuthOK, it sends RPC_MISMATCH, because the server
// does not support the call's RPC version. Otherwise it sends AUTH_ERROR with why as the status.
func (s *Server) deny(c *Call, why AuthStat) (Plan, bool) {
	w := c.Way.Writer(ErrorReply)
	if why == AuthOK {
		PutRPCMismatch(w, c.Header.XID)
		s.ended(c, StatusRPCMismatch)
	} else {
		PutAuthError(w, c.Header.XID, why)
		s.ended(c, StatusAuthError)
	}
	c.Way.Send()
	return Plan{}, false
}

// Oversize replies GARBAGE_ARGS to an admitted call whose message turns out to be longer than its
// Plan allows. It ends the call.
func (s *Server) Oversize(c *Call) { s.reject(c, GarbageArgs) }
