package rpc

import (
	"sync"
	"time"
)

// This file tells the administrator which calls are in progress, and what they wait for. It knows the calls that have
// reached the executor, and those that their program has detached. Others end at once, on the goroutine that received
// them. What it needs to know is copied where the executor holds its mutex anyway, because a call's record belongs to
// the goroutine that serves the call.

// A Stage is how far a call in progress has come.
type Stage uint8

// Values of Stage.
const (
	// Executing: a worker executes the call. If that takes long, the call waits for the resource of its lane.
	Executing Stage = iota
	// Queued: the call waits in its lane for a worker.
	Queued
	// Detached: the call waits for what its program has said (WaitsFor), without a worker.
	Detached
	// PutOff: the call was answered; its client waits, and makes it again (Call.PutOff).
	PutOff
)

// A Wait is what a detached call, or the client of a call that was put off, waits for.
type Wait uint8

// Values of Wait.
const (
	// WaitUnknown: the program has not said it.
	WaitUnknown Wait = iota
	// WaitUser: the groups or the name of the caller are looked up.
	WaitUser
	// WaitState: the records of clients are written, or the state of another client has to end.
	WaitState
	// WaitTurn: an earlier request of the same owner is executed.
	WaitTurn
	// WaitMemory: other calls have the payload memory.
	WaitMemory
	// The following are only of calls that were put off.

	// WaitGrace: in the grace period after a restart, clients reclaim what they held before.
	WaitGrace
	// WaitShare: another owner has the file open and denies the access to others.
	WaitShare

	// countedWaits is the number of the values, from the first one, that Stats counts. The pool counts the waits for
	// memory, and no call is detached for what comes after it.
	countedWaits = WaitMemory
)

// A CallInProgress describes a call.
type CallInProgress struct {
	Conn                             *Conn
	XID, Program, Version, Procedure uint32
	// Name is the procedure's name, or empty.
	Name  string
	Stage Stage
	// First is when the call first came to the executor or was detached, and Since when it entered its Stage. If it is
	// PutOff, First is when it was put off first, and Since when it was last.
	First, Since time.Time
	// Lane is that of an Executing or Queued call. Wait is set if the call is Detached or PutOff.
	Lane any
	Wait Wait
	// Subject is Call.Subject. Part, Group and Object are those of the last Call.Doing; Object is nil if there was none.
	Subject     any
	Part, Group uint32
	Object      []byte
	// More, if it is not 0, is the number of further calls that wait in the Lane. The other fields are then zero.
	More int
}

// facts is what does not change while a call is served.
type facts struct {
	conn                    *Conn
	row                     *procedureRow
	xid, version, procedure uint32
	subject                 any
	first                   time.Time
}

func (c *Call) facts() facts {
	return facts{c.Conn, c.state.row, c.Header.XID, c.Header.Version, c.Header.Procedure, c.Subject, c.state.first}
}

func (f *facts) describe(stage Stage, since time.Time) CallInProgress {
	p := CallInProgress{Conn: f.conn, XID: f.xid, Version: f.version, Procedure: f.procedure, Subject: f.subject, Stage: stage, First: f.first, Since: since}
	if f.row != nil {
		p.Program, p.Name = f.row.program, f.row.Name
	}
	return p
}

// largestObject is the largest object that Doing keeps, in bytes.
const largestObject = 64

// A part is what a worker's call has said with Doing.
type part struct {
	mu            sync.Mutex
	number, group uint32
	object        [largestObject]byte
	n             int // length of the object; 0 if the call has said nothing
}

func (p *part) set(number, group uint32, object []byte) {
	p.mu.Lock()
	p.number, p.group, p.n = number, group, copy(p.object[:], object)
	p.mu.Unlock()
}

// Doing tells which part of the call the program executes from now on, and on which object of which group: numbers and
// bytes that mean something to the program. Server.Calls shows them. The program calls it only while a worker executes
// the call, without Try; otherwise it does nothing. It costs two atomic operations and the copy of the object.
func (c *Call) Doing(number, group uint32, object []byte) {
	if w := c.state.worker; w != nil {
		w.part.set(number, group, object)
	}
}

