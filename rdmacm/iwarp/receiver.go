package iwarp

import (
	"io"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// A receiver is the receiving half: it belongs to the goroutine of
// Conn.receive, but for the atomics.
type receiver struct {
	ring  *ring // borrowed while there is input
	r, w  int   // what is in the ring and not consumed
	stash []byte
	small [stashSize]byte // stash, when that is enough
	large *largeStash     // stash, when it is not
	// bounce holds the payload of an RDMA Write whose CRC was not seen.
	bounce *largeStash

	ready func(fd uintptr) bool
	eof   bool
	errno unix.Errno

	fpdu inboundFPDU
	// streak is above 0 while large FPDUs come, a short one or two between
	// them included: then the next is likely to be large, and little is read
	// beyond the current one, so that its payload can go straight to its place.
	streak   int
	msn      [2]uint32 // expected next, less one, on each queue
	send     openSend
	begun    bool // an FPDU was received and validated
	drain    bool // messages were handed over since Drained
	iov      [directEntries]unix.Iovec
	scratch  [wire.MaxTerminateSize]byte // what an FPDU carries for us
	fpdus    uint64
	midway   atomic.Bool   // within an FPDU or a message
	arrived  atomic.Uint64 // bytes, all told
	answered atomic.Uint64 // bytes of Read Responses, and Reads completed
}

const (
	// stashSize holds what can be left of the input between FPDUs.
	stashSize = 64
	// directMin is how much payload must be missing for it to be read
	// straight into place.
	directMin     = 16 << 10
	directEntries = 8
)

// largeStash holds part of an FPDU.
type largeStash [largestFPDU]byte

const largestFPDU = wire.LengthSize + 1<<16 + wire.CRCSize + 3

func (x *receiver) dropBounce(c *Conn) {
	if x.bounce != nil {
		c.p.stashes.Put(x.bounce)
		x.bounce = nil
	}
}

func (x *receiver) init(c *Conn) { x.ready = c.readReady }

// receive is the receiving goroutine: it lives as long as the connection.
func (c *Conn) receive() {
	for {
		err := c.raw.Read(c.rx.ready)
		if c.stopping.Load() || c.rx.eof || c.rx.errno != 0 {
			break
		}
		if err != nil {
			c.end(&BrokenError{err}, true)
			break
		}
	}
	c.conclude()
}

// readReady reads and works on what there is. It says true when the connection
// is at its end.
func (c *Conn) readReady(fd uintptr) bool {
	x := &c.rx
	for !c.stopping.Load() {
		if c.faulty.Load() {
			x.r, x.w = 0, 0
		}
		x.borrow(c)
		tail := len(x.ring.buf) - x.w
		entries, direct := c.direct()
		switch {
		case direct > 0:
			tail = min(tail, directTail)
		case x.streak > 0:
			tail = min(tail, x.fpdu.left+directTail)
		}
		x.iov[entries].Base = &x.ring.buf[x.w]
		x.iov[entries].SetLen(tail)
		n, _, errno := unix.Syscall(unix.SYS_READV, fd, uintptr(unsafe.Pointer(&x.iov[0])), uintptr(entries+1))
		raceRead()
		switch {
		case errno == unix.EINTR:
			c.placed(direct, 0)
			continue
		case errno == unix.EAGAIN:
			c.placed(direct, 0)
			x.giveBack(c)
			return false
		case errno != 0:
			c.placed(direct, 0)
			x.errno = errno
			x.giveBack(c)
			return true
		case n == 0:
			c.placed(direct, 0)
			x.eof = true
			x.giveBack(c)
			return true
		}
		x.arrived.Add(uint64(n))
		c.p.counters.bytesIn.Add(uint64(n))
		if c.faulty.Load() {
			// What follows a fault is not looked at (RFC 5040 §7).
			c.placed(direct, 0)
			x.r, x.w = 0, 0
			continue
		}
		inPlace := min(int(n), direct)
		c.placed(direct, inPlace)
		x.w += int(n) - inPlace
		c.consume()
	}
	x.giveBack(c)
	return true
}

// borrow makes sure that there is a ring, with what was left over in it and
// room behind that.
func (x *receiver) borrow(c *Conn) {
	if x.ring == nil {
		x.ring = c.p.rings.borrow()
		x.r, x.w = 0, copy(x.ring.buf[:], x.stash)
		x.stash = nil
		if x.large != nil {
			c.p.stashes.Put(x.large)
			x.large = nil
		}
	}
	if x.r == x.w {
		x.r, x.w = 0, 0
	} else if len(x.ring.buf)-x.r < x.fpdu.needs() || len(x.ring.buf) == x.w {
		x.w = copy(x.ring.buf[:], x.ring.buf[x.r:x.w])
		x.r = 0
	}
}

// giveBack returns the ring and keeps what is left over: part of a header or
// trailer or, where a CRC protects an RDMA Write, part of its FPDU.
func (x *receiver) giveBack(c *Conn) {
	if x.ring == nil {
		return
	}
	rest := x.ring.buf[x.r:x.w]
	if len(rest) <= len(x.small) {
		x.stash = append(x.small[:0], rest...)
	} else {
		x.large = c.p.stashes.Get().(*largeStash)
		x.stash = append(x.large[:0], rest...)
	}
	c.p.rings.giveBack(x.ring)
	x.ring, x.r, x.w = nil, 0, 0
	if x.bounce != nil && x.fpdu.target != toBounce {
		x.dropBounce(c)
	}
}

// consume works on what is in the ring.
func (c *Conn) consume() {
	x := &c.rx
	c.mu.Lock()
	c.held = true
	c.mu.Unlock()
	for !c.stopping.Load() && !c.faulty.Load() && c.step() {
	}
	if x.drain {
		x.drain = false
		c.handler.Drained()
	}
	midway := x.fpdu.phase != phaseHeader || x.r < x.w || x.send.open
	x.midway.Store(midway)
	c.p.counters.fpdusIn.Add(x.fpdus)
	x.fpdus = 0
	c.mu.Lock()
	c.held = false
	if midway {
		c.watchLocked()
	}
	own := c.acquire()
	c.mu.Unlock()
	if own {
		c.transmit()
	}
}

// conclude ends the connection: work comes back, memory is revoked, the socket
// is closed and the Handler told.
func (c *Conn) conclude() {
	x := &c.rx
	if x.eof {
		c.peerClosed()
	} else if x.errno != 0 {
		c.mu.Lock()
		over := c.finSent && c.head == nil
		c.mu.Unlock()
		if !over {
			c.end(&BrokenError{x.errno}, true)
		}
	}

	c.mu.Lock()
	c.refusing, c.broken = true, true
	for c.owned {
		c.sock.SetDeadline(longAgo)
		c.cond.Wait()
	}
	err, abortive := c.endErr, c.abortive
	c.flushing = true
	c.flushErr = rdmacm.ErrFlushed
	if err != nil {
		c.flushErr = &flushedError{err}
	}
	for _, t := range []*time.Timer{c.watch.timer, c.nudge} {
		if t != nil {
			t.Stop()
		}
	}
	for c.head != nil || c.completing {
		if c.completing {
			c.cond.Wait()
			continue
		}
		c.mu.Unlock()
		c.complete()
		c.mu.Lock()
	}
	c.flushed = true
	c.cursor, c.tail = nil, nil
	c.reads, c.answers = readQueue{}, answerQueue{}
	c.mu.Unlock()

	if x.send.message != nil {
		x.send.message.free()
		x.send = openSend{}
	}
	x.dropBounce(c)
	c.revokeAll()
	if abortive {
		c.sock.SetLinger(0)
	}
	c.sock.Close()
	c.seat.Leave()
	c.p.counters.connections.Add(-1)
	c.p.counters.closed.Add(1)
	c.p.event(Event{Kind: EventClosed, Peer: c.peer, Local: c.local, Setup: c.agreed, Err: err})
	c.handler.Closed(err)
	close(c.done)
}

// peerClosed follows the peer's FIN: what was posted still goes out, as far as
// the peer takes it.
func (c *Conn) peerClosed() {
	x := &c.rx
	partial := x.fpdu.phase != phaseHeader || len(x.stash) > 0 || x.send.open
	if partial && !c.faulty.Load() && !c.stopping.Load() {
		c.end(&BrokenError{io.ErrUnexpectedEOF}, true)
		return
	}
	c.mu.Lock()
	if c.reset && !c.finSent {
		c.endLocked(&BrokenError{unix.ECONNRESET}, true)
	}
	c.refusing, c.leaving = true, true
	c.watch.limit(timeIn(c.p.cfg.LingerTimeout), &BrokenError{io.ErrUnexpectedEOF})
	for !c.stopping.Load() && (c.owned || c.sendable()) {
		if c.acquire() {
			c.mu.Unlock()
			c.transmit()
			c.mu.Lock()
			continue
		}
		c.cond.Wait()
	}
	c.watch.unlimit()
	c.mu.Unlock()
}

// A flushedError is rdmacm.ErrFlushed with the reason.
type flushedError struct{ reason error }

func (e *flushedError) Error() string   { return rdmacm.ErrFlushed.Error() + ": " + e.reason.Error() }
func (e *flushedError) Unwrap() []error { return []error{rdmacm.ErrFlushed, e.reason} }
