package verbs

import (
	"fmt"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/device"
)

// A phase is how far the end of a connection has come.
type phase uint8

// Phases, in their order.
const (
	live phase = iota
	// leaving: Disconnect was called; what was posted before is carried out.
	leaving
	// draining: the queue pair is in error, and gives its requests back.
	draining
	// destroyed: the device touches no memory any more.
	destroyed
)

// Limits of an end.
const (
	// leaveTimeout is how long the peer may take to carry out what was posted before
	// Disconnect.
	leaveTimeout = 10 * time.Second
	// drainTimeout is how long a device may take to give back its requests.
	drainTimeout = 2 * time.Second
	// farewellTimeout is how long the peer may take to answer that this side leaves: twice
	// the 4.3 s after which rdma_cm repeats a message that was lost.
	farewellTimeout = 9 * time.Second
)

// An ending is how a connection ends. Conn.mu guards it.
type ending struct {
	phase  phase
	cause  error // for Closed; the first counts
	failed bool  // cause is set, or this side or the device found a fault
	// settled: the connection manager has told an event of the connection, so its set-up is
	// over. Before that the manager does not tell the peer that this side leaves.
	settled bool
	left    bool // the peer has disconnected
	dirty   bool // requests came back flushed
	fault   bool // and nothing had explained it
	cut     bool // work of a chain was among them
	marked  bool // the marker behind short Sends was posted
	timer   *time.Timer
	late    bool // the timer fired
}

// eventLocked implements sink.
func (c *Conn) eventLocked(e *device.Event) {
	c.mu.Lock()
	c.ending.settled = true
	if !c.ending.left && (e.Type == device.Disconnected || e.Type == device.TimewaitExit) {
		c.ending.left = true
		close(c.left)
	}
	c.mu.Unlock()
	c.dev.Wake()
	switch e.Type {
	case device.DeviceRemoval:
		c.Abort(ErrDeviceGone)
	case device.Unreachable, device.ConnectError, device.AddrChange:
		if c.setup == nil {
			c.Abort(fmt.Errorf("verbs: %v, status %d", e.Type, e.Status))
		}
	}
	if c.setup != nil {
		c.setup.eventLocked(e)
	}
}

// Disconnect implements rdmacm.Conn.
func (c *Conn) Disconnect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending.phase == live {
		c.ending.phase = leaving
		c.limitLocked(leaveTimeout)
		c.dev.Wake()
	}
}

// Abort implements rdmacm.Conn.
func (c *Conn) Abort(err error) {
	if err == nil {
		err = rdmacm.ErrAborted
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending.phase < destroyed {
		c.failLocked(err)
	}
}

// failLocked ends the connection for a reason. The first counts.
func (c *Conn) failLocked(err error) {
	e := &c.ending
	if !e.failed {
		e.failed, e.cause = true, err
	}
	if e.phase < destroyed {
		c.dev.Wake()
	}
}

// limitLocked has the connection's goroutine look again after d.
func (c *Conn) limitLocked(d time.Duration) {
	e := &c.ending
	if e.timer != nil {
		e.timer.Stop()
	}
	e.late = false
	var timer *time.Timer
	timer = time.AfterFunc(d, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if e.timer == timer && e.phase < destroyed {
			e.late = true
			c.dev.Wake()
		}
	})
	e.timer = timer
}

// run is the connection's goroutine.
func (c *Conn) run() {
	c.p.event(rdmacm.Event{Kind: rdmacm.EventConnected, Peer: c.peer})
	c.dev.Serve(c.ready)
	c.conclude()
}

// ready takes what has completed, and arms the queues. It is false when the connection has
// ended. Calls of the device cost: there is one that polls, one that posts what the messages
// lead to, and one that arms the queues and polls again. What comes after that has an event.
func (c *Conn) ready() (goOn bool) {
	for flags := device.TakeEvents; ; {
		done, more, err := c.dev.Poll(flags)
		if err != nil {
			c.Abort(err)
		}
		c.take(done)
		if c.step() {
			return false
		}
		c.mu.Lock()
		arm := c.out.chains > 0 || c.ending.phase > live
		armed := flags != device.TakeEvents && !more && (c.out.armed || !arm)
		c.out.armed = arm || armed && c.out.armed
		c.mu.Unlock()
		if armed {
			return true
		}
		if flags = device.ArmReceives; arm {
			flags |= device.ArmSends
		}
	}
}

// take handles completions. What the Handler posts is held back until step.
func (c *Conn) take(done []device.Completion) {
	if len(done) == 0 {
		return
	}
	n := 0
	for n < len(done) && done[n].Receive != 0 {
		n++
	}
	if n > 0 {
		c.receive(done[:n])
	}
	done = done[n:]
	c.mu.Lock()
	for i := range done {
		d := &done[i]
		if d.Status == device.Flushed {
			c.ending.dirty = true
		}
		c.returnedLocked(d)
	}
	c.mu.Unlock()
}

