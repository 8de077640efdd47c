package disk

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A Disk is an ext4 on a Device that stalls, fails and fills up when it is told to.
type Disk struct {
	*Device
	// Dir is where it is mounted.
	Dir       string
	formatted *platter
	mounted   *mounted
}

// NewDisk mounts a disk until the test ends.
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

// Exchange puts an empty disk in its place, at another Dir. Nothing may use the former one; what
// lets go of it has minutes for that.
func (d *Disk) Exchange(t testing.TB) {
	t.Helper()
	d.mounted.unmount(d.Device)
	d.mount(t)
}

// Stall has requests wait until Resume.
func (d *Disk) Stall() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.freezeLocked()
}

// Resume serves requests again.
func (d *Disk) Resume() { d.thaw() }

// Fail has writes and flushes end with an error until Heal.
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

// Heal has writes and flushes succeed again. The kernel may have given the file system up.
func (d *Disk) Heal() { d.heal() }

// Fill uses all space up, and Empty gives it back.
func (d *Disk) Fill() {
	dir := d.filling()
	if os.Mkdir(dir, 0o700) == nil {
		fillBlocks(filepath.Join(dir, "blocks"))
	}
}

// Empty is Fill's opposite. Where the file system was given up, it has no effect.
func (d *Disk) Empty() { _ = os.RemoveAll(d.filling()) }

func (d *Disk) filling() string { return filepath.Join(d.Dir, "filling") }
