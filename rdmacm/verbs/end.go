package verbs

import (
	"errors"
	"fmt"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/device"
)

// A phase is a stage in the life of a connection.
type phase uint8

// Phases, in their order.
const (
	live phase = iota
	// leaving: Disconnect was called. The work posted before it is still carried out.
	leaving
	// draining: the queue pair is in the error state and returns its requests.
	draining
	// destroyed: the device no longer touches memory.
	destroyed
)

// Time limits for the end of a connection.
const (
	// leaveTimeout is the time that the peer has to let the work posted before Disconnect complete.
	leaveTimeout = 10 * time.Second
	// drainTimeout is the time that a device has to return its requests.
	drainTimeout = 2 * time.Second
	// refusalTimeout is the time that a device has to report that the peer refused work, after
	// the peer has left. The report and the disconnect message come by different ways, so the
	// report may come second.
	refusalTimeout = 250 * time.Millisecond
	// farewellTimeout is the time that the peer has to answer this side's disconnect message. It
	// is twice the 4.3 s after which rdma_cm repeats a lost message.
	farewellTimeout = 9 * time.Second
)

// An ending is the state of a connection's end. Conn.mu guards it.
type ending struct {
	phase  phase
	cause  error // the reason for Closed; the first one counts
	failed bool  // failLocked was called: cause is set
	// settled: the connection manager has reported an event of the connection, so the set-up is
	// over. Until then the manager would not tell the peer that this side leaves.
	settled bool
	left    bool // the peer has disconnected
	dirty   bool // requests came back flushed, or a receive failed
	fault   bool // dirty was set when the draining began, and no reason was known
	cut     bool // work of a chain failed or came back flushed
	marked  bool // markLocked has posted its RDMA Write
	timer   *time.Timer
	late    bool // the timer fired
	told    bool // dev.Disconnect was called, while the port was up
}

// eventLocked handles an event of the connection manager: see the interface sink.
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
			c.Abort(fmt.Errorf("verbs: the connection had the event %v, status %d", e.Type, e.Status))
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

// failLocked ends the connection because of err. The first reason counts, and only it wakes the
// connection's goroutine, which would otherwise keep itself awake if each of its polls fails.
func (c *Conn) failLocked(err error) {
	e := &c.ending
	if e.failed {
		return
	}
	e.failed, e.cause = true, err
	if e.phase < destroyed {
		c.dev.Wake()
	}
}

// limitLocked sets ending.late after the time d, and wakes the connection's goroutine. It
// replaces the limit of an earlier call.
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

// run serves the connection until its end, on a goroutine of its own.
func (c *Conn) run() {
	c.p.event(rdmacm.Event{Kind: rdmacm.EventConnected, Peer: c.peer})
	c.mu.Lock()
	c.alive.timer = time.AfterFunc(silenceTick, c.listen)
	c.mu.Unlock()
	if err := c.dev.Serve(c.ready); err != nil {
		c.stop(err)
	}
	c.conclude()
}

// stop ends the connection because no completion can be waited for. The destruction of the queues then
// takes the place of the draining.
func (c *Conn) stop(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failLocked(err)
	c.ending.phase = draining
	for c.out.sending {
		c.out.sent.Wait()
	}
}

// ready handles completions, and arms the queues. It returns false when the connection has
// ended. Calls of the device are expensive, so ready makes only three if no more completions
// come meanwhile: one polls, one posts the work that the messages led to, and one arms the
// queues and polls again. Later completions cause an event.
func (c *Conn) ready() (goOn bool) {
	for flags := device.TakeEvents; ; {
		done, more, err := c.dev.Poll(flags)
		if err != nil {
			c.Abort(err)
		}
		c.handleCompletions(done)
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

// handleCompletions passes received messages to the Handler, and records the results of completed
// work. Work that the Handler posts meanwhile waits until step hands it to the device.
func (c *Conn) handleCompletions(done []device.Completion) {
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
		if d.Status == device.LocalOperation && c.rnic.SIW {
			d.Status = device.Flushed // siw could not send the request, because the connection had ended
		}
		if d.Status == device.Flushed {
			c.ending.dirty = true
		}
		c.returnedLocked(d)
	}
	c.mu.Unlock()
}

// receive hands messages to the Handler, or releases them if the connection has failed.
func (c *Conn) receive(done []device.Completion) {
	c.mu.Lock()
	c.batching = true
	dropped := c.ending.failed
	c.mu.Unlock()
	for i := range done {
		m := c.arrived(&done[i])
		switch {
		case m == nil:
			dropped = true
		case dropped:
			m.Release()
		default:
			c.moved.Add(1)
			c.seat.Heard()
			c.handler.Received(m)
		}
	}
}

// step calls Done of the chains that are done, and continues the end of the connection if it has
// begun. If over is true, Serve must return.
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
		// The requests from number out.signaled on cause no completion, so step does not wait for them.
		empty := c.out.head >= c.out.signaled && c.in.posted == 0
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
	if wait := c.beforeDrainLocked(); wait > 0 && !e.late {
		if e.timer == nil {
			c.limitLocked(wait)
		}
		return false
	}
	e.fault = e.dirty && !e.failed && !c.leftFlushesLocked()
	e.phase = draining
	for c.out.sending {
		c.out.sent.Wait()
	}
	limit := drainTimeout
	if !e.failed && !e.dirty {
		limit = farewellTimeout
	}
	c.limitLocked(limit)
	fault, byDevice := e.fault, e.fault || endedByDevice(e.cause)
	c.mu.Unlock()
	if byDevice && c.rnic.RXE {
		c.rnic.settlePort()
	}
	if fault {
		c.rnic.takeAsync() // once the queue pair is destroyed, its events are lost
	}
	told := c.up() // see Conn.awaitPort
	if told {
		c.dev.Disconnect()
	}
	c.mu.Lock()
	e.told = told
	return false
}

