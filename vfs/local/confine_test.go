package local_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// looks is the number of the sweeper's rounds (seconds) after which each directory in use is
// checked again.
const looks = 5

// If a local program moves a directory out of the tree, clients cannot reach it some seconds
// later, even if they use it all the time: nothing in it is found, made or removed.
func TestDirectoryInUseThatLocalProgramsMoveOut(t *testing.T) {
	eachScheme(t, func(t *testing.T, index bool) {
		in, out := above(t, index)
		d := in.mkdir(in.fs.Root(), "d")
		sub := in.mkdir(d, "sub")
		in.ok(os.Rename(in.path("d"), out.path("secret", "d")))
		for range looks {
			for _, h := range []vfs.Handle{d, sub} {
				in.attr(h)
			}
			in.lookup(d, "sub")
			in.fs.Sweep(1)
		}
		in.ok(os.WriteFile(out.path("secret", "d", "new"), []byte("secret"), 0o644))
		for _, h := range []vfs.Handle{d, sub} {
			_, err := in.attr(h)
			in.want(err, syscall.ESTALE, "GetAttr")
			_, err = in.lookup(h, "new")
			in.want(err, syscall.ESTALE, "Lookup")
			_, _, err = in.fs.Create(in.op, h, []byte("made"), &vfs.CreateHow{})
			in.want(err, syscall.ESTALE, "Create")
			_, err = in.fs.Remove(in.op, h, []byte("new"))
			in.want(err, syscall.ESTALE, "Remove")
			_, _, err = in.fs.Rename(in.op, in.fs.Root(), []byte("x"), h, []byte("y"))
			in.want(err, syscall.ESTALE, "Rename")
			var a vfs.Attr
			_, err = in.fs.ReadDir(in.op, h, 0, false, &a, func(*vfs.DirEntry) bool { return true })
			in.want(err, syscall.ESTALE, "ReadDir")
		}
		in.ok(os.Rename(out.path("secret", "d"), in.path("back")))
		if index {
			in.fs.SearchAgain()
		}
		for _, h := range []vfs.Handle{sub, d} {
			_, err := in.attr(h)
			in.ok(err, "GetAttr of a directory that came back")
		}
	})
}

// A directory that a client or a local program renames within the tree keeps its handle.
func TestDirectoryInUseThatMovesWithinTheTree(t *testing.T) {
	eachScheme(t, func(t *testing.T, index bool) {
		in, _ := above(t, index)
		d, e := in.mkdir(in.fs.Root(), "d"), in.mkdir(in.fs.Root(), "e")
		sub := in.mkdir(d, "sub")
		in.ok(os.Rename(in.path("d", "sub"), in.path("e", "sub")))
		in.fs.Sweep(looks)
		_, err := in.attr(sub)
		in.ok(err, "GetAttr of what a local program moved")
		_, _, err = in.fs.Rename(in.op, e, []byte("sub"), d, []byte("again"))
		in.ok(err, "Rename")
		_, err = in.attr(sub)
		in.ok(err, "GetAttr of what a client moved")
		in.fs.Sweep(looks)
		_, err = in.attr(sub)
		in.ok(err, "GetAttr of what a client moved, seconds later")
	})
}

// If a rename through one export moves a directory out of another export's tree, clients of that
// other export cannot reach the directory by any handle from then on.
func TestDirectoryThatAnotherExportMoves(t *testing.T) {
	eachScheme(t, func(t *testing.T, index bool) {
		in, out := above(t, index)
		other := newWorld(t, local.Config{Root: out.path("secret"), IndexHandles: index})
		d := in.mkdir(in.fs.Root(), "d")
		sub := in.mkdir(d, "sub")
		tree, err := out.lookup(out.fs.Root(), "tree")
		out.ok(err)
		secret, err := out.lookup(out.fs.Root(), "secret")
		out.ok(err)

		_, _, err = out.fs.Rename(out.op, tree, []byte("d"), secret, []byte("d"))
		out.ok(err, "Rename")
		for _, h := range []vfs.Handle{d, sub} {
			_, err = in.lookup(h, "sub")
			in.want(err, syscall.ESTALE, "Lookup by the export that it left")
		}
		got, err := other.lookup(other.fs.Root(), "d")
		other.ok(err, "Lookup by the export that it is in")
		if got != d {
			t.Errorf("the handle is %v, was %v", got, d)
		}

		_, _, err = out.fs.Rename(out.op, secret, []byte("d"), tree, []byte("d"))
		out.ok(err, "Rename back")
		if index {
			in.fs.SearchAgain()
		}
		_, err = other.lookup(d, "sub")
		other.want(err, syscall.ESTALE, "Lookup by the export that it left again")
		_, err = in.attr(d)
		in.ok(err, "GetAttr by the export that it came back to")
	})
}

