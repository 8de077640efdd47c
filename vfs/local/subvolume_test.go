package local_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest"
)

// btrfs runs the btrfs tool for each command line, in dir.
func btrfs(t *testing.T, dir string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		cmd := exec.Command("btrfs", strings.Fields(line)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("btrfs %s: %v: %s", line, err, out)
		}
	}
}

// newSubvolumes makes a btrfs with subvolumes, some in others, a snapshot of each, and in the top and
// in each subvolume a directory, a file and a link to it.
func newSubvolumes(t *testing.T) *anyDisk {
	t.Helper()
	if _, err := exec.LookPath("btrfs"); err != nil {
		t.Skip("no btrfs tool")
	}
	d := newDiskOf(t, "btrfs")
	fill := func(sub string) {
		dir := filepath.Join(d.dir, sub)
		for i := range 4 { // their inode numbers are those that the subvolumes have in listings
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("f", i)), []byte(sub), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Link(filepath.Join(dir, "f0"), filepath.Join(dir, "link")); err != nil {
			t.Fatal(err)
		}
		if err := mkdirs(filepath.Join(dir, "d")); err != nil {
			t.Fatal(err)
		}
	}
	fill("")
	btrfs(t, d.dir, "subvolume create a", "subvolume create d/b")
	fill("a")
	fill("d/b")
	btrfs(t, d.dir, "subvolume snapshot a a-snapshot", "subvolume snapshot a a/d/again", "subvolume create a/inner")
	fill("a/inner")
	btrfs(t, d.dir, "subvolume snapshot -r a/inner inner-snapshot")
	return d
}

// identities returns the identities of the files of an FS, by path. It ends the FS.
func identities(t *testing.T, cfg local.Config) map[string]vfstest.Identity {
	t.Helper()
	w := newWorld(t, cfg)
	return vfstest.Identities(t, w.fs, w.op.Cred, func(fs vfs.FileSystem) vfs.FileSystem {
		if err := fs.Close(); err != nil {
			t.Fatal(err)
		}
		return open(t, w.cfg)
	})
}

// The subvolumes and snapshots of a btrfs are file systems of their own to clients, whichever call
// shows them first, also after a restart: two files have one identity only if the machine takes them
// for one. Otherwise tar and rsync store a file of a snapshot as a link to the file that it was made
// from, and find takes a subvolume for the directory that it is in.
func TestSubvolumesHaveIdentitiesOfTheirOwn(t *testing.T) {
	d := newSubvolumes(t)
	for scheme, cfg := range map[string]local.Config{
		"kernel": {Root: d.dir}, "index": {Root: d.dir, IndexHandles: true}, "FSID": {Root: d.dir, FSID: 7},
		"subvolume": {Root: d.dir + "/a"},
	} {
		t.Run(scheme, func(t *testing.T) {
			cfg.StateDir = t.TempDir()
			type pair struct{ a, b uint64 }
			byIdentity, byMachine, inParent := map[pair]pair{}, map[pair]pair{}, map[pair]pair{}
			for name, id := range identities(t, cfg) {
				var st, up unix.Stat_t
				if err := unix.Lstat(filepath.Join(cfg.Root, name), &st); err != nil {
					t.Fatal(err)
				}
				if err := unix.Stat(filepath.Join(cfg.Root, filepath.Dir(name)), &up); err != nil {
					t.Fatal(err)
				}
				told, is := pair{id.FSID, id.FileID}, pair{st.Dev, st.Ino}
				if was, ok := byIdentity[told]; ok && was != is {
					t.Errorf("%s is told as file %d of file system %x, as another file is", name, id.FileID, id.FSID)
				}
				byIdentity[told] = is
				if was, ok := byMachine[is]; ok && was != told && st.Mode&unix.S_IFMT == unix.S_IFREG {
					t.Errorf("%s is told as file %d of file system %x; its other name is told otherwise", name, id.FileID, id.FSID)
				}
				byMachine[is] = told
				// The file system of the directory above has no other file with this number.
				number := pair{up.Dev, id.MountedOn}
				if was, ok := inParent[number]; ok && was != is {
					t.Errorf("%s has the number %d of another file beside it", name, id.MountedOn)
				}
				inParent[number] = is
			}
		})
	}
}

