package disk

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest/loop"
)

const mib = 1 << 20

// A filesystem is a type of file system for the disk.
type filesystem struct {
	name string
	mkfs string // the command that formats a disk, with its options
	size int64
	// options are the mount options. Those of ext4 and btrfs prevent the kernel from committing by
	// itself between the mount and the fault.
	options string
	// namesErrors is true if fsync(2) returns the disk's own error, for example ENOSPC instead of
	// EIO.
	namesErrors bool
	// fills is true if creates fail when the space is used up. Some file systems have enough
	// space in reserve for creates.
	fills bool
}

var filesystems = []*filesystem{
	{"ext4", "mkfs.ext4 -q -b 4096 -N 1024 -J size=4 -E lazy_itable_init=0,lazy_journal_init=0,nodiscard", 48 * mib, "commit=900", true, true},
	{"xfs", "mkfs.xfs -q -K -l size=64m", 300 * mib, "nouuid", true, true},
	// With nodatacow, data is always written to the same place, so that data on a bad sector stays
	// there. It also turns off checksums, which would be written to other places.
	{"btrfs", "mkfs.btrfs -q -K", 128 * mib, "commit=900,nodatacow", false, false},
}

// format returns a formatted disk. It skips the test if the machine has no program to format it.
func (f *filesystem) format(t testing.TB, d *Device) *platter {
	t.Helper()
	p := newPlatter(f.size)
	d.insert(p)
	command := strings.Fields(f.mkfs)
	if _, err := exec.LookPath(command[0]); err != nil {
		t.Skip(err)
	}
	if out, err := exec.Command(command[0], append(command[1:], d.Image)...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", f.mkfs, err, out)
	}
	return p
}

// A mounted is a mounted file system.
type mounted struct {
	t          testing.TB
	dir        string
	loopDevice string
}

func (f *filesystem) mount(t testing.TB, d *Device) *mounted {
	t.Helper()
	m, err := f.tryMount(t, d)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (f *filesystem) tryMount(t testing.TB, d *Device) (*mounted, error) {
	if f.name == "btrfs" {
		forgetDevices()
	}
	m := &mounted{t: t, dir: t.TempDir()}
	var err error
	if m.loopDevice, err = loop.Mount(d.Image, m.dir, f.name, 0, f.options); err != nil {
		return nil, fmt.Errorf("mounting %s: %w", f.name, err)
	}
	t.Cleanup(func() {
		if m.dir != "" {
			unix.Unmount(m.dir, unix.MNT_DETACH)
		}
	})
	return m, nil
}

// narrow makes the kernel send few requests at a time. With many requests at a time, a sync(2)
// that is under way would also write pages that were changed again before it reached them.
func (m *mounted) narrow() {
	m.t.Helper()
	path := filepath.Join("/sys/block", m.loopDevice, "queue/nr_requests")
	if err := os.WriteFile(path, []byte("4"), 0); err != nil {
		m.t.Fatal(err)
	}
}

// unmount unmounts the file system and waits until the kernel has released the disk. It fails the
// test if that takes longer than patience.
func (m *mounted) unmount(d *Device) {
	m.t.Helper()
	if m.dir == "" {
		return
	}
	deadline := time.Now().Add(patience)
	until := func(what string, done func() bool) {
		for !done() {
			if time.Sleep(5 * time.Millisecond); time.Now().After(deadline) {
				m.t.Fatalf("not within %v: %s", patience, what)
			}
		}
	}
	until("unmounting", func() bool { return !errors.Is(unix.Unmount(m.dir, 0), unix.EBUSY) })
	m.dir = ""
	until("the loop device goes", func() bool { return strings.TrimSpace(loop.Backing(m.loopDevice)) != d.Image })
}

// patience is the longest time that a test waits for an event. The event happens much earlier
// unless the test fails.
const patience = 2 * time.Minute

// forgetDevices makes the kernel forget the btrfs disks that are not mounted. Otherwise the kernel
// would take the disk's present content for another copy of the disk that the kernel has seen
// before.
func forgetDevices() {

	_ = exec.Command("btrfs", "device", "scan", "--forget").Run() // fails if the kernel knows no such disk
}
