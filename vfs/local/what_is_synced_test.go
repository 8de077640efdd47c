package local_test

import (
	"fmt"
	"os"
	"reflect"
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
//
// Changes of extended attributes are among them (conformance row XA-24).
func TestEachChangeIsSyncedAsPromised(t *testing.T) {
	for _, on := range []struct {
		name   string
		dir    func(*testing.T) string
		logged bool
	}{
		{"tmpfs", places(t)["tmpfs"], true},
		{"ext4 with a journal", func(t *testing.T) string { return newDisk(t, diskKinds["journal"]...).dir }, true},
		{"XFS", xfs, true},
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
	// step makes a change and checks its sync calls. what begins with the name of the method.
	tested := map[string]bool{}
	step := func(what string, f func() error, want ...string) {
		t.Helper()
		method, _, _ := strings.Cut(what, " ")
		tested[strings.TrimRight(method, ",")] = true
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
		step(what+" that truncates", truncate, names("fsync f")...)
		if durable {
			step("Commit of a truncation that is durable", commit(f))
		} else {
			step("Commit of a truncation", commit(f), "fsync f")
		}
	}
	storageIsSynced(w, f, step, names)
	for _, method := range changingMethods() {
		if !tested[method] {
			t.Errorf("no step for %s", method)
		}
	}
	if _, err := os.Stat(w.path("f")); err != nil {
		t.Error(err)
	}
}

// storageIsSynced has the steps of the optional interfaces. It uses step and names of whatIsSynced.
func storageIsSynced(w *world, f vfs.Handle, step func(string, func() error, ...string), names func(string, ...string) []string) {
	source := w.create(w.fs.Root(), "source")
	w.ok(w.write(source, "0123456789"), "Write")
	open := func(h vfs.Handle, access vfs.OpenAccess) vfs.File {
		file, err := w.fs.Open(w.op, h, access)
		w.ok(err, "Open")
		return file
	}
	from, to := open(source, vfs.OpenRead), open(f, vfs.OpenWrite)
	defer from.Close()
	defer to.Close()
	w.ok(w.commit(source), "Commit")
	commit := func() error { _, err := to.Commit(w.op, 0, 0); return err }
	w.ok(commit(), "Commit")

	step("File.Write, unstable", func() error {
		_, _, _, err := to.Write(w.op, 0, [][]byte{[]byte("data")}, vfs.Unstable)
		return err
	})
	step("File.Commit", commit, "fsync f")
	step("File.Write, file", func() error {
		_, _, _, err := to.Write(w.op, 0, [][]byte{[]byte("data")}, vfs.FileSync)
		return err
	}, "fsync f")
	step("File.SetSize", func() error { _, err := to.SetSize(w.op, 3); return err }, names("fsync f")...)
	step("Allocate", func() error { return w.fs.Allocate(w.op, to, 0, 1<<16) }, names("fsync f")...)
	step("CopyRange", func() error { _, err := w.fs.CopyRange(w.op, from, 0, to, 0, 10); return err })
	step("File.Commit of the copy", commit, "fsync f")
	if err := w.fs.Deallocate(w.op, to, 0, 1<<12); err != vfs.ErrNotSupported { // ext4 without extents does not support it
		step("Deallocate", func() error { return w.fs.Deallocate(w.op, to, 0, 1<<16) }, names("fsync f")...)
	} else {
		step("Deallocate", func() error { return nil })
	}
	xattr := func() error { _, err := w.fs.SetXattr(w.op, f, []byte("x"), []byte("y"), vfs.XattrEither); return err }
	if err := xattr(); err == vfs.ErrNotSupported {
		step("SetXattr", func() error { return nil })
		step("RemoveXattr", func() error { return nil })
	} else {
		step("SetXattr", xattr, names("fsync f")...)
		step("RemoveXattr", func() error { _, err := w.fs.RemoveXattr(w.op, f, []byte("x")); return err }, names("fsync f")...)
	}
	_, err := to.SetSize(w.op, 0)
	w.ok(err, "SetSize")
	clone := func() error { return w.fs.CloneRange(w.op, from, 0, to, 0, 0) }
	if err := clone(); err == vfs.ErrNotSupported {
		step("CloneRange", func() error { return nil })
	} else {
		step("CloneRange", clone, names("fsync f")...)
	}
}

// changingMethods returns the names of the methods of the vfs interfaces that change files. It has all
// methods that take an Op, except those in this list: a new method is in the result until it is listed.
func changingMethods() (names []string) {
	looking := []string{"Info", "Usage", "GetAttr", "Access", "Lookup", "ReadLink", "Read", "ReadDir", "Open", "Seek", "GetXattr", "ListXattrs",
		"Place", "File.Read"}
	for prefix, seam := range map[string]reflect.Type{"": reflect.TypeFor[*local.FS](), "File.": reflect.TypeFor[vfs.File]()} {
		receiver := 0
		if seam.Kind() != reflect.Interface {
			receiver = 1
		}
		for i := range seam.NumMethod() {
			m := seam.Method(i)
			name := prefix + m.Name
			if m.Type.NumIn() > receiver && m.Type.In(receiver) == reflect.TypeFor[*vfs.Op]() && !slices.Contains(looking, name) {
				names = append(names, name)
			}
		}
	}
	return names
}
