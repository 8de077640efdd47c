package local_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// On a file system in memory, a call with Op.Try creates and removes files. It returns
// ErrWouldBlock for callers other than the daemon's user, further attributes, large files, and all
// other file systems.
func TestNamesInMemoryAreTried(t *testing.T) {
	memory, ok := places(t)["tmpfs"]
	if !ok || os.Geteuid() != 0 {
		t.Skip("a tmpfs cannot be mounted, or handles take an index")
	}
	guarded := vfs.CreateHow{Mode: vfs.Guarded, Attr: mode(0o640)}
	for _, c := range []struct {
		name  string
		place func(*testing.T) string
		sync  bool
		op    vfs.Op
		how   vfs.CreateHow
		want  error
	}{
		{"a new file", memory, false, vfs.Op{}, guarded, nil},
		{"a caller who does not want it durable", memory, true, vfs.Op{Async: true}, guarded, nil},
		{"with Sync, which changes nothing in memory", memory, true, vfs.Op{}, guarded, nil},
		{"another user", memory, false, vfs.Op{Cred: &vfs.Cred{UID: 1000, GID: 1000}}, guarded, vfs.ErrWouldBlock},
		{"on a disk", places(t)["tmp"], false, vfs.Op{}, guarded, vfs.ErrWouldBlock},
		{"with a size", memory, false, vfs.Op{}, vfs.CreateHow{Mode: vfs.Guarded, Attr: vfs.SetAttr{SetSize: true, Size: 1}}, vfs.ErrWouldBlock},
		{"set-uid", memory, false, vfs.Op{}, vfs.CreateHow{Mode: vfs.Guarded, Attr: mode(0o4755)}, vfs.ErrWouldBlock},
		{"exclusive", memory, false, vfs.Op{}, vfs.CreateHow{Mode: vfs.Exclusive}, vfs.ErrWouldBlock},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, local.Config{Root: c.place(t), Sync: c.sync})
			w.ok(os.Chmod(w.cfg.Root, 0o777))
			op := c.op
			op.Try = true
			if op.Cred == nil {
				op.Cred = w.op.Cred
			}
			o, ch, err := w.fs.Create(&op, w.fs.Root(), []byte("f"), &c.how)
			w.want(err, c.want, "an attempt to make it")
			_, there := os.Lstat(filepath.Join(w.cfg.Root, "f"))
			if made := there == nil; made != (c.want == nil) || made != o.Created || made != ch.HasAfter {
				t.Errorf("made: %v; told: %v, %+v", made, o.Created, ch)
			}
			if c.want != nil {
				return
			}
			if a, err := w.attr(o.Handle); err != nil || a != o.Attr || a.Mode != 0o640 {
				t.Errorf("%+v, told as %+v, %v", a, o.Attr, err)
			}
			unchecked := guarded
			unchecked.Mode = vfs.Unchecked
			_, _, err = w.fs.Create(&op, w.fs.Root(), []byte("f"), &unchecked)
			w.want(err, vfs.ErrWouldBlock, "an attempt to make what is there")
			if ch, err = w.fs.Remove(&op, w.fs.Root(), []byte("f")); err != nil || !ch.HasBefore || !ch.HasAfter {
				t.Errorf("an attempt to remove it: %+v, %v", ch, err)
			}
			if _, err := os.Lstat(filepath.Join(w.cfg.Root, "f")); !os.IsNotExist(err) {
				t.Errorf("it is removed: %v", err)
			}
		})
	}
}

// Remove with Op.Try removes a file only if the FS knows that the file is small.
func TestTryRemove(t *testing.T) {
	memory, ok := places(t)["tmpfs"]
	if !ok || os.Geteuid() != 0 {
		t.Skip("a tmpfs cannot be mounted, or handles take an index")
	}
	w := newWorld(t, local.Config{Root: memory(t)})
	try := &vfs.Op{Cred: w.op.Cred, Try: true}
	root := w.fs.Root()
	w.create(root, "small")
	w.ok(w.write(w.create(root, "large"), string(make([]byte, 2<<20))), "Write")
	w.mkdir(root, "dir")
	w.ok(os.WriteFile(filepath.Join(w.cfg.Root, "unknown"), nil, 0o600))
	for name, want := range map[string]error{
		"small": nil, "large": vfs.ErrWouldBlock, "dir": vfs.ErrWouldBlock, "unknown": vfs.ErrWouldBlock, "absent": vfs.ErrWouldBlock,
	} {
		_, err := w.fs.Remove(try, root, []byte(name))
		w.want(err, want, name)
		_, err = os.Lstat(filepath.Join(w.cfg.Root, name))
		if gone := os.IsNotExist(err); gone != (want == nil || name == "absent") {
			t.Errorf("%s is gone: %v", name, gone)
		}
	}
}

// On a file system in memory, a call with Op.Try makes stable WRITEs and COMMITs, and nothing is
// synced.
func TestStableWritesInMemoryAreTried(t *testing.T) {
	memory, ok := places(t)["tmpfs"]
	if !ok {
		t.Skip("a tmpfs cannot be mounted")
	}
	w := newWorld(t, local.Config{Root: memory(t), Sync: true})
	f := w.create(w.fs.Root(), "f")
	op := vfs.Op{Cred: w.op.Cred, Try: true}
	for _, stable := range []vfs.Stability{vfs.Unstable, vfs.DataSync, vfs.FileSync} {
		n, got, _, err := w.fs.Write(&op, f, 0, [][]byte{[]byte("data")}, stable)
		w.ok(err, "Write")
		if n != 4 || got < stable {
			t.Errorf("%v: %d bytes, %v", stable, n, got)
		}
		_, err = w.fs.Commit(&op, f, 0, 0)
		w.ok(err, "Commit")
	}
	if s := w.fs.Stats(); s.Syncs != 0 || s.Unsynced != 0 {
		t.Errorf("%+v", s)
	}
}
