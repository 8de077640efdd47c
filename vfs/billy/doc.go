// Package billy serves any github.com/willscott/go-nfs Handler, and with it any
// github.com/go-git/go-billy/v5 file system, behind the seam vfs: a program
// that is built on go-nfs gets NFS/RDMA by handing its Handler here instead of
// to nfs.Serve.
//
//	fs, err := billy.New(handler, billy.Options{})
//
// A billy file system knows paths, and not much else. The package makes up for
// what it lacks where that can be done honestly:
//
//   - The package keeps handles of its own, which follow a file when it is
//     renamed; handles made of paths cannot. If the handler makes handles that
//     it understands after a restart and that fit (at most 38 bytes), they
//     become part of the package's handles, and clients go on after a restart.
//     Otherwise clients see stale handles after a restart.
//   - The package keeps directory cookies and the change counter. It keeps file
//     numbers too if os.FileInfo shows none, and the times of changes that
//     clients make if the file system does not move them itself.
//   - What POSIX refuses (a directory renamed over a file, or into itself) is
//     refused here: some billy file systems do it without a word.
//   - A call that may change the file system is made while no other call is
//     running; calls that only look run side by side. A file system that is
//     safe for concurrent readers can therefore be served. Programs need the
//     same locks as with nfs.Serve only for what they do to the files
//     themselves.
//   - A file is opened for a call and closed before the call ends, as go-nfs does it.
//
// What the package cannot make up for:
//
//   - Permissions are not judged. The file system is used as the program uses
//     it, for every user of every client; restrict who may use the export.
//   - Data is as stable as the file system can make it. If a billy.File has a
//     Sync method, the package calls it. If it has none, the file is only closed,
//     and a write is never answered as being on stable storage; a Commit still
//     succeeds.
//   - Hard links, sockets, FIFOs and devices need an nfs.UnixChange, other
//     owners and times a billy.Change.
//   - A file that a client has seen is remembered for as long as it exists:
//     some 500 bytes each.
//   - An exclusive creation is recognised when a client repeats it, but not
//     after a restart.
//   - No call is answered without blocking: vfs.Op.Try gets vfs.ErrWouldBlock.
package billy
