package local_test

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// world is an FS for tests, with methods that make calls as the test's own user.
type world struct {
	*testing.T
	fs  *local.FS
	cfg local.Config
	op  *vfs.Op
}

func newWorld(t *testing.T, cfg local.Config) *world {
	t.Helper()
	if cfg.Root == "" {
		cfg.Root = diskFolder(t)
	}
	if cfg.StateDir == "" {
		cfg.StateDir = t.TempDir()
	}
	self := local.Identity()
	return &world{t, open(t, cfg), cfg, &vfs.Op{Cred: &self}}
}

// diskFolder returns a new folder outside tmpfs, which syncs nothing. It is in /var/tmp if t.TempDir is
// on a tmpfs.
func diskFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		t.Fatal(err)
	}
	if s.Type != unix.TMPFS_MAGIC {
		return dir
	}
	dir, err := os.MkdirTemp("/var/tmp", "local-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func (w *world) ok(err error, what ...any) {
	w.Helper()
	if err != nil {
		w.Fatal(append(what, ": ", err)...)
	}
}

func (w *world) want(err, want error, what string) {
	w.Helper()
	if !errors.Is(err, want) {
		w.Errorf("%s: %v, want %v", what, err, want)
	}
}

func (w *world) create(dir vfs.Handle, name string) vfs.Handle {
	w.Helper()
	o, _, err := w.fs.Create(w.op, dir, []byte(name), &vfs.CreateHow{Mode: vfs.Guarded, Attr: mode(0o644)})
	w.ok(err, "Create ", name)
	return o.Handle
}

func (w *world) mkdir(dir vfs.Handle, name string) vfs.Handle {
	w.Helper()
	s := mode(0o755)
	o, _, err := w.fs.Mkdir(w.op, dir, []byte(name), &s)
	w.ok(err, "Mkdir ", name)
	return o.Handle
}

func (w *world) lookup(dir vfs.Handle, name string) (vfs.Handle, error) {
	var a vfs.Attr
	o, err := w.fs.Lookup(w.op, dir, []byte(name), &a)
	return o.Handle, err
}

func (w *world) attr(h vfs.Handle) (a vfs.Attr, err error) {
	err = w.fs.GetAttr(w.op, h, &a)
	return a, err
}

func (w *world) write(h vfs.Handle, p string) error {
	_, _, _, err := w.fs.Write(w.op, h, 0, [][]byte{[]byte(p)}, vfs.Unstable)
	return err
}

func (w *world) remove(dir vfs.Handle, name string) {
	w.Helper()
	_, err := w.fs.Remove(w.op, dir, []byte(name))
	w.ok(err, "Remove ", name)
}

func (w *world) path(name ...string) string {
	return filepath.Join(append([]string{w.cfg.Root}, name...)...)
}

// again closes the FS and opens it with cfg, as a new process would.
func (w *world) again(cfg local.Config) {
	w.Helper()
	w.ok(w.fs.Close(), "Close")
	w.fs = open(w.T, cfg)
}

// A handle stays valid if the kernel finds files by handle first and the index later, or the other
// way round. The index finds files whose names were noted, and other files by a search.
func TestHandlesOutliveAChangeOfScheme(t *testing.T) {
	w := newWorld(t, local.Config{})
	if w.fs.Scheme() != "kernel" {
		t.Skip("handles cannot be opened here")
	}
	d := w.mkdir(w.fs.Root(), "d")
	f := w.create(d, "f")
	index := w.cfg
	index.IndexHandles = true
	w.again(index)
	if w.fs.Scheme() != "index" {
		t.Fatal(w.fs.Scheme())
	}
	a, err := w.attr(f)
	w.ok(err, "GetAttr by the index")
	g := w.create(d, "g")
	w.again(w.cfg)
	b, err := w.attr(f)
	w.ok(err, "GetAttr by the kernel")
	if a.FileID != b.FileID || a.FSID != b.FSID {
		t.Errorf("another file: %+v, %+v", a, b)
	}
	_, err = w.attr(g)
	w.ok(err, "GetAttr of what the index named")
}

