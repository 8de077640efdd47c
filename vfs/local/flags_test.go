package local_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// After chattr +i or +a, neither WRITE nor a truncation by handle changes the file, although the FS has it
// open to write. An open file goes on, as for local programs.
func TestFlagsThatAreSetWhileTheFileIsOpen(t *testing.T) {
	for _, kind := range []string{"ext4", "XFS", "btrfs"} {
		t.Run(kind, func(t *testing.T) {
			dir := newDiskOf(t, kind).dir
			w := newWorld(t, local.Config{Root: dir})
			for name, flag := range map[string]int{"immutable": unix.STATX_ATTR_IMMUTABLE, "append-only": unix.STATX_ATTR_APPEND} {
				f := w.create(w.fs.Root(), name)
				w.ok(w.write(f, "before"), "Write")
				open, err := w.fs.Open(w.op, f, vfs.OpenWrite)
				w.ok(err, "Open")
				defer open.Close()
				local, err := os.Open(filepath.Join(dir, name))
				w.ok(err, "open")
				defer local.Close()
				set := func(on int) {
					t.Helper()
					flags, err := unix.IoctlGetInt(int(local.Fd()), unix.FS_IOC_GETFLAGS)
					w.ok(err, "FS_IOC_GETFLAGS")
					if err := unix.IoctlSetPointerInt(int(local.Fd()), unix.FS_IOC_SETFLAGS, flags&^flag|on); err != nil {
						t.Skip("flags cannot be set here: ", err)
					}
				}
				defer set(0)
				size := func() error {
					_, err := w.fs.SetAttr(w.op, f, &vfs.SetAttr{SetSize: true, Size: 1}, nil)
					return err
				}
				set(flag) // the flags of statx and of the ioctl have the same numbers
				w.want(w.write(f, "after"), syscall.EPERM, "Write to what is "+name)
				w.want(size(), syscall.EPERM, "truncation of what is "+name)
				_, _, _, err = open.Write(w.op, 0, [][]byte{[]byte("opened")}, vfs.Unstable)
				if !(err == syscall.EPERM && kind == "ext4" && name == "immutable") { // ext4 refuses that itself
					w.ok(err, "Write of the open file that is "+name)
				}
				set(0)
				w.ok(w.write(f, "again!"), "Write after the flag was taken away")
				// A write at the same moment hides the change of the flag.
				end := w.fs.Stir(f)
				set(flag)
				end()
				w.fs.Sweep(4)
				w.want(w.write(f, "after"), syscall.EPERM, "Write some seconds later")
				set(0)
			}
		})
	}
}
