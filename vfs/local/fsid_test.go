package local_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// A file system keeps its FSID if it is mounted from another device, as may happen after a reboot.
// Two file systems have different FSIDs.
func TestFSIDIsTheFileSystemsOwn(t *testing.T) {
	for kind := range diskTypes {
		t.Run(kind, func(t *testing.T) {
			fsid := func(d *anyDisk) (id, dev uint64) {
				w := newWorld(t, local.Config{Root: d.dir})
				defer w.fs.Close()
				a, err := w.attr(w.fs.Root())
				w.ok(err)
				var st unix.Stat_t
				w.ok(unix.Stat(d.dir, &st))
				return a.FSID, st.Dev
			}
			d := newDiskOf(t, kind)
			id, dev := fsid(d)
			if err := unix.Unmount(d.dir, 0); err != nil {
				t.Fatal(err)
			}
			newLoopDevice(t, d.image) // so that the next mount uses another device
			d.mount()
			again, other := fsid(d)
			if again != id {
				t.Errorf("FSID %x on device %x, and %x on device %x", id, dev, again, other)
			}
			if second, _ := fsid(newDiskOf(t, kind)); second == id {
				t.Errorf("another file system has FSID %x as well", id)
			}
		})
	}
}

// If the kernel does not report a file system's UUID, the FS takes it from udev's link to
// the device.
func TestUUIDByTheNameOfTheDevice(t *testing.T) {
	dir := t.TempDir()
	dev := unix.Mkdev(7, 200)
	if err := unix.Mknod(filepath.Join(dir, "node"), unix.S_IFBLK|0o600, int(dev)); err != nil {
		t.Skip(err)
	}
	names := filepath.Join(dir, "by-uuid")
	if err := mkdirs(names); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"0000-1111": "../none", "ABCD-1234": "../node", "2222-3333": "../by-uuid"} {
		if err := os.Symlink(to, filepath.Join(names, name)); err != nil {
			t.Fatal(err)
		}
	}
	if got := local.UUIDOfDevice(names, dev); got != "abcd1234" {
		t.Errorf("the device's UUID is %q", got)
	}
	if got := local.UUIDOfDevice(names, dev+1); got != "" {
		t.Errorf("another device's UUID is %q", got)
	}
}

// A time that is a multiple of FSINFO's time_delta is stored exactly (RFC 1813 §3.3.19).
func TestTimesAreKeptToTheToldGranularity(t *testing.T) {
	dirs := places(t)
	for kind := range diskTypes {
		dirs[kind] = func(t *testing.T) string { return newDiskOf(t, kind).dir }
	}
	want := map[string]vfs.Time{"ext2": {Sec: 1}, "ext4, 128 bytes": {Sec: 1}, "FAT": {Sec: 2}}
	for kind, dir := range dirs {
		t.Run(kind, func(t *testing.T) {
			w := newWorld(t, local.Config{Root: dir(t)})
			f := w.create(w.fs.Root(), "f")
			info, err := w.fs.Info(w.op, f)
			w.ok(err)
			told := info.TimeGranularity
			fine := vfs.Time{Sec: 1003, Nsec: 123456789}
			set := fine
			if told.Nsec == 0 {
				set = vfs.Time{Sec: 1003 / told.Sec * told.Sec}
			}
			mtime := func(to vfs.Time) vfs.Time {
				t.Helper()
				ch, err := w.fs.SetAttr(w.op, f, &vfs.SetAttr{MtimeHow: vfs.ClientTime, Mtime: to}, nil)
				w.ok(err)
				return ch.After.Mtime
			}
			if got := mtime(set); got != set {
				t.Errorf("told %v, and %v comes back as %v", told, set, got)
			}
			if got := mtime(fine); told.Nsec == 0 && got == fine {
				t.Errorf("told %v, and %v is kept", told, fine)
			}
			if is := want[kind]; is != (vfs.Time{}) && told != is {
				t.Errorf("told %v, is %v", told, is)
			}
		})
	}
}
