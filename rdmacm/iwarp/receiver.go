package iwarp

import (
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/internal/turns"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// A receiver is the receiving part of a connection. Only the receiving goroutine uses it, except
// for handed, which mu guards, and the atomics.
type receiver struct {
	*Conn

	// mu guards reads.
	mu sync.Mutex
	// reads lists this side's RDMA Reads whose responses are not complete, oldest first. The
	// transmitter adds each Read that it sends, by the method expect. Only the receiving goroutine
	// removes Reads. The field oldest, which only that goroutine uses, is the first of reads, or nil
	// if that has to be looked up.
	reads  []*outRead
	oldest *outRead

	promised     atomic.Int64 // number of messages that the peer may still send
	promisedSize atomic.Int64

	ring  *ring // borrowed while there is input
	taken int   // bytes of input since the last endTurn
	r, w  int   // the bytes in the ring that are not consumed: ring.buf[r:w]
	lent  turns.Borrower[*ring]
	stash []byte
	small [stashSize]byte // memory of a short stash
	large *largeStash     // memory of a longer stash
	// bounce holds the payload of an RDMA Write until its CRC is checked.
	bounce *largeStash

	ready func(fd uintptr) bool
	eof   bool
	errno unix.Errno
	// emptied is true if the last read of the socket left nothing in it.
	emptied bool

	fpdu inboundFPDU
	// streak is above 0 while large FPDUs come, with at most largeStreak short ones in a row
	// between them. The next FPDU is then likely to be large. So the receiver reads little beyond
	// the current one, and the payload of the next one can go straight to its destination.
	streak int
	// usual is the ULPDU length of the last large segment of a Read Response, or 0 before the first
	// one. border is true if a Read Response may begin with the next read of the socket. sure is
	// true if a response did begin there when border was last true. See lookAhead.
	usual        int
	border, sure bool
	named        *region   // the region that the last FPDU named, for the method region
	msn          [2]uint32 // sequence number of the last message on each queue
	send         openSend
	begun        bool                        // an FPDU has been received and validated
	drain        bool                        // messages were delivered since the last call of Handler.Drained
	scratch      [wire.MaxTerminateSize]byte // RDMAP header of the current FPDU
	empty        int                         // FPDUs without payload since the last message or Read completed

	midway   atomic.Bool   // an FPDU or a message has arrived in part
	arrived  atomic.Uint64 // bytes received in total
	answered atomic.Uint64 // bytes of Read Responses plus completed Reads, as a measure of progress
}

const (
	// stashSize is the largest number of bytes that a receiver keeps in the field small when
	// it gives its ring back.
	stashSize = 64
	// directMin is the smallest payload of an FPDU, in bytes, that the receiver reads straight into
	// its destination.
	directMin = 16 << 10
	// directEntries is the number of iov entries for the current FPDU's payload. The rest of
	// ringEntries is for guessed FPDUs (lookAhead).
	directEntries = 8
	ringEntries   = directEntries + 2*aheadFPDUs
)

// largeStash holds part of one FPDU.
type largeStash [largestFPDU]byte

const largestFPDU = wire.LengthSize + 1<<16 + wire.CRCSize + 3

// promise allows the peer to send more messages, as many as count says, of up to size bytes each:
// see rdmacm.Conn.Provide.
func (x *receiver) promise(count, size int) {
	for {
		old := x.promisedSize.Load()
		if int64(size) <= old || x.promisedSize.CompareAndSwap(old, int64(size)) {
			break
		}
	}
	x.promised.Add(int64(count))
}

// expect passes an RDMA Read to the receiver. The transmitter calls it before it sends the
// request, so that the receiver knows the Read when the response arrives.
func (x *receiver) expect(r *outRead) {
	x.mu.Lock()
	x.reads = append(x.reads, r)
	x.mu.Unlock()
}

// outstanding returns the Reads whose responses are not complete, oldest first. The result is valid
// until the receiver removes a Read.
func (x *receiver) outstanding() []*outRead {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.reads
}

// oldestRead returns the Read whose response is due, or nil.
func (x *receiver) oldestRead() *outRead {
	if x.oldest == nil {
		if reads := x.outstanding(); len(reads) > 0 {
			x.oldest = reads[0]
		}
	}
	return x.oldest
}

// region returns the region that stag names, or nil. For consecutive FPDUs that name the same
// region it looks the region up once.
func (x *receiver) region(stag uint32) *region {
	if x.named == nil || x.named.stag != stag || x.named.revoked.Load() {
		x.named = x.p.stags.lookup(stag)
	}
	return x.named
}

// run is the receiving goroutine. It lives as long as the connection.
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

// readReady reads the socket and processes the input until there is no more. It returns
// true when the connection is at its end.
func (x *receiver) readReady(fd uintptr) bool {
	x.taken = 0
	for !x.life.stopping.Load() {
		if x.taken >= turnSize || x.ring != nil && x.p.rings.Overdue(&x.lent, turnTime) {
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
		if x.skipBehindFault() {
			continue
		}
		if sent := x.consume(); sent && x.emptied && !x.life.stopping.Load() {
			// The socket is empty, so wait for new input. emptied does not show a reset that
			// follows the last bytes. But there was none: TCP would have refused the bytes that this side
			// sent after it.
			x.giveBack()
			return false
		}
	}
	x.giveBack()
	return true
}

// endTurn lets other receivers run after this one has read turnSize bytes, or has used its ring for
// turnTime while others wait for one. It gives the ring back if another receiver waits for one, and
// yields the processor.
func (x *receiver) endTurn() {
	x.taken = 0
	if x.p.rings.Wanted() {
		x.giveBack()
	}
	runtime.Gosched()
}

// skipBehindFault drops the unread input if this side found a fault (RFC 5040 §7). It
// reports whether it did.
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

// read reads the socket once. Payload goes straight into its destination if possible, and the
// rest into the ring. n is the number of bytes read.
func (x *receiver) read(fd uintptr) (n int, errno unix.Errno) {
	if r := x.exposed(); r != nil {
		// The lock is held until the read is over, so that revocation waits for it. The
		// read does not wait for input.
		r.mu.Lock()
		defer r.mu.Unlock()
	}
	entries, direct := x.layOut()
	n, x.emptied, errno = x.ring.recv(fd, entries)
	if raceEnabled {
		raceRead()
	}
	x.landed(n, direct)
	return n, errno
}

// layOut fills ring.iov for the next read of the socket. It returns how many entries it filled. The
// first bytes of that read, direct of them, are payload of the present FPDU.
func (x *receiver) layOut() (entries, direct int) {
	entries, direct = x.direct()
	if x.usual > 0 {
		if k := x.lookAhead(entries, direct); k > entries {
			x.ring.used = max(x.ring.used, k)
			return k, direct
		}
	}
	tail := len(x.ring.buf) - x.w
	if x.p.rings.Wanted() {
		tail = min(tail, turnInput)
	}
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

// landed records that a read of the socket has put n bytes into the entries that layOut prepared.
// The first direct bytes of these entries are memory for payload of the present FPDU. The other bytes
// are in the ring, or in the entries that lookAhead added.
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

// borrow makes sure that the receiver has a ring, with the stashed bytes in it and room behind
// them. It returns false if the connection ends before a ring is free.
func (x *receiver) borrow() bool {
	if x.ring == nil {
		r, ok := x.p.rings.Borrow(&x.lent)
		if !ok {
			return false
		}
		x.ring = r
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

// giveBack gives the ring back and stashes the unconsumed bytes. They are part of a header or
// trailer or, if a CRC protects an RDMA Write, part of its FPDU.
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
	x.p.rings.GiveBack(x.ring)
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

// consume processes the FPDUs in the ring. Then the chains that the Handler posted meanwhile and
// the answers to the peer's Reads are sent together. It returns true if something was sent and
// TCP took all of it.
func (x *receiver) consume() (sent bool) {
	x.tx.hold()
	for !x.life.stopping.Load() && !x.life.faulty.Load() {
		if x.stepOn() {
			continue
		}
		if x.ring.ahead.left == 0 {
			break
		}
		x.reveal()
	}
	if x.drain {
		x.drain = false
		x.handler.Drained()
	}
	x.midway.Store(x.partial())
	if x.midway.Load() {
		x.life.watchOn()
	}
	return x.tx.release()
}

// partial reports whether an FPDU or a message has begun and not ended.
func (x *receiver) partial() bool {
	return x.fpdu.phase != phaseHeader || x.r < x.w || len(x.stash) > 0 || x.send.open
}

// drop releases the receiver's queues and buffers at the end of the connection.
func (x *receiver) drop() {
	x.mu.Lock()
	x.reads, x.oldest = nil, nil
	x.mu.Unlock()
	if x.send.message != nil {
		x.send.message.recycle()
		x.send = openSend{}
	}
	x.dropBounce()
}
