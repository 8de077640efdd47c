// Package disk judges whether the daemon keeps its word when the disk fails. It gives
// the daemon a disk of its own, lets writers work on it, has a fault strike, and
// compares the disk with what the writers were answered.
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
// A Device is a file that this process serves by FUSE. A loop device over it has the
// file system under test, with no cache between the two: each read, write and flush of
// the kernel's is a request to the Device, which may fail it, hold it, or count it.
// That needs nothing of the kernel but FUSE and loop devices; nbd, ublk and the device
// mapper, which would do as well, are missing from many kernels.
//
// The content is a platter in memory. What was written and not flushed is in the
// disk's cache. When the power is cut, each sector of that is on the platter or not, by
// the seed. The kernel goes on with a disk whose writes no longer count; the platter is
// mounted when the daemon has ended.
//
// # The load
//
// 16 writers speak NFSv3, 4.1 and 4.2, some over RDMA. Each has a directory of its own
// and slots of its own in a file that all share, and makes one call after the other.
// So each slot is a register, and each name too, of which one writer knows the whole
// history: the value that was answered as stable, and those that were sent since. Two
// observers look for names that come and go.
//
// With -server knfsd the writers judge Linux's own server in a guest of the kernel lab: see
// knfsd.
//
// The daemon is the tree's, built with a sweeper that looks every few milliseconds: what
// an idle minute brings about comes within a round.
//
// # What must hold
//
// After the power came back:
//
//   - a slot holds the value that was last answered as stable (FILE_SYNC, DATA_SYNC, or
//     UNSTABLE and a COMMIT with the same verifier), or one that was sent later;
//   - a name leads to the file that the last answered call gave it, or to one that a
//     later call would have; a file that was answered is not lost;
//   - a mode is the one that was answered, or a later one;
//   - a handle leads to its file;
//   - a file whose content was answered as stable does not tell the change attribute
//     that an older content had.
//
// Meanwhile:
//
//   - a caller is told an error only where the fault concerns what it asked for: the bad
//     sectors of one file concern no other;
//   - an error has its own name: no space is not an input/output error, in the reply to
//     a WRITE;
//   - an exclusive create that has succeeded succeeds again, on a full disk too;
//   - a name that was removed is not found.
package disk
