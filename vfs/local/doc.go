// Package local serves a directory of a Linux file system behind the seam
// package vfs.
//
// Handles are the kernel's own file handles (name_to_handle_at). Where
// open_by_handle_at is allowed (CAP_DAC_READ_SEARCH) the kernel also finds the
// file again; elsewhere an index of names, kept in the state directory, does,
// with a search of the tree where a name has moved meanwhile. The bytes are
// the same either way: a daemon may gain or lose the capability between two
// runs and every handle stays good.
//
// Who may do what is the kernel's word, as the caller (see
// credential_switch.go and verdict.go); data moves through one descriptor an
// inode and mode that was opened with the daemon's rights (openfile.go). The
// rules of NFS that stand on top of it (RFC 1813 §4.4) are in data.go. Data
// and names become durable in durability.go.
//
// Open files (open.go) hold their node in the cache and pin the descriptor that
// all calls share: a removed file is found by its handle until the last one is
// closed. Byte ranges are claimed on a descriptor for nothing else (claim.go).
// Both are bounded with the descriptors (descriptors.go). Holes, copies and
// extended attributes are the kernel's.
//
// What the kernel said is remembered with the Change of the inode that it was said
// about (version.go): verdicts, names, listings, and that a read is quiet.
// Attributes are not remembered: they are asked of the kernel for each answer, so
// that what a program of this machine changes is seen at once. Every answer tells
// them with the Change that they belong to.
//
// Attempts (vfs.Op.Try). An attempt makes no system call that can wait for the
// disk, for a server or for a program in user space, as far as it is known which
// do: fs_kind.go says where attributes are in memory, verdict.go and atime.go
// what has to be there besides, closing.go who closes. raw_syscall.go has the
// rule for calls that the scheduler is not told of.
//
// Confinement. No path of more than one component is ever resolved below the
// root, no symlink is followed, ".." is granted only where the way up leads to
// the root, and a directory that a handle names must lie below it: a directory in
// use that leaves the tree cannot be reached some seconds later, or at once where
// an FS of this process moved it (confine.go). A file other than a directory that a local program moved out of the tree
// stays reachable by the handles that were handed out while it was in it: it
// has no parent to ask. Mount points below the root are not crossed: they are
// listed, and entering one answers EXDEV. Export the mounted file system by
// itself.
//
// What Change.Atomic says holds among the callers of all FSs of the process,
// which know of each other's changes (version.go). Nothing shows a change that
// another process of the machine makes between the two looks, some microseconds
// apart. So Atomic is not said of an object that another process has changed in
// the last ten seconds; one that none has is taken to stay so for these
// microseconds. It is never said where attributes are another machine's or
// another program's (network file systems, FUSE, overlayfs).
//
// Data is written by the daemon, but where the kernel would take it for another
// than the caller (writer.go, reserve.go). On overlayfs a file of a lower
// layer gets another handle when it is first written.
//
// The package needs Linux 5.10 and a mounted /proc. It sets the process's
// umask to 0, for modes are the client's to choose, and default ACLs are the
// directory's.
package local
