// Package loop mounts a file system from an image file, through a loop device with direct I/O. So
// each access to the disk is an access to the image file, which bypasses the page cache.
package loop

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// attempts is the number of times that Mount asks for a free loop device. One time may not be
// enough, because another program may take the device first.
const attempts = 16

// Mount mounts image at dir, as mount(2) does, and returns the name of the loop device, such as
// loop0. The unmount frees the device.
func Mount(image, dir, fstype string, flags uintptr, data string) (device string, err error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer control.Close()
	file, err := os.OpenFile(image, os.O_RDWR|unix.O_DIRECT, 0)
	if err != nil {
		return "", err
	}
	defer file.Close()
	for range attempts {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return "", err
		}
		device = "loop" + strconv.Itoa(n)
		attached, err := mountOn(filepath.Join("/dev", device), file, dir, fstype, flags, data)
		if attached || err != unix.EBUSY {
			return device, err
		}
	}
	return "", unix.EBUSY
}

// mountOn attaches file to the loop device and mounts the device at dir. attached is false if the
// device was not free.
func mountOn(device string, file *os.File, dir, fstype string, flags uintptr, data string) (attached bool, err error) {
	loop, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return false, err
	}
	defer loop.Close()
	config := unix.LoopConfig{Fd: uint32(file.Fd())}
	config.Info.Flags = unix.LO_FLAGS_AUTOCLEAR | unix.LO_FLAGS_DIRECT_IO
	if err := unix.IoctlLoopConfigure(int(loop.Fd()), &config); err != nil {
		return false, err
	}
	info, err := unix.IoctlLoopGetStatus64(int(loop.Fd()))
	if err != nil {
		return true, err
	}
	if info.Flags&unix.LO_FLAGS_DIRECT_IO == 0 {
		return true, fmt.Errorf("%s reads through the caches", device)
	}
	return true, unix.Mount(device, dir, fstype, flags, data)
}

// Backing returns the image file of a device, or "".
func Backing(device string) string {
	b, _ := os.ReadFile(filepath.Join("/sys/block", device, "loop/backing_file"))
	return string(b)
}
