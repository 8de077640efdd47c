package iwarp

import (
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// A transmitter is the sending half. Whoever found Conn.owned false and set it
// is the transmitter, and may use what is here; it lets go when there is
// nothing to send.
type transmitter struct {
	batch *batch // borrowed while there is something to send
	out   outgoing
	// first is the chain that the oldest unwritten FPDU belongs to.
	first        *rdmacm.Chain
	answersBuilt int // responses cut to the end and not written
	turns        int
	msn          [2]uint32 // of the last message on each queue
	// Payload that fits an FPDU.
	taggedRoom, untaggedRoom int
	segment                  int     // bytes that are sure to fit a TCP segment
	aligned                  bool    // each FPDU is to lie within one segment
	unmeasured               int     // bytes sent since the segment size was asked for
	marked                   *marked // with markers

	ready func(fd uintptr) bool // c.writeReady, made once
	loop  func()                // c.transmitLoop, made once
	wait  bool                  // ready may wait for the socket
	errno unix.Errno

	progress atomic.Uint64 // bytes that TCP took
}

// inlineBudget is how many bytes a goroutine that posts sends itself before it
// leaves the rest to another.
const inlineBudget = 1 << 20

func (t *transmitter) init(c *Conn) error {
	t.ready, t.loop = c.writeReady, c.transmitLoop
	if c.agreed.Markers {
		t.marked = new(marked)
	}
	var err error
	if ctlErr := c.raw.Control(func(fd uintptr) { err = c.sizeFPDUs(fd) }); ctlErr != nil {
		err = ctlErr
	}
	return err
}

func (t *transmitter) nextMSN(queue uint32) uint32 {
	t.msn[queue]++
	return t.msn[queue]
}

// sizeFPDUs computes how much payload fits an FPDU. With CRCs the size is one
// that lies within a segment: see batch.whole.
func (c *Conn) sizeFPDUs(fd uintptr) error {
	mss, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG)
	if err != nil {
		return fmt.Errorf("iwarp: TCP_MAXSEG: %w", err)
	}
	size := c.p.cfg.MaxFPDU
	ulpdu := wire.MaxULPDU
	c.tx.segment, c.tx.unmeasured = mss-optionRoom, 0
	c.tx.aligned = size == FPDUMSS || c.agreed.CRC
	switch {
	case size > 0:
		ulpdu = int(size)&^3 - wire.LengthSize - wire.CRCSize
	case c.tx.aligned:
		ulpdu = mulpdu(c.tx.segment, c.agreed.Markers)
	}
	ulpdu = min(max(ulpdu, wire.MinULPDU), wire.MaxULPDU)
	// Payload in multiples of 4 needs no pad but at the end of a message.
	c.tx.taggedRoom = (ulpdu - wire.TaggedSize) &^ 3
	c.tx.untaggedRoom = (ulpdu - wire.UntaggedSize) &^ 3
	return nil
}

// mulpdu is the largest ULPDU whose FPDU fits a TCP segment (RFC 5044 §4.1.1).
func mulpdu(emss int, markers bool) int {
	n := emss - (wire.LengthSize + wire.CRCSize + emss%4)
	if markers {
		n -= wire.MarkerSize * ((emss + wire.MarkerInterval - 1) / wire.MarkerInterval)
	}
	return n
}

// acquire makes the caller the transmitter, if there is something to send and
// no other is at it. c.mu is held.
func (c *Conn) acquire() bool {
	if c.owned || !c.sendable() {
		return false
	}
	c.owned = true
	c.heldChains = 0
	return true
}

// transmit sends what there is to send, without waiting. The caller is the
// transmitter; it is not any more afterwards.
func (c *Conn) transmit() {
	budget := inlineBudget
	for c.fill() {
		b := c.tx.batch
		if budget > 0 {
			budget -= b.bytes
			if !c.write(false) {
				return
			}
			if b.left == 0 {
				c.written()
				continue
			}
		}
		c.p.counters.handoffs.Add(1)
		go c.tx.loop()
		return
	}
	c.complete()
}

