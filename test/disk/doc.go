// Package disk tests that the daemon loses no stable data when its disk fails. It gives the daemon
// a disk of its own, runs writers, makes a fault happen, and compares the disk with the replies
// that the writers got.
//
// Its tests have the build tag hostile, and need user 0, /dev/fuse and loop devices;
// xfsprogs and btrfs-progs format two of the three file systems:
//
//	go test -tags hostile ./test/disk -v
//	go test -tags hostile ./test/disk -v -timeout 3h -faults 500
//	go test -tags hostile ./test/disk -v -faults 1 -seed 30
//	go test -tags hostile ./test/disk -v -faults 6 -server knfsd
//	go test -tags hostile ./test/disk -v -tree ../../../other -fault full -fs xfs
//
// # The disk
//
// A Device is a file that this process serves by FUSE. The file system under test is on a loop
// device over this file, without a cache between the two. So each read, write and flush of the
// kernel is a request to the Device, which can fail it, delay it, or count it. The kernel needs
// only FUSE and loop devices for this. nbd, ublk and the device mapper would also work, but many
// kernels do not have them.
//
// The content of a Device is a platter, which is in memory. Writes that were not flushed are in
// the disk's cache. In a power cut, the seed decides which of their sectors survive. After the
// cut the kernel continues to use the disk, but its writes are lost. When the daemon has ended,
// the test mounts what survived.
//
// # The load
//
// 16 writers use NFSv3, 4.1 and 4.2, some over RDMA. Each has a directory of its own, and slots
// of its own in a file that all share. Each makes one call at a time. So each slot and each name
// has one writer, which knows its whole history: the last value that was answered as stable, and
// the values that were sent after it. Two observers look up names that writers create and remove.
//
// With -server knfsd, the test runs against Linux's own server in a guest of the kernel lab: see
// knfsd.
//
// A round is one disk with one fault. The test builds the daemon from this tree, or from the one that
// -tree names. In this daemon the sweeper runs every few milliseconds instead of every second. So a
// file that would have to be idle for a minute needs only a fraction of a second, and a round shows
// what the daemon does with idle files.
//
// # What must hold
//
// After the power is restored:
//
//   - a slot has the last value that was answered as stable (FILE_SYNC, DATA_SYNC, or UNSTABLE
//     and a COMMIT with the same verifier), or a value that was sent later;
//   - a name refers to the file of the last answered call, or to the file of a later call; a file
//     whose creation was answered is not lost;
//   - a mode is the last one that was answered, or one that was sent later;
//   - a handle refers to its file;
//   - a file whose content was answered as stable does not have the change attribute of an older
//     content.
//
// At all times:
//
//   - a caller gets an error only if the fault concerns its call: the bad sectors of one file
//     concern no other file;
//   - the reply to a WRITE without space is the error for no space, not an input/output error;
//   - an exclusive create that has succeeded succeeds again when it is repeated, on a full disk
//     too;
//   - a name that was removed is not found.
package disk
