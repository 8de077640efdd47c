package local_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// above returns two worlds. out serves a directory, and in serves the directory "tree" in it. So
// tests can use handles of files outside of in.
func above(t *testing.T, index bool) (in, out *world) {
	base := t.TempDir()
	if err := os.Mkdir(filepath.Join(base, "tree"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(base, "secret"), 0o755); err != nil {
		t.Fatal(err)
	}
	return newWorld(t, local.Config{Root: filepath.Join(base, "tree"), IndexHandles: index}),
		newWorld(t, local.Config{Root: base, IndexHandles: index})
}

func eachScheme(t *testing.T, f func(t *testing.T, index bool)) {
	t.Run("kernel", func(t *testing.T) { f(t, false) })
	t.Run("index", func(t *testing.T) { f(t, true) })
}

func TestNoWayOut(t *testing.T) {
	eachScheme(t, func(t *testing.T, index bool) {
		in, out := above(t, index)
		root := in.fs.Root()
		secret, err := out.lookup(out.fs.Root(), "secret")
		out.ok(err, "Lookup")

		if h, err := in.lookup(root, ".."); err != nil || h != root {
			t.Errorf(".. of the root: %v, %v", h, err)
		}
		for _, h := range []vfs.Handle{secret, out.fs.Root()} {
			_, err = in.attr(h)
			in.want(err, syscall.ESTALE, "GetAttr of a directory outside")
			_, err = in.lookup(h, "tree")
			in.want(err, syscall.ESTALE, "Lookup in a directory outside")
		}
		for _, name := range []string{"../secret", "/etc", "a/b", "", "a\x00b"} {
			_, err = in.lookup(root, name)
			in.want(err, syscall.EINVAL, "Lookup of "+name)
			_, _, err = in.fs.Create(in.op, root, []byte(name), &vfs.CreateHow{})
			in.want(err, syscall.EINVAL, "Create of "+name)
			_, _, err = in.fs.Rename(in.op, root, []byte("x"), root, []byte(name))
			in.want(err, syscall.EINVAL, "Rename to "+name)
		}
	})
}

// The FS never follows a symlink, not even one in the place of a directory.
func TestSymlinksAreNotFollowed(t *testing.T) {
	eachScheme(t, func(t *testing.T, index bool) {
		in, _ := above(t, index)
		root := in.fs.Root()
		for name, to := range map[string]string{"up": "../secret", "abs": "/etc", "magic": "/proc/self/root"} {
			in.ok(os.Symlink(to, in.path(name)))
			h, err := in.lookup(root, name)
			in.ok(err, "Lookup")
			if a, _ := in.attr(h); a.Type != vfs.Symlink {
				t.Errorf("%s is a %v", name, a.Type)
			}
			_, err = in.lookup(h, "passwd")
			in.want(err, syscall.ENOTDIR, "Lookup in a symlink")
			_, _, err = in.fs.Create(in.op, h, []byte("f"), &vfs.CreateHow{})
			in.want(err, syscall.ENOTDIR, "Create in a symlink")
			_, _, err = in.fs.Create(in.op, root, []byte(name), &vfs.CreateHow{Attr: vfs.SetAttr{SetSize: true}})
			in.want(err, syscall.EEXIST, "Create of a symlink's name")
			var a vfs.Attr
			_, _, err = in.fs.Read(in.op, h, 0, make([]byte, 10), &a)
			in.want(err, syscall.EINVAL, "Read of a symlink")
			s := mode(0o600)
			_, err = in.fs.SetAttr(in.op, h, &s, nil)
			in.ok(err, "SetAttr of a symlink")
			_, err = in.fs.Link(in.op, h, root, []byte(name+"2"), &a)
			in.ok(err, "Link of a symlink")
			if text, err := os.Readlink(in.path(name + "2")); err != nil || text != to {
				t.Errorf("the link's text is %q, %v", text, err)
			}
		}
		if st, err := os.Stat("/etc"); err != nil || st.Mode().Perm()&0o111 == 0 {
			t.Errorf("/etc has mode %v", st.Mode())
		}
	})
}

// A directory that a local program moved out of the tree gives no access to files outside
// of the tree.
func TestMovedOutOfTheTree(t *testing.T) {
	eachScheme(t, func(t *testing.T, index bool) {
		in, out := above(t, index)
		d := in.mkdir(in.fs.Root(), "d")
		sub := in.mkdir(d, "sub")
		in.ok(os.Rename(in.path("d"), out.path("secret", "d")))
		_, err := in.lookup(d, "..")
		in.want(err, syscall.ESTALE, ".. of a directory that was moved out")
		in.fs.EvictAll()
		for _, h := range []vfs.Handle{d, sub} {
			_, err = in.attr(h)
			in.want(err, syscall.ESTALE, "GetAttr of a directory that was moved out")
		}
		in.ok(os.Rename(out.path("secret", "d"), in.path("back")))
		if index {
			in.fs.SearchAgain()
		}
		_, err = in.attr(sub)
		in.ok(err, "GetAttr of a directory that came back")
		if h, err := in.lookup(sub, ".."); err != nil || h != d {
			t.Errorf(".. of a directory that came back: %v, %v", h, err)
		}
	})
}

// If a directory is replaced by a symlink to the outside during a lookup, the lookup never leads
// outside.
func TestSymlinkRace(t *testing.T) {
	in, out := above(t, false)
	in.ok(os.WriteFile(out.path("secret", "f"), []byte("secret"), 0o644))
	in.ok(os.Symlink("../secret", in.path("link")))
	in.mkdir(in.fs.Root(), "real")
	stop := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
				unix.Renameat2(unix.AT_FDCWD, in.path("link"), unix.AT_FDCWD, in.path("real"), unix.RENAME_EXCHANGE)
			}
		}
	}()
	for range 2000 {
		if h, err := in.lookup(in.fs.Root(), "real"); err == nil {
			if _, err = in.lookup(h, "f"); err == nil {
				t.Error("the way led out")
				break
			}
		}
	}
	close(stop)
	<-ended
}

