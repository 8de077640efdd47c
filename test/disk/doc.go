// Package disk judges whether the daemon keeps its word when the disk fails. It gives the daemon
// a disk of its own, runs writers on it, makes a fault strike, and compares the disk with the
// answers that the writers got.
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
// A Device is a file that this process serves by FUSE. A loop device over it has the file system
// under test, with no cache between the two: each read, write and flush of the kernel is a
// request to the Device, which may fail it, hold it, or count it. The kernel needs only FUSE and
// loop devices for this; nbd, ublk and the device mapper, which would do as well, are missing
// from many kernels.
//
// The content is a platter in memory. Unflushed writes are in the disk's cache. In a power cut
// the seed decides for each of their sectors whether it is on the platter. The kernel goes on
// with a disk whose writes no longer count; the test mounts the platter when the daemon has
// ended.
//
// # The load
//
// 16 writers speak NFSv3, 4.1 and 4.2, some over RDMA. Each has a directory of its own and slots
// of its own in a file that all share, and makes one call after the other. So each slot and each
// name is a register, and one writer knows its whole history: the last value that was answered as
// stable, and the values that were sent since. Two observers look up names that come and go.
//
// With -server knfsd the writers judge Linux's own server in a guest of the kernel lab: see
// knfsd.
//
// The daemon is the tree's, built with a sweeper that runs every few milliseconds, so that the
// effects of an idle minute come within a round.
//
// # What must hold
//
// After the power has come back:
//
//   - a slot has the last value that was answered as stable (FILE_SYNC, DATA_SYNC, or UNSTABLE
//     and a COMMIT with the same verifier), or a value that was sent later;
//   - a name leads to the file of the last answered call, or to the file of a later call; a file
//     whose creation was answered is not lost;
//   - a mode is the last one that was answered, or a later one;
//   - a handle leads to its file;
//   - a file whose content was answered as stable does not show the change attribute of an older
//     content.
//
// Meanwhile:
//
//   - a caller gets an error only if the fault concerns its call: the bad sectors of one file
//     concern no other file;
//   - an error keeps its name: the reply to a WRITE without space is not an input/output error;
//   - an exclusive create that has succeeded succeeds again, on a full disk too;
//   - a name that was removed is not found.
package disk
