package rpc

import "slices"

// This file shows calls to an administrator as they end. While nothing traces, it costs each call one atomic load.

// An Ending describes the end of a call to a function that Trace was given. It is valid only during the function.
type Ending struct {
	Event
	XID uint32
	// Answer is the first word of the results, and Answered whether there is one: the status of NFS, MOUNT and others. A
	// call that was answered from the reply cache has none.
	Answer   uint32
	Answered bool
	// Subject is Call.Subject, and Steps what the program told with Did.
	Subject any
	Steps   []Step
}

// A Step is a part of a call that its program has executed: number and status mean something to the program, group and
// object are as for Doing.
type Step struct {
	Number, Status, Group uint32
	n                     uint8
	object                [largestObject]byte
}

// Object returns the object of the step, or nil.
func (s *Step) Object() []byte { return slices.Clone(s.object[:s.n]) }

// traced is what is kept of a call that is traced.
type traced struct {
	answer   uint32
	answered bool
	steps    []Step
}

type tracer struct{ see func(*Ending) }

// Trace calls see at the end of each call that comes to Admit from now on, on the goroutine that ends it, until stop is
// called. Nanoseconds is 0 for a call that Admit ended.
// It must not block. It may be called once more, or a few times, after stop.
func (s *Server) Trace(see func(*Ending)) (stop func()) {
	t := &tracer{see}
	s.changeTracers(func(all []*tracer) []*tracer { return append(all, t) })
	return func() {
		s.changeTracers(func(all []*tracer) []*tracer {
			return slices.DeleteFunc(all, func(other *tracer) bool { return other == t })
		})
	}
}

func (s *Server) changeTracers(change func([]*tracer) []*tracer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var now []*tracer
	if p := s.tracers.Load(); p != nil {
		now = slices.Clone(*p)
	}
	if now = change(now); len(now) == 0 {
		s.tracers.Store(nil)
		return
	}
	s.tracers.Store(&now)
}

// Traced reports whether the program is to call Did.
func (c *Call) Traced() bool { return c.state.traced != nil }

// Did tells a trace which part of the call has ended, with a status, on which object of which group. Without a trace it
// does nothing.
func (c *Call) Did(number, status, group uint32, object []byte) {
	t := c.state.traced
	if t == nil || len(t.steps) == mostSteps {
		return
	}
	s := Step{Number: number, Status: status, Group: group}
	s.n = uint8(copy(s.object[:], object))
	t.steps = append(t.steps, s)
}

// mostSteps is the largest number of steps that a trace shows of one call.
const mostSteps = 64

// answers keeps the first word of the results.
func (t *traced) answers(results []byte) {
	if len(results) >= 4 {
		t.answered = true
		t.answer = uint32(results[0])<<24 | uint32(results[1])<<16 | uint32(results[2])<<8 | uint32(results[3])
	}
}

// tellTracers tells the end of a traced call.
func (s *Server) tellTracers(c *Call, e *Event) {
	all := s.tracers.Load()
	if all == nil {
		return
	}
	t := c.state.traced
	is := Ending{Event: *e, XID: c.Header.XID, Answer: t.answer, Answered: t.answered, Subject: c.Subject, Steps: t.steps}
	for _, tracer := range *all {
		tracer.see(&is)
	}
}
