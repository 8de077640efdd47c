package local_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// With Config.Sync, each change of names or attributes is durable before its call returns. Without
// it, only data is as durable as promised. A file with a new name is synced as well as the
// directory, unless the file system's log has both in one transaction. For an object without a
// descriptor to sync, the FS makes the log commit, or, without a log, syncs the whole file system.
func TestEachChangeIsSyncedAsPromised(t *testing.T) {
	for _, on := range []struct {
		name   string
		dir    func(*testing.T) string
		logged bool
	}{
		{"tmpfs", places(t)["tmpfs"], true},
		{"ext4 with a journal", func(t *testing.T) string { return newDisk(t, diskKinds["journal"]...).dir }, true},
		{"ext4 without a journal", func(t *testing.T) string { return newDisk(t, diskKinds["no journal"]...).dir }, false},
	} {
		for _, durable := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/sync=%v", on.name, durable), func(t *testing.T) {
				if on.dir == nil {
					t.Skip("cannot be mounted here")
				}
				whatIsSynced(t, on.dir(t), on.logged, durable)
			})
		}
	}
}

func whatIsSynced(t *testing.T, dir string, logged, durable bool) {
	s := newSyncs()
	w := newWorld(t, local.Config{Root: dir, Sync: durable, SyncHook: s.hook})
	root := w.fs.Root()
	// step makes a change and checks its sync calls.
	step := func(what string, f func() error, want ...string) {
		t.Helper()
		s.take(t, dir)
		w.ok(f(), what)
		if got := s.take(t, dir); !slices.Equal(got, want) {
			t.Errorf("%s: synced %q, not %q", what, got, want)
		}
	}
	// names returns the sync calls that a change of names must make: with a log, and without.
	names := func(with string, without ...string) []string {
		switch {
		case !durable:
			return nil
		case logged:
			return strings.Split(with, ", ")
		case without == nil:
			return strings.Split(with, ", ")
		}
		return without
	}
	write := func(h vfs.Handle, stable vfs.Stability) func() error {
		return func() error {
			_, got, _, err := w.fs.Write(w.op, h, 0, [][]byte{[]byte("data")}, stable)
			if got < stable {
				t.Errorf("done %v of %v", got, stable)
			}
			return err
		}
	}
	commit := func(h vfs.Handle) func() error {
		return func() error { _, err := w.fs.Commit(w.op, h, 0, 0); return err }
	}
	set := func(h vfs.Handle, a vfs.SetAttr) func() error {
		return func() error { _, err := w.fs.SetAttr(w.op, h, &a, nil); return err }
	}
	rename := func(from vfs.Handle, a string, to vfs.Handle, b string) func() error {
		return func() error { _, _, err := w.fs.Rename(w.op, from, []byte(a), to, []byte(b)); return err }
	}
	attr := mode(0o755)
	var a vfs.Attr
	var f, d, link vfs.Handle

	step("Create", func() error { f = w.create(root, "f"); return nil }, names("fsync .", "fsync .", "fsync f")...)
	step("Create, exclusive", func() error {
		_, _, err := w.fs.Create(w.op, root, []byte("x"), &vfs.CreateHow{Mode: vfs.Exclusive, Verifier: [8]byte{1}})
		return err
	}, names("fsync .", "fsync .", "fsync x")...)
	step("Mkdir", func() error { d = w.mkdir(root, "d"); return nil }, names("fsync .", "fsync .", "fsync d")...)
	step("Symlink", func() error {
		o, _, err := w.fs.Symlink(w.op, root, []byte("s"), []byte("to"), &vfs.SetAttr{})
		link = o.Handle
		return err
	}, names("fsync .", "syncfs .")...)
	step("Mknod", func() error {
		_, _, err := w.fs.Mknod(w.op, root, []byte("p"), vfs.FIFO, &attr, 0, 0)
		return err
	}, names("fsync .", "syncfs .")...)
	step("Link", func() error { _, err := w.fs.Link(w.op, f, d, []byte("l"), &a); return err }, names("fsync d", "fsync d", "fsync f")...)
	step("Rename in a directory", rename(d, "l", d, "k"), names("fsync d")...)
	step("Rename across directories", rename(d, "k", root, "m"), names("fsync ., fsync d")...)
	step("SetAttr", set(f, attr), names("fsync f")...)
	step("SetAttr of a directory", set(d, attr), names("fsync d")...)
	step("SetAttr of a symlink", set(link, vfs.SetAttr{MtimeHow: vfs.ClientTime}), names("fsync an unnamed file", "syncfs .")...)
	step("SetAttr of nothing", set(f, vfs.SetAttr{}))
	step("Remove", func() error { _, err := w.fs.Remove(w.op, root, []byte("m")); return err }, names("fsync .")...)
	step("Rmdir", func() error { _, err := w.fs.Rmdir(w.op, root, []byte("d")); return err }, names("fsync .")...)
	step("Create of what exists", func() error {
		_, _, err := w.fs.Create(w.op, root, []byte("f"), &vfs.CreateHow{Attr: mode(0o600)})
		return err
	})
	step("Create that truncates", func() error {
		_, _, err := w.fs.Create(w.op, root, []byte("f"), &vfs.CreateHow{Attr: vfs.SetAttr{SetSize: true}})
		return err
	}, names("fsync f")...)

	// FILE_SYNC and COMMIT also put the attributes on stable storage (RFC 1813 §3.3.7, §3.3.21).
	// The FS treats DATA_SYNC in the same way.
	commit(f)()
	step("Write, unstable", write(f, vfs.Unstable))
	step("Commit", commit(f), "fsync f")
	step("Commit of nothing new", commit(f))
	step("Write, data", write(f, vfs.DataSync), "fsync f")
	step("Commit of nothing new", commit(f))
	step("Write, file", write(f, vfs.FileSync), "fsync f")
	// The FS syncs uncommitted data after some time, together with the attributes. A later COMMIT
	// then has nothing to do.
	step("Write that is not committed", func() error {
		err := write(f, vfs.Unstable)()
		w.fs.Sweep(35)
		return err
	}, "fsync f")
	step("Commit of nothing new", commit(f))
	// A truncation is committed like a write.
	for what, truncate := range map[string]func() error{
		"SetAttr": set(f, vfs.SetAttr{SetSize: true, Size: 2}),
		"Create": func() error {
			_, _, err := w.fs.Create(w.op, root, []byte("f"), &vfs.CreateHow{Attr: vfs.SetAttr{SetSize: true}})
			return err
		},
	} {
		step("truncation by "+what, truncate, names("fsync f")...)
		if durable {
			step("Commit of a truncation that is durable", commit(f))
		} else {
			step("Commit of a truncation", commit(f), "fsync f")
		}
	}
	if _, err := os.Stat(w.path("f")); err != nil {
		t.Error(err)
	}
}