// If the name that the index has for a handle belongs to another file now, the handle leads to its
// own file or is stale. No call reads or writes the other file, also after a restart of the
// server.
func TestIndexDoesNotTakeOneFileForAnother(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"another file is renamed over it": func(w *world) {
			w.ok(os.WriteFile(w.path("new"), []byte("another"), 0o666))
			w.ok(os.Rename(w.path("new"), w.path("d", "f")))
		},
		"another file is made": func(w *world) {
			w.ok(os.Rename(w.path("d", "f"), w.path("moved")))
			w.ok(os.Remove(w.path("moved")))
			w.ok(os.WriteFile(w.path("d", "f"), []byte("another"), 0o666))
		},
		"a link to another file": func(w *world) {
			w.ok(os.WriteFile(w.path("new"), []byte("another"), 0o666))
			w.ok(os.Remove(w.path("d", "f")))
			w.ok(os.Link(w.path("new"), w.path("d", "f")))
		},
		"another directory with such a file": func(w *world) {
			w.ok(os.Rename(w.path("d"), w.path("gone")))
			w.ok(os.Mkdir(w.path("d"), 0o777))
			w.ok(os.WriteFile(w.path("d", "f"), []byte("another"), 0o666))
			w.ok(os.RemoveAll(w.path("gone")))
		},
		"a file where its directory was": func(w *world) {
			w.ok(os.RemoveAll(w.path("d")))
			w.ok(os.WriteFile(w.path("d"), []byte("another"), 0o666))
		},
		"two files that were exchanged": func(w *world) {
			w.ok(os.WriteFile(w.path("new"), []byte("another"), 0o666))
			w.ok(unix.Renameat2(unix.AT_FDCWD, w.path("new"), unix.AT_FDCWD, w.path("d", "f"), unix.RENAME_EXCHANGE))
		},
	} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restart %v", name, restart), func(t *testing.T) {
				w := newWorld(t, local.Config{IndexHandles: true})
				f := w.create(w.mkdir(w.fs.Root(), "d"), "f")
				w.ok(w.write(f, "its own"), "Write")
				was, err := w.attr(f)
				w.ok(err, "GetAttr")
				if restart {
					w.ok(w.fs.Close(), "Close")
				}
				change(w)
				if restart {
					w.fs = open(t, w.cfg)
				}
				now, err := w.attr(f)
				if err == nil && now.FileID != was.FileID {
					t.Errorf("the handle of file %d leads to file %d", was.FileID, now.FileID)
				} else if err != nil {
					w.want(err, syscall.ESTALE, "GetAttr")
				}
				if err := w.write(f, "written"); err != nil {
					w.want(err, syscall.ESTALE, "Write")
				}
				for _, path := range []string{"new", "d", "d/f"} {
					if b, err := os.ReadFile(w.path(path)); err == nil && string(b) == "written" && now.FileID != was.FileID {
						t.Errorf("a WRITE by the handle of another file changed %s", path)
					}
				}
			})
		}
	}
}

// If a local program moves a file, the index finds it again, anywhere in the tree.
func TestIndexFindsMovedFiles(t *testing.T) {
	w := newWorld(t, local.Config{IndexHandles: true})
	a, b := w.mkdir(w.fs.Root(), "a"), w.mkdir(w.fs.Root(), "b")
	sub := w.mkdir(a, "sub")
	f := w.create(sub, "f")
	link := w.create(b, "link")
	check := func(what string, want string) {
		t.Helper()
		w.fs.EvictAll()
		if w.fs.Cached(f) {
			t.Fatal("still cached")
		}
		got, err := w.attr(f)
		w.ok(err, what)
		var st unix.Stat_t
		w.ok(unix.Lstat(w.path(want), &st), want)
		if st.Ino != got.FileID {
			t.Errorf("%s: inode %d, is %d", what, got.FileID, st.Ino)
		}
	}
	check("where it was", "a/sub/f")
	if n := w.fs.Stats().Searches; n != 0 {
		t.Errorf("%d searches for what did not move", n)
	}
	w.ok(os.Rename(w.path("a/sub/f"), w.path("a/sub/g")))
	check("renamed in its directory", "a/sub/g")
	if n := w.fs.Stats().Searches; n != 0 {
		t.Errorf("%d searches of the tree for what is in its directory", n)
	}
	w.fs.SearchAgain()
	w.ok(os.Rename(w.path("a/sub"), w.path("b/other")))
	check("its directory moved", "b/other/g")
	w.fs.SearchAgain()
	w.ok(os.Rename(w.path("b/other/g"), w.path("top")))
	check("moved to the root", "top")

	// Renames through the FS need no search.
	n := w.fs.Stats().Searches
	_, _, err := w.fs.Rename(w.op, w.fs.Root(), []byte("top"), a, []byte("in"))
	w.ok(err, "Rename")
	check("renamed by a client", "a/in")
	var at vfs.Attr
	_, err = w.fs.Link(w.op, link, a, []byte("second"), &at)
	w.ok(err, "Link")
	w.remove(a, "second")
	w.fs.EvictAll()
	_, err = w.attr(link)
	w.ok(err, "GetAttr of a file that lost one of two names")
	if got := w.fs.Stats().Searches; got != n {
		t.Errorf("%d searches for what went through the file system", got-n)
	}

	// A file removed through the FS is stale without a search.
	w.remove(a, "in")
	w.fs.EvictAll()
	_, err = w.attr(f)
	w.want(err, syscall.ESTALE, "GetAttr of what was removed")
	if got := w.fs.Stats().Searches; got != n {
		t.Errorf("%d searches for what was removed", got-n)
	}
}

