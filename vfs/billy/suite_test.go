package billy_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	gobilly "github.com/go-git/go-billy/v5"
	billymem "github.com/go-git/go-billy/v5/memfs"
	"github.com/go-git/go-billy/v5/osfs"
	nfs "github.com/willscott/go-nfs"
	"github.com/willscott/go-nfs/helpers"
	nfsmem "github.com/willscott/go-nfs/helpers/memfs"
	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/billy"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest"
)

// handler returns the handler that programs with go-nfs usually make.
func handler(fs gobilly.Filesystem) nfs.Handler {
	return helpers.NewCachingHandler(helpers.NewNullAuthHandler(fs), 1024)
}

func serve(t *testing.T, h nfs.Handler, opt billy.Options) vfs.FileSystem {
	t.Helper()
	fs, err := billy.New(h, opt)
	if err != nil {
		t.Fatal(err)
	}
	return fs
}

// prefixes are the tests that fail with both file systems in memory, and why. Their Rename moves
// every file whose path begins with the old path, even a sibling with a longer name, and so loses
// siblings.
var prefixes = map[string]string{
	"stress/everything at once":          "the file system loses siblings at a rename",
	"model/one user":                     "the file system panics at a Create in a renamed directory",
	"stress/directories into each other": "the file system panics at a Create in a renamed directory",
	"stress/handles of removed files":    "the file system panics at a Create in a renamed directory",
}

func TestSuiteMemory(t *testing.T) {
	for name, New := range map[string]func() gobilly.Filesystem{"go-billy": billymem.New, "go-nfs": nfsmem.New} {
		t.Run(name, func(t *testing.T) {
			vfstest.Run(t, func(t *testing.T) vfs.FileSystem {
				return serve(t, handler(New()), billy.Options{})
			}, vfstest.Options{
				NoOwnership: true, NoExclusive: true, NoTimes: true, NoSync: true,
				Sparse: 1 << 20, Entries: 600, Skip: prefixes,
			})
		})
	}
}

func TestSuiteDirectory(t *testing.T) {
	vfstest.Run(t, func(t *testing.T) vfs.FileSystem {
		return serve(t, handler(osfs.New(t.TempDir())), billy.Options{})
	}, vfstest.Options{NoOwnership: true, NoExclusive: true, NoTimes: true, NoSync: true, Entries: 600})
}

// disk is a directory with everything that a program can support: owners, times, links, special
// files, and files with a Sync method.
type disk struct{ gobilly.Filesystem }

func newDisk(t *testing.T) disk { return disk{osfs.New(t.TempDir())} }

func (d disk) at(name string) string { return filepath.Join(d.Root(), name) }

type diskFile struct{ *os.File }

func (diskFile) Lock() error   { return nil }
func (diskFile) Unlock() error { return nil }

func (d disk) OpenFile(name string, flag int, perm os.FileMode) (gobilly.File, error) {
	f, err := os.OpenFile(d.at(name), flag|unix.O_NOFOLLOW, perm)
	if err != nil {
		return nil, err
	}
	return diskFile{f}, nil
}

func (d disk) Symlink(text, name string) error           { return os.Symlink(text, d.at(name)) }
func (d disk) Readlink(name string) (string, error)      { return os.Readlink(d.at(name)) }
func (d disk) Chmod(name string, mode os.FileMode) error { return os.Chmod(d.at(name), mode) }
func (d disk) Lchown(name string, uid, gid int) error    { return os.Lchown(d.at(name), uid, gid) }
func (d disk) Chown(name string, uid, gid int) error     { return os.Chown(d.at(name), uid, gid) }
func (d disk) Chtimes(name string, a, m time.Time) error {
	return os.Chtimes(d.at(name), a, m)
}

func (d disk) Mknod(name string, mode, major, minor uint32) error {
	if major > 1<<12-1 || minor > 1<<20-1 {
		return unix.EINVAL
	}
	return unix.Mknod(d.at(name), mode, int(unix.Mkdev(major, minor)))
}
func (d disk) Mkfifo(name string, mode uint32) error { return unix.Mkfifo(d.at(name), mode) }
func (d disk) Link(name, link string) error          { return os.Link(d.at(name), d.at(link)) }
func (d disk) Socket(name string) error              { return unix.Mknod(d.at(name), unix.S_IFSOCK|0o644, 0) }

func TestSuiteDisk(t *testing.T) {
	self := &vfs.Cred{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}
	for _, c := range []struct {
		name string
		opt  billy.Options
	}{{"plain", billy.Options{}}, {"sole", billy.Options{Sole: true}}} {
		t.Run(c.name, func(t *testing.T) {
			vfstest.Run(t, func(t *testing.T) vfs.FileSystem {
				return serve(t, handler(newDisk(t)), c.opt)
			}, vfstest.Options{Self: self, SpecialFiles: true, Devices: os.Getuid() == 0, Entries: 600})
		})
	}
}
