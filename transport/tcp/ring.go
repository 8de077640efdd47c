package tcp

import (
	"sync"
	"time"
)

// ringSize is how much is read at once, in bytes.
const ringSize = 64 << 10

// A ring is what a connection reads into while there is input.
type ring struct {
	b [ringSize]byte
	// beyond: lent though ringsLent were.
	beyond bool
}

var rings = sync.Pool{New: func() any { return new(ring) }}

// ringsLent is how many rings the connections of the process have between them: many
// more than processors, and little memory. A connection that has one runs, or is about to:
// it gives its ring back before it waits for memory, for room or for input.
const ringsLent = 128

// ringPatience is how long a connection waits for a ring at most. Connections that have
// one keep it longer if a file system waits in an attempt, which it should not.
const ringPatience = 20 * time.Millisecond

var lent = make(chan struct{}, ringsLent)

// lend gives a ring, in turn where very many connections have input at once.
func lend() *ring {
	beyond := false
	select {
	case lent <- struct{}{}:
	default:
		patience := time.NewTimer(ringPatience)
		select {
		case lent <- struct{}{}:
		case <-patience.C:
			beyond = true
		}
		patience.Stop()
	}
	r := rings.Get().(*ring)
	r.beyond = beyond
	return r
}

// release takes a ring back.
func (r *ring) release() {
	beyond := r.beyond
	rings.Put(r)
	if !beyond {
		<-lent
	}
}

// borrow makes sure that there is a ring, with what was in the last one.
func (r *receiver) borrow() {
	if r.ring != nil {
		return
	}
	r.ring = lend()
	r.end -= r.start
	r.start, r.r = 0, r.end
	r.w = copy(r.ring.b[:], r.stash)
	r.stash = r.stash[:0]
}

// keptStash is how much memory a connection keeps for pieces of records that are
// no longer, in bytes.
const keptStash = 512

// giveBack returns the ring for the time that there is no input. What is in it
// of a record is kept: a peer that stops in the middle of one pins no more than
// it sent.
func (r *receiver) giveBack() {
	if r.ring == nil {
		return
	}
	b := r.ring.b[:]
	if !r.within || r.skip || r.placed {
		r.start, r.end = r.r, r.r
	}
	n := r.end - r.start + r.w - r.r
	switch {
	case n > cap(r.stash):
		r.stash = make([]byte, 0, max(n, keptStash))
	case n <= keptStash && cap(r.stash) > keptStash:
		r.stash = nil
	}
	r.stash = append(append(r.stash[:0], b[r.start:r.end]...), b[r.r:r.w]...)
	r.ring.release()
	r.ring = nil
}

// step gives the ring back while wait waits for something that may take its time, and
// keeps of it what was not looked at yet.
func (c *conn) step(wait func()) {
	c.giveBack()
	c.chargeStash()
	wait()
	c.borrow()
}

// freeStash is the largest stash, in bytes, that counts as part of what a connection
// costs anyway.
const freeStash = 8 << 10

// chargeStash takes note of what the peer's half a record occupies.
func (c *conn) chargeStash() {
	n := cap(c.stash)
	if n <= freeStash {
		n = 0
	}
	c.ledger.Add(n - c.kept)
	c.kept = n
}

// space is where the next bytes go: directly into the record's own place, or into
// the ring.
func (c *conn) space() (space []byte, direct bool) {
	if c.placed && c.left > 0 && c.r == c.w {
		return c.place[:min(c.left, len(c.place))], true
	}
	c.borrow()
	inRing := c.within && !c.skip && !c.placed
	if c.r == c.w && !inRing {
		c.r, c.w, c.start, c.end = 0, 0, 0, 0
	} else if ringSize-c.w < ringSize/4 {
		// The message so far, then what was not looked at, without the
		// fragments' headers between them.
		if !inRing {
			c.start, c.end = c.r, c.r
		}
		b := c.ring.b[:]
		n := copy(b, b[c.start:c.end])
		c.w = n + copy(b[n:], b[c.r:c.w])
		c.start, c.end, c.r = 0, n, n
	}
	return c.ring.b[c.w:], false
}
