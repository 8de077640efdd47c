package rpc

import (
	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// Admit decides on a call by the part of its message that has arrived, before the transport
// receives the rest or reserves memory for it (RFC 8166 §6.1, §8.1.4). It checks the caller, the
// procedure, the object, and whether the reply fits into the space that the caller offers. If it
// returns false, it has already ended the call: it has sent an error through the call's Way, or
// dropped the call. The transport then skips the rest of the call.
//
// If a call's message is in a Position-Zero Read chunk, the transport has to fetch the start of the
// message before it can call Admit. The Plan does not include the memory for that start: the
// transport limits it itself.
func (s *Server) Admit(c *Call) (Plan, bool) {
	c.state = callState{server: s}
	c.Subject, c.Progress, c.Early = nil, nil, false
	if s.draining.Load() {
		c.Header = CallHeader{}
		return s.drop(c)
	}
	if s.tracers.Load() != nil {
		c.state.traced = new(traced)
	}
	h := &c.Header
	switch version, why, ok := h.parse(c.Message); {
	case !ok:
		return s.refuse(c, RefuseNotACall)
	case version != Version || why != AuthOK:
		return s.deny(c, why)
	}
	if out := s.verify(c); !out.good() {
		return s.turnAway(c, out)
	}
	st := &c.state
	if handler, ok := st.guard.(Handler); ok {
		st.handler, st.procedure = handler, handler.Procedure()
		st.overhead.Wraps, st.overhead.Before, st.overhead.Behind = false, 0, 0
		return s.judge(c)
	}
	if stat := st.find(s.table.Load(), h); stat != Success {
		return s.reject(c, Outcome{Stat: stat})
	}
	if st.row != nil {
		c.Conn.used(st.row, &c.Cred)
	}
	return s.judge(c)
}

// verify lets the Protection of the call's flavor check the caller.
func (s *Server) verify(c *Call) Outcome {
	flavor := c.Header.Cred.Flavor
	// A Protection that forgets to say who calls must not make the caller root.
	c.Cred = Cred{Flavor: flavor, UID: NobodyID, GID: NobodyID}
	switch flavor {
	case AuthNone: // RFC 5531 §8.2
	case AuthSys: // the server accepts the caller's numbers without proof
		if !c.Cred.parseSys(c.Header.Cred.Body) {
			return Denied(AuthBadCred)
		}
	default:
		p := s.table.Load().protections[flavor]
		if p == nil {
			return Denied(AuthRejectedCred)
		}
		return s.verifyBy(p, c)
	}
	if c.Header.Verf.Flavor != AuthNone { // these flavors have no verifier
		return Denied(AuthBadVerf)
	}
	return Done
}

func (s *Server) verifyBy(p Protection, c *Call) (out Outcome) {
	defer s.caught(c, &out)
	g, out := p.Verify(&c.Arrived)
	c.state.guard = g
	if g != nil {
		c.state.overhead = g.Overhead()
	}
	return out
}

// find looks up the program, version and procedure of a call with header h, and stores their rows
// of the table in st. It returns Success, or the status of the error reply if one of them is not
// served.
func (st *callState) find(t *table, h *CallHeader) AcceptStat {
	stat := AcceptProgUnavail
	for _, v := range t.versions {
		switch {
		case v.number != h.Program:
		case v.version != h.Version:
			stat = AcceptProgMismatch
		case uint64(h.Procedure) >= uint64(len(v.procedures)) || v.procedures[h.Procedure].Name == "":
			return AcceptProcUnavail
		default:
			st.program, st.row = v.program, &v.procedures[h.Procedure]
			st.procedure = st.row.Procedure
			return Success
		}
	}
	if f := t.fallback; f != nil && stat == AcceptProgUnavail {
		if st.procedure = f.Procedure(h.Program, h.Version, h.Procedure); st.procedure == nil {
			return AcceptProcUnavail
		}
		st.program = f
		return Success
	}
	return stat
}

// judge checks the call's sizes against the limits of its procedure, calls the program's Judge, and
// makes the Plan. If the arguments are protected and cannot be unwrapped now, the server calls the
// Judge later, after Unwrap (see startInPlace).
func (s *Server) judge(c *Call) (Plan, bool) {
	st := &c.state
	h, row := &c.Header, st.procedure
	wraps := st.overhead.Wraps
	placed := 0
	for i := range c.Placed {
		n := int(c.Placed[i].Length)
		if placed += n + xdr.Pad(n); placed > row.MaxArgs || wraps {
			return s.refuse(c, RefuseChunk)
		}
	}
	most := row.MaxArgs
	if wraps {
		most += maxWrapping
	}
	if c.MessageLen < len(c.Message) || c.MessageLen-h.Size > most-placed {
		return s.reject(c, GarbageArgs)
	}
	if wraps {
		st.sealed = true
		if c.MessageLen > len(c.Message) || c.MessageLen > maxUnwrapAtOnce {
			// The arguments have not all arrived, or are long. startInPlace unwraps them later, and
			// only then calls Judge, because Judge has to read the arguments.
			st.planned(row.MaxResults, 0, most)
			return st.plan, true
		}
		if !s.unwrap(c) {
			return s.reject(c, GarbageArgs)
		}
	}
	if !s.consultProgram(c) {
		return Plan{}, false
	}
	st.planned(st.judged.Words, st.judged.Payload, most)
	p := &st.plan
	if c.Early {
		p.Early, p.Results = true, 0
	}
	if st.judged.Lane != nil {
		p.Group = s.groupOf(c, p)
	}
	return *p, true
}

// maxWrapping is the largest number of bytes that a protection may add to arguments.
const maxWrapping = 1024

// planned sets the Plan of a call. words is the largest size of the results without payloads,
// payload the largest size of the payloads, and args the largest size of the arguments, all in
// bytes.
func (st *callState) planned(words, payload, args int) {
	o, p := &st.overhead, &st.plan
	p.Args = args
	p.Reply = max(ReplyHeader+words+o.Before+o.Behind, ErrorReply) + o.Verifier
	p.Results = payload
	p.Placement = !o.Wraps
}

// consultProgram calls consult, and stores the program's judgement in c. It ends the call and returns
// false if consult does not accept the call, if an item in a Read chunk is not eligible, or if the
// reply to a call that changes something may not fit into the space that the caller offers.
func (s *Server) consultProgram(c *Call) bool {
	st := &c.state
	j := &st.judged
	switch out := s.consult(c); {
	case len(j.placed) > 0 && out != SystemErr:
		s.refuse(c, RefuseChunk)
		return false
	case !out.good():
		s.turnAway(c, out)
		return false
	}
	c.Subject, c.Early = j.Subject, j.Early
	if j.Known {
		c.Conn.MarkKnown()
	}
	if j.Once && !j.Early && !c.carries(ReplyHeader+j.Words, j.Payload) {
		s.refuse(c, RefuseRoom)
		return false
	}
	return true
}

// consult walks over the arguments, as far as they have arrived, and calls the program's Judge with
// the resulting Shape. It does not call the Judge if an item in a Read chunk is not eligible, or if
// a Handler serves the call.
func (s *Server) consult(c *Call) (out Outcome) {
	defer s.caught(c, &out)
	st := &c.state
	j := &st.judged
	c.Args.Reset(c.body(), c.Header.Size, nil)
	st.procedure.Measure(&c.Args, c.Placed, &j.Shape)
	whole := c.MessageLen == len(c.Message)
	if whole && c.Args.Err() != nil || j.Words < 0 || j.Payload < 0 {
		return GarbageArgs
	}
	if len(j.placed) > 0 || st.handler != nil {
		return Done
	}
	o := &st.overhead
	j.Room = max(c.Way.Room().Largest()-ReplyHeader-o.Verifier-o.Before-o.Behind, 0)
	return st.program.Judge(&c.Arrived, j)
}

// A Shape is the result of one walk over a call's arguments (RFC 8166 §6). All sizes are in
// bytes.
type Shape struct {
	// Words is the largest size of the results without eligible payload. Payload is the largest
	// size of the eligible payload of all results together.
	Words, Payload int
	// Once is true if the call changes something. If the client repeats such a call, the server
	// does not execute it again, but sends the results of the first execution.
	Once bool
	// Prefix is the size of the arguments up to the content of the first Item.
	Prefix int
	// Object is the argument that names the object of the call, such as a file handle. It aliases
	// the arguments. It is nil if there is none or if it cannot be read.
	Object []byte

	start  int
	placed []Placed // the items in Read chunks that the walk has not reached
}

// Shape walks over the arguments of a call. placed are the items that travel outside the message,
// in Read chunks. eligible is true if the Binding allows all of them to travel there.
func (p *Procedure) Shape(args xdr.Decoder, placed []Placed) (s Shape, eligible bool) {
	eligible = p.Measure(&args, placed, &s)
	return s, eligible
}

// Measure is like Shape, but stores its result in *s and advances args, so that it allocates
// nothing.
func (p *Procedure) Measure(args *xdr.Decoder, placed []Placed, s *Shape) (eligible bool) {
	*s = Shape{Words: p.MaxResults, Once: p.Once, start: args.Position(), placed: placed}
	if p.Walk != nil {
		p.Walk(args, s)
	}
	return len(s.placed) == 0
}

// Item skips an opaque argument of variable length that is eligible for direct data placement. It
// reads the count, and skips the content if the content is in the message.
func (s *Shape) Item(args *xdr.Decoder) {
	n := args.Uint32()
	if s.Prefix == 0 {
		s.Prefix = args.Position() - s.start
	}
	if len(s.placed) > 0 && args.Err() == nil && int64(s.placed[0].Position) == int64(args.Position()) {
		s.placed = s.placed[1:]
		args.Jump(int(n))
		return
	}
	if int64(n) > int64(args.Len()) {
		args.Fail(xdr.ErrShort)
		return
	}
	args.FixedOpaque(int(n))
}

// good reports whether the server continues with the call.
func (o *Outcome) good() bool { return *o == Outcome{} }

// carries reports whether a reply fits into the space that the caller offers, and notes its size for
// Needed. The parameter reply is the reply's size in bytes without payload and protection; payload is
// the size of its payload in bytes.
func (c *Call) carries(reply, payload int) bool {
	o := &c.state.overhead
	reply += o.Verifier + o.Before + o.Behind
	if payload > 0 {
		n, ok := 0, false
		if !o.Wraps {
			n, ok = c.Way.Place(0)
		}
		if !ok || payload > n {
			reply += payload + xdr.Pad(payload)
		}
	}
	c.state.needed = reply
	return reply <= c.Way.Room().Largest()
}

// Needed returns the size in bytes of the largest reply that the call may have, without what goes to a
// Write chunk. It is for a Way that refuses the call for RefuseRoom; otherwise it may be 0.
func (c *Call) Needed() int { return c.state.needed }

// laneReply is the largest reply, in bytes without payload, for which no transport uses payload
// memory.
const laneReply = 2048

// groupOf returns the group that limits the payload memory of a call with the Plan p. It returns
// nil if the call needs no such memory, or has no lane. All calls of one lane share a group, so
// that calls that wait for one resource cannot take the memory that calls in other lanes need.
func (s *Server) groupOf(c *Call, p *Plan) *mem.Group {
	lane := c.state.judged.Lane
	if lane == nil || s.cfg.Pool == nil || p.Early ||
		p.Results == 0 && len(c.Placed) == 0 && c.MessageLen == len(c.Message) && p.Reply <= laneReply {
		return nil
	}
	if g := (*s.groups.Load())[lane]; g != nil {
		return g
	}
	return s.newGroup(lane)
}
