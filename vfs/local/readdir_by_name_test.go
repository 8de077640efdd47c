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

// A directory with more entries than namesAhead is listed completely.
func TestLargeDirectoryIsListedWhole(t *testing.T) {
	if places(t)["overlay"] == nil {
		t.Skip("nothing can be mounted here")
	}
	w := newWorld(t, local.Config{Root: overlayOfTwo(t)})
	d, err := w.lookup(w.fs.Root(), "d")
	w.ok(err)
	const most = 20000
	for i := range most {
		w.ok(os.Symlink("to", w.path("d", fmt.Sprint(i))))
	}
	if got := len(w.listed(d)); got != most+3 {
		t.Errorf("%d entries of %d", got, most+3)
	}
}
