package rpc

import "github.com/nfsrdmad/nfsrdmad/mem"

// laneReply is how long a reply's words get at most, in bytes, that no transport
// takes payload memory for.
const laneReply = 2048

// maxIdleLanes is how many lanes are known before idle ones are forgotten.
const maxIdleLanes = 64

// laneGroups is the group of each lane, immutable: a new one is put in place.
type laneGroups map[any]*mem.Group

// groupOf is the group that bounds a call with the plan given, or nil: the payload
// memory of all calls of one lane is bounded together, so that a lane which stalls
// does not take the memory of the others along.
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

// newGroup makes the group of a lane that was not seen before.
func (s *Server) newGroup(lane any) *mem.Group {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := *s.groups.Load()
	if g := old[lane]; g != nil {
		return g
	}
	now := make(laneGroups, len(old)+1)
	for l, g := range old {
		// A call that got this group just now, and asks for memory only later,
		// is bounded by a group that others do not share any more.
		if len(old) < maxIdleLanes || !g.Idle() {
			now[l] = g
		}
	}
	g := s.cfg.Pool.NewGroup()
	now[lane] = g
	s.groups.Store(&now)
	return g
}