// If the mount has nothing outside of the tree, the FS never checks where a directory lies.
func TestNothingIsAskedWhereTheTreeIsTheMount(t *testing.T) {
	tmpfs := places(t)["tmpfs"]
	if tmpfs == nil {
		t.Skip("nothing can be mounted here")
	}
	w := newWorld(t, local.Config{Root: tmpfs(t)})
	d := w.mkdir(w.fs.Root(), "d")
	w.fs.Sweep(2 * looks)
	var a vfs.Attr
	w.ok(w.fs.GetAttr(&vfs.Op{Cred: w.op.Cred, Try: true}, d, &a), "the attempt")
}

// The FS finds directories below the root by handle even if their paths exceed PATH_MAX, by short
// or by long names. It does not find such directories outside of the root.
func TestDeepTrees(t *testing.T) {
	for _, c := range []struct{ levels, name int }{{1, 1}, {1500, 1}, {3900, 1}, {900, 5}, {60, 255}, {1100, 30}} {
		t.Run(fmt.Sprintf("%d levels of %d bytes", c.levels, c.name), func(t *testing.T) {
			in, out := above(t, false)
			if in.fs.Scheme() != "kernel" {
				t.Skip("handles cannot be opened here")
			}
			name := strings.Repeat("d", c.name)
			const leaves = 3
			inside := deep(t, in.path(), name, c.levels, leaves)
			outside := deep(t, out.path("secret"), name, c.levels, leaves)
			for i := range leaves {
				_, err := in.attr(inside[i])
				in.ok(err, "GetAttr of a directory far below the root")
				_, err = in.attr(outside[i])
				in.want(err, syscall.ESTALE, "GetAttr of a directory that is as deep, outside")
			}
			in.fs.Sweep(looks)
			for i := range leaves {
				_, err := in.attr(inside[i])
				in.ok(err, "GetAttr, seconds later")
			}
		})
	}
}

// The check of a directory ends at its parent if the parent was checked a moment before. So
// checking the siblings of a checked directory needs no climb to the root.
func TestParentOfAFoundDirectoryIsHeld(t *testing.T) {
	in, _ := above(t, false)
	if in.fs.Scheme() != "kernel" {
		t.Skip("handles cannot be opened here")
	}
	leaves := deep(t, in.path(), "d", 100, 2)
	_, err := in.attr(leaves[0])
	in.ok(err, "GetAttr")
	climbs := in.fs.Stats().Climbs
	_, err = in.attr(leaves[1])
	in.ok(err, "GetAttr of its sibling")
	if got := in.fs.Stats().Climbs; got != climbs {
		t.Errorf("%d ways up to the root for the sibling", got-climbs)
	}
}

// deep makes a chain of levels nested directories, and the given number of leaves, which are
// directories, in the last one. It returns the handles of the leaves.
func deep(t testing.TB, root, name string, levels, leaves int) []vfs.Handle {
	t.Helper()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	at, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY, 0)
	ok(err)
	defer func() { unix.Close(at) }()
	for range levels {
		ok(unix.Mkdirat(at, name, 0o755))
		next, err := unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY, 0)
		ok(err)
		unix.Close(at)
		at = next
	}
	t.Cleanup(func() { removeDeep(filepath.Join(root, name), name) })
	var handles []vfs.Handle
	for i := range leaves {
		leaf := fmt.Sprint("leaf", i)
		ok(unix.Mkdirat(at, leaf, 0o755))
		h, err := local.HandleOf(at, leaf)
		ok(err)
		handles = append(handles, h)
	}
	return handles
}

// removeDeep removes the tree that deep made below top. Paths in it may be longer than the kernel
// accepts. So removeDeep moves the directory of each level up to top before it removes the parent.
func removeDeep(top, name string) {
	for {
		below, next := filepath.Join(top, name), top+".next"
		if os.Rename(below, next) != nil {
			os.RemoveAll(top)
			return
		}
		os.RemoveAll(top)
		if os.Rename(next, top) != nil {
			return
		}
	}
}
