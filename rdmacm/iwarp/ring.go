package iwarp

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A ring is what a receiver reads the socket into. It is used from front to
// back; the little that is left over moves to the front again.
type ring struct {
	buf [RingSize]byte

	// What a read of the socket needs: its entries, and what the kernel tells
	// with it.
	iov     [ringEntries]unix.Iovec
	used    int // entries that may refer to something
	message unix.Msghdr
	control struct {
		unix.Cmsghdr
		left int32
		_    int32
	}

	ahead ahead
}

// forget lets go of what the entries refer to.
func (r *ring) forget() {
	clear(r.iov[:r.used])
	r.used = 0
	r.ahead.read, r.ahead.left = nil, 0
}

// recv reads the socket once, into the first entries of iov. emptied: there was no
// more, not even the peer's FIN. (TCP_INQ says so, where the socket has it; not of a
// reset.)
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

// rings is a bounded stock of rings. A receiver keeps one only while it has
// input to work on, and works without ever blocking: one that waits for a ring
// waits for processor time, not for a peer.
type rings struct {
	free chan *ring
	made atomic.Int64
}

func (s *rings) init(n int) { s.free = make(chan *ring, n) }

func (s *rings) borrow() *ring {
	select {
	case r := <-s.free:
		return r
	default:
	}
	if s.made.Add(1) <= int64(cap(s.free)) {
		return new(ring)
	}
	s.made.Add(-1)
	return <-s.free
}

func (s *rings) giveBack(r *ring) { s.free <- r }
