package tcp

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// This file makes raw system calls by the rule that vfs/local/raw_syscall.go states: the
// kernel does no I/O for them, asks no other program, and waits for no lock that is held
// over either. A call that tells the scheduler wakes the runtime's monitoring thread (by a
// futex) where the process was idle before, which is what every call of a client does that
// calls one at a time.
//
// A socket that does not block copies what is there, or what there is room for, and
// returns. It has a lock, which the kernel holds while it copies. Both calls are therefore
// raw only up to rawMost bytes, and a read is only while no larger write is under way.

// rawMost is the most bytes that a raw call copies: some ten microseconds.
const rawMost = 64 << 10

// rawRecvmsg is recvmsg on a socket that does not block, into at most rawMost bytes.
func rawRecvmsg(fd int, m *unix.Msghdr) (n uintptr, errno syscall.Errno) {
	n, _, errno = unix.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(m)), 0)
	return n, errno
}

// rawWritev is writev of at most rawMost bytes to a socket that does not block.
func rawWritev(fd int, iovs []unix.Iovec) (n uintptr, errno syscall.Errno) {
	n, _, errno = unix.RawSyscall(unix.SYS_WRITEV, uintptr(fd), uintptr(unsafe.Pointer(&iovs[0])), uintptr(len(iovs)))
	return n, errno
}

// rawPoll is poll without waiting: it looks at the state of the socket and takes no lock.
func rawPoll(fd int, events int16) (is int16) {
	p := unix.PollFd{Fd: int32(fd), Events: events}
	n, _, errno := unix.RawSyscall(unix.SYS_POLL, uintptr(unsafe.Pointer(&p)), 1, 0)
	if errno != 0 || n == 0 {
		return 0
	}
	return p.Revents
}

// sysRecvmsg and sysWritev are the same for more.
func sysRecvmsg(fd int, m *unix.Msghdr) (n uintptr, errno syscall.Errno) {
	n, _, errno = unix.Syscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(m)), 0)
	return n, errno
}

func sysWritev(fd int, iovs []unix.Iovec) (n uintptr, errno syscall.Errno) {
	n, _, errno = unix.Syscall(unix.SYS_WRITEV, uintptr(fd), uintptr(unsafe.Pointer(&iovs[0])), uintptr(len(iovs)))
	return n, errno
}
