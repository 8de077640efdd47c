package rdmatest

import "github.com/nfsrdmad/nfsrdmad/rdmacm"

// run is the number of messages after which the device carries out what the handler posted, even if
// more messages wait.
const run = 64

// deliver calls the handler and Done of the chains, one call at a time. After the end of the
// connection it calls Closed and returns.
func (c *Conn) deliver() {
	c.link.mu.Lock()
	received := 0
	for {
		switch {
		case c.comesBack():
			p := c.posted[0]
			c.posted[0] = nil
			c.posted = c.posted[1:]
			if c.issued > 0 {
				c.issued--
			}
			c.reads -= p.reads
			c.watch.ticks = 0
			if !p.ready || c.faults.delayDone[p.number] {
				p.err, p.failed = c.flushed, -1
			}
			c.note(Event{Kind: KindDone, Chain: p.number, Work: p.failed, Err: p.err})
			c.link.mu.Unlock()
			p.chain.Done(p.chain, p.err, p.failed)
			c.link.mu.Lock()
		case len(c.inbox) > 0 && received < run:
			m := c.inbox[0]
			c.inbox[0] = nil
			c.inbox = c.inbox[1:]
			c.batching = true
			received++
			c.noteReceived(m)
			c.link.mu.Unlock()
			c.handler.Received(m)
			c.link.mu.Lock()
		case received > 0:
			received = 0
			c.note(Event{Kind: KindServed})
			c.batching = false
			c.device.Broadcast()
		case c.dead: // every chain's Done was called by the first case
			c.over = true
			c.note(Event{Kind: KindClosed, Err: c.cause})
			c.link.mu.Unlock()
			c.seat.Leave()
			c.handler.Closed(c.cause)
			close(c.done)
			return
		case c.other.finished && !c.leaving:
			c.leave()
		case c.other.finished && c.finished && len(c.posted) == 0:
			c.end(nil)
		default:
			c.events.Wait()
		}
	}
}

// comesBack reports whether Done of the first chain may be called now.
func (c *Conn) comesBack() bool {
	if len(c.posted) == 0 {
		return false
	}
	p := c.posted[0]
	return c.dead || p.ready && !c.faults.delayDone[p.number]
}

func (c *Conn) noteReceived(m *rdmacm.Recv) {
	if !c.provider.cfg.Quiet {
		c.note(Event{Kind: KindReceived, Length: len(m.Bytes), Invalidate: m.Invalidated,
			Bytes: append([]byte(nil), m.Bytes...)})
	}
}
