// Package vfs is the seam between file protocols and file systems. Behind it
// stand vfs/local (a directory of a Linux file system), vfs/mem (memory) and
// vfs/billy (any file system of the go-nfs library); vfs/vfstest holds the
// acceptance suite that each of them passes.
//
// The seam is by handle, because NFS handles outlive processes; by credential,
// which is passed in and judged by the file system; and by attempt: with
// Op.Try a method either answers without blocking or answers ErrWouldBlock and
// has done nothing, so that the goroutine that received a request can serve
// it on the spot when the answer is at hand.
//
// Errors are syscall.Errno where POSIX has a name for what happened, and the
// package's own Err... values where it has none. Open files (Opener), byte ranges
// held towards other processes (Claimer), holes (Sparse), copies (Copier) and
// extended attributes (Xattrs) are further interfaces that a FileSystem may also
// implement; As finds them, through what wraps a file system too.
//
// The package knows no protocol. The handles that it passes are not
// authenticated: code that hands them to clients seals them (ulb/nfs/export).
package vfs
