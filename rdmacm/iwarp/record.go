package iwarp

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
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

const (
	batchRecords = 96
	// optionRoom is by how many bytes the payload of a segment may be smaller than TCP_MAXSEG, if
	// the segment carries selective acknowledgements.
	optionRoom = 40
	// The segment size is read again after remeasureBytes bytes and remeasureTime, because
	// a fast sender would otherwise read it thousands of times a second.
	remeasureBytes = 1 << 20
	remeasureTime  = 20 * time.Millisecond
)

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
