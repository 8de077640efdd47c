package nfs4

import (
	"errors"
	"syscall"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// statusOfErrno maps a file system's errors to NFSv4 statuses (RFC 8881 §15.1). Every other
// errno is NFS4ERR_IO.
var statusOfErrno = map[syscall.Errno]Status{
	syscall.EPERM:        wire.NFS4ErrPerm,
	syscall.ENOENT:       wire.NFS4ErrNoEnt,
	syscall.EIO:          wire.NFS4ErrIO,
	syscall.ENXIO:        wire.NFS4ErrNXIO,
	syscall.EACCES:       wire.NFS4ErrAccess,
	syscall.EEXIST:       wire.NFS4ErrExist,
	syscall.EXDEV:        wire.NFS4ErrXDev,
	syscall.ENODEV:       wire.NFS4ErrNXIO,
	syscall.ENOTDIR:      wire.NFS4ErrNotDir,
	syscall.EISDIR:       wire.NFS4ErrIsDir,
	syscall.EINVAL:       wire.NFS4ErrInvalid,
	syscall.EFBIG:        wire.NFS4ErrFBig,
	syscall.ENOSPC:       wire.NFS4ErrNoSpace,
	syscall.EROFS:        wire.NFS4ErrROFS,
	syscall.EMLINK:       wire.NFS4ErrMLink,
	syscall.ENAMETOOLONG: wire.NFS4ErrNameTooLong,
	syscall.ENOTEMPTY:    wire.NFS4ErrNotEmpty,
	syscall.EDQUOT:       wire.NFS4ErrDQuot,
	syscall.ESTALE:       wire.NFS4ErrStale,
	syscall.EOPNOTSUPP:   wire.NFS4ErrNotSupp,
	syscall.ENOSYS:       wire.NFS4ErrNotSupp,
	// NFSv4 has no status of its own for these errors. The table gives the status to which
	// clients react best.
	syscall.ELOOP:     wire.NFS4ErrInvalid,
	syscall.EILSEQ:    wire.NFS4ErrInvalid,
	syscall.EOVERFLOW: wire.NFS4ErrFBig,
	syscall.ETXTBSY:   wire.NFS4ErrAccess,
	// Another file system of this machine is mounted on the name. Waiting does not help, so
	// the status is not NFS4ERR_DELAY. Linux's server answers the same.
	syscall.EBUSY: wire.NFS4ErrAccess,
	// A resource is short only for a time, so the client should repeat the call.
	syscall.EAGAIN:    wire.NFS4ErrDelay,
	syscall.ENOMEM:    wire.NFS4ErrDelay,
	syscall.ENFILE:    wire.NFS4ErrDelay,
	syscall.EMFILE:    wire.NFS4ErrDelay,
	syscall.EINTR:     wire.NFS4ErrDelay,
	syscall.ETIMEDOUT: wire.NFS4ErrDelay,
}

var statusOfError = []struct {
	err    error
	status Status
}{
	{vfs.ErrBadHandle, wire.NFS4ErrBadHandle},
	{vfs.ErrBadCookie, wire.NFS4ErrBadCookie},
	{vfs.ErrDelay, wire.NFS4ErrDelay},
	{vfs.ErrNotSupported, wire.NFS4ErrNotSupp},
}

// StatusOf converts a file system's error to an NFSv4 status.
func StatusOf(err error) Status {
	if err == nil {
		return wire.NFS4OK
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		if s, ok := statusOfErrno[errno]; ok {
			return s
		}
		return wire.NFS4ErrIO
	}
	for _, e := range statusOfError {
		if errors.Is(err, e.err) {
			return e.status
		}
	}
	return wire.NFS4ErrServerFault
}

// blocked reports whether err means that a call with Try would have had to wait.
func blocked(err error) bool { return err != nil && errors.Is(err, vfs.ErrWouldBlock) }
