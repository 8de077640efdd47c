package local_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// diskTypes are the types of file systems that tests make on images.
var diskTypes = map[string]struct {
	kernel string // type for mount(2)
	size   int64
	mkfs   []string
}{
	"ext4":             {"ext4", 64 << 20, []string{"mkfs.ext4", "-q"}},
	"ext4, 128 bytes":  {"ext4", 64 << 20, []string{"mkfs.ext4", "-q", "-I", "128"}},
	"ext4, no indexes": {"ext4", 64 << 20, []string{"mkfs.ext4", "-q", "-O", "^dir_index"}},
	"ext2":             {"ext2", 64 << 20, []string{"mkfs.ext2", "-q", "-I", "128"}},
	"XFS":              {"xfs", 320 << 20, []string{"mkfs.xfs", "-q"}},
	"btrfs":            {"btrfs", 256 << 20, []string{"mkfs.btrfs", "-q"}},
	"FAT":              {"vfat", 64 << 20, []string{"mkfs.fat"}},
}

// An anyDisk is a mounted image with one of the diskTypes.
type anyDisk struct {
	t                  *testing.T
	kernel, image, dir string
}

// newDiskOf makes an image with a file system of the given kind and mounts it. It skips the test
// if the machine does not support that.
func newDiskOf(t *testing.T, kind string) *anyDisk {
	t.Helper()
	k := diskTypes[kind]
	d := &anyDisk{t, k.kernel, filepath.Join(t.TempDir(), "image"), t.TempDir()}
	if err := os.WriteFile(d.image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(d.image, k.size); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(k.mkfs[0], append(k.mkfs[1:], d.image)...).CombinedOutput(); err != nil {
		t.Skipf("%v: %v: %s", k.mkfs, err, out)
	}
	d.mount()
	return d
}

func (d *anyDisk) mount() {
	d.t.Helper()
	device := newLoopDevice(d.t, d.image)
	err := unix.Mount(device, d.dir, d.kernel, 0, "")
	if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EPERM) {
		d.t.Skipf("this machine does not mount %s: %v", d.kernel, err)
	}
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { unix.Unmount(d.dir, unix.MNT_DETACH) })
}

// newLoopDevice attaches a file to a loop device and returns the device's path. The unmount frees
// the device; without a mount, the end of the test does. It does not use mount(8) and losetup(8),
// because these look at all loop devices of the machine, and wait for devices whose disks hang in
// another test.
func newLoopDevice(t *testing.T, file string) string {
	t.Helper()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no disks can be made here: %v", err)
	}
	defer control.Close()
	image, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer image.Close()
	for {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			t.Skipf("no loop device: %v", err)
		}
		name := fmt.Sprint("/dev/loop", n)
		device, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			t.Skip(err)
		}
		err = unix.IoctlLoopConfigure(int(device.Fd()), &unix.LoopConfig{
			Fd: uint32(image.Fd()), Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR},
		})
		if err == nil {
			t.Cleanup(func() { device.Close() })
			return name
		}
		device.Close()
		if !errors.Is(err, unix.EBUSY) { // another process took the device first
			t.Fatal(err)
		}
	}
}