// WaitsFor says what the call waits for after the next Detach.
func (c *Call) WaitsFor(w Wait) { c.state.wait = w }

// AwaitsMemory lists an admitted call in Server.Calls as one that waits for payload memory, until Serve, Hand or Leaves.
// The transport calls it if it cannot have the memory of the Plan at once, and does not call Detach.
func (c *Call) AwaitsMemory() {
	if s := c.state.server; s != nil && !c.state.listed {
		c.state.wait = WaitMemory
		s.apart.add(c)
	}
}

// Leaves takes a call out of Server.Calls that the transport ends by itself, or that does not wait for memory any more.
func (c *Call) Leaves() {
	if c.state.listed {
		c.state.server.apart.remove(c)
	}
}

// detachedCalls holds the calls that their programs have detached. waits has their waits that have ended, by Wait.
type detachedCalls struct {
	mu    sync.Mutex
	all   map[*Call]detachedCall
	waits [countedWaits]WaitStats
}

type detachedCall struct {
	facts
	wait  Wait
	since time.Time
}

func (d *detachedCalls) add(c *Call) {
	now := time.Now()
	if c.state.first.IsZero() {
		c.state.first = now
	}
	is := detachedCall{c.facts(), c.state.wait, now}
	c.state.leaves(now)
	c.state.wait, c.state.listed = WaitUnknown, true
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all == nil {
		d.all = make(map[*Call]detachedCall)
	}
	d.all[c] = is
	if is.wait < countedWaits {
		d.waits[is.wait].Now++
	}
}

func (d *detachedCalls) remove(c *Call) {
	c.state.listed = false
	now := time.Now()
	d.mu.Lock()
	is, there := d.all[c]
	delete(d.all, c)
	if there && is.wait < countedWaits {
		d.waits[is.wait].Now--
		d.waits[is.wait].end(now.Sub(is.since))
	}
	d.mu.Unlock()
	if there {
		c.state.was(Detached, is.wait, now.Sub(is.since))
	}
}

// count sets the statistics of the waits of detached calls in st.
func (d *detachedCalls) count(st *Stats) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for w, n := range d.waits {
		st.Waits[Wait(w).reason()] = n
	}
}

// mostListed is the largest number of calls that Calls describes: of the detached ones, and of those that wait in one lane.
// A list of more would keep the executor from its work.
const mostListed = 256

// Calls describes the calls in progress, those of each Stage and Lane in no particular order.
func (s *Server) Calls() (all []CallInProgress) {
	all = s.exec.describe()
	s.apart.mu.Lock()
	defer s.apart.mu.Unlock()
	n := 0
	for _, d := range s.apart.all {
		if n++; n > mostListed {
			all = append(all, CallInProgress{Stage: Detached, More: len(s.apart.all) - mostListed})
			break
		}
		p := d.describe(Detached, d.since)
		p.Wait = d.wait
		all = append(all, p)
	}
	return append(all, s.putOff.describe()...)
}

func (x *executor) describe() (all []CallInProgress) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for w := x.busy.First; w != nil; w = w.Next {
		p := w.facts.describe(Executing, w.since)
		p.Lane = w.lane.key
		w.part.mu.Lock()
		p.Part, p.Group, p.Object = w.part.number, w.part.group, append([]byte(nil), w.part.object[:w.part.n]...)
		w.part.mu.Unlock()
		all = append(all, p)
	}
	for key, l := range x.lanes {
		left := mostListed
		l.line.All(func(p *lanePlace) bool {
			if left--; left < 0 {
				all = append(all, CallInProgress{Stage: Queued, Lane: key, More: l.line.Len() - mostListed})
				return false
			}
			c := p.Value
			f := c.facts()
			is := f.describe(Queued, c.state.since)
			is.Lane = key
			all = append(all, is)
			return true
		})
	}
	return all
}
