package iwarp

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// A transmitter is the transmitting part of a connection: work that was posted,
// until it comes back, and answers to the peer's RDMA Reads. It has no goroutine
// of its own. The goroutine that finds owned false and sets it is the sender, and
// lets go of that when there is nothing to send.
type transmitter struct {
	*endpoint
	rx   *receiver
	life *lifecycle

	// mu guards what follows, down to the sender's own.
	mu   sync.Mutex
	idle sync.Cond // owned or completing became false, or refusing true

	// Work posted and not yet given back; cursor is the first chain that the
	// sender is not through with.
	head, tail, cursor *rdmacm.Chain
	readsPosted        int
	readsOut           int // RDMA Reads on the wire
	completing         bool
	heldChains         int

	owned      bool // a goroutine is the sender
	fenced     bool // nothing may be sent before the peer's first FPDU
	held       bool // posts wait for the end of the run that the receiver works on
	broken     bool // the socket takes no more
	reset      bool // the sender was told that the peer reset it
	refusing   bool // what is posted now fails
	leaving    bool // this half is closed when nothing is left to send
	finSent    bool
	flushing   bool // everything outstanding comes back
	flushErr   error
	lost       bool // a chain came back with flushErr
	flushed    bool // everything has come back
	rtr        wire.RTR
	answers    answerQueue // not cut to the end; the first may be out.answer
	terminate  []byte      // FPDU of a Terminate that wants to go
	terminated bool        // it is the sender's

	// answering is how many of the peer's RDMA Reads hold a place: those of the
	// present run of FPDUs and those in answers. See giveBackPlace.
	answering atomic.Int32
	unsent    atomic.Int64 // see Conn.Unsent
	progress  atomic.Uint64
	referring referring

	// batch is borrowed while there is something to send. It is the sender's own;
	// while there is none, it holds short Sends (sendShort), guarded by mu.
	batch *batch

	// The sender's own.
	out outgoing
	// first is the chain that the oldest unwritten FPDU belongs to.
	first *rdmacm.Chain
	turns int
	msn   [2]uint32 // of the last message on each queue
	// Payload that fits an FPDU.
	taggedRoom, untaggedRoom int
	segment                  int     // bytes that are sure to fit a TCP segment
	aligned                  bool    // each FPDU is to lie within one segment
	unmeasured               int     // bytes sent since measured was looked at
	marked                   *marked // with markers
	measured                 time.Time

	ready func(fd uintptr) bool // writeReady, made once
	loop  func()                // transmitLoop, made once
	wait  bool                  // ready may wait for the socket
	errno unix.Errno
}

// inlineBudget is how many bytes a goroutine that posts sends itself before it
// leaves the rest to another.
const inlineBudget = 1 << 20

func (t *transmitter) init() error {
	t.idle.L = &t.mu
	t.ready, t.loop = t.writeReady, t.transmitLoop
	if t.agreed.Markers {
		t.marked = new(marked)
	}
	var err error
	if ctlErr := t.raw.Control(func(fd uintptr) {
		err = t.sizeFPDUs(fd)
		// Where this fails the receiver reads once more each time.
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_INQ, 1)
	}); ctlErr != nil {
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
func (t *transmitter) sizeFPDUs(fd uintptr) error {
	mss, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG)
	if err != nil {
		return fmt.Errorf("iwarp: TCP_MAXSEG: %w", err)
	}
	size := t.p.cfg.MaxFPDU
	ulpdu := wire.MaxULPDU
	t.segment = mss - optionRoom
	t.unmeasured, t.measured = 0, time.Now()
	t.aligned = size == FPDUMSS || t.agreed.CRC
	switch {
	case size > 0:
		ulpdu = int(size)&^3 - wire.LengthSize - wire.CRCSize
	case t.aligned:
		ulpdu = mulpdu(t.segment, t.agreed.Markers)
	}
	ulpdu = min(max(ulpdu, wire.MinULPDU), wire.MaxULPDU)
	// Payload in multiples of 4 needs no pad but at the end of a message.
	t.taggedRoom = (ulpdu - wire.TaggedSize) &^ 3
	t.untaggedRoom = (ulpdu - wire.UntaggedSize) &^ 3
	return nil
}

// remeasure sees to it that FPDUs follow a path that has changed, within
// remeasureBytes or remeasureTime, whichever is longer.
func (t *transmitter) remeasure(fd uintptr) {
	if t.unmeasured < remeasureBytes {
		return
	}
	if t.unmeasured = 0; time.Since(t.measured) >= remeasureTime {
		// A socket at its end is found out elsewhere.
		_ = t.sizeFPDUs(fd)
	}
}

// mulpdu is the largest ULPDU whose FPDU fits a TCP segment (RFC 5044 §4.1.1).
func mulpdu(emss int, markers bool) int {
	n := emss - (wire.LengthSize + wire.CRCSize + emss%4)
	if markers {
		n -= wire.MarkerSize * ((emss + wire.MarkerInterval - 1) / wire.MarkerInterval)
	}
	return n
}

