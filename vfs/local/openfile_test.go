package local_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// holding returns the files below dir of which this process has an open descriptor.
func holding(t *testing.T, dir string) (files []string) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(to, dir+"/") {
			files = append(files, to)
		}
	}
	return files
}

// used makes a file, writes it and reads it, so that the FS has it open for reading and writing.
func (w *world) used(name string) vfs.Handle {
	w.Helper()
	f := w.create(w.fs.Root(), name)
	w.ok(w.write(f, "text"), "Write")
	_, err := w.fs.Commit(w.op, f, 0, 0)
	w.ok(err, "Commit")
	w.readSome(f)
	return f
}

func (w *world) readSome(f vfs.Handle) {
	w.Helper()
	var a vfs.Attr
	_, _, err := w.fs.Read(w.op, f, 0, make([]byte, 4), &a)
	w.ok(err, "Read")
}

// The space of a removed file is free at once: no descriptor of the file stays open, even if its
// data was never committed.
func TestRemoveLetsGo(t *testing.T) {
	w := newWorld(t, local.Config{})
	root := w.fs.Root()
	w.used("removed")
	dirty := w.used("dirty")
	w.ok(w.write(dirty, "more"), "Write")
	w.used("over")
	w.used("mover")
	d := w.mkdir(root, "dir")
	var a vfs.Attr
	_, err := w.fs.ReadDir(w.op, d, 0, false, &a, func(*vfs.DirEntry) bool { return true })
	w.ok(err, "ReadDir")

	w.remove(root, "removed")
	w.remove(root, "dirty")
	_, _, err = w.fs.Rename(w.op, root, []byte("mover"), root, []byte("over"))
	w.ok(err, "Rename")
	_, err = w.fs.Rmdir(w.op, root, []byte("dir"))
	w.ok(err, "Rmdir")
	for _, f := range holding(t, w.cfg.Root) {
		if strings.HasSuffix(f, " (deleted)") {
			t.Errorf("%s is held", f)
		}
	}
}

// If another process removes a file, its handle is stale at once, and the sweeper closes its
// descriptors.
func TestOthersRemovalLetsGo(t *testing.T) {
	w := newWorld(t, local.Config{})
	f := w.used("f")
	w.used("g")
	w.ok(os.Remove(w.path("f")))
	w.ok(os.Remove(w.path("g")))
	_, err := w.attr(f)
	w.want(err, syscall.ESTALE, "GetAttr")
	w.fs.Sweep(10)
	if left := holding(t, w.cfg.Root); len(left) != 0 {
		t.Errorf("held: %v", left)
	}
}

// The FS closes an idle file within seconds, so that programs can execute it. A file with
// uncommitted data stays open until it is synced.
func TestIdleFilesAreClosed(t *testing.T) {
	w := newWorld(t, local.Config{})
	f := w.used("f")
	w.ok(w.write(f, "#!/bin/true\n"), "Write")
	w.fs.Sweep(5)
	if n := w.fs.Stats().OpenFiles; n != 1 {
		t.Errorf("%d open with data that was not committed", n)
	}
	s := mode(0o755)
	_, err := w.fs.SetAttr(w.op, f, &s, nil)
	w.ok(err, "SetAttr")
	_, err = w.fs.Commit(w.op, f, 0, 0)
	w.ok(err, "Commit")
	w.fs.Sweep(5)
	if n := w.fs.Stats().OpenFiles; n != 0 {
		t.Errorf("%d open after a time", n)
	}
	if err := exec.Command(w.path("f")).Run(); err != nil {
		t.Errorf("exec: %v", err)
	}
	w.ok(w.write(f, "x"), "Write")
	before := w.fs.Stats().Syncs
	w.fs.Sweep(40)
	if st := w.fs.Stats(); st.OpenFiles != 0 || st.Syncs == before {
		t.Errorf("what was not committed: %+v", st)
	}
}

// The caches stay within their limits, and files beyond the limits are served as well.
func TestBounds(t *testing.T) {
	w := newWorld(t, local.Config{Descriptors: local.NewDescriptors(44)})
	var files []vfs.Handle
	for i := range 100 {
		files = append(files, w.used(fmt.Sprint("f", i)))
	}
	for range 2 {
		for _, f := range files {
			w.readSome(f)
		}
	}
	if st := w.fs.Stats(); st.Nodes > 40 || st.OpenFiles > 40 {
		t.Errorf("%+v", st)
	}
}

// The FS opens only regular files: a FIFO would block, and opening a device may have
// effects.
func TestOnlyRegularFilesAreOpened(t *testing.T) {
	w := newWorld(t, local.Config{})
	s := mode(0o666)
	o, _, err := w.fs.Mknod(w.op, w.fs.Root(), []byte("fifo"), vfs.FIFO, &s, 0, 0)
	w.ok(err, "Mknod")
	var a vfs.Attr
	_, _, err = w.fs.Read(w.op, o.Handle, 0, make([]byte, 1), &a)
	w.want(err, syscall.EINVAL, "Read")
	w.want(w.write(o.Handle, "x"), syscall.EINVAL, "Write")
	_, err = w.fs.Commit(w.op, o.Handle, 0, 0)
	w.want(err, syscall.EINVAL, "Commit")
	_, err = w.fs.SetAttr(w.op, o.Handle, &vfs.SetAttr{SetSize: true}, nil)
	w.want(err, syscall.EINVAL, "SetAttr of the size")
	w.want(w.write(w.fs.Root(), "x"), syscall.EISDIR, "Write to a directory")
}

