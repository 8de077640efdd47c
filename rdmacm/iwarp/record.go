package iwarp

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A batch is cut into records. TCP is told to end a segment where a record ends
// (MSG_EOR), so that the next one starts a segment of its own, and what lies
// within the first segment of a record arrives in one piece: TCP does not send
// the beginning of a segment before the peer's window has room for all of it.
//
// MPA does not need that (RFC 5044 §6), but Linux's siw does. Of an untagged
// header that arrives in two pieces it copied the second with the length of the
// whole, over what stands behind it in kernel memory (6.12.95 and older); and
// of a pad and CRC in two pieces it keeps the second only, and so finds the CRC
// wrong.

const (
	batchRecords = 96
	// optionRoom is what a segment may carry less than TCP_MAXSEG says, when
	// it acknowledges selectively.
	optionRoom = 40
	// The segment size is asked for again when so many bytes were sent and so
	// much time has passed: a fast sender would ask thousands of times a second.
	remeasureBytes = 1 << 20
	remeasureTime  = 20 * time.Millisecond
)

// whole makes sure that the next n bytes of b are within the first segment of
// their record, where that is possible at all.
func (b *batch) whole(n, segment int) {
	if b.record > 0 && b.record+n > segment {
		b.cut()
	}
}

// cut ends the record.
func (b *batch) cut() {
	b.ends[b.records] = b.n
	b.records++
	b.record = 0
	b.open = false
}

// send sends what is left of the first record, or as much as the socket takes.
// (sendmmsg(2) would do for all, but keeps quiet about an error behind the first.)
func (b *batch) send(fd uintptr) (int, unix.Errno) {
	for b.records > b.sent && b.ends[b.sent] <= b.first {
		b.sent++
	}
	end := b.n
	if b.records > b.sent {
		end = b.ends[b.sent]
	}
	b.header.Iov = &b.iov[b.first]
	b.header.SetIovlen(end - b.first)
	n, _, errno := unix.Syscall(unix.SYS_SENDMSG, fd, uintptr(unsafe.Pointer(&b.header)),
		unix.MSG_EOR|unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	return int(n), errno
}
