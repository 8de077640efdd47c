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

// A filesystem is a file system that a disk can have.
type filesystem struct {
	name string
	mkfs string // with its options
	size int64
	// options are its mount options. They must keep the kernel from committing by itself during a
	// round.
	options string
	// namesErrors: fsync(2) returns an error of the disk by its own name.
	namesErrors bool
	// fills: creates fail when the space is used up. Some file systems keep enough in reserve for
	// creates.
	fills bool
}

var filesystems = []*filesystem{
	{"ext4", "mkfs.ext4 -q -b 4096 -N 1024 -J size=4 -E lazy_itable_init=0,lazy_journal_init=0,nodiscard", 48 * mib, "commit=900", true, true},
	{"xfs", "mkfs.xfs -q -K -l size=64m", 300 * mib, "nouuid", true, true},
	// nodatacow: data stays at its first place, so that a bad sector stays under it. It also has
	// no checksums, which would move.
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

// narrow makes the kernel send few requests at a time. Otherwise a sync(2) under way would take
// pages along that are written again before their turn.
func (m *mounted) narrow() {
	m.t.Helper()
	path := filepath.Join("/sys/block", m.loopDevice, "queue/nr_requests")
	if err := os.WriteFile(path, []byte("4"), 0); err != nil {
		m.t.Fatal(err)
	}
}

// unmount returns when the kernel has released the disk.
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

// patience is the longest wait for an event that must happen. A test that passes never waits so
// long.
const patience = 2 * time.Minute

// forgetDevices makes the kernel forget the disks of btrfs that are not mounted. Otherwise it
// would take a disk's former state for an old copy of it.
func forgetDevices() {

	_ = exec.Command("btrfs", "device", "scan", "--forget").Run() // fails if the kernel knows none
}
