package iwarp

import (
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/internal/turns"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// A receiver is the receiving part of a connection. It belongs to the receiving
// goroutine, but for what mu guards, the promise and the other atomics.
type receiver struct {
	*endpoint
	tx      *transmitter
	life    *lifecycle
	regions *regions
	handler rdmacm.Handler

	// mu guards handed.
	mu sync.Mutex
	// handed are the Reads on the wire that the transmitter has handed over
	// (expect), and due those that the receiving goroutine took over from there.
	// All in handed are younger than all in due.
	handed, due readQueue
	waiting     atomic.Bool // there are Reads in handed
	asked       answerQueue // the peer's Reads in the present run of FPDUs

	promised     atomic.Int64 // messages that may still arrive
	promisedSize atomic.Int64

	ring  *ring // borrowed while there is input
	taken int   // bytes of input in the present turn
	r, w  int   // what is in the ring and not consumed
	// While the receiver waits for a ring, turn is its place in the line, and lent brings
	// the ring, or nil. rings.mu guards them.
	turn  turns.Place[*receiver, *receiver]
	lent  chan *ring
	stash []byte
	small [stashSize]byte // stash, when that is enough
	large *largeStash     // stash, when it is not
	spare *inboundMessage // for the next message, while there is input
	// bounce holds the payload of an RDMA Write whose CRC was not seen.
	bounce *largeStash

	ready func(fd uintptr) bool
	eof   bool
	errno unix.Errno
	// emptied: the last read of the socket left nothing there.
	emptied bool

	fpdu inboundFPDU
	// streak is above 0 while large FPDUs come, a short one or two between
	// them included: then the next is likely to be large, and little is read
	// beyond the current one, so that its payload can go straight to its place.
	streak int
	// usual is the ULPDU length of the last large segment of a Read Response, 0
	// before there was one. border: a response may begin where the next read of the
	// socket does, and sure: where it could, it did the last time (lookAhead).
	usual        int
	border, sure bool
	named        *region   // that an FPDU of the present input named last
	msn          [2]uint32 // expected next, less one, on each queue
	send         openSend
	begun        bool                        // an FPDU was received and validated
	drain        bool                        // messages were handed over since Drained
	scratch      [wire.MaxTerminateSize]byte // what an FPDU carries for us
	// Of the present run of FPDUs: these, messages, and their payload.
	fpdus, sends, sendBytes uint64
	empty                   int // FPDUs that brought nothing since something was complete

	midway   atomic.Bool   // within an FPDU or a message
	arrived  atomic.Uint64 // bytes, all told
	answered atomic.Uint64 // bytes of Read Responses, and Reads completed
}

const (
	// stashSize holds what can be left of the input between FPDUs.
	stashSize = 64
	// directMin is how much payload must be missing for it to be read
	// straight into place.
	directMin = 16 << 10
	// directEntries are for what is certain, ringEntries with what is guessed.
	directEntries = 8
	ringEntries   = directEntries + 2*aheadFPDUs
)

// largeStash holds part of an FPDU.
type largeStash [largestFPDU]byte

const largestFPDU = wire.LengthSize + 1<<16 + wire.CRCSize + 3

// promise adds to what the receiver accepts: see rdmacm.Conn.Provide.
func (x *receiver) promise(count, size int) {
	for {
		old := x.promisedSize.Load()
		if int64(size) <= old || x.promisedSize.CompareAndSwap(old, int64(size)) {
			break
		}
	}
	x.promised.Add(int64(count))
}

// expect hands over an RDMA Read whose request is about to be sent. The
// transmitter calls it, before the peer can have got the request.
func (x *receiver) expect(r *outRead) {
	x.mu.Lock()
	x.handed.push(r)
	x.waiting.Store(true)
	x.mu.Unlock()
}

// takeOver moves the Reads that were handed over to those that are due.
func (x *receiver) takeOver() {
	x.mu.Lock()
	x.due.join(&x.handed)
	x.waiting.Store(false)
	x.mu.Unlock()
}

// oldestRead is the Read whose response is due, or nil. It takes the lock only
// when all that were taken over before have been answered, and there are others.
func (x *receiver) oldestRead() *outRead {
	if x.due.first == nil && x.waiting.Load() {
		x.takeOver()
	}
	return x.due.first
}

// region is what stag names, or nil. A run of FPDUs that name the same region
// looks it up once.
func (x *receiver) region(stag uint32) *region {
	if x.named == nil || x.named.stag != stag || x.named.revoked.Load() {
		x.named = x.p.stags.lookup(stag)
	}
	return x.named
}

// run is the receiving goroutine: it lives as long as the connection.
func (x *receiver) run() {
	for {
		err := x.raw.Read(x.ready)
		if x.life.stopping.Load() || x.eof || x.errno != 0 {
			break
		}
		if err != nil {
			x.life.end(&BrokenError{err}, true)
			break
		}
	}
	x.life.conclude()
}

// readReady reads and works on what there is. It says true when the connection
// is at its end.
func (x *receiver) readReady(fd uintptr) bool {
	x.taken = 0
	for !x.life.stopping.Load() {
		if x.taken >= RingSize {
			x.endTurn()
		}
		x.skipBehindFault()
		if !x.borrow() {
			break
		}
		n, errno := x.read(fd)
		switch {
		case errno == unix.EINTR:
			continue
		case errno == unix.EAGAIN:
			x.giveBack()
			return false
		case errno != 0 || n == 0:
			x.errno, x.eof = errno, errno == 0
			x.giveBack()
			return true
		}
		x.taken += n
		x.arrived.Add(uint64(n))
		x.p.counters.bytesIn.Add(uint64(n))
		if x.skipBehindFault() {
			continue
		}
		if sent := x.consume(); sent && x.emptied && !x.life.stopping.Load() {
			// What comes from now on wakes this goroutine. Only a reset behind the
			// last bytes would not have shown yet: but then nothing could have been
			// sent after it.
			x.giveBack()
			return false
		}
	}
	x.giveBack()
	return true
}

// endTurn lets others go on, after a ringful of input: those that wait for a ring, and
// those that wait for a processor.
func (x *receiver) endTurn() {
	x.taken = 0
	if x.p.rings.wanted() {
		x.giveBack()
	}
	runtime.Gosched()
}

// skipBehindFault says whether the connection ends by a fault: what follows that
// is not looked at (RFC 5040 §7).
func (x *receiver) skipBehindFault() bool {
	faulty := x.life.faulty.Load()
	if faulty {
		x.r, x.w = 0, 0
		if x.ring != nil {
			x.ring.ahead.left = 0
		}
	}
	return faulty
}

// read reads the socket once: payload straight into its place, where it may go
// there, and the rest into the ring. n is how many bytes that were.
func (x *receiver) read(fd uintptr) (n int, errno unix.Errno) {
	if r := x.exposed(); r != nil {
		// Held until the read is over, so that revocation waits for it; the
		// read does not wait for input.
		r.mu.Lock()
		defer r.mu.Unlock()
	}
	entries, direct := x.layOut()
	n, x.emptied, errno = x.ring.recv(fd, entries)
	raceRead()
	x.landed(n, direct)
	return n, errno
}

// layOut says where the next read of the socket goes: to so many of the ring's
// entries, of which the first direct bytes are payload of the present FPDU.
func (x *receiver) layOut() (entries, direct int) {
	entries, direct = x.direct()
	if k := x.lookAhead(entries, direct); k > entries {
		x.ring.used = max(x.ring.used, k)
		return k, direct
	}
	tail := len(x.ring.buf) - x.w
	switch {
	case direct > 0:
		tail = min(tail, directTail)
	case x.streak > 0:
		tail = min(tail, x.fpdu.left+directTail)
	}
	setEntry(&x.ring.iov[entries], x.ring.buf[x.w:][:tail])
	x.ring.used = max(x.ring.used, entries+1)
	return entries + 1, direct
}

// landed follows a read of n bytes to where layOut said.
func (x *receiver) landed(n, direct int) {
	inPlace := min(n, direct)
	if inPlace > 0 {
		x.placed(0, inPlace)
	}
	if a := &x.ring.ahead; a.n > 0 {
		a.left = n - inPlace
	} else {
		x.w += n - inPlace
	}
}

// borrow makes sure that there is a ring, with what was left over in it and
// room behind that. It says false if the connection ends before it is this
// receiver's turn.
func (x *receiver) borrow() bool {
	if x.ring == nil {
		if x.ring = x.p.rings.borrow(x); x.ring == nil {
			return false
		}
		x.r, x.w = 0, copy(x.ring.buf[:], x.stash)
		x.stash = nil
		if x.large != nil {
			x.p.stashes.Put(x.large)
			x.large = nil
		}
	}
	if x.r == x.w {
		x.r, x.w = 0, 0
	} else if len(x.ring.buf)-x.r < x.fpdu.needs() || len(x.ring.buf) == x.w {
		x.w = copy(x.ring.buf[:], x.ring.buf[x.r:x.w])
		x.r = 0
	}
	return true
}

// giveBack returns the ring and keeps what is left over: part of a header or
// trailer or, where a CRC protects an RDMA Write, part of its FPDU.
func (x *receiver) giveBack() {
	if x.ring == nil {
		return
	}
	rest := x.ring.buf[x.r:x.w]
	if len(rest) <= len(x.small) {
		x.stash = append(x.small[:0], rest...)
	} else {
		x.large = x.p.stashes.Get().(*largeStash)
		x.stash = append(x.large[:0], rest...)
	}
	x.ring.forget()
	x.p.rings.giveBack(x.ring)
	if x.spare != nil {
		x.spare.put()
		x.spare = nil
	}
	x.ring, x.r, x.w = nil, 0, 0
	x.named = nil
	if x.bounce != nil && x.fpdu.target != toBounce {
		x.dropBounce()
	}
}

func (x *receiver) dropBounce() {
	if x.bounce != nil {
		x.p.stashes.Put(x.bounce)
		x.bounce = nil
	}
}

// consume works on the run of FPDUs in the ring. What the Handler posts
// meanwhile, and the answers to the peer's Reads, go out together at its end: consume
// says whether anything did, and TCP took it all.
func (x *receiver) consume() (sent bool) {
	x.tx.hold()
	for !x.life.stopping.Load() && !x.life.faulty.Load() && (x.stepOn() || x.reveal()) {
	}
	if x.drain {
		x.drain = false
		x.handler.Drained()
	}
	x.midway.Store(x.partial())
	x.p.counters.fpdusIn.Add(x.fpdus)
	x.p.counters.sendsIn.Add(x.sends)
	x.p.counters.sendBytesIn.Add(x.sendBytes)
	x.fpdus, x.sends, x.sendBytes = 0, 0, 0
	if x.midway.Load() {
		x.life.watchOn()
	}
	return x.tx.release(&x.asked)
}

// partial says that an FPDU or a message has begun and not ended.
func (x *receiver) partial() bool {
	return x.fpdu.phase != phaseHeader || x.r < x.w || len(x.stash) > 0 || x.send.open
}

// drop gives back what the receiver holds, once it has nothing more to do.
func (x *receiver) drop() {
	x.due, x.asked = readQueue{}, answerQueue{}
	x.mu.Lock()
	x.handed = readQueue{}
	x.mu.Unlock()
	if x.send.message != nil {
		x.send.message.put()
		x.send = openSend{}
	}
	x.dropBounce()
}
