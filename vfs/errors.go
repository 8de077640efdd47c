package vfs

import "errors"

// Errors that POSIX has no number for. Everything else is a syscall.Errno.
var (
	// ErrWouldBlock: with Op.Try, the method could not answer without blocking, and did nothing.
	// The same call without Try will do the work.
	ErrWouldBlock = errors.New("vfs: would block")
	// ErrBadHandle: the bytes were never a handle of this file system. For a handle of a removed
	// file the error is syscall.ESTALE.
	ErrBadHandle = errors.New("vfs: not a handle")
	// ErrNotSync: SetAttr's guard is not the object's ctime (RFC 1813 §3.3.2).
	ErrNotSync = errors.New("vfs: object changed meanwhile")
	// ErrBadCookie: the cookie is not a position in this directory.
	ErrBadCookie = errors.New("vfs: bad directory cookie")
	// ErrDelay: the file system cannot serve the call now. The client shall try again later (RFC
	// 1813: NFS3ERR_JUKEBOX).
	ErrDelay = errors.New("vfs: try again later")
	// ErrNotSupported: the file system does not have this operation.
	ErrNotSupported = errors.New("vfs: not supported")
)
