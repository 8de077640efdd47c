package local

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// This file makes every raw system call of the repository except those on sockets
// (transport/tcp/raw_syscall.go), and a test (test/architecture) fails if other files make one.
//
// A raw call does not tell the scheduler that the thread is in the kernel. The thread keeps its
// processor (a P of the runtime) until the call returns. The scheduler can neither give that P to
// another goroutine nor stop it for a garbage collection. A raw call that waits therefore stops
// its P, and at the next collection it stops the whole process.
//
// A call may be raw only if the kernel does no I/O for it, asks no other program, and waits for no
// lock whose holder does I/O or asks another program meanwhile. Waiting for a page of memory does
// not count, because reading a variable can wait for one as well. Each function below says why its
// call meets this rule. A call that may wait on some file system uses syscall.Syscall. That costs
// some 30 ns more, and the scheduler takes the P back when the call takes long.

// fstat reads the attributes of fd's file. The call is raw for file systems that answer fstat from
// the inode in memory. Other file systems may ask a server, or wait for a lock that is held during
// I/O.
func (k *fsKind) fstat(fd int, st *unix.Stat_t) error {
	if !k.rawAttr {
		return sysFstat(fd, st)
	}
	return rawFstat(fd, st)
}

// rawFstat is the raw call of fstat. The caller has checked fsKind.rawAttr.
func rawFstat(fd int, st *unix.Stat_t) error {
	_, _, e := syscall.RawSyscall(unix.SYS_FSTAT, uintptr(fd), uintptr(unsafe.Pointer(st)), 0)
	return errnoErr(e)
}

// rawCapset sets the calling thread's capabilities. The kernel writes a new
// credential in memory and nothing else.
func rawCapset(c capSets) error {
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	d := c.data()
	return unix.Capset(&h, &d[0])
}

// rawCapget reads the calling thread's capabilities, from its credential.
func rawCapget() (capSets, error) {
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var d capData
	err := unix.Capget(&h, &d[0])
	return d.sets(), err
}

// rawSetfsid sets the calling thread's fsuid or fsgid and returns the former ID. The first
// argument is the number of the system call, SYS_SETFSUID or SYS_SETFSGID. The kernel writes a new
// credential in memory and nothing else.
func rawSetfsid(trap uintptr, id uint32) uint32 {
	was, _, _ := syscall.RawSyscall(trap, uintptr(id), 0, 0)
	return uint32(was)
}

// rawSetgroups sets the thread's supplementary groups. The kernel only sorts a copy in memory.
func rawSetgroups(groups []uint32) error {
	_, _, e := syscall.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(unsafe.SliceData(groups))), 0)
	return errnoErr(e)
}

func errnoErr(e syscall.Errno) error {
	if e == 0 {
		return nil
	}
	return e
}