// If another process has a lease on the file, calls return ErrDelay instead of waiting for its
// end.
func TestLeases(t *testing.T) {
	w := newWorld(t, local.Config{})
	f := w.used("f")
	w.fs.Sweep(5)
	holder, err := os.OpenFile(w.path("f"), os.O_RDONLY, 0)
	w.ok(err, "open")
	defer holder.Close()
	if _, err = unix.FcntlInt(holder.Fd(), unix.F_SETLEASE, unix.F_RDLCK); err != nil {
		t.Skip(err)
	}
	w.want(w.write(f, "x"), vfs.ErrDelay, "Write to a leased file")
	_, err = unix.FcntlInt(holder.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
	w.ok(err, "F_UNLCK")
	w.ok(w.write(f, "x"), "Write after the lease")
}

// Calls with Op.Try whose answers are in memory, and writes, allocate no memory.
func TestNothingAllocated(t *testing.T) {
	w := newWorld(t, local.Config{})
	d := w.mkdir(w.fs.Root(), "d")
	f := w.create(d, "f")
	w.ok(w.write(f, strings.Repeat("x", 8192)), "Write")
	settle(t, w.fs, w.op.Cred, f)
	try := &vfs.Op{Cred: w.op.Cred, Try: true}
	var a vfs.Attr
	_, err := w.fs.Lookup(w.op, d, []byte("f"), &a)
	w.ok(err, "Lookup")
	_, err = w.fs.Access(w.op, f, 0x3f, &a)
	w.ok(err, "Access")
	name, buf, data := []byte("f"), make([]byte, 4096), [][]byte{make([]byte, 4096)}
	for _, c := range []struct {
		what string
		call func() error
	}{
		{"GetAttr", func() error { return w.fs.GetAttr(try, f, &a) }},
		{"Access", func() error { _, err := w.fs.Access(try, f, 0x3f, &a); return err }},
		{"Lookup", func() error { _, err := w.fs.Lookup(try, d, name, &a); return err }},
		{"Read", func() error { _, _, err := w.fs.Read(try, f, 0, buf, &a); return err }},
		// Write comes last, because the read after a write updates the atime.
		{"Write", func() error { _, _, _, err := w.fs.Write(w.op, f, 0, data, vfs.Unstable); return err }},
	} {
		if err := c.call(); err != nil {
			t.Errorf("%s: %v", c.what, err)
		} else if n := testing.AllocsPerRun(100, func() { c.call() }); n >= 1 && !raceEnabled {
			t.Errorf("%s allocates %v times", c.what, n)
		}
	}
}

// Many concurrent callers get correct answers while the caches are far too small and the
// sweeper runs. Afterwards no descriptor is left open.
func TestManyAtOnce(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	for _, index := range []bool{false, true} {
		root := t.TempDir()
		fs, err := local.New(local.Config{Root: root, StateDir: t.TempDir(), IndexHandles: index, Descriptors: local.NewDescriptors(36), Sync: true})
		if err != nil {
			t.Fatal(err)
		}
		self := local.Identity()
		w := &world{t, fs, local.Config{Root: root}, &vfs.Op{Cred: &self}}
		var dirs []vfs.Handle
		for i := range 4 {
			dirs = append(dirs, w.mkdir(fs.Root(), fmt.Sprint("d", i)))
		}
		stop, swept := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(swept)
			for {
				select {
				case <-stop:
					return
				default:
					fs.Sweep(1)
				}
			}
		}()
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for j := range 40 {
					name, moved := fmt.Sprintf("f%d.%d", i, j), fmt.Sprintf("m%d.%d", i, j)
					from, to := dirs[(i+j)%4], dirs[(i*3+j)%4]
					o, _, err := fs.Create(w.op, from, []byte(name), &vfs.CreateHow{Mode: vfs.Guarded, Attr: mode(0o644)})
					if err != nil {
						t.Error("Create", err)
						return
					}
					if err = w.write(o.Handle, name); err == nil {
						_, _, err = fs.Rename(w.op, from, []byte(name), to, []byte(moved))
					}
					buf := make([]byte, 20)
					var a vfs.Attr
					n := 0
					if err == nil {
						n, _, err = fs.Read(w.op, o.Handle, 0, buf, &a)
					}
					if err != nil || string(buf[:n]) != name {
						t.Errorf("%s: %q, %v", name, buf[:n], err)
					}
					if j%2 == 0 {
						if _, err = fs.Remove(w.op, to, []byte(moved)); err != nil {
							t.Error("Remove", err)
						}
					}
				}
			})
		}
		wg.Wait()
		close(stop)
		<-swept
		w.ok(fs.Close(), "Close")
		if left := holding(t, root); len(left) != 0 {
			t.Errorf("left open: %v", left)
		}
		if st := fs.Stats(); st.Nodes != 0 || st.OpenFiles != 0 {
			t.Errorf("%+v", st)
		}
	}
}
