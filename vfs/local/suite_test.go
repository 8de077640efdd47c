package local_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest"
)

// places returns functions that make directories for the tests, by the kind of file system: the
// one with the temporary directory and those that the test may mount.
func places(t *testing.T) map[string]func(*testing.T) string {
	on := map[string]func(*testing.T) string{"tmp": diskFolder}
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
	if lower, upper, work, at := filepath.Join(probe, "l"), filepath.Join(probe, "u"), filepath.Join(probe, "w"), filepath.Join(probe, "m"); mkdirs(lower, upper, work, at) == nil &&
		unix.Mount("local-test", at, "overlay", 0, "lowerdir="+lower+",upperdir="+upper+",workdir="+work) == nil {
		unix.Unmount(at, unix.MNT_DETACH)
		on["overlay"] = func(t *testing.T) string {
			base := t.TempDir()
			lower, upper, work, at := filepath.Join(base, "l"), filepath.Join(base, "u"), filepath.Join(base, "w"), filepath.Join(base, "m")
			if err := mkdirs(lower, upper, work, at); err != nil {
				t.Fatal(err)
			}
			if err := unix.Mount("local-test", at, "overlay", 0, "lowerdir="+lower+",upperdir="+upper+",workdir="+work); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { unix.Unmount(at, unix.MNT_DETACH) })
			return at
		}
	}
	return on
}

func mkdirs(dirs ...string) error {
	for _, d := range dirs {
		if err := os.Mkdir(d, 0o755); err != nil {
			return err
		}
	}
	return nil
}

func open(t *testing.T, cfg local.Config) *local.FS {
	t.Helper()
	fs, err := local.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	fs.SearchPatience(await.Limit) // the default is too short for a search on a busy machine
	t.Cleanup(func() { fs.Close() })
	return fs
}

// The acceptance suite passes on each of the places, with kernel handles and, if that can make a
// difference, with the index. It mostly waits for disks.
func TestSuite(t *testing.T) {
	for place, dir := range places(t) {
		for scheme, index := range map[string]bool{"kernel": false, "index": true} {
			if !index && (os.Geteuid() != 0 || place == "overlay") || index && place == "tmpfs" {
				continue
			}
			t.Run(place+"/"+scheme, func(t *testing.T) {
				t.Parallel()
				suite(t, place, dir, index)
			})
		}
	}
}

func suite(t *testing.T, place string, dir func(*testing.T) string, index bool) {
	self := local.Identity()
	opt := vfstest.Options{CanSwitchUsers: local.CanSwitch(), Devices: os.Geteuid() == 0 && place != "role", SpecialFiles: true, Self: &self, Birth: true,
		Skip: map[string]string{
			"readdir/cookies that are none": "places are hashes on ext4 and others: any number is one, in the middle",
		}}
	if place != "tmp" || index {
		opt.Entries = 1000
	}
	if place == "xfs" {
		opt.Skip["symlink/text"] = "a symlink's text has 1024 bytes at most"
	}
	if self.UID != 0 {
		opt.Skip["model/one user"] = "the test looks into directories that are closed to this user"
	}
	configs := map[vfs.FileSystem]local.Config{}
	opt.Foreign = foreignOf(configs)
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
}
