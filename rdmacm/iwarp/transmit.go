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

// A transmitter is the transmitting part of a connection. It holds posted work until the work is
// completed, and the answers to the peer's RDMA Reads. It has no goroutine of its own. The
// goroutine that finds owned false and sets it becomes the sender. It clears owned when there is
// nothing more to send.
type transmitter struct {
	*Conn

	// mu guards the following fields, up to terminated.
	mu   sync.Mutex
	idle sync.Cond // signalled when owned or completing becomes false, or refusing true

	// head and tail are the list of posted chains that are not completed. cursor is the first
	// chain whose FPDUs are not all built.
	head, tail, cursor *rdmacm.Chain
	readsPosted        int
	readsOut           int // RDMA Reads whose response is outstanding
	completing         bool
	heldChains         int

	owned      bool // a goroutine is the sender
	fenced     bool // nothing may be sent before the peer's first FPDU
	held       bool // posted work waits for release
	broken     bool // the socket accepts no more
	reset      bool // the sender found that the peer reset the connection
	refusing   bool // new posts fail
	leaving    bool // this half closes when nothing is left to send
	finSent    bool
	flushing   bool // outstanding chains are being completed with flushErr
	flushErr   error
	lost       bool // a chain was completed with flushErr
	flushed    bool // all chains are completed
	rtr        wire.RTR
	answers    []*response // answers whose FPDUs are not all built; the first may be out.answer
	terminate  []byte      // FPDU of a Terminate that waits to be sent
	terminated bool        // the sender has taken the Terminate

	// answering is the length of answers. These RDMA Reads of the peer count against the agreed
	// number: see giveBackPlace.
	answering atomic.Int32
	unsent    atomic.Int64 // see Conn.Unsent
	progress  atomic.Uint64
	referring referring

	// batch comes from a pool, and is nil while there is nothing to send. It belongs to the
	// sender. While there is no sender, it holds short Sends (sendShort) and mu guards it.
	batch *batch

	// Only the sender uses the following fields.
	out outgoing
	// first is the chain of the oldest FPDU that is not written.
	first *rdmacm.Chain
	turns int
	msn   [2]uint32 // sequence number of the last message on each queue
	// taggedRoom and untaggedRoom are the largest numbers of payload bytes in one FPDU, with a
	// tagged and with an untagged header.
	taggedRoom, untaggedRoom int
	segment                  int     // number of bytes that fit into a TCP segment in any case
	aligned                  bool    // each FPDU is to lie within one segment
	unmeasured               int     // bytes sent since the last check by remeasure
	marked                   *marked // nil unless the peer wants markers
	measured                 time.Time

	ready func(fd uintptr) bool // the method value of writeReady, made only once
	loop  func()                // the method value of transmitLoop, made only once
	wait  bool                  // ready may wait for the socket
	errno unix.Errno
}

// inlineBudget is the number of bytes after which a posting goroutine stops sending, and leaves
// the rest to a new goroutine.
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
		// With TCP_INQ the kernel reports that the socket is empty. Without it the receiver needs one
		// more read each time to find that out.
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

// sizeFPDUs computes the largest payload of one FPDU from Config.MaxFPDU. If MaxFPDU is FPDUMSS,
// or if it is FPDUAuto and CRCs are used, each FPDU fits into one TCP segment.
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
	// Payload in multiples of 4 bytes needs a pad only at the end of a message.
	t.taggedRoom = (ulpdu - wire.TaggedSize) &^ 3
	t.untaggedRoom = (ulpdu - wire.UntaggedSize) &^ 3
	return nil
}

// remeasure adapts the size of FPDUs to a changed network path. It reads the segment size again
// only after remeasureBytes bytes were sent and remeasureTime has passed.
func (t *transmitter) remeasure(fd uintptr) {
	if t.unmeasured = 0; time.Since(t.measured) >= remeasureTime {
		// An error means that the connection has ended; the next write reports that.
		_ = t.sizeFPDUs(fd)
	}
}

// mulpdu returns the largest ULPDU whose FPDU fits into a TCP segment (RFC 5044 §4.1.1).
func mulpdu(emss int, markers bool) int {
	n := emss - (wire.LengthSize + wire.CRCSize + emss%4)
	if markers {
		n -= wire.MarkerSize * ((emss + wire.MarkerInterval - 1) / wire.MarkerInterval)
	}
	return n
}

// acquire makes the caller the sender and returns true, if there is something to send and no
// other goroutine is the sender. mu is held.
func (t *transmitter) acquire() bool {
	if t.owned || !t.sendable() {
		return false
	}
	t.owned = true
	t.heldChains = 0
	return true
}

// flush sends the waiting work, unless another goroutine is the sender.
func (t *transmitter) flush() {
	t.mu.Lock()
	own := t.acquire()
	t.mu.Unlock()
	if own {
		t.transmit()
	}
}

// transmit sends the waiting work without waiting for the socket. The caller must be the sender;
// when transmit returns, it is the sender no more. transmit returns true if it sent something and
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
		t.life.watchOn()
		go t.loop()
		return false
	}
	t.complete()
	return sent
}

// transmitLoop is like transmit, but waits until the socket takes more. It runs on a goroutine of
// its own.
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

// written runs after TCP has taken the whole batch. It records what was sent, empties the batch,
// and completes the finished chains.
func (t *transmitter) written() {
	t.referring.end(t.batch)
	t.batchWritten()
	t.batch.reset()
	t.complete()
}

// fill puts the waiting work into the batch. If there is none, it returns false and the caller is
// no longer the sender.
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
				// build found a fault. The Terminate for this fault is the next FPDU, if one may
				// be sent.
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

// borrowBatch returns the batch for new FPDUs. The caller is the sender; or there is no
// sender, and the caller holds mu.
func (t *transmitter) borrowBatch() *batch {
	if t.batch == nil {
		t.batch = t.p.batches.Get().(*batch)
	}
	return t.batch
}

// dropBatch empties the batch and gives it back. The caller holds mu, and is the sender if there
// is one.
func (t *transmitter) dropBatch() {
	if b := t.batch; b != nil {
		b.reset()
		t.p.batches.Put(b)
		t.batch = nil
	}
}

// disown makes the caller stop being the sender. mu is held.
func (t *transmitter) disown() {
	t.dropBatch()
	t.owned = false
	t.idle.Broadcast()
}

// fillTerminate appends the waiting Terminate, the last FPDU that this side sends. It returns
// false if no Terminate waits.
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
	b.full = true
	t.out.active = false
	return true
}

// write writes the batch. If wait is true, it may wait for the socket. It returns false if the
// socket reports an error; then nothing more is sent.
func (t *transmitter) write(wait bool) bool {
	t.wait, t.errno = wait, 0
	err := t.raw.Write(t.ready)
	if err == nil && t.errno == 0 {
		return true
	}
	// The receiver finds out by its own reads how the connection ended. But the kernel reports a
	// reset only once, to the reader or to the writer, so the writer records it in t.reset.
	t.referring.end(t.batch)
	t.mu.Lock()
	t.broken = true
	// A reset in the middle of a batch shows as EPIPE (batch.send). A write after this side
	// closed its half also gives EPIPE; finSent tells the two cases apart.
	t.reset = t.reset || t.errno == unix.ECONNRESET || t.errno == unix.EPIPE
	t.disown()
	t.mu.Unlock()
	return false
}

// writeReady writes as much of the batch as the socket takes. It returns false if RawConn.Write
// is to wait until the socket takes more.
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
	if t.unmeasured >= remeasureBytes {
		t.remeasure(fd)
	}
	return true
}
