package tcp

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// This file makes raw system calls by the rule in vfs/local/raw_syscall.go: in a raw call the kernel
// does no I/O, asks no other program, and waits for no lock whose holder may do I/O or ask
// another program. A system call that is not raw informs Go's scheduler. If the process was idle
// before, that wakes the runtime's monitoring thread by a futex. With a client that makes one call
// at a time, every call would cause such a wake-up.
//
// A non-blocking socket copies the available bytes, or as many as it has room for, and returns. The
// kernel holds the socket's lock while it copies. So this package makes raw calls only for up to
// rawMost bytes, and raw reads only while no larger write is under way.

// rawMost is the largest number of bytes that a raw call copies. That takes about ten microseconds.
const rawMost = 64 << 10

// rawRecvmsg is recvmsg on a non-blocking socket, of at most rawMost bytes.
func rawRecvmsg(fd int, m *unix.Msghdr) (n uintptr, errno syscall.Errno) {
	n, _, errno = unix.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(m)), 0)
	return n, errno
}

// rawWritev is writev of at most rawMost bytes to a non-blocking socket.
func rawWritev(fd int, iovs []unix.Iovec) (n uintptr, errno syscall.Errno) {
	n, _, errno = unix.RawSyscall(unix.SYS_WRITEV, uintptr(fd), uintptr(unsafe.Pointer(&iovs[0])), uintptr(len(iovs)))
	return n, errno
}

// rawPoll is poll without waiting. It reads the state of the socket and takes no lock. arm64 has only ppoll.
func rawPoll(fd int, events int16) (is int16) {
	p, noTime := unix.PollFd{Fd: int32(fd), Events: events}, unix.Timespec{}
	n, _, errno := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&p)), 1, uintptr(unsafe.Pointer(&noTime)), 0, 0, 0)
	if errno != 0 || n == 0 {
		return 0
	}
	return p.Revents
}

// sysRecvmsg and sysWritev are the ordinary system calls, for calls that may copy more than rawMost
// bytes or wait for a lock.
func sysRecvmsg(fd int, m *unix.Msghdr) (n uintptr, errno syscall.Errno) {
	n, _, errno = unix.Syscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(m)), 0)
	return n, errno
}

func sysWritev(fd int, iovs []unix.Iovec) (n uintptr, errno syscall.Errno) {
	n, _, errno = unix.Syscall(unix.SYS_WRITEV, uintptr(fd), uintptr(unsafe.Pointer(&iovs[0])), uintptr(len(iovs)))
	return n, errno
}
