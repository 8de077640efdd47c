package nfs3

import (
	"errors"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// statusOfErrno maps a file system's errors to NFSv3 statuses (RFC 1813 §2.6). Every other
// errno is NFS3ERR_IO.
var statusOfErrno = map[syscall.Errno]wire.NFSStat3{
	syscall.EPERM:        wire.NFS3ErrPerm,
	syscall.ENOENT:       wire.NFS3ErrNoEnt,
	syscall.EIO:          wire.NFS3ErrIO,
	syscall.ENXIO:        wire.NFS3ErrNXIO,
	syscall.EACCES:       wire.NFS3ErrAccess,
	syscall.EEXIST:       wire.NFS3ErrExist,
	syscall.EXDEV:        wire.NFS3ErrXDev,
	syscall.ENODEV:       wire.NFS3ErrNoDev,
	syscall.ENOTDIR:      wire.NFS3ErrNotDir,
	syscall.EISDIR:       wire.NFS3ErrIsDir,
	syscall.EINVAL:       wire.NFS3ErrInvalid,
	syscall.EFBIG:        wire.NFS3ErrFBig,
	syscall.ENOSPC:       wire.NFS3ErrNoSpace,
	syscall.EROFS:        wire.NFS3ErrROFS,
	syscall.EMLINK:       wire.NFS3ErrMLink,
	syscall.ENAMETOOLONG: wire.NFS3ErrNameTooLong,
	syscall.ENOTEMPTY:    wire.NFS3ErrNotEmpty,
	syscall.EDQUOT:       wire.NFS3ErrDQuot,
	syscall.ESTALE:       wire.NFS3ErrStale,
	syscall.EOPNOTSUPP:   wire.NFS3ErrNotSupp,
	syscall.ENOSYS:       wire.NFS3ErrNotSupp,
	// NFSv3 has no status of its own for these errors. The table gives the status to which
	// clients react best.
	syscall.ELOOP:     wire.NFS3ErrInvalid,
	syscall.EILSEQ:    wire.NFS3ErrInvalid,
	syscall.EOVERFLOW: wire.NFS3ErrFBig,
	syscall.ETXTBSY:   wire.NFS3ErrAccess,
	// Another file system of this machine is mounted on the name. Waiting does not help, so
	// the status is not NFS3ERR_JUKEBOX. Linux's server answers the same.
	syscall.EBUSY: wire.NFS3ErrAccess,
	// A resource is short only for a time, so the client should repeat the call.
	syscall.EAGAIN:    wire.NFS3ErrJukebox,
	syscall.ENOMEM:    wire.NFS3ErrJukebox,
	syscall.ENFILE:    wire.NFS3ErrJukebox,
	syscall.EMFILE:    wire.NFS3ErrJukebox,
	syscall.EINTR:     wire.NFS3ErrJukebox,
	syscall.ETIMEDOUT: wire.NFS3ErrJukebox,
}

var statusOfError = []struct {
	err    error
	status wire.NFSStat3
}{
	{vfs.ErrBadHandle, wire.NFS3ErrBadHandle},
	{vfs.ErrNotSync, wire.NFS3ErrNotSync},
	{vfs.ErrBadCookie, wire.NFS3ErrBadCookie},
	{vfs.ErrDelay, wire.NFS3ErrJukebox},
	{vfs.ErrNotSupported, wire.NFS3ErrNotSupp},
}

// status converts a file system's error to an NFSv3 status. It is the only place that does
// so.
func status(err error) wire.NFSStat3 {
	if err == nil {
		return wire.NFS3OK
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		if s, ok := statusOfErrno[errno]; ok {
			return s
		}
		return wire.NFS3ErrIO
	}
	for _, e := range statusOfError {
		if errors.Is(err, e.err) {
			return e.status
		}
	}
	if _, ok := errors.AsType[export.Pending](err); ok {
		return wire.NFS3ErrJukebox
	}
	return wire.NFS3ErrServerFault
}

// blocked reports whether err means that a call with Try would have had to wait.
func blocked(err error) bool { return err != nil && errors.Is(err, vfs.ErrWouldBlock) }
