package local_test

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest"
)

// places are the file systems that the tests run on: the one that holds the
// temporary directory, and one in memory where it may be mounted.
func places(t *testing.T) map[string]func(*testing.T) string {
	on := map[string]func(*testing.T) string{"tmp": func(t *testing.T) string { return t.TempDir() }}
	probe := t.TempDir()
	if unix.Mount("local-test", probe, "tmpfs", 0, "") == nil {
		unix.Unmount(probe, unix.MNT_DETACH)
		on["tmpfs"] = func(t *testing.T) string {
			dir := t.TempDir()
			if err := unix.Mount("local-test", dir, "tmpfs", 0, ""); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
			return dir
		}
	}
	return on
}

func open(t *testing.T, cfg local.Config) *local.FS {
	t.Helper()
	fs, err := local.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fs.Close() })
	return fs
}

// TestSuite runs the acceptance suite on each place and in each way that a
// file system can be configured.
func TestSuite(t *testing.T) {
	schemes := map[string]bool{"kernel": false, "index": true}
	if os.Geteuid() != 0 {
		delete(schemes, "kernel")
	}
	for place, dir := range places(t) {
		for scheme, index := range schemes {
			t.Run(place+"/"+scheme, func(t *testing.T) {
				configs := map[vfs.FileSystem]local.Config{}
				opt := vfstest.Options{CanSwitchUsers: local.CanSwitch(), Devices: os.Geteuid() == 0, SpecialFiles: true}
				opt.Skip = map[string]string{
					"readdir/cookies that are none": "places are hashes on ext4 and others: any number is one, in the middle",
				}
				self := local.Identity()
				opt.Self = &self
				opt.Restart = func(t *testing.T, fs vfs.FileSystem) vfs.FileSystem {
					cfg := configs[fs]
					if err := fs.Close(); err != nil {
						t.Fatal(err)
					}
					fs = open(t, cfg)
					configs[fs] = cfg
					return fs
				}
				vfstest.Run(t, func(t *testing.T) vfs.FileSystem {
					cfg := local.Config{Root: dir(t), StateDir: t.TempDir(), IndexHandles: index}
					fs := open(t, cfg)
					configs[fs] = cfg
					return fs
				}, opt)
			})
		}
	}
}
