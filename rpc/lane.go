package rpc

import "github.com/nfsrdmad/nfsrdmad/mem"

// laneReply is the largest reply, in bytes without payload, for which no transport uses payload
// memory.
const laneReply = 2048

// maxIdleLanes is a limit on the groups in laneGroups: if there are as many, newGroup deletes the
// groups of idle lanes before it adds another.
const maxIdleLanes = 64

// laneGroups holds the memory group of each lane. It is immutable: a change replaces it.
type laneGroups map[any]*mem.Group

// groupOf returns the group that bounds the payload memory of a call with this plan, or nil if the
// call needs none or has no lane. All calls of one lane share a group, so that a stalled lane does
// not take the memory of the others.
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

// newGroup adds a group for a lane that has none.
func (s *Server) newGroup(lane any) *mem.Group {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := *s.groups.Load()
	if g := old[lane]; g != nil {
		return g
	}
	now := make(laneGroups, len(old)+1)
	for l, g := range old {
		// A call that has just got an idle group may ask for memory after the group is deleted. The
		// group still bounds that call, but no later call of the lane shares it.
		if len(old) < maxIdleLanes || !g.Idle() {
			now[l] = g
		}
	}
	g := s.cfg.Pool.NewGroup()
	now[lane] = g
	s.groups.Store(&now)
	return g
}
