package rpc

import (
	"math"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// Admit judges a call by the part of its message that is at hand, before
// anything else of it is brought (RFC 8166 §6.1, §8.1.4). Where it returns
// false the way was used already: the caller got an error, or nothing; the
// transport forgets the call and skips what is still to come of it.
//
// A transport that does not know where a call's arguments are before it brought
// them (a Position-Zero Read chunk) keeps a bound of its own until then.
func (s *Server) Admit(c *Call) (Plan, bool) {
	c.state = callState{server: s}
	c.Cred.Flavor, c.Cred.Groups, c.Cred.Machine = 0, nil, nil
	c.Args = xdr.Decoder{}
	if s.draining.Load() {
		c.Header = CallHeader{}
		return s.drop(c)
	}
	h := &c.Header
	good := h.parse(c.Message)
	switch good {
	case headerNotACall:
		return s.refuse(c, RefuseNotACall)
	case headerMismatch:
		return s.deny(c, AuthOK)
	}
	st := &c.state
	if st.program = s.table.Load().find(h.Program); st.program == nil {
		return s.reject(c, AcceptProgUnavail)
	}
	v := st.program.find(h.Version)
	if v == nil {
		return s.reject(c, AcceptProgMismatch)
	}
	if st.row = v.find(h.Procedure); st.row == nil {
		return s.reject(c, AcceptProcUnavail)
	}
	switch good {
	case headerBadCred:
		return s.deny(c, AuthBadCred)
	case headerBadVerf:
		return s.deny(c, AuthBadVerf)
	}
	if why := c.Cred.parse(h); why != AuthOK {
		return s.deny(c, why)
	}
	if why := st.program.Authorize(c); why != AuthOK {
		return s.deny(c, why)
	}
	return s.plan(c)
}

// plan holds the call's sizes against its procedure's row of the Binding.
func (s *Server) plan(c *Call) (Plan, bool) {
	h, row := &c.Header, c.state.row.Procedure
	placed := 0
	for i := range c.Placed {
		n := int(c.Placed[i].Length)
		if placed += n + xdr.Pad(n); placed > row.MaxArgs {
			return s.refuse(c, RefuseChunk)
		}
	}
	if c.MessageLen < len(c.Message) || c.MessageLen-h.Size > row.MaxArgs-placed {
		return s.reject(c, AcceptGarbageArgs)
	}
	var args xdr.Decoder
	args.Reset(c.Message[h.Size:], h.Size, nil)
	if len(c.Placed) > 0 && (row.Eligible == nil || !row.Eligible(args, c.Placed)) {
		return s.refuse(c, RefuseChunk)
	}
	words, payload := row.MaxResults, 0
	if row.Size != nil {
		if words, payload = row.Size(args); words < 0 || payload < 0 {
			return s.reject(c, AcceptGarbageArgs)
		}
	}
	if row.Once && !carries(c.Way.Room(), ReplyHeader+words, payload) {
		return s.refuse(c, RefuseRoom)
	}
	p := Plan{Args: row.MaxArgs, Reply: max(ReplyHeader+words, ErrorReply), Results: payload, Placement: true}
	p.Group = s.groupOf(c, &p, args)
	c.state.plan = p
	return p, true
}

// carries says whether a reply of so many bytes without payload, and payload,
// finds its way back.
func carries(r Room, reply, payload int) bool {
	if r.Continued {
		return true
	}
	if payload > 0 && (r.WriteChunks == 0 || payload > r.WriteBytes) {
		if payload > math.MaxInt32 {
			return false
		}
		reply += payload + xdr.Pad(payload)
	}
	return reply <= r.Largest()
}

// refuse, drop, reject and deny use the way of a call that is not served.

func (s *Server) refuse(c *Call, why Refusal) (Plan, bool) {
	s.ended(c, StatusNotACall+Status(why-RefuseNotACall))
	c.Way.Refuse(why)
	return Plan{}, false
}

func (s *Server) drop(c *Call) (Plan, bool) {
	s.ended(c, StatusDropped)
	c.Way.Drop()
	return Plan{}, false
}

func (s *Server) reject(c *Call, stat AcceptStat) (Plan, bool) {
	w := c.Way.Writer(ErrorReply)
	if stat == AcceptProgMismatch {
		PutProgMismatch(w, c.Header.XID, c.state.program.low, c.state.program.high)
	} else {
		PutAccepted(w, c.Header.XID, stat)
	}
	s.ended(c, Status(stat))
	c.Way.Send()
	return Plan{}, false
}

// deny answers MSG_DENIED: for the credential, or with AuthOK for the version of
// RPC.
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
