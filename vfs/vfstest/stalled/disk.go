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

// A Disk is an ext4 file system whose disk is a file in a FileSystem. While the FileSystem hangs,
// each access to the disk hangs. The end of the test unmounts it.
type Disk struct {
	*FileSystem
	// Mountpoint is the directory of the mount.
	Mountpoint string

	t       testing.TB
	mounted bool
	device  string // such as loop0
}

const diskImage = "disk"

// NewDisk makes a disk of 64 MiB with the given options of mkfs.ext4, and mounts it. It skips the
// test if the machine does not allow that.
func NewDisk(t testing.TB, options ...string) *Disk {
	t.Helper()
	d := &Disk{FileSystem: Mount(t), Mountpoint: t.TempDir(), t: t}
	// Make the image through Backing. Calls there never hang, and leave no pages of the
	// image in the caches of Dir.
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

// Remount unmounts the disk and mounts it again, so that none of it is in memory. No file
// on it may be open.
func (d *Disk) Remount() {
	d.t.Helper()
	if err := unix.Unmount(d.Mountpoint, 0); err != nil {
		d.t.Fatalf("unmounting the disk: %v", err)
	}
	d.mounted = false
	// The kernel may still write to the device for a moment.
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

// mount mounts the disk on a loop device, which the unmount frees. Each access to the disk is a
// request to the FileSystem.
func (d *Disk) mount() (err error) {
	d.device, err = loop.Mount(filepath.Join(d.Dir, diskImage), d.Mountpoint, "ext4", 0, "")
	d.mounted = err == nil
	return err
}
