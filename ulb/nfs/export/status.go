package export

import (
	"errors"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// statusOfErrno maps errors to NFSv3 statuses (RFC 1813 §2.6). Every other errno is NFS3ERR_IO.
var statusOfErrno = map[syscall.Errno]nfs3wire.NFSStat3{
	syscall.EPERM:        nfs3wire.NFS3ErrPerm,
	syscall.ENOENT:       nfs3wire.NFS3ErrNoEnt,
	syscall.EIO:          nfs3wire.NFS3ErrIO,
	syscall.ENXIO:        nfs3wire.NFS3ErrNXIO,
	syscall.EACCES:       nfs3wire.NFS3ErrAccess,
	syscall.EEXIST:       nfs3wire.NFS3ErrExist,
	syscall.EXDEV:        nfs3wire.NFS3ErrXDev,
	syscall.ENODEV:       nfs3wire.NFS3ErrNoDev,
	syscall.ENOTDIR:      nfs3wire.NFS3ErrNotDir,
	syscall.EISDIR:       nfs3wire.NFS3ErrIsDir,
	syscall.EINVAL:       nfs3wire.NFS3ErrInvalid,
	syscall.EFBIG:        nfs3wire.NFS3ErrFBig,
	syscall.ENOSPC:       nfs3wire.NFS3ErrNoSpace,
	syscall.EROFS:        nfs3wire.NFS3ErrROFS,
	syscall.EMLINK:       nfs3wire.NFS3ErrMLink,
	syscall.ENAMETOOLONG: nfs3wire.NFS3ErrNameTooLong,
	syscall.ENOTEMPTY:    nfs3wire.NFS3ErrNotEmpty,
	syscall.EDQUOT:       nfs3wire.NFS3ErrDQuot,
	syscall.ESTALE:       nfs3wire.NFS3ErrStale,
	syscall.EOPNOTSUPP:   nfs3wire.NFS3ErrNotSupp,
	syscall.ENOSYS:       nfs3wire.NFS3ErrNotSupp,
	// NFS has no status of its own for these errors. Clients react best to the given ones.
	syscall.ELOOP:     nfs3wire.NFS3ErrInvalid,
	syscall.EILSEQ:    nfs3wire.NFS3ErrInvalid,
	syscall.EOVERFLOW: nfs3wire.NFS3ErrFBig,
	syscall.ETXTBSY:   nfs3wire.NFS3ErrAccess,
	// Another file system is mounted on the name: waiting does not help. Linux's server does the same.
	syscall.EBUSY: nfs3wire.NFS3ErrAccess,
	// A resource is short only for a time, so the client should repeat the call.
	syscall.EAGAIN:    nfs3wire.NFS3ErrJukebox,
	syscall.ENOMEM:    nfs3wire.NFS3ErrJukebox,
	syscall.ENFILE:    nfs3wire.NFS3ErrJukebox,
	syscall.EMFILE:    nfs3wire.NFS3ErrJukebox,
	syscall.EINTR:     nfs3wire.NFS3ErrJukebox,
	syscall.ETIMEDOUT: nfs3wire.NFS3ErrJukebox,
}

var statusOfError = []struct {
	err    error
	status nfs3wire.NFSStat3
}{
	{vfs.ErrBadHandle, nfs3wire.NFS3ErrBadHandle},
	{vfs.ErrNotSync, nfs3wire.NFS3ErrNotSync},
	{vfs.ErrBadCookie, nfs3wire.NFS3ErrBadCookie},
	{vfs.ErrDelay, nfs3wire.NFS3ErrJukebox},
	{vfs.ErrNotSupported, nfs3wire.NFS3ErrNotSupp},
}

// StatusOf converts a file system's error to an NFSv3 status. For NFSv4, nfs4 changes a few of them.
func StatusOf(err error) nfs3wire.NFSStat3 {
	if err == nil {
		return nfs3wire.NFS3OK
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		if s, ok := statusOfErrno[errno]; ok {
			return s
		}
		return nfs3wire.NFS3ErrIO
	}
	for _, e := range statusOfError {
		if errors.Is(err, e.err) {
			return e.status
		}
	}
	if _, ok := errors.AsType[Pending](err); ok {
		return nfs3wire.NFS3ErrJukebox
	}
	return nfs3wire.NFS3ErrServerFault
}
