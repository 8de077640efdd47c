package stalled

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
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
	image, since := backing(d.device), time.Now()
	for image != "" && backing(d.device) == image {
		if time.Sleep(time.Millisecond); time.Since(since) > time.Minute {
			d.t.Fatalf("not within a minute: the kernel lets go of %s", d.device)
		}
	}
	if err := d.mount(); err != nil {
		d.t.Fatal(err)
	}
}

// backing is the file that a loop device has, or "".
func backing(device string) string {
	b, _ := os.ReadFile(filepath.Join("/sys/block", device, "loop/backing_file"))
	return string(b)
}

func (d *Disk) unmount() {
	if d.mounted {
		unix.Unmount(d.Mountpoint, unix.MNT_DETACH)
	}
}

// mount finds a loop device for the disk. The device goes when the disk is
// unmounted. It reads and writes past the caches of the file: each access is a
// request to the FileSystem.
func (d *Disk) mount() error {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer control.Close()
	file, err := os.OpenFile(filepath.Join(d.Dir, diskImage), os.O_RDWR|unix.O_DIRECT, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	const attempts = 16 // others may take the free device meanwhile
	for range attempts {
		var n int
		if n, err = unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE); err != nil {
			return err
		}
		d.device = "loop" + strconv.Itoa(n)
		if err = d.mountOn(filepath.Join("/dev", d.device), file); err != unix.EBUSY {
			return err
		}
	}
	return err
}

func (d *Disk) mountOn(device string, file *os.File) error {
	loop, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer loop.Close()
	config := unix.LoopConfig{Fd: uint32(file.Fd())}
	config.Info.Flags = unix.LO_FLAGS_AUTOCLEAR | unix.LO_FLAGS_DIRECT_IO
	if err := unix.IoctlLoopConfigure(int(loop.Fd()), &config); err != nil {
		return err
	}
	info, err := unix.IoctlLoopGetStatus64(int(loop.Fd()))
	if err != nil {
		return err
	}
	if info.Flags&unix.LO_FLAGS_DIRECT_IO == 0 {
		return fmt.Errorf("%s reads through the caches", device)
	}
	if err := unix.Mount(device, d.Mountpoint, "ext4", 0, ""); err != nil {
		return err
	}
	d.mounted = true
	return nil
}
