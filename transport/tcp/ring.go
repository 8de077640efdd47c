package tcp

import (
	"runtime"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/turns"
)

// ringSize is the size of a ring, in bytes.
const ringSize = 64 << 10

// A ring is the buffer into which a connection reads while there is input.
type ring [ringSize]byte

// rings are the rings that all connections of the process share. A connection has a ring only while
// its receiving goroutine can run: it gives the ring back before it waits for memory, for its peer
// to take replies, or for input. It also gives it back when other connections have waited for
// turnTime. All rings can stay lent for longer only if file systems block in operations that must
// not block. Then the Pool makes a further ring after each ringPatience, up to twice as many.
var rings = &turns.Pool[*ring]{
	Most: max(8, 2*runtime.GOMAXPROCS(0)), New: func() *ring { return new(ring) }, Patience: ringPatience,
}

// While other connections wait for a ring, a connection reads at most turnInput bytes into its own
// at a time, because it has to copy the unprocessed bytes when it gives the ring back.
const (
	turnTime     = 500 * time.Microsecond
	turnInput    = 16 << 10
	ringPatience = 20 * time.Millisecond
)

// If the connection has no ring, the method borrow borrows one, and copies the stash (the bytes that
// are not processed yet) into it.
func (c *conn) borrow() {
	if c.ring != nil {
		return
	}
	c.ring, _ = rings.Borrow(&c.lent)
	c.end -= c.start
	c.start, c.r = 0, c.end
	c.w = copy(c.ring[:], c.stash)
	c.stash = c.stash[:0]
}

// When the stash (the copy that giveBack keeps) is empty, the connection keeps its memory for reuse
// if that has at most keptStash bytes, and releases a larger one.
const keptStash = 512

// giveBack gives the ring back before the goroutine waits. It keeps a copy of the bytes that are
// not processed yet. So a peer that stops in the middle of a record occupies little more memory
// than it sent.
func (c *conn) giveBack() {
	if c.ring == nil {
		return
	}
	b := c.ring[:]
	if !c.within || c.skip || c.placed {
		c.start, c.end = c.r, c.r
	}
	n := c.end - c.start + c.w - c.r
	switch {
	case n > cap(c.stash):
		c.stash = make([]byte, 0, max(n, keptStash))
	case n <= keptStash && cap(c.stash) > keptStash:
		c.stash = nil
	}
	c.stash = append(append(c.stash[:0], b[c.start:c.end]...), b[c.r:c.w]...)
	rings.GiveBack(c.ring)
	c.ring = nil
	c.chargeStash()
}

// step gives the ring back, calls the function wait, and borrows a ring again when wait has
// returned. The connection keeps the bytes that are not processed yet.
func (c *conn) step(wait func()) {
	c.giveBack()
	c.stopped.Store(true)
	wait()
	c.stopped.Store(false)
	c.borrow()
}

// endTurn lets other connections use the ring if they have waited for turnTime. It sends the
// replies first. The goroutine calls it between two records, while another connection waits.
func (c *conn) endTurn() {
	if c.turn == nil && rings.Overdue(&c.lent, turnTime) {
		c.step(c.pause)
		c.out.hold()
	}
}

// freeStash is the largest stash, in bytes, whose memory is not charged to the connection's
// mem.Ledger. The stash holds the bytes that giveBack keeps.
const freeStash = 8 << 10

// chargeStash charges the memory of the peer's incomplete record to the ledger.
func (c *conn) chargeStash() {
	n := cap(c.stash)
	if n <= freeStash {
		n = 0
	}
	c.ledger.Add(n - c.kept)
	c.kept = n
}

// space returns the memory for the next bytes: the record's own memory if direct is true, otherwise
// memory in the ring.
func (c *conn) space() (space []byte, direct bool) {
	if c.placed && c.left > 0 && c.r == c.w {
		return c.place[:min(c.left, len(c.place))], true
	}
	c.borrow()
	inRing := c.within && !c.skip && !c.placed
	if c.r == c.w && !inRing {
		c.r, c.w, c.start, c.end = 0, 0, 0, 0
	} else if ringSize-c.w < ringSize/4 {
		// Move the bytes received of the record to the front of the ring, and the bytes that are
		// not processed yet directly behind them. The fragment headers between the two are dropped.
		if !inRing {
			c.start, c.end = c.r, c.r
		}
		b := c.ring[:]
		n := copy(b, b[c.start:c.end])
		c.w = n + copy(b[n:], b[c.r:c.w])
		c.start, c.end, c.r = 0, n, n
	}
	end := ringSize
	if rings.Wanted() {
		end = min(end, c.w+turnInput)
	}
	return c.ring[c.w:end], false
}
