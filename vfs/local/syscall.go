package local

import (
	"bytes"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The functions below make system calls of frequent calls, without allocating memory. All of them
// may block; the calls that cannot are in raw_syscall.go. A name argument does not end in NUL.

// resolveCached is openat2's RESOLVE_CACHED (Linux 5.12).
const resolveCached = 0x20

// sysOpenat2 opens name, one component, in dir. It adds O_CLOEXEC and O_NOFOLLOW to the flags.
func sysOpenat2(dir int, name []byte, flags uint64, mode, resolve uint64) (int, error) {
	var buf [maxName + 1]byte
	return openat2(dir, cname(&buf, name), flags, mode, resolve)
}

func openat2(dir int, path *byte, flags uint64, mode, resolve uint64) (int, error) {
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC | unix.O_NOFOLLOW, Mode: mode, Resolve: resolve | unix.RESOLVE_NO_MAGICLINKS}
	for {
		fd, _, e := syscall.Syscall6(unix.SYS_OPENAT2, uintptr(dir), uintptr(unsafe.Pointer(path)),
			uintptr(unsafe.Pointer(&how)), unsafe.Sizeof(how), 0, 0)
		if e != syscall.EINTR {
			return int(fd), errnoErr(e)
		}
	}
}

// maxClimb is the most levels that a path of "../" goes up: it has at most PATH_MAX bytes with its NUL.
const maxClimb = (unix.PathMax - 1) / len("../")

var wayUp = append(bytes.Repeat([]byte("../"), maxClimb), 0)

// sysOpenParent opens the directory that is the given number of levels above dir, at most
// maxClimb. EXDEV: the way up leaves the mount.
func sysOpenParent(dir, levels int) (int, error) {
	return openat2(dir, &wayUp[(maxClimb-levels)*len("../")], unix.O_PATH|unix.O_DIRECTORY, 0, unix.RESOLVE_NO_XDEV)
}

// A fileHandle is the kernel's struct file_handle.
type fileHandle struct {
	bytes uint32
	kind  int32
	data  [maxKernelHandle]byte
}

// sysNameToHandleAt writes the kernel's handle of name in the directory dir to buf, without
// following a symlink. An empty name means dir itself. It returns the handle's length and type, and
// the ID of the file's mount. A file system in user space or on a network asks its server. flags are
// added to AT_EMPTY_PATH.
func sysNameToHandleAt(dir int, name, buf []byte, flags uintptr) (n int, kind, mount int32, err error) {
	fh := fileHandle{bytes: maxKernelHandle}
	var path [maxName + 1]byte
	at := cname(&path, name)
	if err = uninterrupted(func() error {
		_, _, e := syscall.Syscall6(unix.SYS_NAME_TO_HANDLE_AT, uintptr(dir), uintptr(unsafe.Pointer(at)),
			uintptr(unsafe.Pointer(&fh)), uintptr(unsafe.Pointer(&mount)), unix.AT_EMPTY_PATH|flags, 0)
		return errnoErr(e)
	}); err != nil {
		return 0, 0, 0, err
	}
	if int(fh.bytes) > len(buf) {
		return 0, 0, 0, syscall.EOVERFLOW
	}
	return copy(buf, fh.data[:fh.bytes]), fh.kind, mount, nil
}

// sysFaccess asks the kernel for rights of the thread's effective identity on fd's file.
func sysFaccess(fd int, rights uint32) error {
	var empty byte
	return uninterrupted(func() error {
		_, _, e := syscall.Syscall6(unix.SYS_FACCESSAT2, uintptr(fd), uintptr(unsafe.Pointer(&empty)), uintptr(rights),
			unix.AT_EACCESS|unix.AT_EMPTY_PATH, 0, 0)
		return errnoErr(e)
	})
}

// link makes name in the directory dir a link to the file of the O_PATH descriptor fd. It uses the
// name in /proc/self/fd, because linking the descriptor itself needs CAP_DAC_READ_SEARCH.
func (fs *FS) link(fd, dir int, name []byte) error {
	return uninterrupted(func() error {
		return unix.Linkat(fs.proc, strconv.Itoa(fd), dir, string(name), unix.AT_SYMLINK_FOLLOW)
	})
}