// transmitLoop is transmit with waiting.
func (c *Conn) transmitLoop() {
	for {
		if c.tx.batch != nil && c.tx.batch.left > 0 {
			if !c.write(true) {
				return
			}
			c.written()
		}
		if !c.fill() {
			c.complete()
			return
		}
	}
}

// written follows a batch that TCP took.
func (c *Conn) written() {
	b := c.tx.batch
	if b.exposed {
		c.exposed.mu.Lock()
		c.exposed.batch = nil
		c.exposed.mu.Unlock()
	}
	c.batchWritten(b)
	b.reset()
	c.complete()
}

// fill makes a batch of what there is to send. When there is nothing, it lets
// go of the transmitter and says false.
func (c *Conn) fill() bool {
	if c.tx.batch == nil {
		c.tx.batch = c.p.batches.Get().(*batch)
	}
	b := c.tx.batch
	if b.limit = batchBytes; c.agreed.CRC {
		b.limit = batchBytesCRC
	}
	for b.left == 0 {
		for b.room() {
			if c.faulty.Load() && c.fillTerminate(b) {
				break
			}
			if !c.tx.out.active && !c.next() {
				break
			}
			if !c.build(b) {
				// A fault: its Terminate is next, if it may go.
				break
			}
		}
		if b.left > 0 {
			break
		}
		c.mu.Lock()
		if !c.sendable() {
			c.release()
			c.mu.Unlock()
			return false
		}
		c.mu.Unlock()
	}
	return true
}

// release lets go of the transmitter. c.mu is held.
func (c *Conn) release() {
	if b := c.tx.batch; b != nil {
		b.reset()
		c.p.batches.Put(b)
		c.tx.batch = nil
	}
	c.owned = false
	c.cond.Broadcast()
}

// fillTerminate appends the Terminate that wants to go, the last FPDU of this
// side. It says false when it has gone.
func (c *Conn) fillTerminate(b *batch) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.terminate == nil {
		return false
	}
	if c.tx.marked != nil {
		c.tx.marked.whole(b, c.terminate, c.agreed.CRC)
	} else {
		b.whole(len(c.terminate), c.tx.segment)
		copy(b.grow(len(c.terminate)), c.terminate)
	}
	b.fpdus++
	b.full = true
	c.terminate, c.terminated = nil, true
	c.tx.out.active = false
	return true
}

// write writes the batch, waiting for the socket if it may. It says false when
// the socket takes no more: the connection is at its end.
func (c *Conn) write(wait bool) bool {
	c.tx.wait, c.tx.errno = wait, 0
	err := c.raw.Write(c.tx.ready)
	if err == nil && c.tx.errno == 0 {
		return true
	}
	// The receiver finds out by itself what became of the connection; but a
	// reset is told to one of the two only.
	if c.tx.batch.exposed {
		c.exposed.mu.Lock()
		c.exposed.batch = nil
		c.exposed.mu.Unlock()
	}
	c.mu.Lock()
	c.broken = true
	c.reset = c.reset || c.tx.errno == unix.ECONNRESET
	c.release()
	c.mu.Unlock()
	return false
}

// writeReady writes as much of the batch as the socket takes.
func (c *Conn) writeReady(fd uintptr) bool {
	b := c.tx.batch
	for b.left > 0 {
		if b.exposed {
			c.exposed.mu.Lock()
		}
		raceWrite()
		n, errno := b.send(fd)
		if errno == 0 {
			b.advance(n)
			c.tx.progress.Add(uint64(n))
			c.tx.unmeasured += n
		}
		if b.exposed {
			c.exposed.mu.Unlock()
		}
		switch errno {
		case 0, unix.EINTR:
		case unix.EAGAIN:
			return !c.tx.wait
		default:
			c.tx.errno = errno
			return true
		}
	}
	if c.tx.unmeasured >= remeasure {
		// The path may have changed. A socket at its end is found out elsewhere.
		_ = c.sizeFPDUs(fd)
	}
	return true
}
