// Package billy serves any github.com/willscott/go-nfs Handler, and with it any
// github.com/go-git/go-billy/v5 file system, as a vfs.FileSystem. A program that uses go-nfs can
// serve its files over NFS/RDMA if it passes its Handler to New instead of to nfs.Serve.
//
//	fs, err := billy.New(handler, billy.Options{})
//
// A billy file system knows little but paths. The package adds what is missing where it can:
//
//   - The package makes handles of its own, which stay with a file when it is renamed; handles made
//     of paths cannot. If os.FileInfo has inode numbers, and the handler makes handles that it still
//     understands after a restart and that are at most 38 bytes long, they become part of the
//     package's handles, and clients continue after a restart. Otherwise clients get ESTALE after a
//     restart for everything but the root: without inode numbers a path may be another file's then.
//   - The package keeps directory cookies and the change counter. It also keeps file numbers if
//     os.FileInfo has none, and times of changes by clients if the file system does not update
//     them itself.
//   - The package refuses what POSIX refuses (renaming a directory over a file, or into itself),
//     because some billy file systems do it without an error.
//   - A call that may change the file system is made while no other call runs. Calls that change
//     nothing run side by side. So a file system that is safe for concurrent readers can be served.
//     As with nfs.Serve, a program needs locks for its own accesses to the files.
//   - As in go-nfs, a file is opened for a call and closed before the call ends.
//
// What the package cannot add:
//
//   - Permissions are not checked. The package uses the file system with the program's rights, for
//     every user of every client; restrict who may use the export.
//   - Data is as stable as the file system can make it. If a billy.File has a Sync method, the
//     package calls it, and otherwise Options.Sync. If there is neither, the package only closes the
//     file, and no write is reported as being on stable storage; a Commit still succeeds.
//   - Hard links, sockets, FIFOs and devices need an nfs.UnixChange; changes of owners and times
//     need a billy.Change.
//   - The package remembers each file that a client has seen for as long as the file exists. That
//     takes some 500 bytes for each file.
//   - If a client repeats an exclusive creation, the package recognises that, but not after a
//     restart.
//   - Every call may block. With vfs.Op.Try set, a call returns vfs.ErrWouldBlock.
package billy
