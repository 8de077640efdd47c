package iwarp

import (
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/internal/turns"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// A receiver is the receiving part of a connection. Only the receiving goroutine uses it, except
// for the field reads, which mu guards, and the atomics.
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
	due    atomic.Int32 // length of reads

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

// directTail is the largest number of bytes that one read of the socket receives behind payload
// that goes straight to its destination. These are the trailer and the next header.
const directTail = 64

// largeStreak is the number of short FPDUs that may come in a row while the receiver still
// expects large ones (receiver.streak).
const largeStreak = 2

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

// exposed returns the region into which the next read may put payload directly, or nil.
func (x *receiver) exposed() *region {
	if !x.straight() || x.fpdu.target != toRegion {
		return nil
	}
	return x.fpdu.region
}

// straight reports whether the next read of the socket may put payload straight into its destination.
func (x *receiver) straight() bool {
	f := &x.fpdu
	return f.phase == phasePayload && f.large && x.r == x.w && !x.life.faulty.Load()
}

// layOut fills ring.iov for the next read of the socket. It returns how many entries it filled. The
// first bytes of that read, direct of them, are payload of the present FPDU.
func (x *receiver) layOut() (entries, direct int) {
	entries, direct = x.direct()
	if x.usual > 0 && x.due.Load() > 0 {
		if k := x.lookAhead(entries, direct); k > entries {
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
	return entries + 1, direct
}

// direct prepares the ring's entries so that the next read of the socket puts payload straight into its
// destination. It returns the number of entries, and of bytes. Both are 0 if the method straight
// returns false, or if the region is not exposed any more. The caller has called the method exposed, and
// holds the mutex of the region that it returned.
func (x *receiver) direct() (entries, n int) {
	f := &x.fpdu
	if !x.straight() {
		return 0, 0
	}
	switch f.target {
	case toMessage:
		setEntry(&x.ring.iov[0], x.send.message.store[x.send.length:][:f.left])
		return 1, f.left
	case toBounce:
		setEntry(&x.ring.iov[0], x.bounce[f.placed:][:f.left])
		return 1, f.left
	case toSink:
		sink := sinkCursor{f.read.pieces, f.read.offset}
		return sink.entries(x.ring.iov[:directEntries-1], f.left)
	case toRegion:
		if f.region.memory == nil {
			return 0, 0
		}
		at := f.tagged.Offset - f.region.base + uint64(f.placed)
		setEntry(&x.ring.iov[0], f.region.memory[at:][:f.left])
		return 1, f.left
	}
	return 0, 0
}

func setEntry(v *unix.Iovec, p []byte) {
	v.Base = unsafe.SliceData(p)
	v.SetLen(len(p))
}

// A ring is the buffer that a receiver reads the socket into. It is used from front to
// back; the unconsumed rest moves to the front again.
//
// All connections of a provider share its rings. A receiver keeps a ring while it has input, and
// processes that input without blocking. While other receivers wait for a ring, it gives its own
// back at the end of its turn (endTurn).
type ring struct {
	buf [RingSize]byte

	// The arguments and results of recvmsg: the entries, and the control data.
	iov     [ringEntries]unix.Iovec
	message unix.Msghdr
	control struct {
		unix.Cmsghdr
		left int32
		_    int32
	}

	ahead ahead
}

// recv reads the socket once, into the first entries of iov. emptied is true if the socket holds
// nothing more, not even the peer's FIN. The kernel reports that by TCP_INQ, if the socket has
// the option; a reset does not show there.
func (r *ring) recv(fd uintptr, entries int) (n int, emptied bool, errno unix.Errno) {
	m := &r.message
	m.Iov = &r.iov[0]
	m.SetIovlen(entries)
	m.Control = (*byte)(unsafe.Pointer(&r.control))
	m.SetControllen(int(unsafe.Sizeof(r.control)))
	got, _, errno := unix.Syscall(unix.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(m)), 0)
	if errno != 0 {
		return 0, false, errno
	}
	c := &r.control
	emptied = m.Controllen > 0 && c.Level == unix.IPPROTO_TCP && c.Type == unix.TCP_CM_INQ && c.left == 0
	return int(got), emptied, 0
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
		a.left, a.n = n-inPlace, 0
	} else {
		x.w += n - inPlace
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

// forget clears the entries, so that they keep no memory alive.
func (r *ring) forget() {
	clear(r.iov[:])
	r.ahead.read, r.ahead.left = nil, 0
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

func (x *receiver) dropBounce() {
	if x.bounce != nil {
		x.p.stashes.Put(x.bounce)
		x.bounce = nil
	}
}

// drop releases the receiver's queues and buffers at the end of the connection.
func (x *receiver) drop() {
	x.mu.Lock()
	x.reads, x.oldest = nil, nil
	x.due.Store(0)
	x.mu.Unlock()
	if x.send.message != nil {
		x.send.message.recycle()
		x.send = openSend{}
	}
	x.dropBounce()
}
