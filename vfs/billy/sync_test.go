package billy_test

import (
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"testing"

	gobilly "github.com/go-git/go-billy/v5"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/billy"
)

// counted counts what happens to its files, and fails syncs on demand.
type counted struct {
	disk
	syncs, closes, opens atomic.Int32
	fail                 atomic.Bool
}

type countedFile struct {
	gobilly.File
	c *counted
}

func (c *counted) OpenFile(name string, flag int, perm os.FileMode) (gobilly.File, error) {
	f, err := c.disk.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	c.opens.Add(1)
	return countedFile{f, c}, nil
}

func (f countedFile) Close() error {
	f.c.closes.Add(1)
	return f.File.Close()
}

// syncedFile is a countedFile that can be synced.
type syncedFile struct{ countedFile }

func (f syncedFile) Sync() error {
	f.c.syncs.Add(1)
	if f.c.fail.Load() {
		return syscall.EIO
	}
	return nil
}

type synced struct{ *counted }

func (s synced) OpenFile(name string, flag int, perm os.FileMode) (gobilly.File, error) {
	f, err := s.counted.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return syncedFile{f.(countedFile)}, nil
}

func TestSync(t *testing.T) {
	c := &counted{disk: newDisk(t)}
	f := open(t, handler(synced{c}), billy.Options{})
	h := f.create("file")
	step := func(what string, syncs int32, do func()) {
		t.Helper()
		before := c.syncs.Load()
		do()
		if got := c.syncs.Load() - before; got != syncs {
			t.Errorf("%s synced %d times, want %d", what, got, syncs)
		}
	}
	stable := func(s, want vfs.Stability) func() {
		return func() {
			t.Helper()
			if got := f.write(h, "content", s); got != want {
				t.Errorf("Write asked to be %d is %d, want %d", s, got, want)
			}
		}
	}
	step("an unstable Write", 0, stable(vfs.Unstable, vfs.Unstable))
	step("a Write to be stable", 1, stable(vfs.DataSync, vfs.FileSync))
	step("a Write to be stable", 1, stable(vfs.FileSync, vfs.FileSync))
	step("a Commit", 1, func() { f.Commit(op, h, 0, 0) })
	if n := c.opens.Load(); n != 1 {
		t.Errorf("the file was opened %d times", n)
	}

	c.fail.Store(true)
	for what, do := range map[string]func() error{
		"Commit": func() error { _, err := f.Commit(op, h, 0, 0); return err },
		"Write": func() error {
			_, _, _, err := f.FS.Write(op, h, 0, [][]byte{[]byte("x")}, vfs.FileSync)
			return err
		},
	} {
		before := f.Verifier()
		if err := do(); err != syscall.EIO {
			t.Errorf("%s whose sync fails: %v", what, err)
		}
		if f.Verifier() == before {
			t.Errorf("%s whose sync failed left the verifier", what)
		}
	}
}

// Without a Sync nothing is said to be stable, and a file is closed, which is
// what go-nfs makes of it.
func TestNoSync(t *testing.T) {
	c := &counted{disk: newDisk(t)}
	f := open(t, handler(c), billy.Options{})
	h := f.create("file")
	f.write(h, "content", vfs.Unstable)
	if c.closes.Load() != 0 {
		t.Error("an unstable Write closed the file")
	}
	if got := f.write(h, "content", vfs.FileSync); got != vfs.Unstable {
		t.Errorf("Write without a Sync is %d", got)
	}
	if c.closes.Load() != 1 {
		t.Error("a Write to be stable did not close the file")
	}
	f.write(h, "content", vfs.Unstable)
	if _, err := f.Commit(op, h, 0, 0); err != nil || c.closes.Load() != 2 {
		t.Errorf("Commit: %v, after %d closes", err, c.closes.Load())
	}
	// The program may know how.
	var asked int
	g := open(t, handler(c), billy.Options{Sync: func(gobilly.File) error { asked++; return nil }})
	other := g.create("other")
	if got := g.write(other, "content", vfs.FileSync); got != vfs.FileSync || asked != 1 {
		t.Errorf("Write with Options.Sync is %d, asked %d times", got, asked)
	}
}

func TestOpenFilesAreBounded(t *testing.T) {
	c := &counted{disk: newDisk(t)}
	f := open(t, handler(c), billy.Options{OpenFiles: 3})
	for i := range 20 {
		f.write(f.create(fmt.Sprint(i)), "x", vfs.Unstable)
		if n := c.opens.Load() - c.closes.Load(); n > 3 {
			t.Fatalf("%d files are open", n)
		}
	}
	f.Remove(op, f.Root(), []byte("19"))
	if n := c.opens.Load() - c.closes.Load(); n != 2 {
		t.Errorf("after a removal %d files are open", n)
	}
	if err := f.Close(); err != nil || c.opens.Load() != c.closes.Load() {
		t.Errorf("Close: %v, %d files are open", err, c.opens.Load()-c.closes.Load())
	}
}
