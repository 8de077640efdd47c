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

// A filesystem is one that disks are formatted with.
type filesystem struct {
	name string
	mkfs string // with its options
	size int64
	// options are of its mount. The kernel is to commit nothing of its own accord
	// for as long as a round may take.
	options string
	// namesErrors: an error of the disk reaches fsync(2) by its own name.
	namesErrors bool
	// fills: when its space is used up, creates fail. Some keep enough aside.
	fills bool
}

var filesystems = []*filesystem{
	{"ext4", "mkfs.ext4 -q -b 4096 -N 1024 -J size=4 -E lazy_itable_init=0,lazy_journal_init=0,nodiscard", 48 * mib, "commit=900", true, true},
	{"xfs", "mkfs.xfs -q -K -l size=64m", 300 * mib, "nouuid", true, true},
	// Data stays where it was first written, so that a bad sector stays under it. A
	// checksum would not.
	{"btrfs", "mkfs.btrfs -q -K", 128 * mib, "commit=900,nodatacow", false, false},
}

// format gives a formatted disk. It skips the test where no program
// formats.
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

// A mounted file system.
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

// narrow has the kernel send few requests at a time: a sync(2) that has begun takes
// pages along that are written to again before their turn.
func (m *mounted) narrow() {
	m.t.Helper()
	path := filepath.Join("/sys/block", m.loopDevice, "queue/nr_requests")
	if err := os.WriteFile(path, []byte("4"), 0); err != nil {
		m.t.Fatal(err)
	}
}

// unmount returns when the kernel has let go of the disk.
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

// patience bounds what must happen. A test that passes never waits for it.
const patience = 2 * time.Minute

// forgetDevices has the kernel forget the disks of btrfs that are not mounted: it
// would take a disk as it was before for an old copy.
func forgetDevices() {

	_ = exec.Command("btrfs", "device", "scan", "--forget").Run() // fails where none is known
}
