package local_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// On each file system, an entry that exists during a whole listing is listed exactly once, even if
// other entries are added and removed, the listing pauses for a minute, and the daemon restarts.
func TestEntriesThatStayAreListedOnce(t *testing.T) {
	dirs := places(t)
	for kind := range diskTypes {
		dirs[kind] = func(t *testing.T) string { return newDiskOf(t, kind).dir }
	}
	if dirs["overlay"] != nil {
		dirs["overlay of two layers"] = overlayOfTwo
	}
	const stay, page = 500, 60
	for kind, dir := range dirs {
		t.Run(kind, func(t *testing.T) {
			w := newWorld(t, local.Config{Root: dir(t)})
			d, err := w.lookup(w.fs.Root(), "d")
			if err != nil {
				d = w.mkdir(w.fs.Root(), "d")
			}
			file := func(what string, i int) string { return w.path("d", fmt.Sprint(what, i)) }
			for i := range stay {
				w.ok(os.WriteFile(file("stay", i), nil, 0o644))
				w.ok(os.WriteFile(file("go", i), nil, 0o644))
			}
			seen := map[string]int{}
			cookie, eof := uint64(0), false
			for call := 0; !eof; call++ {
				left := page
				var a vfs.Attr
				var err error
				eof, err = w.fs.ReadDir(w.op, d, cookie, call%2 == 0, &a, func(e *vfs.DirEntry) bool {
					if left--; left < 0 {
						return false
					}
					seen[string(e.Name)]++
					cookie = e.Cookie
					return true
				})
				w.ok(err, "ReadDir")
				for i := call * page; i < min((call+1)*page, stay); i++ {
					w.ok(os.Remove(file("go", i)))
					w.ok(os.WriteFile(file("come with quite a long name ", i), nil, 0o644))
				}
				switch call % 4 {
				case 1:
					w.fs.Sweep(60)
				case 3:
					w.again(w.cfg)
				}
			}
			for i := range stay {
				if n := seen[fmt.Sprint("stay", i)]; n != 1 {
					t.Errorf("stay%d was listed %d times", i, n)
				}
			}
		})
	}
}

// overlayOfTwo mounts an overlay with a directory "d" that exists in both layers. For such a
// directory the kernel merges two lists.
func overlayOfTwo(t *testing.T) string {
	base := t.TempDir()
	lower, upper, work, at := filepath.Join(base, "l"), filepath.Join(base, "u"), filepath.Join(base, "w"), filepath.Join(base, "m")
	if err := mkdirs(lower, upper, work, at, filepath.Join(lower, "d"), filepath.Join(upper, "d")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(lower, "d", "below"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("local-test", at, "overlay", 0, "lowerdir="+lower+",upperdir="+upper+",workdir="+work); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(at, unix.MNT_DETACH) })
	return at
}

// A large directory that is listed in the order of its names is read once, if there is memory for the
// names. If not, it is listed completely even so.
func TestLargeDirectoryIsReadOnce(t *testing.T) {
	if places(t)["overlay"] == nil {
		t.Skip("nothing can be mounted here")
	}
	w := newWorld(t, local.Config{Root: overlayOfTwo(t)})
	d, err := w.lookup(w.fs.Root(), "d")
	w.ok(err)
	const most, page = 20000, 100
	for i := range most {
		w.ok(os.Symlink("to", w.path("d", fmt.Sprint(i))))
	}
	for _, want := range []uint64{1, most/2048 + 1} {
		before, taken := w.fs.WholeReads(), w.fs.NameMemory()
		seen := map[string]int{}
		cookie, eof := uint64(0), false
		for !eof {
			left := page
			var a vfs.Attr
			eof, err = w.fs.ReadDir(w.op, d, cookie, false, &a, func(e *vfs.DirEntry) bool {
				if left--; left < 0 {
					return false
				}
				seen[string(e.Name)]++
				cookie = e.Cookie
				return true
			})
			w.ok(err, "ReadDir")
		}
		if len(seen) != most+3 {
			t.Errorf("%d entries of %d", len(seen), most+3)
		}
		for name, n := range seen {
			if n != 1 {
				t.Errorf("%s is listed %d times", name, n)
			}
		}
		if n := w.fs.WholeReads() - before; n > want {
			t.Errorf("the directory was read %d times, want at most %d", n, want)
		}
		w.fs.Sweep(5)
		if n := w.fs.NameMemory(); n != taken {
			t.Errorf("%d bytes are counted after the listing, %d before", n, taken)
		}
		for size := int64(1 << 20); size > 0; size /= 2 {
			for w.fs.TakeNames(size) {
				t.Cleanup(func() { w.fs.TakeNames(-size) })
			}
		}
	}
}
