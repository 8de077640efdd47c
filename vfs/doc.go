// Package vfs is the interface between file protocols and file systems. It has three
// implementations: vfs/local (a directory of a Linux file system), vfs/mem (memory) and vfs/billy
// (any go-billy file system that the go-nfs library can serve). vfs/vfstest holds the acceptance
// suite that each of them passes.
//
// Calls name files by handle, because NFS handles outlive processes. Each call carries a
// credential, and the file system checks its permissions. If Op.Try is set, a method answers
// without blocking, or does nothing and returns ErrWouldBlock. So the goroutine that received a
// request can serve it at once if the file system has the answer in memory.
//
// Errors are syscall.Errno where POSIX has a number, and the package's own Err... values
// otherwise. A FileSystem may also implement optional interfaces: open files (Opener), byte-range
// locks against other processes (Claimer), holes (Sparse), copies (Copier) and extended attributes
// (Xattrs). The function As finds them, also behind wrappers.
//
// The package depends on no protocol. Its handles are not authenticated: package ulb/nfs/export
// adds an authentication code before a handle goes to a client.
package vfs
