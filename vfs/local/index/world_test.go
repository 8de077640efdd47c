package index_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local/index"
)

// directory is a Tree, for a directory given by its path. Its handles are inode numbers.
type directory string

func (d directory) OpenRoot() (int, error) {
	return unix.Open(string(d), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

func (directory) OpenName(dir int, name []byte) (int, error) {
	return unix.Openat(dir, string(name), unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

func (directory) Identify(fd int) (vfs.Handle, bool, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	return inode(st.Ino), st.Mode&unix.S_IFMT == unix.S_IFDIR, err
}

func (directory) Names(dir int, each func(name []byte) bool) error {
	entries, err := os.ReadDir(filepath.Join("/proc/self/fd", fmt.Sprint(dir)))
	for _, e := range entries {
		if !each([]byte(e.Name())) {
			break
		}
	}
	return err
}

func inode(ino uint64) vfs.Handle {
	h, _ := vfs.MakeHandle(binary.BigEndian.AppendUint64(nil, ino))
	return h
}

// noFile returns the handle of the ith of many files that do not exist.
func noFile(i int) vfs.Handle { return inode(1<<63 | uint64(i)) }

// world is a directory and its index.
type world struct {
	*testing.T
	dir  string
	root vfs.Handle
	x    *index.Index
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, dir: t.TempDir()}
	w.root = w.handle()
	x, err := index.Open(directory(w.dir), t.TempDir(), w.root)
	w.ok(err)
	w.x = x
	t.Cleanup(func() { x.Close() })
	return w
}

func (w *world) path(names ...string) string {
	return filepath.Join(append([]string{w.dir}, names...)...)
}

// handle returns the handle of the file at a path below the root.
func (w *world) handle(names ...string) vfs.Handle {
	w.Helper()
	var st unix.Stat_t
	w.ok(unix.Lstat(w.path(names...), &st))
	return inode(st.Ino)
}

// mkdir and create make name in the directory at a path, and tell the index, as a server does for
// its client.
func (w *world) mkdir(name string, in ...string) {
	w.Helper()
	w.ok(os.Mkdir(w.path(append(in, name)...), 0o755))
	w.note(name, in...)
}

func (w *world) create(name string, in ...string) vfs.Handle {
	w.Helper()
	w.ok(os.WriteFile(w.path(append(in, name)...), nil, 0o644))
	return w.note(name, in...)
}

func (w *world) note(name string, in ...string) vfs.Handle {
	w.Helper()
	h := w.handle(append(in, name)...)
	w.x.Note(w.handle(in...), h, []byte(name))
	return h
}

// open opens h with one call, and closes it.
func (w *world) open(h vfs.Handle) error {
	fd, err := w.x.Open(h)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

// ask opens h as a client does: it repeats the call while it gets ErrDelay.
func (w *world) ask(h vfs.Handle) (err error) {
	w.Helper()
	await.Until(w.T, "the search ends", func() bool {
		err = w.open(h)
		return !errors.Is(err, vfs.ErrDelay)
	})
	return err
}

// lost returns handles of n files that local programs removed.
func (w *world) lost(n int) (hs []vfs.Handle) {
	w.Helper()
	w.mkdir("lost")
	for i := range n {
		hs = append(hs, w.create(fmt.Sprint("f", i), "lost"))
	}
	w.ok(os.RemoveAll(w.path("lost")))
	return hs
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

func async(f func() error) chan error {
	c := make(chan error, 1)
	go func() { c <- f() }()
	return c
}
