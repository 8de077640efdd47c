package stalled

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest/loop"
)

// A Disk is an ext4 file system whose disk is a file of a FileSystem: it hangs
// wherever it reads its disk, or waits for a write, while that one hangs. It is
// unmounted when the test ends.
type Disk struct {
	*FileSystem
	// Mountpoint is where the disk is mounted.
	Mountpoint string

	t       testing.TB
	mounted bool
	device  string // such as loop0
}

const diskImage = "disk"

// NewDisk makes a disk of 64 MiB with mkfs.ext4's options, and mounts it. It skips
// the test where that cannot be done.
func NewDisk(t testing.TB, options ...string) *Disk {
	t.Helper()
	d := &Disk{FileSystem: Mount(t), Mountpoint: t.TempDir(), t: t}
	// What is done in Backing never hangs, and leaves nothing in the caches of
	// the file that the disk is.
	image := filepath.Join(d.Backing, diskImage)
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	mkfs := append([]string{"-q", "-E", "lazy_itable_init=0,nodiscard"}, options...)
	if out, err := exec.Command("mkfs.ext4", append(mkfs, image, "64M")...).CombinedOutput(); err != nil {
		t.Skipf("mkfs.ext4: %v: %s", err, out)
	}
	if err := d.mount(); err != nil {
		t.Skipf("a disk in a file cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		d.LetGo()
		d.unmount()
	})
	return d
}

// Remount unmounts the disk and mounts it again: nothing of it is in memory
// then. Nothing may be open on it.
func (d *Disk) Remount() {
	d.t.Helper()
	if err := unix.Unmount(d.Mountpoint, 0); err != nil {
		d.t.Fatalf("unmounting the disk: %v", err)
	}
	d.mounted = false
	// The kernel may write to the device for a while yet.
	image, since := loop.Backing(d.device), time.Now()
	for image != "" && loop.Backing(d.device) == image {
		if time.Sleep(time.Millisecond); time.Since(since) > time.Minute {
			d.t.Fatalf("not within a minute: the kernel lets go of %s", d.device)
		}
	}
	if err := d.mount(); err != nil {
		d.t.Fatal(err)
	}
}

func (d *Disk) unmount() {
	if d.mounted {
		unix.Unmount(d.Mountpoint, unix.MNT_DETACH)
	}
}

// mount gives the disk a loop device, which goes when the disk is unmounted. Each
// access is a request to the FileSystem.
func (d *Disk) mount() (err error) {
	d.device, err = loop.Mount(filepath.Join(d.Dir, diskImage), d.Mountpoint, "ext4", 0, "")
	d.mounted = err == nil
	return err
}
