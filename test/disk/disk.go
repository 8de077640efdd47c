package disk

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A Disk is an ext4 file system on a Device that stalls, fails and fills up on demand.
type Disk struct {
	*Device
	// Dir is the mount point of the file system.
	Dir       string
	formatted *platter
	mounted   *mounted
}

// NewDisk mounts a new disk until the test ends.
func NewDisk(t testing.TB) *Disk {
	t.Helper()
	d := &Disk{Device: NewDevice(t)}
	d.formatted = filesystems[0].format(t, d.Device)
	d.mount(t)
	return d
}

func (d *Disk) mount(t testing.TB) {
	t.Helper()
	d.insert(d.formatted.clone())
	d.mounted = filesystems[0].mount(t, d.Device)
	d.Dir = d.mounted.dir
}

// Exchange replaces the disk by an empty one, which has another Dir. It waits for programs to close
// the files of the old file system, and fails the test if they have not done so after 2 minutes.
func (d *Disk) Exchange(t testing.TB) {
	t.Helper()
	d.mounted.unmount(d.Device)
	d.mount(t)
}

// Stall makes requests to the disk wait until Resume.
func (d *Disk) Stall() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.freezeLocked()
}

// Resume lets requests continue after Stall.
func (d *Disk) Resume() { d.thaw() }

// Fail makes writes and flushes end with an error until Heal.
func (d *Disk) Fail() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fails = func(r request) syscall.Errno {
		if r.kind == read {
			return 0
		}
		return syscall.EIO
	}
}

// Heal makes writes and flushes succeed again. If the kernel has shut the file system down because
// of errors, it stays shut down.
func (d *Disk) Heal() { d.heal() }

// Fill uses up all space of the file system.
func (d *Disk) Fill() {
	dir := d.filling()
	if os.Mkdir(dir, 0o700) == nil {
		fillBlocks(filepath.Join(dir, "blocks"))
	}
}

// Empty undoes Fill. It has no effect if the kernel has shut the file system down.
func (d *Disk) Empty() { _ = os.RemoveAll(d.filling()) }

func (d *Disk) filling() string { return filepath.Join(d.Dir, "filling") }
