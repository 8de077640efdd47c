package tcp

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// errAgain: the stream can read or write nothing now.
var errAgain = errors.New("tcp: would block")

// maxBufs is the largest number of buffers in one write: the limit of writev.
const maxBufs = 1024

// A stream carries a connection's bytes: a socket, or another net.Conn (waitingStream). One
// goroutine at a time receives, and one at a time writes.
type stream interface {
	// receive calls ready each time there may be input, until ready returns false or the input
	// ends. If the input ends, it returns the reason.
	receive(ready func() (more bool)) error
	// tryRead reads the available bytes, at most len(p), or returns errAgain. io.EOF means
	// the end of the input. If more is false, nothing is left, not even the end, and later
	// input makes receive call ready. Only ready calls tryRead.
	tryRead(p []byte) (n int, more bool, err error)
	// readable reports whether there is input, the end included. Only ready calls it.
	readable() bool
	// tryWrite writes as much as it can at once. If that is not all, it returns errAgain. If
	// mayBlock is true, which only the argument of transmit passes, it may instead wait for the peer.
	tryWrite(bufs [][]byte, mayBlock bool) (int, error)
	// transmit calls ready each time there may be room for output, until ready returns false or the
	// stream ends.
	transmit(ready func() (more bool)) error
	// gone reports what is known of the peer, even if receive has not noticed, because it does not
	// run or because there is unread input. If reset is true, the peer has ended the stream abruptly.
	// If closed is true, it has closed its side. Any goroutine may call it at any time.
	gone() (reset, closed bool)
	// left reports whether the stream knows that the peer has closed its side, or does not
	// acknowledge the output. Any goroutine may call it at any time, also after close.
	left() bool
	// interrupt makes receive return, now or at its next call; resume undoes that.
	interrupt()
	resume()
	// closeWrite tells the peer that nothing more will come.
	closeWrite()
	// unacked returns how many bytes of the output the kernel keeps, because the peer has not acknowledged
	// them. Any goroutine may call it at any time.
	unacked() int
	// mostUnsent limits how many bytes the kernel takes beyond those that the peer has room for. 0 means the
	// kernel's default.
	mostUnsent(bytes int)
	// close ends the stream; receive and transmit return. ready must not call it. If abrupt is true, the
	// kernel discards the output that it still keeps. Otherwise it goes on to send it, for minutes if the
	// peer does not read.
	close(abrupt bool)
}

// newStream returns a socket, which is the faster stream, or a waitingStream if nc has no
// descriptor.
func newStream(nc net.Conn) stream {
	if sc, ok := nc.(socketConn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			return newSocket(sc, raw)
		}
	}
	return &waitingStream{nc: nc}
}

// A socket is a stream on a descriptor. It makes the system calls itself, so that it can read
// several times between two waits, and write many buffers without allocating memory.
//
// The runtime reports new input only once (edge-triggered), and remembers the report only during
// one RawConn.Read. So receive calls RawConn.Read once, and all reads run within that call. At each
// read, the kernel also reports how much input is left (TCP_INQ), so that no read finds nothing. A
// read that does not fill its buffer does not prove that nothing is left: the end of the stream may
// follow the last bytes.
type socket struct {
	nc   socketConn
	raw  syscall.RawConn
	fd   int
	iovs []unix.Iovec // buffers of a write
	// copies is true while a write of more than rawMost bytes is under way.
	copies atomic.Bool

	inq     bool // true if the kernel reports the rest of the input (TCP_INQ)
	in      unix.Iovec
	message unix.Msghdr
	control struct {
		unix.Cmsghdr
		left int32
		_    int32
	}
}

// socketConn is a *net.TCPConn or a *net.UnixConn.
type socketConn interface {
	net.Conn
	syscall.Conn
	CloseWrite() error
}

func newSocket(nc socketConn, raw syscall.RawConn) *socket {
	s := &socket{nc: nc, raw: raw, fd: -1}
	// The socket uses the descriptor only within raw.Read and raw.Write, which keep it open, or
	// while the socket's user keeps it open.
	raw.Control(func(fd uintptr) {
		s.fd = int(fd)
		s.inq = unix.SetsockoptInt(s.fd, unix.IPPROTO_TCP, unix.TCP_INQ, 1) == nil
	})
	return s
}

func (s *socket) receive(ready func() bool) error {
	return s.raw.Read(func(uintptr) bool { return !ready() })
}

func (s *socket) tryRead(p []byte) (n int, more bool, err error) {
	s.in.Base = &p[0]
	s.in.SetLen(len(p))
	for {
		s.message.Iov, s.message.Iovlen = &s.in, 1
		s.message.Control = (*byte)(unsafe.Pointer(&s.control))
		s.message.SetControllen(int(unsafe.Sizeof(s.control)))
		recvmsg := sysRecvmsg
		if len(p) <= rawMost && !s.copies.Load() {
			recvmsg = rawRecvmsg
		}
		r, errno := recvmsg(s.fd, &s.message)
		switch {
		case errno == unix.EINTR:
			continue
		case errno == unix.EAGAIN:
			err = errAgain
		case errno != 0:
			err = errno
		case r == 0:
			err = io.EOF
		default:
			readSomething()
			n = int(r)
			more = !s.inq || s.message.Controllen == 0 || s.control.Level != unix.IPPROTO_TCP ||
				s.control.Type != unix.TCP_CM_INQ || s.control.left > 0
		}
		s.in.Base = nil
		return n, more, err
	}
}