// A subvolume has the same identity through the file system that contains it and if it is an export
// of its own.
func TestSubvolumeHasOneIdentityInEachExport(t *testing.T) {
	d := newSubvolumes(t)
	all := identities(t, local.Config{Root: d.dir})
	for _, sub := range []string{"/a", "/d/b", "/a/inner"} {
		for name, id := range identities(t, local.Config{Root: d.dir + sub}) {
			if whole := all[filepath.Join(sub, name)]; whole != id {
				t.Errorf("%s of %s is %+v, and from the top %+v", name, sub, id, whole)
			}
		}
	}
}

// The directory below a mounted subvolume has one number in the listing of its parent and as the
// subvolume's MountedOn (the option crossmnt of exports).
func TestMountedSubvolume(t *testing.T) {
	d := newSubvolumes(t)
	for _, place := range []string{d.dir, diskFolder(t)} {
		at := filepath.Join(place, "mounted")
		if err := mkdirs(at); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount(filepath.Join(d.dir, "a"), at, "", unix.MS_BIND, ""); err != nil {
			t.Skip(err)
		}
		t.Cleanup(func() { unix.Unmount(at, unix.MNT_DETACH) })
		above := newWorld(t, local.Config{Root: place})
		var a vfs.Attr
		listed := uint64(0)
		_, err := above.fs.ReadDir(above.op, above.fs.Root(), 0, true, &a, func(e *vfs.DirEntry) bool {
			if string(e.Name) == "mounted" {
				listed = e.FileID
			}
			return true
		})
		above.ok(err, "ReadDir")
		if id := identities(t, local.Config{Root: at, KernelHandles: true, FSID: 1<<32 | 1})["/"]; id.MountedOn != listed || listed == 0 {
			t.Errorf("on %s: mounted on file %d, which is listed as %d", place, id.MountedOn, listed)
		}
	}
}

// A new subvolume gets the device number of a removed one, but not its identity.
func TestSubvolumeWithADeviceNumberUsedAgain(t *testing.T) {
	d := newSubvolumes(t)
	w := newWorld(t, local.Config{Root: d.dir})
	look := func(name string) vfs.Attr {
		t.Helper()
		h, err := w.lookup(w.fs.Root(), name)
		w.ok(err, "Lookup")
		a, err := w.attr(h)
		w.ok(err, "GetAttr")
		return a
	}
	device := func(name string) uint64 {
		var st unix.Stat_t
		w.ok(unix.Stat(w.path(name), &st), "stat")
		return st.Dev
	}
	btrfs(t, d.dir, "subvolume create x")
	was, number := look("x"), device("x")
	w.ok(w.fs.Close(), "Close") // so that no descriptor keeps the subvolume
	w.fs = open(t, w.cfg)
	look("x")
	for range 100 {
		w.fs.EvictAll()
		btrfs(t, d.dir, "subvolume delete -c x", "subvolume sync .", "subvolume create x")
		is := look("x")
		if is.FSID == was.FSID {
			t.Fatal("a new subvolume has the FSID of a removed one")
		}
		if device("x") == number {
			return
		}
	}
	t.Skip("no device number is used again")
}

// A snapshot contains an empty directory in place of each subvolume of the subvolume that it was made
// from. The kernel opens none of these by its handle.
func TestSubvolumeInASnapshot(t *testing.T) {
	d := newSubvolumes(t)
	btrfs(t, d.dir, "subvolume snapshot a later")
	w := newWorld(t, local.Config{Root: d.dir})
	later, err := w.lookup(w.fs.Root(), "later")
	w.ok(err, "Lookup")
	inner, err := w.lookup(later, "inner")
	w.ok(err, "Lookup")
	if listed := w.listed(inner); len(listed) != 2 {
		t.Errorf("the directory has the entries %v", listed)
	}
	of, err := w.attr(later)
	w.ok(err, "GetAttr")
	is, err := w.attr(inner)
	w.ok(err, "GetAttr")
	if is.FSID != of.FSID || is.FileID == of.FileID {
		t.Errorf("file %d of file system %x, in the root %d of %x", is.FileID, is.FSID, of.FileID, of.FSID)
	}
}
