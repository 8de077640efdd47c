// Package billy serves any github.com/willscott/go-nfs Handler, and with it any
// github.com/go-git/go-billy/v5 file system, behind the seam vfs: a program
// that is built on go-nfs gets NFS/RDMA by handing its Handler here instead of
// to nfs.Serve.
//
//	fs, err := billy.New(handler, billy.Options{})
//
// A billy file system knows paths, and not much else. What it lacks is made up
// for where that can be done honestly:
//
//   - Handles are kept here, so that they follow a file over renames, which
//     handles made of paths cannot. Where the handler makes handles that it
//     understands after a restart and that fit (at most 38 bytes), they are
//     part of ours, and clients go on after a restart; else clients see stale
//     handles then.
//   - Directory cookies and file numbers are kept here too, the numbers where
//     os.FileInfo shows none. So are the change counter, and the times of
//     changes made through here where the file system does not move them.
//   - What POSIX refuses (a directory renamed over a file, or into itself) is
//     refused here: some billy file systems just do it.
//   - Calls are ordered so that a file system that is not safe for concurrent
//     use can be served: see Options.Concurrent.
//
// And what cannot be made up for is said:
//
//   - Nobody's permissions are judged. Whatever a client's user, the file
//     system is used as the program is; restrict who may use the export.
//   - Data is as stable as the file system can make it: a billy.File that has
//     a Sync method is synced, any other is closed, and then a write is never
//     answered as being on stable storage,
//     though a Commit succeeds: it is all that there is.
//   - There are hard links, sockets, FIFOs and devices only with an
//     nfs.UnixChange, other owners and times only with a billy.Change.
//   - A file is remembered from when a client first sees it for as long as it
//     exists: some 500 bytes each.
//   - An exclusive creation is recognised when it is repeated, but not after a
//     restart.
//   - Nothing is ever answered without blocking: vfs.Op.Try gets
//     vfs.ErrWouldBlock.
package billy
