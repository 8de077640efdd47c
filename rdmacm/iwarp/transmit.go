package iwarp

import (
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
	flushErr   error // if not nil, outstanding chains are being completed with it
	lost       bool  // a chain was completed with flushErr
	flushed    bool  // all chains are completed
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

// hold makes posted work wait for release. The receiver calls it before it processes the FPDUs in
// the ring, so that work posted by the Handler goes out together.
func (t *transmitter) hold() {
	t.mu.Lock()
	t.held = true
	t.mu.Unlock()
}

// release lets posted work be sent again after hold. It sends the work posted meanwhile and the
// answers to the peer's RDMA Reads. It returns true if it sent something and TCP took all of it.
func (t *transmitter) release() (sent bool) {
	t.mu.Lock()
	t.held = false
	own := t.acquire()
	t.mu.Unlock()
	return own && t.transmit()
}

// Flush implements rdmacm.Conn.
func (c *Conn) Flush() { c.tx.flush() }

// flush sends the waiting work, unless another goroutine is the sender.
func (t *transmitter) flush() {
	t.mu.Lock()
	own := t.acquire()
	t.mu.Unlock()
	if own {
		t.transmit()
	}
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

// written runs after TCP has taken the whole batch. It records what was sent, empties the batch,
// and completes the finished chains.
func (t *transmitter) written() {
	t.referring.end(t.batch)
	t.batchWritten()
	t.batch.reset()
	t.complete()
}

// batchWritten runs after TCP took the whole batch. It marks the work requests of the FPDUs as
// sent. If the Terminate was among the FPDUs, it closes this side's half of the connection.
func (t *transmitter) batchWritten() {
	t.mu.Lock()
	for ch := t.first; ch != nil; ch = ch.Next {
		st := postingOf(ch)
		if st.sent = st.built; st.sent == len(ch.Work) {
			t.sent(st)
		}
		if ch == t.cursor {
			break
		}
	}
	t.first = nil
	if t.cursor != nil && postingOf(t.cursor).built > 0 || t.out.chain != nil {
		t.first = t.cursor
	}
	done := t.terminated
	if done {
		t.broken = true
	}
	t.mu.Unlock()
	if done {
		t.sock.CloseWrite()
	}
}

// disown makes the caller stop being the sender. mu is held.
func (t *transmitter) disown() {
	t.dropBatch()
	t.owned = false
	t.idle.Broadcast()
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
