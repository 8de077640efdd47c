package local

import (
	"encoding/binary"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// The first byte of a handle is its format; the rest depends on it.
const (
	// kernelHandle: the kernel's handle type (one byte) and the kernel's handle, which contains the
	// inode's generation. So if an inode number is used again, the new file has another handle.
	kernelHandle = 1
	// inodeHandle: inode number and time of birth in nanoseconds, 8 bytes each, big-endian. It is
	// for files for which the kernel returns no handle, or one that is too long. If the file system
	// stores no time of birth, that time is 0 here, and a reused inode number goes unnoticed.
	inodeHandle = 2
)

// maxKernelHandle is the kernel's MAX_HANDLE_SZ.
const maxKernelHandle = 128

// identify returns the handle of the file open on fd; st are its attributes. It needs no
// capability.
func identify(fd int, st *unix.Stat_t) (vfs.Handle, error) {
	var b [vfs.MaxHandle]byte
	n, kind, err := sysNameToHandle(fd, b[2:])
	if err == nil && kind >= 0 && kind <= 0xff {
		b[0], b[1] = kernelHandle, byte(kind)
		h, _ := vfs.MakeHandle(b[:2+n])
		return h, nil
	}
	switch err {
	case nil, syscall.EOPNOTSUPP, syscall.EOVERFLOW:
	case syscall.EPERM, syscall.EACCES, syscall.ENOSYS: // a container's filter of system calls may refuse the call
	default:
		return vfs.Handle{}, err
	}
	b[0] = inodeHandle
	binary.BigEndian.PutUint64(b[1:], st.Ino)
	binary.BigEndian.PutUint64(b[9:], uint64(birth(fd)))
	h, _ := vfs.MakeHandle(b[:17])
	return h, nil
}

// handleAt returns the kernel's handle of name in the directory dir without opening the file, and
// the ID of the mount that the file is on. ok is false if the name does not exist or the kernel
// has no handle for it.
func handleAt(dir int, name []byte) (h vfs.Handle, mount int32, ok bool) {
	var b [vfs.MaxHandle]byte
	n, kind, mount, err := sysNameToHandleAt(dir, name, 0, b[2:])
	if err != nil || kind < 0 || kind > 0xff {
		return h, 0, false
	}
	b[0], b[1] = kernelHandle, byte(kind)
	h, ok = vfs.MakeHandle(b[:2+n])
	return h, mount, ok
}

// birth returns the time of birth of fd's file, in nanoseconds since 1970, or 0 if it is unknown.
func birth(fd int) int64 {
	var sx unix.Statx_t
	if unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &sx) != nil || sx.Mask&unix.STATX_BTIME == 0 {
		return 0
	}
	return sx.Btime.Sec*1e9 + int64(sx.Btime.Nsec)
}

// checkHandle returns vfs.ErrBadHandle unless h has the form of a handle of this package.
func checkHandle(h *vfs.Handle) error {
	b := h.Bytes()
	switch {
	case len(b) > 2 && b[0] == kernelHandle:
		return nil
	case len(b) == 17 && b[0] == inodeHandle:
		return nil
	}
	return vfs.ErrBadHandle
}
