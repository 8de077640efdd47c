package billy_test

import (
	"os"
	"sync/atomic"
	"syscall"
	"testing"

	gobilly "github.com/go-git/go-billy/v5"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/billy"
)

// counted counts opens, closes and syncs of its files. fail makes syncs fail, failClose makes
// closes fail.
type counted struct {
	disk
	syncs, closes, opens atomic.Int32
	fail, failClose      atomic.Bool
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
	if err := f.File.Close(); err != nil || !f.c.failClose.Load() {
		return err
	}
	return syscall.ENOSPC
}

// syncedFile is a countedFile with a Sync method.
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

// If neither the file system's File nor Options has a Sync, a Write never counts as stable. With
// Options.Sync it does.
func TestNoSync(t *testing.T) {
	c := &counted{disk: newDisk(t)}
	f := open(t, handler(c), billy.Options{})
	h := f.create("file")
	if got := f.write(h, "content", vfs.FileSync); got != vfs.Unstable {
		t.Errorf("Write without a Sync is %d", got)
	}
	if _, err := f.Commit(op, h, 0, 0); err != nil {
		t.Errorf("Commit: %v", err)
	}
	// The program may have a way to sync: Options.Sync.
	var asked int
	g := open(t, handler(c), billy.Options{Sync: func(gobilly.File) error { asked++; return nil }})
	other := g.create("other")
	if got := g.write(other, "content", vfs.FileSync); got != vfs.FileSync || asked != 1 {
		t.Errorf("Write with Options.Sync is %d, asked %d times", got, asked)
	}
}

// A file is closed before the call that opened it ends. If the close fails, the call fails,
// because some file systems write the data only at the close.
func TestNothingStaysOpen(t *testing.T) {
	c := &counted{disk: newDisk(t)}
	f := open(t, handler(synced{c}), billy.Options{})
	h := f.create("file")
	write := func() error {
		_, _, _, err := f.FS.Write(op, h, 0, [][]byte{[]byte("x")}, vfs.Unstable)
		return err
	}
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"Write", write},
		{"Read", func() error { _, err := f.read(h); return err }},
		{"Commit", func() error { _, err := f.Commit(op, h, 0, 0); return err }},
		{"truncation", func() error { _, err := f.SetAttr(op, h, &vfs.SetAttr{SetSize: true}, nil); return err }},
	} {
		before := c.opens.Load()
		if err := step.do(); err != nil || c.opens.Load() != before+1 || c.opens.Load() != c.closes.Load() {
			t.Errorf("%s: %v; %d opened, %d closed", step.what, err, c.opens.Load(), c.closes.Load())
		}
	}
	c.failClose.Store(true)
	if err := write(); err != syscall.ENOSPC {
		t.Errorf("Write whose close fails: %v", err)
	}
}
