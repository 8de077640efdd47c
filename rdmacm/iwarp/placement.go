package iwarp

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// place puts payload into the FPDU's target.
func (x *receiver) place(p []byte) {
	f := &x.fpdu
	switch f.target {
	case toScratch:
		if f.placed < len(x.scratch) {
			copy(x.scratch[f.placed:], p)
		}
	case toMessage:
		copy(x.send.message.store[x.send.length:], p)
		x.send.length += len(p)
	case toSink:
		f.read.copyIn(p)
		x.answered.Add(uint64(len(p)))
	case toBounce:
		copy(x.bounce[f.placed:], p)
	case toRegion:
		x.expose(p)
	}
	f.placed += len(p)
	f.left -= len(p)
}

// expose puts payload into registered memory, behind the bytes of the FPDU that are there
// already. If the memory was revoked since the header was checked, expose records a fault.
func (x *receiver) expose(p []byte) {
	f := &x.fpdu
	f.region.mu.Lock()
	defer f.region.mu.Unlock()
	if f.region.memory == nil {
		f.wrong(wire.DDPInvalidSTag, nil)
		return
	}
	copy(f.region.memory[f.tagged.Offset-f.region.base+uint64(f.placed):], p)
}

// holdBack keeps the payload of an RDMA Write out of registered memory until the CRC was found
// right. A short payload stays in the ring, a large one goes to a buffer.
func (x *receiver) holdBack() {
	f := &x.fpdu
	if !f.large {
		f.phase = phaseWhole
		return
	}
	if x.bounce == nil {
		x.bounce = x.p.stashes.Get().(*largeStash)
	}
	f.target = toBounce
}

// unbounce copies into registered memory the payload that holdBack kept out of it.
func (x *receiver) unbounce() {
	f := &x.fpdu
	n := f.placed
	f.placed = 0
	x.expose(x.bounce[:n])
}

func (r *outRead) copyIn(p []byte) {
	r.placed += len(p)
	for len(p) > 0 {
		r.skipFull()
		n := copy(r.pieces[0][r.offset:], p)
		r.offset += n
		p = p[n:]
	}
}

func (r *outRead) skipFull() {
	for r.offset == len(r.pieces[0]) {
		r.pieces, r.offset = r.pieces[1:], 0
	}
}

// directTail is the largest number of bytes that one read of the socket receives behind payload
// that goes straight to its destination. These are the trailer and the next header.
const directTail = 64

// largeStreak is the number of short FPDUs that may come in a row while the receiver still
// expects large ones (receiver.streak).
const largeStreak = 2

// straight reports whether the next read of the socket may put payload straight into its
// destination.
func (x *receiver) straight() bool {
	f := &x.fpdu
	return f.phase == phasePayload && f.large && x.r == x.w && !x.life.faulty.Load()
}

// exposed returns the region into which the next read may put payload directly, or nil.
func (x *receiver) exposed() *region {
	if !x.straight() || x.fpdu.target != toRegion {
		return nil
	}
	return x.fpdu.region
}

// direct prepares the ring's entries so that the next read of the socket puts payload straight
// into its destination. It returns the number of entries, and of bytes. Both are 0 if straight is
// false, or if the region is not exposed any more. The caller holds the mutex of the region that
// exposed returned.
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

// placed records that n bytes of payload were read straight into their destination, by entries of
// the ring. The argument entry is the index of the first of these entries.
func (x *receiver) placed(entry, n int) {
	f := &x.fpdu
	for k, left := entry, n; x.agreed.CRC && left > 0; k++ {
		m := min(left, int(x.ring.iov[k].Len))
		f.crc = wire.CRC(f.crc, x.ring.bytes(k, m))
		left -= m
	}
	switch f.target {
	case toMessage:
		x.send.length += n
	case toSink:
		f.read.pass(n)
		x.answered.Add(uint64(n))
	}
	f.placed += n
	f.left -= n
	if f.left == 0 {
		f.phase = phaseTrailer
	}
}

func (r *outRead) pass(n int) {
	r.placed += n
	for n > 0 {
		r.skipFull()
		k := min(n, len(r.pieces[0])-r.offset)
		r.offset += k
		n -= k
	}
}
