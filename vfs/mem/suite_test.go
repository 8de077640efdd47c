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

func TestSuite(t *testing.T) {
	vfstest.Run(t, func(*testing.T) vfs.FileSystem { return memfs.New(memfs.Options{}) }, vfstest.Options{
		CanSwitchUsers: true, Devices: true, SpecialFiles: true, Restart: crash,
	})
}

func TestSuiteUnsynced(t *testing.T) {
	vfstest.Run(t, func(*testing.T) vfs.FileSystem { return memfs.New(memfs.Options{Unsynced: true}) }, vfstest.Options{
		CanSwitchUsers: true, Devices: true, SpecialFiles: true, Restart: crash, Crash: crash,
	})
}