// If the process is killed before the index has written a file's name, the index finds the file
// again.
func TestIndexAfterAKill(t *testing.T) {
	if dir := os.Getenv(rootVar); dir != "" {
		w := newWorld(t, local.Config{Root: filepath.Join(dir, "tree"), StateDir: filepath.Join(dir, "state"), IndexHandles: true})
		d := w.mkdir(w.fs.Root(), "d")
		for i := range 50 {
			fmt.Println("handle", w.create(d, fmt.Sprint("f", i)))
		}
		unix.Kill(unix.Getpid(), unix.SIGKILL)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "tree"), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestIndexAfterAKill$")
	cmd.Env = append(os.Environ(), rootVar+"="+dir)
	out, _ := cmd.CombinedOutput()
	w := newWorld(t, local.Config{Root: filepath.Join(dir, "tree"), StateDir: filepath.Join(dir, "state"), IndexHandles: true})
	n := 0
	for s := bufio.NewScanner(strings.NewReader(string(out))); s.Scan(); {
		text, ok := strings.CutPrefix(s.Text(), "handle ")
		if !ok {
			continue
		}
		b, err := hex.DecodeString(text)
		w.ok(err, text)
		h, _ := vfs.MakeHandle(b)
		_, err = w.attr(h)
		w.ok(err, "GetAttr after the kill")
		n++
	}
	if n != 50 {
		t.Fatalf("%d handles:\n%s", n, out)
	}
}

// Two FSs of one tree have separate index files, so that neither waits for the other.
func TestTwoOfOneTree(t *testing.T) {
	w := newWorld(t, local.Config{IndexHandles: true})
	f := w.create(w.fs.Root(), "f")
	second := open(t, w.cfg)
	var a vfs.Attr
	w.ok(second.GetAttr(w.op, f, &a), "GetAttr by the other")
}

// After a client or a local program removed a file, its handle is stale at once, even if a new
// file gets the same inode number.
func TestStaleAfterRemovalAndReuse(t *testing.T) {
	for _, index := range []bool{false, true} {
		t.Run(fmt.Sprint("index=", index), func(t *testing.T) {
			w := newWorld(t, local.Config{IndexHandles: index})
			for i, remove := range []func(name string){
				func(name string) { w.remove(w.fs.Root(), name) },
				func(name string) { w.ok(os.Remove(w.path(name))) },
			} {
				var old []vfs.Handle
				for j := range 64 {
					old = append(old, w.create(w.fs.Root(), fmt.Sprint("old", i, j)))
				}
				for j := range 64 {
					remove(fmt.Sprint("old", i, j))
				}
				for j := range 64 {
					w.create(w.fs.Root(), fmt.Sprint("new", i, j))
				}
				for _, h := range old {
					_, err := w.attr(h)
					w.want(err, syscall.ESTALE, "GetAttr")
				}
			}
		})
	}
}

// On overlayfs the kernel does not open handles. Even so, if a local program removes a file and a
// new file gets its inode number, the new file has another handle.
func TestFileInTheInodeOfAnotherHasItsOwnHandle(t *testing.T) {
	dir := places(t)["overlay"]
	if dir == nil {
		t.Skip("overlayfs cannot be mounted here")
	}
	w := newWorld(t, local.Config{Root: dir(t)})
	for i := range 100 {
		var last vfs.Handle
		for _, name := range []string{"first", "second"} {
			w.ok(os.WriteFile(w.path(name), nil, 0o644))
			h, err := w.lookup(w.fs.Root(), name)
			w.ok(err, "Lookup")
			if h == last {
				t.Fatalf("turn %d: the second file has the handle of the first one, %v", i, h)
			}
			last = h
			w.ok(os.Remove(w.path(name)))
		}
	}
}

// GetAttr with bytes that were never a handle returns ErrBadHandle or ESTALE, and has no other
// effect.
func FuzzHandle(f *testing.F) {
	dir := f.TempDir()
	for _, index := range []bool{false, true} {
		fs, err := local.New(local.Config{Root: dir, StateDir: f.TempDir(), IndexHandles: index})
		if err != nil {
			f.Skip(err)
		}
		root := fs.Root()
		f.Add(index, root.Bytes())
		fs.Close()
	}
	f.Add(false, []byte{1})
	f.Add(true, []byte{2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Add(false, []byte{1, 1, 2, 0, 0, 0, 0, 0, 0, 0})
	systems := map[bool]*local.FS{}
	for _, index := range []bool{false, true} {
		fs, err := local.New(local.Config{Root: dir, StateDir: f.TempDir(), IndexHandles: index})
		if err != nil {
			f.Skip(err)
		}
		f.Cleanup(func() { fs.Close() })
		systems[index] = fs
	}
	f.Fuzz(func(t *testing.T, index bool, b []byte) {
		h, ok := vfs.MakeHandle(b)
		if !ok {
			return
		}
		fs := systems[index]
		var a vfs.Attr
		err := fs.GetAttr(&vfs.Op{Cred: &vfs.Cred{}}, h, &a)
		switch {
		case err == nil && h == fs.Root():
		case err == nil && !fs.Bounded() && a.Type == vfs.Directory:
			t.Errorf("%v reaches a directory outside of the root: %+v", h, a)
		case err == nil, errors.Is(err, syscall.ESTALE), errors.Is(err, vfs.ErrBadHandle):
		default:
			t.Errorf("%v: %v", h, err)
		}
	})
}

func async(f func() error) chan error {
	c := make(chan error, 1)
	go func() { c <- f() }()
	return c
}