func (s *socket) tryWrite(bufs [][]byte, _ bool) (written int, err error) {
	want := 0
	s.iovs = s.iovs[:0]
	for _, b := range bufs {
		if len(b) > 0 {
			v := unix.Iovec{Base: &b[0]}
			v.SetLen(len(b))
			s.iovs = append(s.iovs, v)
			want += len(b)
		}
	}
	if want == 0 {
		return 0, nil
	}
	wroteSomething()
	write := rawWritev
	if want > rawMost {
		write = sysWritev
		s.copies.Store(true)
		defer s.copies.Store(false)
	}
	for {
		n, errno := write(s.fd, s.iovs)
		switch errno {
		case 0:
			written = int(n)
			if written < want {
				err = errAgain
			}
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			err = errAgain
		default:
			err = errno
		}
		clear(s.iovs)
		return written, err
	}
}

func (s *socket) transmit(ready func() bool) error {
	return s.raw.Write(func(uintptr) bool { return !ready() })
}

func (s *socket) readable() bool {
	return rawPoll(s.fd, unix.POLLIN|unix.POLLRDHUP) != 0
}

// gone polls the socket. It also finds a reset that receive misses: the kernel may report a reset in
// the same event as the last bytes before it, and TCP_INQ does not show the reset.
func (s *socket) gone() (reset, closed bool) {
	s.raw.Control(func(fd uintptr) {
		p := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		if n, err := unix.Poll(p[:], 0); err == nil && n > 0 {
			reset, closed = p[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0, p[0].Revents&unix.POLLRDHUP != 0
		}
	})
	return reset, closed
}

// left asks the kernel for the state of the TCP connection, because a read does not show that the
// peer has closed its side while there is unread input. After close, left returns true.
func (s *socket) left() (left bool) {
	err := s.raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		left = err == nil && (info.State != established || info.Retransmits > 0)
	})
	return left || err != nil
}

// established is the state of a TCP connection whose two sides are open.
const established = 1

func (s *socket) interrupt()  { s.nc.SetReadDeadline(time.Unix(1, 0)) }
func (s *socket) resume()     { s.nc.SetReadDeadline(time.Time{}) }
func (s *socket) closeWrite() { s.nc.CloseWrite() }

func (s *socket) unacked() (n int) {
	s.raw.Control(func(fd uintptr) {
		n, _ = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
	})
	return n
}

func (s *socket) mostUnsent(bytes int) {
	s.raw.Control(func(fd uintptr) {
		unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, bytes)
	})
}

func (s *socket) close(abrupt bool) {
	if l, ok := s.nc.(interface{ SetLinger(sec int) error }); ok && abrupt {
		l.SetLinger(0)
	}
	s.nc.Close()
}

// A waitingStream is a stream on a net.Conn without a descriptor, whose reads and writes block.
type waitingStream struct {
	nc  net.Conn
	buf []byte
	in  []byte // the part of buf that is not read yet
	err error
}

// waitingBuffer is the most bytes that a waitingStream reads at once.
const waitingBuffer = 16 << 10

func (s *waitingStream) readable() bool { return len(s.in) > 0 || s.err != nil }

// gone and left are always false, because receive always learns when the peer closes its side.
func (s *waitingStream) gone() (reset, closed bool) { return false, false }
func (s *waitingStream) left() bool                 { return false }

func (s *waitingStream) receive(ready func() bool) error {
	for {
		if s.buf == nil {
			s.buf = make([]byte, waitingBuffer)
		}
		n, err := s.nc.Read(s.buf)
		s.in, s.err = s.buf[:n], err
		if err != nil && err != io.EOF && n == 0 {
			return err
		}
		if !ready() {
			return nil
		}
	}
}

func (s *waitingStream) tryRead(p []byte) (n int, more bool, err error) {
	if len(s.in) == 0 {
		if s.err != nil {
			return 0, false, s.err
		}
		return 0, false, errAgain
	}
	n = copy(p, s.in)
	s.in = s.in[n:]
	return n, len(s.in) > 0 || s.err != nil, nil
}

func (s *waitingStream) tryWrite(bufs [][]byte, mayBlock bool) (int, error) {
	if !mayBlock {
		return 0, errAgain
	}
	all := net.Buffers(bufs)
	n, err := all.WriteTo(s.nc)
	return int(n), err
}

func (s *waitingStream) transmit(ready func() bool) error {
	for ready() {
	}
	return nil
}

func (s *waitingStream) interrupt() { s.nc.SetReadDeadline(time.Unix(1, 0)) }
func (s *waitingStream) resume()    { s.nc.SetReadDeadline(time.Time{}) }

func (s *waitingStream) closeWrite() {
	if c, ok := s.nc.(interface{ CloseWrite() error }); ok {
		c.CloseWrite()
	}
}

// unacked returns 0: a net.Conn does not report what its peer has acknowledged.
func (s *waitingStream) unacked() int   { return 0 }
func (s *waitingStream) mostUnsent(int) {}

func (s *waitingStream) close(bool) { s.nc.Close() }
