package local_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest"
)

// A disk is an ext4 file system on an image. A power cut is simulated by mounting a copy of the
// image, which lacks all data that the kernel had not written yet.
type disk struct {
	t          *testing.T
	image, dir string
	mountOpts  string
}

// newDisk makes an ext4 file system with the given options of mkfs.ext4.
func newDisk(t *testing.T, options ...string) *disk {
	// Keep the kernel from committing its journal on its own during the test.
	mount := "loop,commit=900"
	if slices.Contains(options, "^has_journal") {
		mount = "loop"
	}
	return newDiskBy(t, 32<<20, mount, append([]string{"mkfs.ext4", "-q"}, options...)...)
}

// newDiskBy makes a file system with the command mkfs.
func newDiskBy(t *testing.T, size int64, mountOpts string, mkfs ...string) *disk {
	t.Helper()
	if unix.Access("/dev/loop-control", unix.W_OK) != nil || os.Geteuid() != 0 {
		t.Skip("no disks can be made here")
	}
	d := &disk{t, filepath.Join(t.TempDir(), "image"), t.TempDir(), mountOpts}
	if err := os.WriteFile(d.image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(d.image, size); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(mkfs[0], append(mkfs[1:], d.image)...).CombinedOutput(); err != nil {
		t.Skipf("%v: %v: %s", mkfs, err, out)
	}
	d.mount()
	return d
}

func (d *disk) mount() {
	d.t.Helper()
	if out, err := exec.Command("mount", "-o", d.mountOpts, d.image, d.dir).CombinedOutput(); err != nil {
		d.t.Fatalf("mount: %v: %s", err, out)
	}
	d.t.Cleanup(func() { unix.Unmount(d.dir, unix.MNT_DETACH) })
}

// cut returns the disk as it would be after a power cut now.
func (d *disk) cut() *disk {
	d.t.Helper()
	left := &disk{d.t, filepath.Join(d.t.TempDir(), "image"), d.t.TempDir(), d.mountOpts}
	if out, err := exec.Command("cp", "--sparse=always", d.image, left.image).CombinedOutput(); err != nil {
		d.t.Fatalf("cp: %v: %s", err, out)
	}
	left.mount()
	return left
}

var diskKinds = map[string][]string{
	"journal":    {"-J", "size=4"},
	"no journal": {"-O", "^has_journal"},
}

// TestPowerCutSuite runs those tests of the suite that simulate crashes.
func TestPowerCutSuite(t *testing.T) {
	skip := map[string]string{}
	for _, test := range vfstest.Tests() {
		if !strings.HasPrefix(test.Name, "crash/") {
			skip[test.Name] = "not about crashes"
		}
	}
	for name, options := range diskKinds {
		t.Run(name, func(t *testing.T) {
			disks := map[vfs.FileSystem]*disk{}
			serve := func(t *testing.T, d *disk) vfs.FileSystem {
				fs := open(t, local.Config{Root: d.dir, StateDir: t.TempDir(), Sync: true})
				disks[fs] = d
				return fs
			}
			self := local.Identity()
			vfstest.Run(t, func(t *testing.T) vfs.FileSystem { return serve(t, newDisk(t, options...)) },
				vfstest.Options{Self: &self, Skip: skip, Crash: func(t *testing.T, fs vfs.FileSystem) vfs.FileSystem {
					left := disks[fs].cut()
					fs.Close()
					return serve(t, left)
				}})
		})
	}
}

// After a power cut, every change of a name or an attribute that a call reported as made is there.
// Without Sync, some changes must be lost, because the test would otherwise prove nothing.
func TestPowerCut(t *testing.T) {
	for name, options := range diskKinds {
		t.Run(name, func(t *testing.T) {
			if lost := powerCut(t, newDisk(t, options...), true); len(lost) != 0 {
				t.Errorf("lost: %v", lost)
			}
			if lost := powerCut(t, newDisk(t, options...), false); len(lost) == 0 {
				t.Error("without a sync nothing is lost either")
			}
		})
	}
}

// Other file systems, and ext4 with other options, also keep every change that a call reported as
// made.
func TestPowerCutOfOtherDisks(t *testing.T) {
	for name, disk := range map[string]struct {
		size  int64
		mount string
		mkfs  []string
	}{
		"ext4, fast commits":   {64 << 20, "loop,commit=900", []string{"mkfs.ext4", "-q", "-O", "fast_commit", "-J", "size=4"}},
		"ext4, data in inodes": {64 << 20, "loop,commit=900", []string{"mkfs.ext4", "-q", "-O", "inline_data", "-J", "size=4"}},
		"ext4, 128 bytes":      {64 << 20, "loop,commit=900", []string{"mkfs.ext4", "-q", "-I", "128", "-J", "size=4"}},
		"ext4, data=journal":   {64 << 20, "loop,commit=900,data=journal", []string{"mkfs.ext4", "-q", "-J", "size=4"}},
		"ext4, data=writeback": {64 << 20, "loop,commit=900,data=writeback", []string{"mkfs.ext4", "-q", "-J", "size=4"}},
		"ext2":                 {64 << 20, "loop", []string{"mkfs.ext2", "-q"}},
		"XFS":                  {320 << 20, "loop,nouuid", []string{"mkfs.xfs", "-q"}},
		"btrfs":                {256 << 20, "loop,commit=900", []string{"mkfs.btrfs", "-q"}},
	} {
		t.Run(name, func(t *testing.T) {
			if lost := powerCut(t, newDiskBy(t, disk.size, disk.mount, disk.mkfs...), true); len(lost) != 0 {
				t.Errorf("lost: %v", lost)
			}
			if lost := powerCut(t, newDiskBy(t, disk.size, disk.mount, disk.mkfs...), false); len(lost) == 0 {
				t.Error("without a sync nothing is lost either")
			}
		})
	}
}

// powerCut makes one change of each kind, and simulates a power cut after each. It returns the
// changes that were not on the disk.
func powerCut(t *testing.T, d *disk, durable bool) (lost []string) {
	w := newWorld(t, local.Config{Root: d.dir, Sync: durable})
	root := w.fs.Root()
	a, b := w.mkdir(root, "a"), w.mkdir(root, "b")
	f := w.create(a, "f")
	for _, name := range []string{"gone", "from", "over", "across"} {
		w.create(a, name)
	}
	w.create(b, "over")
	for i := range 64 { // so that new entries do not share a block with synced ones
		w.create(b, fmt.Sprint("fill", i))
	}
	w.mkdir(a, "gonedir")
	w.mkdir(a, "movedir")
	// The mtime of a write to existing blocks is on the disk only after a sync of all attributes.
	written := w.create(b, "written")
	w.ok(w.write(written, "text"), "Write")
	w.ok(os.Chtimes(filepath.Join(d.dir, "b/written"), time.Unix(1000, 0), time.Unix(1000, 0)))
	w.ok(syncAll(d.dir), "syncfs")

	var attr vfs.Attr
	mode600 := mode(0o600)
	there := func(p string) func(dir string) error {
		return func(dir string) error { _, err := os.Lstat(filepath.Join(dir, p)); return err }
	}
	gone := func(p string) func(dir string) error {
		return func(dir string) error {
			if _, err := os.Lstat(filepath.Join(dir, p)); err == nil {
				return os.ErrExist
			}
			return nil
		}
	}
	both := func(x, y func(string) error) func(string) error {
		return func(dir string) error {
			if err := x(dir); err != nil {
				return err
			}
			return y(dir)
		}
	}
	rename := func(from vfs.Handle, x string, to vfs.Handle, y string) error {
		_, _, err := w.fs.Rename(w.op, from, []byte(x), to, []byte(y))
		return err
	}
	steps := []struct {
		what  string
		do    func() error
		check func(dir string) error
	}{
		{"Create", func() error { w.create(a, "new"); return nil }, there("a/new")},
		{"Create, exclusive", func() error {
			_, _, err := w.fs.Create(w.op, b, []byte("excl"), &vfs.CreateHow{Mode: vfs.Exclusive, Verifier: [8]byte{0, 0, 0, 9, 0, 0, 0, 8}})
			return err
		}, func(dir string) error {
			st, err := os.Lstat(filepath.Join(dir, "b/excl"))
			if err == nil && st.ModTime().Unix() != 9 {
				err = fmt.Errorf("its mark is %v", st.ModTime())
			}
			return err
		}},
		{"Mkdir", func() error { w.mkdir(b, "newdir"); return nil }, there("b/newdir")},
		{"Symlink", func() error {
			_, _, err := w.fs.Symlink(w.op, a, []byte("link"), []byte("text"), &vfs.SetAttr{})
			return err
		}, func(dir string) error {
			if text, err := os.Readlink(filepath.Join(dir, "a/link")); err != nil || text != "text" {
				return fmt.Errorf("%q, %v", text, err)
			}
			return nil
		}},
		{"SetAttr of a symlink", func() error {
			link, err := w.lookup(a, "link")
			w.ok(err, "Lookup")
			_, err = w.fs.SetAttr(w.op, link, &vfs.SetAttr{MtimeHow: vfs.ClientTime, Mtime: vfs.Time{Sec: 4000}}, nil)
			return err
		}, func(dir string) error {
			st, err := os.Lstat(filepath.Join(dir, "a/link"))
			if err == nil && st.ModTime().Unix() != 4000 {
				err = fmt.Errorf("its time is %v", st.ModTime())
			}
			return err
		}},
		{"Mknod", func() error {
			_, _, err := w.fs.Mknod(w.op, b, []byte("fifo"), vfs.FIFO, &mode600, 0, 0)
			return err
		}, there("b/fifo")},
		{"Link", func() error { _, err := w.fs.Link(w.op, f, b, []byte("hard"), &attr); return err }, func(dir string) error {
			var st unix.Stat_t
			err := unix.Lstat(filepath.Join(dir, "b/hard"), &st)
			if err == nil && st.Nlink != 2 {
				err = fmt.Errorf("its count of links is %d", st.Nlink)
			}
			return err
		}},
		{"Remove", func() error { _, err := w.fs.Remove(w.op, a, []byte("gone")); return err }, gone("a/gone")},
		{"Rmdir", func() error { _, err := w.fs.Rmdir(w.op, a, []byte("gonedir")); return err }, gone("a/gonedir")},
		{"Rename", func() error { return rename(a, "from", a, "to") }, both(there("a/to"), gone("a/from"))},
		{"Rename over", func() error { return rename(a, "over", b, "over") }, both(there("b/over"), gone("a/over"))},
		{"Rename of a directory", func() error { return rename(a, "movedir", b, "moved") }, both(there("b/moved"), gone("a/movedir"))},
		{"Write, FILE_SYNC", func() error {
			_, _, _, err := w.fs.Write(w.op, written, 0, [][]byte{[]byte("sync")}, vfs.FileSync)
			return err
		}, changedSince(1000, "b/written")},
		{"SetAttr of times", func() error {
			s := vfs.SetAttr{MtimeHow: vfs.ClientTime, Mtime: vfs.Time{Sec: 2000}}
			_, err := w.fs.SetAttr(w.op, written, &s, nil)
			return err
		}, changedSince(1000, "b/written")},
		{"Commit", func() error {
			if err := w.write(written, "more"); err != nil {
				return err
			}
			_, err := w.fs.Commit(w.op, written, 0, 0)
			return err
		}, changedSince(2000, "b/written")},
		{"SetAttr of times, again", func() error {
			s := vfs.SetAttr{MtimeHow: vfs.ClientTime, Mtime: vfs.Time{Sec: 3000}}
			_, err := w.fs.SetAttr(w.op, written, &s, nil)
			return err
		}, changedSince(2000, "b/written")},
		// The FS syncs old data by itself, even if no client commits it. The later COMMIT then has
		// nothing to do.
		{"Commit of what was synced in time, of a file that was let go", func() error {
			if err := w.write(written, "late"); err != nil {
				return err
			}
			w.fs.Sweep(35)
			w.fs.EvictAll()
			_, err := w.fs.Commit(w.op, written, 0, 0)
			return err
		}, changedSince(3000, "b/written")},
		{"SetAttr", func() error { _, err := w.fs.SetAttr(w.op, f, &mode600, nil); return err }, func(dir string) error {
			st, err := os.Lstat(filepath.Join(dir, "a/f"))
			if err == nil && st.Mode().Perm() != 0o600 {
				err = fmt.Errorf("mode %v", st.Mode())
			}
			return err
		}},
		{"SetAttr of a directory", func() error { _, err := w.fs.SetAttr(w.op, b, &mode600, nil); return err }, func(dir string) error {
			st, err := os.Lstat(filepath.Join(dir, "b"))
			if err == nil && st.Mode().Perm() != 0o600 {
				err = fmt.Errorf("mode %v", st.Mode())
			}
			return err
		}},
	}
	for _, s := range steps {
		w.ok(s.do(), s.what)
		left := d.cut() // the end of the test unmounts it
		if err := s.check(left.dir); err != nil {
			lost = append(lost, fmt.Sprintf("%s (%v)", s.what, err))
		}
		if !durable && len(lost) > 0 {
			break // one lost change is enough
		}
	}
	return lost
}

// changedSince checks that a file's mtime differs from the given one.
func changedSince(mtime int64, p string) func(dir string) error {
	return func(dir string) error {
		st, err := os.Lstat(filepath.Join(dir, p))
		if err == nil && st.ModTime().Unix() == mtime {
			err = fmt.Errorf("its time is %v still", st.ModTime())
		}
		return err
	}
}

func syncAll(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}