// receive hands over messages.
func (c *Conn) receive(done []device.Completion) {
	c.mu.Lock()
	c.batching = true
	dropped := c.ending.failed
	c.mu.Unlock()
	for i := range done {
		m := c.arrived(&done[i])
		switch {
		case m == nil:
			c.mu.Lock()
			if done[i].Status != device.Flushed {
				c.failLocked(&StatusError{Status: done[i].Status})
			}
			c.ending.dirty = true
			c.mu.Unlock()
		case dropped:
			m.Release()
		default:
			c.moved.Add(1)
			c.seat.Heard()
			c.handler.Received(m)
		}
	}
	c.handler.Drained()
}

// step brings chains back that are done, and takes the end of the connection as far as it
// goes now. over: Serve is to return.
func (c *Conn) step() (over bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deregisterLocked()
	c.batching = true
	c.comeBackLocked(false, nil)
	c.batching = false
	c.sendLocked()
	e := &c.ending
	switch {
	case e.phase == draining:
		empty := c.out.head == c.out.tail && c.in.posted == 0
		return e.late || empty && (e.left || e.failed)
	case e.failed, e.left, e.dirty:
	case e.phase == leaving && e.late:
		c.failLocked(rdmacm.ErrTimeout)
	case e.phase == leaving && c.out.chains == 0 && c.out.issued == len(c.out.queue):
		if c.out.head != c.out.tail {
			c.markLocked()
			return false
		}
	default:
		return false
	}
	if !e.settled && !e.late {
		if e.timer == nil {
			c.limitLocked(drainTimeout)
		}
		return false
	}
	e.fault = e.dirty && !e.left && !e.failed
	e.phase = draining
	for c.out.sending {
		c.out.sent.Wait()
	}
	limit := drainTimeout
	if !e.failed && !e.dirty {
		limit = farewellTimeout
	}
	c.limitLocked(limit)
	fault := e.fault
	c.mu.Unlock()
	if fault {
		c.rnic.takeAsync() // the events of a queue pair go with it
	}
	if c.rnic.open.Active() { // see rnic.awaitPort
		c.dev.Disconnect()
	}
	c.mu.Lock()
	return false
}

// comeBackLocked calls Done of the chains at the front of the queue that are done; ended:
// of all, those that are not done with err.
func (c *Conn) comeBackLocked(ended bool, err error) {
	for {
		p := c.frontLocked(ended)
		if p == nil {
			return
		}
		chain, failure, failed := p.chain, p.err, p.failed
		switch {
		case failure == nil && (p.left > 0 || !p.complete()):
			failure, failed = err, -1
		case failure == rdmacm.ErrFlushed && c.ending.cause != nil:
			failure = &flushedError{c.ending.cause}
		}
		c.out.spare = append(c.out.spare, p)
		c.mu.Unlock()
		chain.Done(chain, failure, failed)
		c.mu.Lock()
	}
}

// markLocked posts an empty RDMA Write behind short Sends that ask for no signal: when it
// is done, so are they.
func (c *Conn) markLocked() {
	e, o := &c.ending, &c.out
	if e.marked {
		return
	}
	e.marked = true
	for o.sending {
		o.sent.Wait()
	}
	if e.failed {
		return
	}
	o.sending = true
	o.ring[o.tail%uint64(len(o.ring))] = slot{}
	c.dev.Works()[0] = device.Work{ID: o.tail, Op: device.Write, Flags: device.Signal}
	o.tail++
	c.mu.Unlock()
	_, err := c.dev.Flush(true, 0, 1)
	c.mu.Lock()
	o.sending = false
	if err != nil {
		c.failLocked(err)
	}
}

// conclude ends the connection: the queue pair goes, work comes back, memory is revoked and
// the Handler told.
func (c *Conn) conclude() {
	c.dev.DestroyQP()
	c.mu.Lock()
	e := &c.ending
	e.phase = destroyed
	e.timer.Stop()
	cause := e.cause
	switch {
	case e.failed:
	// siw flushes before it tells that the peer has left.
	case e.fault && !(e.left && c.rnic.IWARP), e.cut, c.out.chains > 0:
		cause = errFault
	case !e.left:
		cause = rdmacm.ErrTimeout
	}
	flushed := error(rdmacm.ErrFlushed)
	if cause != nil {
		flushed = &flushedError{cause}
	}
	for i := c.out.head; i < c.out.tail; i++ {
		c.emptyLocked(&c.out.ring[i%uint64(len(c.out.ring))])
	}
	c.deregisterLocked()
	c.comeBackLocked(true, flushed)
	var exposed []*region
	for r := range c.regions {
		exposed = append(exposed, r)
	}
	c.mu.Unlock()
	for _, r := range exposed {
		r.Deregister()
	}
	// From here on, Post itself returns each chain to its owner.
	c.mu.Lock()
	c.over = true
	c.comeBackLocked(true, flushed)
	c.mu.Unlock()
	c.p.event(rdmacm.Event{Kind: rdmacm.EventClosed, Peer: c.peer, Err: cause})
	c.handler.Closed(cause)
	close(c.done)
	go func() {
		c.rnic.awaitPort()
		// While the ID exists, the kernel repeats the disconnect message until the peer
		// answers. Otherwise, if the message is lost, the peer keeps the connection.
		late := time.NewTimer(farewellTimeout)
		defer late.Stop()
		select {
		case <-c.left:
		case <-c.rnic.gone:
		case <-late.C:
		}
		c.dismantle()
	}()
}