// A mount point below the root is listed, but cannot be entered.
func TestMountsAreNotCrossed(t *testing.T) {
	in, _ := above(t, false)
	in.mkdir(in.fs.Root(), "mnt")
	if err := unix.Mount("local-test", in.path("mnt"), "tmpfs", 0, ""); err != nil {
		t.Skip(err)
	}
	defer unix.Unmount(in.path("mnt"), unix.MNT_DETACH)
	_, err := in.lookup(in.fs.Root(), "mnt")
	in.want(err, syscall.EXDEV, "Lookup of a mount point")
	seen := false
	var a vfs.Attr
	_, err = in.fs.ReadDir(in.op, in.fs.Root(), 0, true, &a, func(e *vfs.DirEntry) bool {
		if string(e.Name) == "mnt" {
			seen = true
			if e.HasAttr || !e.Handle.IsZero() {
				t.Errorf("the mount point comes with %+v", e)
			}
		}
		return true
	})
	if err != nil || !seen {
		t.Errorf("seen %v, %v", seen, err)
	}
}

// A handle of another file system gets ESTALE or ErrBadHandle.
func TestForeignHandles(t *testing.T) {
	dirs := places(t)
	if len(dirs) < 2 {
		t.Skip("one file system only")
	}
	a := newWorld(t, local.Config{Root: dirs["tmp"](t)})
	b := newWorld(t, local.Config{Root: dirs["tmpfs"](t)})
	f := b.create(b.fs.Root(), "f")
	if _, err := a.attr(f); !errors.Is(err, syscall.ESTALE) && !errors.Is(err, vfs.ErrBadHandle) {
		t.Errorf("GetAttr: %v", err)
	}
}
