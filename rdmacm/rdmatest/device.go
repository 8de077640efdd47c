package rdmatest

import (
	"errors"
	"fmt"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

var errNoReceive = errors.New("rdmatest: a message arrived beyond those promised")

// carryOut is the device's goroutine: it takes the posted chains in order and carries out their
// work at the peer.
func (c *Conn) carryOut() {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	for !c.dead {
		switch {
		case c.readsToGo():
			c.unpark(rdmacm.OpRead)
		case c.issued < len(c.posted) && (!c.batching || c.flush || c.leaving):
			p := c.posted[c.issued]
			c.issued++
			c.issue(p)
		case len(c.parked) > 0 && c.isParked(rdmacm.OpWrite):
			c.unpark(rdmacm.OpWrite)
		case c.leaving && !c.finished && c.issued == len(c.posted) && len(c.parked) == 0:
			c.finished = true
			c.events.Broadcast()
			c.other.events.Broadcast()
		default:
			c.flush = false
			c.device.Wait()
		}
	}
}

func (c *Conn) readsToGo() bool {
	return c.faults.holdReads == 0 && c.isParked(rdmacm.OpRead)
}

func (c *Conn) isParked(op rdmacm.Op) bool {
	for _, k := range c.parked {
		if k.p.chain.Work[k.index].Op == op {
			return true
		}
	}
	return false
}

// unpark carries out the delayed work of kind op: Reads in order, Writes in reverse order.
func (c *Conn) unpark(op rdmacm.Op) {
	var take, keep []parked
	for _, k := range c.parked {
		if k.p.chain.Work[k.index].Op == op {
			take = append(take, k)
		} else {
			keep = append(keep, k)
		}
	}
	c.parked = keep
	for i := range take {
		k := take[i]
		if op == rdmacm.OpWrite {
			k = take[len(take)-1-i]
		}
		if c.dead {
			return
		}
		c.carry(k.p, k.index)
	}
}

// issue carries out the work of one chain. The caller holds link.mu. issue releases it between
// work requests.
func (c *Conn) issue(p *posting) {
	// The loop must not read the chain once p is ready or flushed, because Done may then have
	// been called, and the owner of the chain may change it.
	for i := 0; !p.ready && !c.dead && i < len(p.chain.Work); i++ {
		switch op := p.chain.Work[i].Op; {
		case op == rdmacm.OpWrite && c.faults.reorder,
			op == rdmacm.OpRead && (c.faults.holdReads > 0 || c.isParked(rdmacm.OpRead)):
			c.parked = append(c.parked, parked{p, i})
			continue
		case op == rdmacm.OpSend || op == rdmacm.OpSendInvalidate:
			c.unpark(rdmacm.OpWrite)
			if c.dead {
				return
			}
		}
		c.carry(p, i)
		c.link.mu.Unlock()
		c.link.mu.Lock()
	}
}

// carry carries out work request i of p, and applies the faults that the test has set for it.
func (c *Conn) carry(p *posting, i int) {
	w := &p.chain.Work[i]
	n := p.first + i
	if c.faults.lose[n] == Before {
		c.kill(ErrLost, ErrLost)
		return
	}
	if err, ok := c.faults.failWork[n]; ok {
		c.fail(p, i, err, ErrLost)
		return
	}
	var theirs, mine error
	switch w.Op {
	case rdmacm.OpWrite:
		theirs = c.write(w)
	case rdmacm.OpRead:
		theirs = c.read(w)
	default:
		theirs = c.send(w)
	}
	if theirs != nil {
		mine = fmt.Errorf("rdmatest: refused by the peer: %w", refused(w, theirs))
		c.fail(p, i, mine, theirs)
		return
	}
	c.note(Event{Kind: KindCarried, Chain: p.number, Work: i, Op: w.Op, Remote: w.Remote, Length: w.Length()})
	c.carried.Add(uint64(w.Length()))
	if c.faults.lose[n] == After {
		c.kill(ErrLost, ErrLost)
		return
	}
	if p.left--; p.left == 0 {
		p.ready = true
		c.events.Broadcast()
	}
}

// refused returns this side's error for the work request w, which the peer refused. why is the
// peer's error. If the peer does not expose the memory, the result includes a RefusedError with
// the STag that w names.
func refused(w *rdmacm.Work, why error) error {
	if !errors.Is(why, rdmacm.ErrNotExposed) {
		return why
	}
	stag := w.Remote.STag
	if w.Op == rdmacm.OpSendInvalidate {
		stag = w.Invalidate
	}
	return errors.Join(&rdmacm.RefusedError{Op: w.Op, STag: stag}, why)
}

// fail ends the connection because work request i of p failed. The error mine is the reason
// at this end, and the error theirs at the other end.
func (c *Conn) fail(p *posting, i int, mine, theirs error) {
	p.ready, p.err, p.failed = true, mine, i
	c.kill(mine, theirs)
}

func (c *Conn) write(w *rdmacm.Work) error {
	n := w.Length()
	if n == 0 {
		return nil // RFC 5040 §5.2.1: STag and offset are not checked
	}
	to, err := c.other.reach(w.Remote, n, rdmacm.RemoteWrite)
	if err != nil {
		return err
	}
	for _, b := range w.Local {
		to = to[copy(to, b):]
	}
	return nil
}

func (c *Conn) read(w *rdmacm.Work) error {
	n := w.Length()
	if n == 0 {
		return nil
	}
	from, err := c.other.reach(w.Remote, n, rdmacm.RemoteRead)
	if err != nil {
		return err
	}
	for _, b := range w.Local {
		from = from[copy(b, from):]
	}
	return nil
}

// send puts a message into the peer's inbox. If the peer refuses it, send returns the peer's
// error.
func (c *Conn) send(w *rdmacm.Work) error {
	o := c.other
	n := w.Length()
	if len(o.promised) == 0 {
		return errNoReceive
	}
	if limit := o.promised[0].size; n > limit {
		return &rdmacm.LengthError{Length: n, Limit: limit}
	}
	var r *Region
	if w.Op == rdmacm.OpSendInvalidate {
		if r = o.regions[w.Invalidate]; r == nil && o.revoked == 0 {
			return fmt.Errorf("%w: STag %#x to invalidate", rdmacm.ErrNotExposed, w.Invalidate)
		}
	}
	if o.promised[0].count--; o.promised[0].count == 0 {
		o.promised = o.promised[1:]
	}
	m := &rdmacm.Recv{Bytes: gather(w.Local), Free: o.free, Provider: o}
	if w.Op == rdmacm.OpSendInvalidate {
		m.Invalidated = w.Invalidate
	}
	if r != nil {
		r.invalid = true
		o.note(Event{Kind: KindInvalidated, Remote: r.remote, Length: len(r.memory), Invalidate: w.Invalidate})
	}
	o.seat.Heard()
	o.moved.Add(1)
	o.inbox = append(o.inbox, m)
	o.unfreed++
	o.events.Broadcast()
	return nil
}

// free takes back a message that the receiver releases. Unless Config.Quiet is set, free
// overwrites the message, so that a test that uses the message after the release fails.
func (c *Conn) free(m *rdmacm.Recv) {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	if m.Provider == nil {
		panic("rdmatest: a message is released twice")
	}
	m.Provider = nil
	c.unfreed--
	if !c.provider.cfg.Quiet {
		for i := range m.Bytes {
			m.Bytes[i] = 0xdb
		}
	}
	c.note(Event{Kind: KindReleased, Length: len(m.Bytes)})
}
