package billy

import (
	"context"
	"errors"
	"io/fs"
	"syscall"

	gobilly "github.com/go-git/go-billy/v5"
	nfs "github.com/willscott/go-nfs"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// known maps errors of file systems and handlers to those of package vfs.
var known = []struct{ is, want error }{
	{vfs.ErrNotSupported, vfs.ErrNotSupported},
	{vfs.ErrDelay, vfs.ErrDelay},
	{vfs.ErrWouldBlock, vfs.ErrDelay},
	{gobilly.ErrReadOnly, syscall.EROFS},
	{gobilly.ErrNotSupported, vfs.ErrNotSupported},
	{gobilly.ErrCrossedBoundary, syscall.EACCES},
	{errors.ErrUnsupported, vfs.ErrNotSupported},
	{context.DeadlineExceeded, vfs.ErrDelay},
	{fs.ErrNotExist, syscall.ENOENT},
	{fs.ErrExist, syscall.EEXIST},
	{fs.ErrPermission, syscall.EACCES},
	{fs.ErrInvalid, syscall.EINVAL},
}

// statuses maps the NFS statuses whose numbers differ from the errno with the same meaning. Every
// other status up to NFS3ERR_MLINK has the number of its errno.
var statuses = map[nfs.NFSStatus]error{
	nfs.NFSStatusNameTooLong: syscall.ENAMETOOLONG,
	nfs.NFSStatusNotEmpty:    syscall.ENOTEMPTY,
	nfs.NFSStatusDQuot:       syscall.EDQUOT,
	nfs.NFSStatusStale:       syscall.ESTALE,
	nfs.NFSStatusBadHandle:   vfs.ErrBadHandle,
	nfs.NFSStatusNotSync:     vfs.ErrNotSync,
	nfs.NFSStatusBadCookie:   vfs.ErrBadCookie,
	nfs.NFSStatusNotSupp:     vfs.ErrNotSupported,
	nfs.NFSStatusJukebox:     vfs.ErrDelay,
}

// errno converts an error of the file system to one of package vfs.
func errno(err error) error {
	if err == nil {
		return nil
	}
	if n := syscall.Errno(0); errors.As(err, &n) {
		if n == syscall.EOPNOTSUPP || n == syscall.ENOSYS {
			return vfs.ErrNotSupported
		}
		return n
	}
	if s := (*nfs.NFSStatusError)(nil); errors.As(err, &s) {
		return ofStatus(s.NFSStatus)
	}
	for _, k := range known {
		if errors.Is(err, k.is) {
			return k.want
		}
	}
	return syscall.EIO
}

// ofStatus converts a status of NFSv3, or of MOUNT (which has the same numbers), to an error of
// package vfs.
func ofStatus(s nfs.NFSStatus) error {
	if err, ok := statuses[s]; ok {
		return err
	}
	if s > 0 && s <= nfs.NFSStatusMlink {
		return syscall.Errno(s)
	}
	return syscall.EIO
}
