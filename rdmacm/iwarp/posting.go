package iwarp

import (
	"fmt"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

// A posting is what the connection notes of a chain between Post and Done.
type posting struct {
	built     int // work requests that the transmitter is through with
	sent      int // of these, what TCP has taken
	reads     int // RDMA Reads in the chain
	readsDone int
	unsent    bool  // counted in Conn.unsent
	err       error // why the chain fails without ending the connection
	failed    int
}

func postingOf(ch *rdmacm.Chain) *posting { return ch.Provider.(*posting) }

// unfinished is the first work request that did not complete, or -1.
func (st *posting) unfinished(ch *rdmacm.Chain) int {
	reads := 0
	for i := range ch.Work {
		if i >= st.sent {
			return i
		}
		if ch.Work[i].Op == rdmacm.OpRead {
			if reads++; reads > st.readsDone {
				return i
			}
		}
	}
	return -1
}

// Post hands over a chain.
func (c *Conn) Post(ch *rdmacm.Chain) {
	st := c.p.postings.Get().(*posting)
	*st = posting{failed: -1}
	for i := range ch.Work {
		w := &ch.Work[i]
		if w.Op == rdmacm.OpRead {
			st.reads++
		}
		if err := checkWork(w); err != nil && st.err == nil {
			st.err, st.failed = err, i
		}
	}
	ch.Next, ch.Provider = nil, st

	c.mu.Lock()
	if c.refusing {
		closed := c.flushed
		if !closed {
			// Those before it are still on their way back.
			st.err = rdmacm.ErrClosed
			st.built, st.sent, st.readsDone = len(ch.Work), len(ch.Work), st.reads
			c.append(ch)
		}
		c.mu.Unlock()
		if closed {
			ch.Provider = nil
			c.p.postings.Put(st)
			ch.Done(ch, rdmacm.ErrClosed, -1)
			return
		}
		c.complete()
		return
	}
	if st.err == nil && st.reads > 0 && c.readsPosted+st.reads > c.depth {
		st.err = rdmacm.ErrReadDepth
		st.failed = nthRead(ch, 0)
	}
	if st.err != nil {
		st.reads, st.readsDone = 0, 0
	}
	c.readsPosted += st.reads
	if n := len(ch.Work); st.err == nil && n > 0 && ch.Work[n-1].Op >= rdmacm.OpSend {
		st.unsent = true
		c.unsent.Add(1)
	}
	c.append(ch)
	if c.cursor == nil {
		c.cursor = ch
	}
	c.heldChains++
	own := (!c.held || c.heldChains >= maxHeld) && c.acquire()
	c.watchLocked()
	c.mu.Unlock()
	if own {
		c.transmit()
	}
}

// sent takes note that TCP took the chain, or that it never will. c.mu is held.
func (c *Conn) sent(st *posting) {
	if st.unsent {
		st.unsent = false
		c.unsent.Add(-1)
	}
}

// maxHeld is how many chains wait for Drained at most.
const maxHeld = 64

func checkWork(w *rdmacm.Work) error {
	switch w.Op {
	case rdmacm.OpSend, rdmacm.OpSendInvalidate:
		if n := w.Length(); n > maxSend {
			return &rdmacm.LengthError{Length: n, Limit: maxSend}
		}
		if w.Op == rdmacm.OpSendInvalidate && w.Invalidate == 0 {
			return fmt.Errorf("iwarp: %v without an STag", w.Op)
		}
	case rdmacm.OpWrite, rdmacm.OpRead:
		if n := w.Length(); n > maxTagged {
			return &rdmacm.LengthError{Length: n, Limit: maxTagged}
		}
	default:
		return fmt.Errorf("iwarp: unknown work request %v", w.Op)
	}
	return nil
}

// Limits of work requests. RFC 5041 §5.2 keeps messages below 2^32 bytes.
const (
	maxSend   = 1 << 30
	maxTagged = 1<<32 - 1
	maxLocal  = 1 << 10
)

// append puts ch at the end of what is outstanding. c.mu is held.
func (c *Conn) append(ch *rdmacm.Chain) {
	if c.tail == nil {
		c.head = ch
	} else {
		c.tail.Next = ch
	}
	c.tail = ch
}

// Flush sends what is held back.
func (c *Conn) Flush() {
	c.mu.Lock()
	own := c.acquire()
	c.mu.Unlock()
	if own {
		c.transmit()
	}
}

// complete gives back the chains at the head that are through, in order. Only
// one goroutine does so at a time; whoever finds another at it leaves its
// chains to that one.
func (c *Conn) complete() {
	c.mu.Lock()
	if c.completing {
		c.mu.Unlock()
		return
	}
	c.completing = true
	for c.head != nil {
		ch := c.head
		st := postingOf(ch)
		if !c.flushing && (st.sent < len(ch.Work) || st.readsDone < st.reads || ch == c.cursor) {
			break
		}
		err, failed := st.err, st.failed
		if i := st.unfinished(ch); err == nil && (i >= 0 || c.lost) {
			// What is behind failed work counts as failed, even if the peer
			// got it (RFC 5040 §6.2.1).
			err, failed, c.lost = c.flushErr, max(i, 0), true
		}
		c.head = ch.Next
		if c.head == nil {
			c.tail = nil
		}
		c.readsPosted -= st.reads
		c.sent(st)
		c.mu.Unlock()
		ch.Next, ch.Provider = nil, nil
		c.p.postings.Put(st)
		ch.Done(ch, err, failed)
		c.mu.Lock()
	}
	c.completing = false
	c.cond.Broadcast()
	leaving := c.leaving
	c.mu.Unlock()
	if leaving {
		c.finish()
	}
}
