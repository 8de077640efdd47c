package iwarp

import (
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/internal/census"
	"github.com/nfsrdmad/nfsrdmad/internal/turns"
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

// rings is a bounded stock of rings. A receiver keeps one while it has input to work
// on, and works without ever blocking. While others wait, it passes the ring on after
// a ringful of input. So a receiver that waits for a ring waits for the turns of those
// in front of it, not for a peer.
type rings struct {
	most int

	mu   sync.Mutex
	made int
	free []*ring
	line turns.Line[*receiver, *receiver] // not empty: no ring is free
}

// borrow gives x a ring, in its turn. It returns nil if x's connection ends before.
func (s *rings) borrow(x *receiver) *ring {
	s.mu.Lock()
	if n := len(s.free); n > 0 {
		r := s.free[n-1]
		s.free = s.free[:n-1]
		s.mu.Unlock()
		return r
	}
	if s.made < s.most {
		s.made++
		s.mu.Unlock()
		return new(ring)
	}
	if x.life.stopping.Load() {
		s.mu.Unlock()
		return nil
	}
	if x.lent == nil {
		x.lent, x.turn.Value = make(chan *ring, 1), x
	}
	s.line.Join(&x.turn, census.Client(x.peer.Addr()), x)
	s.mu.Unlock()
	return <-x.lent
}

// giveBack passes a ring on to the receiver whose turn it is.
func (s *rings) giveBack(r *ring) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.line.Next(); p != nil {
		p.Value.lent <- r
		return
	}
	s.free = append(s.free, r)
}

// wanted says whether a receiver waits for a ring.
func (s *rings) wanted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.line.Empty()
}

// stopWaiting lets x, whose connection ends, wait for a ring no more.
func (s *rings) stopWaiting(x *receiver) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x.turn.Waits() {
		s.line.Leave(&x.turn)
		x.lent <- nil
	}
}

// count is how many rings there are.
func (s *rings) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.made
}
