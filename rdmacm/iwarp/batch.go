package iwarp

import (
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// A batch holds FPDUs on their way into the socket, in records: groups of FPDUs, each of which begins a
// new TCP segment (see batchRecords). One system call sends all records. scratch holds headers, pads,
// CRCs and short payload one after the other; longer payload has entries of its own in iov. The pad and
// CRC at the end of an FPDU and the header of the next FPDU in the same record share one entry.
type batch struct {
	iov     [batchEntries]unix.Iovec
	n       int // entries in use
	first   int // the first entry that is not sent completely
	bytes   int
	left    int // bytes not written
	open    bool
	used    int // bytes of scratch
	scratch [batchScratch]byte
	full    bool
	// exposed is true if some entries refer to registered memory. exposing is true while such
	// entries are added. registered lists the indices of these entries; referring.mu guards it.
	exposed, exposing bool
	registered        []int

	record  int // bytes in the current record
	records int // complete records
	sent    int // records that are sent completely
	ends    [batchRecords]int
	headers [batchRecords + 1]unix.Mmsghdr
}

const (
	batchEntries = 256
	batchScratch = 16 << 10
	batchBytes   = 512 << 10
	// inlineBytes is the largest payload, in bytes, that is copied to scratch, because a copy is
	// cheaper than an iov entry of its own.
	inlineBytes = 512
	// batchReserve is the largest number of bytes of scratch that one FPDU needs.
	batchReserve = wire.LengthSize + wire.UntaggedSize + wire.MaxTerminateSize + inlineBytes + 8
)

// A batch is divided into records. MSG_EOR tells TCP to end a segment at the end of a record, so
// the next record starts a new segment. What lies within the first segment of a record arrives in
// one piece, because TCP does not send the beginning of a segment before the peer's window has
// room for all of it.
//
// MPA does not need that (RFC 5044 §6), but Linux's siw does. If an untagged header arrives in
// two pieces, siw copies the second piece with the length of the whole header, and so overwrites
// other kernel memory (Linux 6.12.95 and older). If pad and CRC arrive in two pieces, siw keeps
// only the second piece, and so finds the CRC wrong.

const batchRecords = 96

func (b *batch) room() bool {
	return !b.full && b.n+4 <= batchEntries && b.records < batchRecords && b.used+batchReserve <= batchScratch && b.bytes < batchBytes
}

// grow appends n bytes of scratch to the batch, and returns them. The caller fills them.
func (b *batch) grow(n int) []byte {
	if n == 0 {
		return nil
	}
	p := b.scratch[b.used : b.used+n : b.used+n]
	b.used += n
	b.bytes += n
	b.left += n
	b.record += n
	if b.open {
		e := &b.iov[b.n-1]
		e.SetLen(int(e.Len) + n)
		return p
	}
	b.iov[b.n].Base = &p[0]
	b.iov[b.n].SetLen(n)
	b.n++
	b.open = true
	return p
}

// refer appends p to the batch without copying it.
func (b *batch) refer(p []byte) {
	if b.exposing {
		b.registered = append(b.registered, b.n)
	}
	b.iov[b.n].Base = unsafe.SliceData(p)
	b.iov[b.n].SetLen(len(p))
	b.n++
	b.bytes += len(p)
	b.left += len(p)
	b.record += len(p)
	b.open = false
}

// whole makes sure that the next n bytes of b lie within the first segment of their record, if
// they fit into a segment at all. segment is the length of a segment in bytes.
func (b *batch) whole(n, segment int) {
	if b.record > 0 && b.record+n > segment {
		b.cut()
	}
}

// cut ends the current record.
func (b *batch) cut() {
	b.ends[b.records] = b.n
	b.records++
	b.record = 0
	b.open = false
}

// referring guards a batch that refers to memory which may be deregistered. The sender
// holds mu while it adds entries for such memory and while it writes the batch, never while
// it waits for the socket. The sender adds other entries without mu. So a holder of mu that
// is not the sender may look only at batch.registered and the entries that it lists.
type referring struct {
	mu    sync.Mutex
	batch *batch
}

// send sends as much of b as the socket takes now, and returns the number of bytes.
func (e *referring) send(b *batch, fd uintptr) (int, unix.Errno) {
	if b.exposed {
		e.mu.Lock()
		defer e.mu.Unlock()
	}
	if raceEnabled {
		raceWrite()
	}
	n, errno := b.send(fd)
	if errno != 0 {
		return 0, errno
	}
	b.advance(n)
	return n, 0
}

// send sends the rest of the records, or as much as the socket takes. If a record other than the
// first fails, the kernel reports only the number of records before it; the error shows when the
// rest is sent.
func (b *batch) send(fd uintptr) (n int, errno unix.Errno) {
	for b.records > b.sent && b.ends[b.sent] <= b.first {
		b.sent++
	}
	first, k := b.first, 0
	for i := b.sent; first < b.n; i++ {
		end := b.n
		if i < b.records {
			end = b.ends[i]
		}
		h := &b.headers[k]
		h.Hdr.Iov = &b.iov[first]
		h.Hdr.SetIovlen(end - first)
		first = end
		k++
	}
	r, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, fd, uintptr(unsafe.Pointer(&b.headers[0])), uintptr(k),
		unix.MSG_EOR|unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	for i := range int(r) {
		n += int(b.headers[i].Len)
	}
	return n, 0
}

// advance takes the first n unsent bytes off the batch, because the socket took them.
func (b *batch) advance(n int) {
	b.left -= n
	for n > 0 {
		e := &b.iov[b.first]
		if size := int(e.Len); n < size {
			e.Base = (*byte)(unsafe.Add(unsafe.Pointer(e.Base), n))
			e.SetLen(size - n)
			return
		} else {
			n -= size
		}
		b.first++
	}
}

// end releases the registered memory to which b refers, because b is not sent any more.
func (e *referring) end(b *batch) {
	if b.exposed {
		e.mu.Lock()
		e.batch = nil
		e.mu.Unlock()
	}
}

// reset empties the batch.
func (b *batch) reset() {
	clear(b.iov[:b.n])
	b.n, b.first, b.bytes, b.left, b.used = 0, 0, 0, 0, 0
	b.record, b.records, b.sent = 0, 0, 0
	b.open, b.full, b.exposed = false, false, false
	b.registered = b.registered[:0]
}

// rescue replaces the batch's references to a region's memory by copies, because the region is
// being deregistered. mu is held.
func (e *referring) rescue(memory []byte) {
	if e.batch == nil || len(memory) == 0 {
		return
	}
	start := uintptr(unsafe.Pointer(unsafe.SliceData(memory)))
	for _, i := range e.batch.registered {
		v := &e.batch.iov[i]
		at := uintptr(unsafe.Pointer(v.Base))
		if at >= start && at < start+uintptr(len(memory)) && v.Len > 0 {
			own := append([]byte(nil), unsafe.Slice(v.Base, int(v.Len))...)
			v.Base = &own[0]
		}
	}
}