// endedByDevice reports whether err means that the device has put the queue pair into the error state.
func endedByDevice(err error) bool {
	_, status := errors.AsType[*StatusError](err)
	_, event := errors.AsType[*AsyncError](err)
	return status || event
}

// beforeDrainLocked returns the longest time to wait before the queue pair is put into the error
// state, or 0. The wait is for the end of the connection's set-up, or for the device's report that
// the peer refused work.
func (c *Conn) beforeDrainLocked() time.Duration {
	e := &c.ending
	switch {
	case !e.settled:
		return drainTimeout
	case e.phase == live && e.left && !e.failed && !e.dirty && c.out.head < c.out.signaled:
		return refusalTimeout
	}
	return 0
}

// leftFlushesLocked reports whether flushed requests mean only that the peer has left, and no
// fault. An iWARP device flushes the requests when the peer leaves, as siw does. Other devices
// flush them only for a fault, or after this side has left.
func (c *Conn) leftFlushesLocked() bool { return c.ending.left && c.rnic.IWARP }

// comeBackLocked calls Done of the chains at the front of the queue that are done. If ended is
// true, it calls Done of all chains, and Done of a chain that is not done gets err. It releases
// mu during each Done.
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
			failure = fmt.Errorf("%w: %w", rdmacm.ErrFlushed, c.ending.cause)
		}
		*p = posting{} // a spare one keeps no call's memory reachable
		c.out.spare = append(c.out.spare, p)
		c.mu.Unlock()
		chain.Done(chain, failure, failed)
		c.mu.Lock()
	}
}

// markLocked posts an empty RDMA Write after short Sends that have no completion of their own.
// When the Write is done, the Sends are done.
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
	o.signaled = o.tail
	c.mu.Unlock()
	err := c.dev.Flush(true, 0, 1)
	c.mu.Lock()
	o.sending = false
	if err != nil {
		c.failLocked(err)
	}
}

// fence destroys the queues, after which the device touches no memory of the connection's requests. If the
// device cannot destroy them and has not returned all requests, fence keeps the memory of the requests, and
// with it the seat, until it can. The caller calls Done only behind fence, because Done gives the memory to
// other clients (RFC 8166 §4.5.4).
func (c *Conn) fence() {
	for told := false; ; told = true {
		err := c.dev.DestroyQueues()
		if err == nil {
			return
		}
		if !told {
			c.p.cfg.Log(fmt.Sprintf("RDMA device %s cannot destroy the queues of %v: %v: the memory of its requests is kept until the device can, or is removed; if this lasts, reset the device",
				c.rnic.Name, c.peer, err))
		}
		c.mu.Lock()
		returned := c.out.head == c.out.tail && c.in.posted == 0
		c.mu.Unlock()
		if returned {
			return
		}
		wait := time.NewTimer(lookInterval)
		select {
		case <-wait.C:
		case <-c.rnic.gone:
			wait.Stop()
			c.dev.DestroyQueues()
			return
		case <-c.p.closing:
			wait.Stop()
			return
		}
		if done, _, err := c.dev.Poll(0); err == nil {
			c.handleCompletions(done)
		}
	}
}

// conclude completes the end of the connection: it destroys the queue pair, calls Done of all
// chains, revokes exposed memory and calls Closed of the Handler.
func (c *Conn) conclude() {
	c.fence()
	c.mu.Lock()
	e := &c.ending
	e.phase = destroyed
	if e.timer != nil {
		e.timer.Stop()
	}
	c.alive.timer.Stop()
	cause := e.cause
	switch {
	case e.failed:
	case e.fault && !c.leftFlushesLocked(), e.cut, c.out.chains > 0:
		cause = errFault
	case !e.left:
		cause = rdmacm.ErrTimeout
	}
	flushed := error(rdmacm.ErrFlushed)
	if cause != nil {
		flushed = fmt.Errorf("%w: %w", flushed, cause)
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
	// From here on, Post itself calls Done of each new chain.
	c.mu.Lock()
	c.over = true
	c.comeBackLocked(true, flushed)
	c.mu.Unlock()
	c.p.event(rdmacm.Event{Kind: rdmacm.EventClosed, Peer: c.peer, Err: cause})
	c.handler.Closed(cause)
	close(c.done)
	go c.farewell()
}

// farewell tells the peer of the end, unless step has done so, and waits for the peer's answer
// before it frees the ID. While the ID exists, the kernel repeats the disconnect message until
// the peer answers. Without the ID, a lost message would leave the connection open at the peer.
// During the wait the connection keeps its seat, so that the limits of Seats also limit the
// number of such IDs. If the port is down, the seat is given up at once: no peer can make
// further connections over the port. If the port goes down during the wait, farewell frees the ID,
// so that the kernel does not repeat the message: see Conn.awaitPort.
func (c *Conn) farewell() {
	defer c.freeID()
	defer c.seat.Leave()
	c.freeMemory()
	c.p.giveBack(c.rnic, c.taken)
	if !c.up() {
		c.seat.Leave()
	}
	up := c.awaitPort()
	c.mu.Lock()
	settled, told := c.ending.settled, c.ending.told
	c.mu.Unlock()
	if !up || !settled {
		return // no disconnect message is under way
	}
	if !told {
		c.dev.Disconnect()
	}
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	for end := time.Now().Add(farewellTimeout); c.up() && time.Now().Before(end); {
		select {
		case <-c.left:
			return
		case <-c.rnic.gone:
			return
		case <-look.C:
		}
	}
}
