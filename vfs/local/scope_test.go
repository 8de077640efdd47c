package local_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest/loop"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest/stalled"
)

// Each directory has a scope of its own. It is the same each time the directory is opened, and also after
// it was renamed.
func TestScopeIsOfTheDirectory(t *testing.T) {
	base := diskFolder(t)
	scope := func(name string) vfs.Scope {
		w := newWorld(t, local.Config{Root: filepath.Join(base, name)})
		defer w.fs.Close()
		return w.fs.Scope()
	}
	if err := mkdirs(filepath.Join(base, "a"), filepath.Join(base, "b")); err != nil {
		t.Fatal(err)
	}
	a, b := scope("a"), scope("b")
	if a == b || a == (vfs.Scope{}) {
		t.Errorf("a has %x, b has %x", a, b)
	}
	if err := os.Rename(filepath.Join(base, "a"), filepath.Join(base, "c")); err != nil {
		t.Fatal(err)
	}
	if again := scope("c"); again != a {
		t.Errorf("after a rename: %x, was %x", again, a)
	}
	if err := os.Mkdir(filepath.Join(base, "a"), 0o755); err != nil {
		t.Fatal(err)
	}
	if other := scope("a"); other == a {
		t.Error("another directory with the name has the same scope")
	}
}

// Each mount has an identity of its own, also the next one on the same directory, to which the kernel may give
// the same number. It stays the same while the mount lasts.
func TestMountIdentity(t *testing.T) {
	for name, identity := range map[string]func(t *testing.T, dir string) string{
		"at present": local.MountIdentity, "before Linux 6.8": local.NumberedMount,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			seen := make(map[string]bool)
			for range 3 {
				if err := unix.Mount("scope", dir, "tmpfs", 0, ""); err != nil {
					t.Skip(err)
				}
				id := identity(t, dir)
				if seen[id] {
					t.Errorf("two mounts have the identity %q", id)
				}
				// Other programs may mount something meanwhile.
				await.Until(t, "the identity stays", func() bool {
					was := id
					id = identity(t, dir)
					seen[id] = true
					return id == was
				})
				if err := unix.Unmount(dir, 0); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// A FUSE file system has the identity of its connection: the same in each mount of it, and another one when
// it is mounted anew.
func TestIdentityOfAFUSEFileSystemIsItsConnection(t *testing.T) {
	connections, bound := t.TempDir(), t.TempDir()
	if err := unix.Mount("none", connections, "fusectl", 0, ""); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { unix.Unmount(connections, unix.MNT_DETACH) })
	one, two := stalled.Mount(t), stalled.Mount(t)
	id := local.FUSEConnection(t, connections, one.Dir)
	if other := local.FUSEConnection(t, connections, two.Dir); id == "" || other == "" || other == id {
		t.Errorf("two file systems: %q, %q", id, other)
	}
	if err := unix.Mount(one.Dir, bound, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	if again := local.FUSEConnection(t, connections, bound); again != id {
		t.Errorf("%q by another mount, %q", again, id)
	}
	for _, dir := range []string{bound, one.Dir} {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := stalled.Show(t, one.Backing, one.Dir); err != nil {
		t.Fatal(err)
	}
	if anew := local.FUSEConnection(t, connections, one.Dir); anew == "" || anew == id {
		t.Errorf("mounted anew: %q, was %q", anew, id)
	}
	if none := local.FUSEConnection(t, connections, t.TempDir()); none != "" {
		t.Errorf("a directory that is not FUSE: %q", none)
	}
}

// XFS itself tells the same UUID as the kernel.
func TestUUIDByXFSItself(t *testing.T) {
	d := newDiskOf(t, "XFS")
	uuid := local.UUIDOf(t, d.dir)
	if uuid == "" {
		t.Skip("the kernel does not tell the UUID")
	}
	if got := local.UUIDOfXFS(t, d.dir); got != uuid {
		t.Errorf("%s, want %s", got, uuid)
	}
}

// File systems that were made without a UUID are told apart by their mounts.
func TestScopeWithoutAUUID(t *testing.T) {
	g := &ground{t: t, dir: t.TempDir()}
	seen := make(map[vfs.Scope]bool)
	for _, name := range []string{"one", "two"} {
		image := filepath.Join(t.TempDir(), name)
		g.must(os.WriteFile(image, nil, 0o600))
		g.must(os.Truncate(image, 16<<20))
		g.run("mkfs.ext4", "-q", "-U", "clear", image)
		if _, err := loop.Mount(image, g.dir, "ext4", 0, ""); err != nil {
			t.Skip(err)
		}
		w := newWorld(t, local.Config{Root: g.dir})
		if scope := w.fs.Scope(); seen[scope] {
			t.Errorf("both have the scope %x", scope)
		} else {
			seen[scope] = true
		}
		g.must(w.fs.Close())
		g.must(unix.Unmount(g.dir, 0))
	}
}

// On a file system of which nothing is known, the kernel's handle leads to a file only if that has the inode
// number in the handle.
func TestKernelHandleIsCheckedByTheInodeNumber(t *testing.T) {
	m := stalled.Mount(t)
	w := newWorld(t, local.Config{Root: m.Dir})
	if w.fs.Scheme() != "kernel" {
		t.Skip("handles cannot be opened here")
	}
	h := w.create(w.fs.Root(), "f")
	w.fs.EvictAll()
	_, err := w.attr(h)
	w.ok(err, "GetAttr")
	b := h.Bytes()
	b[len(b)-1]++
	other, _ := vfs.MakeHandle(b)
	_, err = w.attr(other)
	w.want(err, syscall.ESTALE, "GetAttr of the file with another inode number")
}
