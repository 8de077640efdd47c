package iwarp

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A socketReader reads the socket and learns with each read whether anything is
// left (TCP_INQ), so that no second read has to be made only to be told that
// there is nothing: half of all reads with small messages. The length of a read
// does not tell: the end of the stream may stand behind the last bytes.
type socketReader struct {
	inq     bool // the kernel tells how much is left
	message unix.Msghdr
	control struct {
		unix.Cmsghdr
		left int32
		_    int32
	}
}

func (s *socketReader) init(raw syscall.RawConn) {
	_ = raw.Control(func(fd uintptr) {
		s.inq = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_INQ, 1) == nil
	})
}

// read fills iov as far as there is input. Where more is false nothing is left,
// not even the end.
func (s *socketReader) read(fd uintptr, iov []unix.Iovec) (n int, more bool, errno unix.Errno) {
	s.message.Iov = &iov[0]
	s.message.SetIovlen(len(iov))
	s.message.Control = (*byte)(unsafe.Pointer(&s.control))
	s.message.SetControllen(int(unsafe.Sizeof(s.control)))
	r, _, errno := unix.Syscall(unix.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(&s.message)), 0)
	s.message.Iov = nil
	if errno != 0 {
		return 0, false, errno
	}
	told := s.inq && s.message.Controllen != 0 && s.control.Level == unix.IPPROTO_TCP && s.control.Type == unix.TCP_CM_INQ
	return int(r), !told || s.control.left > 0, 0
}
