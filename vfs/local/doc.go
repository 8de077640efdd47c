// Package local implements vfs.FileSystem for a directory of a Linux file system.
//
// Handles are the kernel's own file handles (name_to_handle_at). If the daemon may call
// open_by_handle_at (CAP_DAC_READ_SEARCH), the kernel finds the file of a handle. Otherwise an
// index of names in the state directory (package index) finds it, and searches the tree if the
// name has moved. The bytes of a handle are the same in both cases: a daemon may gain or lose the
// capability between two runs, and every handle stays valid.
//
// The kernel decides about access: the daemon asks it with the caller's identity
// (credential_switch.go, verdict.go). Data moves through descriptors that all callers share, for
// each file at most one for reading and one for reading and writing. They are opened with the
// daemon's rights (openfile.go). read.go adds the rules of NFS (RFC 1813 §4.4). durability.go makes
// data and names durable.
//
// Open files (open.go) keep their node in the cache and one of its shared descriptors open: a
// removed file is found by its handle until its last open file is closed. Byte ranges are claimed
// on a separate descriptor (claim.go). The budget of descriptors limits how many files are open or
// have claims (descriptors.go). For holes, copies and extended attributes the package calls the
// kernel.
//
// Caches remember a caller's rights (verdict.go), names (lookup.go), listings (dir_stream.go),
// and whether a read leaves atime unchanged (read.go). An entry is used only while the inode's
// Change is the one that the entry records (version.go). Attributes are not cached: every call asks
// the kernel for them, so that clients see changes by local programs at once, and returns them with
// their Change.
//
// Parts without an FS. The daemon's identity (credential_switch.go), the sync calls (sync_call.go), the
// budget of descriptors (descriptors.go), and the cache of nodes with their versions and their durability
// (node.go, sweep_turn.go, version.go, durability.go) know no FS. What the cache needs from it and from
// the kernel are the interfaces nodeHost and disk, which host.go implements. So a test drives it with a
// clock, files and a disk of its own.
//
// Op.Try. A call with vfs.Op.Try makes no system call that is known to wait for the disk, for a
// server or for a program in user space. fs_kind.go lists the file systems with attributes in
// memory; verdict.go and read.go name what else must be in memory; close_idle.go closes descriptors
// for such calls. raw_syscall.go has the rule for system calls that bypass the scheduler.
//
// Confinement. No path of more than one component is ever resolved below the root, no symlink is
// followed, a lookup of ".." succeeds only if the parent lies below the root, and a directory
// named by a handle must lie below the root. If a local program moves a directory in use out of
// the tree, clients can no longer reach it some seconds later. If an FS of this process moves it,
// they cannot reach it from then on (confine.go). If a local program moves another kind of file
// out of the tree, it stays reachable by old handles, because the kernel cannot name its parent.
// Mount points below the root are not crossed: they are listed, and entering one fails with EXDEV.
// Export the mounted file system by itself.
//
// Change.Atomic is exact for changes through the FSs of this process, which know each other's
// changes (version.go). A change by another process between the two readings of the attributes,
// some microseconds apart, cannot be seen. Therefore Atomic is false for an object that another
// process changed in the last seconds (1 to 10, see quietAfter); for any other object, no such
// change is assumed. Atomic is always false on network file systems, FUSE and overlayfs, where
// another machine or program keeps the attributes.
//
// Threads with the daemon's identity write data, except in the two cases where the kernel has to
// see the caller (write.go). On overlayfs a file of a lower layer gets another handle
// when it is first written.
//
// The package needs Linux 5.10 and a mounted /proc. It sets the process's umask to 0, because
// clients choose modes, and directories set default ACLs.
package local
