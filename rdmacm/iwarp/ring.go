package iwarp

import (
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
	"github.com/nfsrdmad/nfsrdmad/internal/turns"
)

// A ring is the buffer that a receiver reads the socket into. It is used from front to
// back; the unconsumed rest moves to the front again.
type ring struct {
	buf [RingSize]byte

	// The arguments and results of recvmsg: the entries, and the control data.
	iov     [ringEntries]unix.Iovec
	used    int // number of leading entries in iov that may refer to memory
	message unix.Msghdr
	control struct {
		unix.Cmsghdr
		left int32
		_    int32
	}

	ahead ahead
}

// forget clears the entries, so that they keep no memory alive.
func (r *ring) forget() {
	clear(r.iov[:r.used])
	r.used = 0
	r.ahead.read, r.ahead.left = nil, 0
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

// rings is a limited pool of rings. A receiver keeps a ring while it has input, and processes
// that input without blocking. While other receivers wait for a ring, it gives its own back after
// RingSize bytes of input (endTurn). So a receiver waits only for receivers that are processing
// input, never for a peer.
type rings struct {
	most int

	mu   sync.Mutex
	made int
	free []*ring
	line turns.Line[*receiver, *receiver] // receivers that wait; if there are any, no ring is free
}

// borrow returns a ring for x. If none is free, it waits for one. It returns nil if x's
// connection ends before.
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
	s.line.Join(&x.turn, clientaddr.Of(x.peer.Addr()), x)
	s.mu.Unlock()
	return <-x.lent
}

// giveBack passes a ring to the receiver that waits next. If none waits, the ring becomes free.
func (s *rings) giveBack(r *ring) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.line.Next(); p != nil {
		p.Value.lent <- r
		return
	}
	s.free = append(s.free, r)
}

// wanted reports whether a receiver waits for a ring.
func (s *rings) wanted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.line.Empty()
}

// stopWaiting ends x's wait for a ring, because its connection ends.
func (s *rings) stopWaiting(x *receiver) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x.turn.Waits() {
		s.line.Leave(&x.turn)
		x.lent <- nil
	}
}

// count returns the number of rings made.
func (s *rings) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.made
}
