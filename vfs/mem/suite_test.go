package memfs_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest"
)

func crash(_ *testing.T, fs vfs.FileSystem) vfs.FileSystem {
	fs.(*memfs.FS).Crash()
	return fs
}

func foreign(_ *testing.T, fs vfs.FileSystem, h vfs.Handle, _ string) vfstest.ForeignClaim {
	return func(start, length uint64, mode vfs.ClaimMode) error {
		return fs.(*memfs.FS).ForeignClaim(h, start, length, mode)
	}
}

func TestSuite(t *testing.T) {
	vfstest.Run(t, func(*testing.T) vfs.FileSystem { return memfs.New(memfs.Options{}) }, vfstest.Options{
		CanSwitchUsers: true, Devices: true, SpecialFiles: true, Restart: crash, Foreign: foreign, Birth: true,
	})
}

func TestSuiteUnsynced(t *testing.T) {
	vfstest.Run(t, func(*testing.T) vfs.FileSystem { return memfs.New(memfs.Options{Unsynced: true}) }, vfstest.Options{
		CanSwitchUsers: true, Devices: true, SpecialFiles: true, Restart: crash, Foreign: foreign, Birth: true, Crash: crash,
	})
}
