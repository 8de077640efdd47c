package iwarp

import (
	"fmt"
	"math"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// A posting holds the state of a chain between Post and Done. It stays with the chain for the
// next Post.
type posting struct {
	chain     *rdmacm.Chain
	built     int // work requests whose FPDUs are all built
	sent      int // work requests that TCP has taken
	reads     int // RDMA Reads in the chain
	readsDone int
	unsent    bool  // counted in transmitter.unsent
	err       error // the error that Done gets, or nil
	failed    int
}

func postingOf(ch *rdmacm.Chain) *posting { return ch.Provider.(*posting) }

// maxHeld is the largest number of posted chains that wait until the receiver calls release. The
// goroutine that posts chain number maxHeld sends all of them.
const maxHeld = 64

func (c *Conn) ReadDepth() int { return c.depth }

// Post implements rdmacm.Conn.
func (c *Conn) Post(ch *rdmacm.Chain) { c.tx.post(ch) }

// post queues a chain. If no other goroutine is the sender, and posted work need not wait for
// release, post sends the chain. If the connection is ending, the chain completes with ErrClosed.
func (t *transmitter) post(ch *rdmacm.Chain) {
	st := newPosting(ch)
	t.mu.Lock()
	if t.refusing {
		closed := t.flushed
		if !closed {
			// ch fails with ErrClosed. It joins the queue, because chains complete in order and
			// earlier chains are not completed yet.
			st.err = rdmacm.ErrClosed
			st.built, st.sent, st.readsDone = len(ch.Work), len(ch.Work), st.reads
			t.append(ch)
		}
		t.mu.Unlock()
		if closed {
			ch.Done(ch, rdmacm.ErrClosed, -1)
			return
		}
		t.complete()
		return
	}
	t.admit(ch, st)
	t.heldChains++
	own := (!t.held || t.heldChains >= maxHeld) && t.acquire()
	t.mu.Unlock()
	t.life.watchOn()
	if own {
		t.transmit()
	}
}

// newPosting checks the work of a posted chain and returns its posting.
func newPosting(ch *rdmacm.Chain) *posting {
	st, ok := ch.Provider.(*posting)
	if !ok || st.chain != ch { // a first Post, or ch is a copy of another chain
		st = new(posting)
	}
	*st = posting{chain: ch, failed: -1}
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
	return st
}

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

// Limits of work requests: maxSend and maxTagged in bytes, maxLocal in pieces of local
// memory. RFC 5041 §5.2 keeps messages below 2^32 bytes.
const (
	maxSend   = 1 << 30
	maxTagged = min(1<<32-1, math.MaxInt)
	maxLocal  = 1 << 10
)

// admit queues ch for the sender. mu is held.
func (t *transmitter) admit(ch *rdmacm.Chain, st *posting) {
	if st.err == nil && st.reads > 0 && t.readsPosted+st.reads > t.depth {
		st.err = rdmacm.ErrReadDepth
		st.failed = nthRead(ch, 0)
	}
	if st.err != nil {
		st.reads, st.readsDone = 0, 0
	}
	t.readsPosted += st.reads
	if n := len(ch.Work); st.err == nil && n > 0 && ch.Work[n-1].Op >= rdmacm.OpSend {
		st.unsent = true
		t.unsent.Add(1)
	}
	t.append(ch)
	if t.cursor == nil {
		t.cursor = ch
	}
}

// append puts ch at the end of the outstanding chains. mu is held.
func (t *transmitter) append(ch *rdmacm.Chain) {
	if t.tail == nil {
		t.head = ch
	} else {
		t.tail.Next = ch
	}
	t.tail = ch
}

// watchOn starts the checks if they are not running. It is called when work begins to depend on
// the peer.
func (l *lifecycle) watchOn() {
	if l.watch.armed.Load() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watch.lookIn(l.p.cfg.StallTimeout / ticks)
}

// SendShort implements rdmacm.Conn.
func (c *Conn) SendShort(local [][]byte, invalidate uint32) bool {
	return c.tx.sendShort(local, invalidate)
}

// sendShort appends a Send of at most inlineBytes to the batch: see rdmacm.Conn.SendShort. It copies
// the pieces of local. If the Send is too long or has to wait, sendShort returns false and does
// nothing.
func (t *transmitter) sendShort(local [][]byte, invalidate uint32) bool {
	n := 0
	for _, piece := range local {
		n += len(piece)
	}
	if n > inlineBytes {
		return false
	}
	t.mu.Lock()
	if !t.takesShort() || n > t.untaggedRoom {
		t.mu.Unlock()
		return false
	}
	first := t.batch == nil
	b := t.borrowBatch()
	t.putSend(b, local, n, invalidate)
	own := (!t.held || !b.room()) && t.acquire()
	t.mu.Unlock()
	if first {
		t.life.watchOn()
	}
	if own {
		t.transmit()
	}
	return true
}

// takesShort reports whether a short Send may go into the batch now: no goroutine is the
// sender, posting and sending are allowed, no other work waits to be sent, and this side
// inserts no markers. mu is held.
func (t *transmitter) takesShort() bool {
	return !t.owned && !t.refusing && !t.fenced && !t.broken && !t.terminated && t.terminate == nil && t.rtr == 0 &&
		t.cursor == nil && len(t.answers) == 0 && !t.out.active && t.marked == nil
}

// putSend appends a Send of n bytes as one FPDU, and copies the payload. If invalidate is not 0,
// it is a Send with Invalidate of that STag.
func (t *transmitter) putSend(b *batch, local [][]byte, n int, invalidate uint32) {
	h := wire.Untagged{Op: wire.Send, Last: true, Queue: wire.QueueSend, MSN: t.nextMSN(wire.QueueSend)}
	if invalidate != 0 {
		h.Op, h.Invalidate = wire.SendInvalidate, invalidate
	}
	const header = wire.LengthSize + wire.UntaggedSize
	size := wire.FPDUSize(wire.UntaggedSize + n)
	if t.aligned {
		b.whole(size, t.segment)
	} else {
		b.whole(header, t.segment)
	}
	p := b.grow(size)
	wire.PutULPDULength(p, wire.UntaggedSize+n)
	h.Put(p[wire.LengthSize:])
	at := header
	for _, piece := range local {
		at += copy(p[at:], piece)
	}
	trailer := p[size-wire.CRCSize:]
	clear(p[at : size-wire.CRCSize])
	crc := uint32(0)
	if t.agreed.CRC {
		crc = wire.CRC(0, p[:size-wire.CRCSize])
	}
	wire.PutCRC(trailer, crc)
}

// putShortSends appends the FPDUs of the next Sends, as long as those are short and b has room.
// So the sender takes the lock only once for several small replies. mu is held.
func (t *transmitter) putShortSends(b *batch) {
	if t.marked != nil {
		return
	}
	for b.room() && t.nextPosted() {
		ch, st := t.cursor, postingOf(t.cursor)
		w := &ch.Work[st.built]
		n := w.Length()
		if w.Op < rdmacm.OpSend || n > min(inlineBytes, t.untaggedRoom) {
			break
		}
		if t.first == nil {
			t.first = ch
		}
		invalidate := uint32(0)
		if w.Op == rdmacm.OpSendInvalidate {
			invalidate = w.Invalidate
		}
		t.putSend(b, w.Local, n, invalidate)
		t.turns = 0
		if st.built++; st.built == len(ch.Work) {
			t.cursor = ch.Next
		}
	}
}

// readDone completes this side's oldest outstanding RDMA Read. The receiver calls it when the
// response is in place. ch is nil for the ready-to-receive message.
func (t *transmitter) readDone(ch *rdmacm.Chain) {
	t.mu.Lock()
	t.readsOut--
	if ch != nil {
		postingOf(ch).readsDone++
	}
	t.mu.Unlock()
	t.complete()
}

// complete calls Done for the finished chains at the head, in order. Only one goroutine does so
// at a time. If a second goroutine calls complete meanwhile, the call returns at once, and the
// first goroutine also completes the newly finished chains.
func (t *transmitter) complete() {
	t.mu.Lock()
	if t.completing {
		t.mu.Unlock()
		return
	}
	t.completing = true
	for ch := t.takeThrough(); ch != nil; ch = t.takeThrough() {
		t.mu.Unlock()
		for ch != nil {
			next, st := ch.Next, postingOf(ch)
			ch.Next = nil
			ch.Done(ch, st.err, st.failed)
			ch = next
		}
		t.mu.Lock()
	}
	t.completing = false
	t.idle.Broadcast()
	leaving := t.leaving
	t.mu.Unlock()
	if leaving {
		t.finish()
	}
}

// takeThrough removes the finished chains from the head of the outstanding ones. It returns
// them linked by Next, with the outcome of each in its posting. mu is held.
func (t *transmitter) takeThrough() *rdmacm.Chain {
	first := t.head
	var last *rdmacm.Chain
	for ch := t.head; ch != nil; ch = ch.Next {
		st := postingOf(ch)
		if t.flushErr == nil && (st.sent < len(ch.Work) || st.readsDone < st.reads || ch == t.cursor) {
			break
		}
		if i := st.unfinished(ch); st.err == nil && (i >= 0 || t.lost) {
			// Work after failed work counts as failed, even if the peer received it (RFC 5040 §6.2.1).
			st.err, st.failed, t.lost = t.flushErr, max(i, 0), true
		}
		t.readsPosted -= st.reads
		t.sent(st)
		last = ch
	}
	if last == nil {
		return nil
	}
	if t.head = last.Next; t.head == nil {
		t.tail = nil
	}
	last.Next = nil
	return first
}

// unfinished returns the index of the first work request that did not complete, or -1.
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

// sent stops counting a chain as unsent, because TCP took it or never will. mu is held.
func (t *transmitter) sent(st *posting) {
	if st.unsent {
		st.unsent = false
		t.unsent.Add(-1)
	}
}

// Unsent returns the number of chains whose Send TCP has not taken completely.
func (c *Conn) Unsent() int { return int(c.tx.unsent.Load()) }

// Progress implements rdmacm.Conn. Answers to the peer's RDMA Reads count as well.
func (c *Conn) Progress() uint64 { return c.tx.progress.Load() + c.rx.answered.Load() }
