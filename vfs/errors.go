package vfs

import "errors"

// Errors that POSIX has no number for. Everything else is a syscall.Errno.
var (
	// ErrWouldBlock: with Op.Try, the answer is not at hand. Nothing was
	// done; the same call without Try will do it.
	ErrWouldBlock = errors.New("vfs: would block")
	// ErrBadHandle: the bytes were never a handle of this file system. A
	// handle of a file that is gone is syscall.ESTALE.
	ErrBadHandle = errors.New("vfs: not a handle")
	// ErrNotSync: a guarded change found another ctime than it expected
	// (RFC 1813 §3.3.2).
	ErrNotSync = errors.New("vfs: object changed meanwhile")
	// ErrBadCookie: the cookie does not name a place in this directory.
	ErrBadCookie = errors.New("vfs: bad directory cookie")
	// ErrDelay: the file system cannot serve this now; the client is to ask
	// again later (RFC 1813: NFS3ERR_JUKEBOX).
	ErrDelay = errors.New("vfs: try again later")
	// ErrNotSupported: the file system does not have this operation.
	ErrNotSupported = errors.New("vfs: not supported")
)