// acquire makes the caller the sender, if there is something to send and no
// other is at it. mu is held.
func (t *transmitter) acquire() bool {
	if t.owned || !t.sendable() {
		return false
	}
	t.owned = true
	t.heldChains = 0
	return true
}

// flush sends what there is to send, if no other goroutine is at it.
func (t *transmitter) flush() {
	t.mu.Lock()
	own := t.acquire()
	t.mu.Unlock()
	if own {
		t.transmit()
	}
}

// transmit sends what there is to send, without waiting. The caller is the
// sender; it is not any more afterwards. It says whether something was sent, and
// nothing is left.
func (t *transmitter) transmit() (sent bool) {
	budget := inlineBudget
	for t.fill() {
		b := t.batch
		if budget > 0 {
			budget -= b.bytes
			if !t.write(false) {
				return false
			}
			if b.left == 0 {
				t.written()
				sent = true
				continue
			}
		}
		t.p.counters.handoffs.Add(1)
		t.life.watchOn()
		go t.loop()
		return false
	}
	t.complete()
	return sent
}

// transmitLoop is transmit with waiting.
func (t *transmitter) transmitLoop() {
	for {
		if t.batch != nil && t.batch.left > 0 {
			if !t.write(true) {
				return
			}
			t.written()
		}
		if !t.fill() {
			t.complete()
			return
		}
	}
}

// written follows a batch that TCP took.
func (t *transmitter) written() {
	t.referring.end(t.batch)
	t.batchWritten(t.batch)
	t.batch.reset()
	t.complete()
}

// fill makes a batch of what there is to send. When there is nothing, the caller
// is not the sender any more, and fill says false.
func (t *transmitter) fill() bool {
	b := t.borrowBatch()
	for {
		for b.room() {
			if t.life.faulty.Load() && t.fillTerminate(b) {
				break
			}
			if !t.out.active && !t.next(b) {
				break
			}
			if !t.build(b) {
				// A fault: its Terminate is next, if it may go.
				break
			}
		}
		if b.left > 0 {
			return true
		}
		t.mu.Lock()
		over := !t.sendable()
		if over {
			t.disown()
		}
		t.mu.Unlock()
		if over {
			return false
		}
	}
}

// borrowBatch is the batch to put FPDUs into. The caller is the sender, or mu is held
// and there is none.
func (t *transmitter) borrowBatch() *batch {
	if t.batch == nil {
		t.batch = t.p.batches.Get().(*batch)
	}
	return t.batch
}

// dropBatch gives the batch back, with what is in it. mu is held; the caller is the
// sender, or there is none.
func (t *transmitter) dropBatch() {
	if b := t.batch; b != nil {
		b.reset()
		t.p.batches.Put(b)
		t.batch = nil
	}
}

// disown ends the part of the sender. mu is held.
func (t *transmitter) disown() {
	t.dropBatch()
	t.owned = false
	t.idle.Broadcast()
}

// fillTerminate appends the Terminate that wants to go, the last FPDU of this
// side. It says false when it has gone.
func (t *transmitter) fillTerminate(b *batch) bool {
	t.mu.Lock()
	fpdu := t.terminate
	t.terminate, t.terminated = nil, t.terminated || fpdu != nil
	t.mu.Unlock()
	if fpdu == nil {
		return false
	}
	if t.marked != nil {
		t.marked.whole(b, fpdu, t.agreed.CRC)
	} else {
		b.whole(len(fpdu), t.segment)
		copy(b.grow(len(fpdu)), fpdu)
	}
	b.fpdus++
	b.full = true
	t.out.active = false
	return true
}

// write writes the batch, waiting for the socket if it may. It says false when
// the socket takes no more: the connection is at its end.
func (t *transmitter) write(wait bool) bool {
	t.wait, t.errno = wait, 0
	err := t.raw.Write(t.ready)
	if err == nil && t.errno == 0 {
		return true
	}
	// The receiver finds out by itself what became of the connection; but a
	// reset is told to one of the two only.
	t.referring.end(t.batch)
	t.mu.Lock()
	t.broken = true
	// A reset in the midst of a batch shows as EPIPE (batch.send), as does this
	// half's end, which is told apart by finSent.
	t.reset = t.reset || t.errno == unix.ECONNRESET || t.errno == unix.EPIPE
	t.disown()
	t.mu.Unlock()
	return false
}

// writeReady writes as much of the batch as the socket takes.
func (t *transmitter) writeReady(fd uintptr) bool {
	for b := t.batch; b.left > 0; {
		n, errno := t.referring.send(b, fd)
		t.progress.Add(uint64(n))
		t.unmeasured += n
		switch errno {
		case 0, unix.EINTR:
		case unix.EAGAIN:
			return !t.wait
		default:
			t.errno = errno
			return true
		}
	}
	t.remeasure(fd)
	return true
}
