package local_test

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
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest/stalled"
)

func (w *world) open(h vfs.Handle, access vfs.OpenAccess) vfs.File {
	w.Helper()
	f, err := w.fs.Open(w.op, h, access)
	w.ok(err, "Open")
	w.Cleanup(f.Close)
	return f
}

// All Files of one inode share one descriptor for reading and one for writing. The sweeper closes neither
// before the last File that needs it is closed. Only the node is pinned.
func TestOpenFilesShareADescriptor(t *testing.T) {
	w := newWorld(t, local.Config{})
	h := w.used("f")
	w.fs.Sweep(5)
	if n := w.fs.Stats().OpenFiles; n != 0 {
		t.Fatalf("%d files open before the test", n)
	}
	w.later() // so that the FS remembers verdicts from now on
	files := []vfs.File{w.open(h, vfs.OpenRead), w.open(h, vfs.OpenWrite)}
	for _, access := range []vfs.OpenAccess{vfs.OpenRead, vfs.OpenWrite} {
		again, err := w.fs.Open(&vfs.Op{Cred: w.op.Cred, Try: true}, h, access)
		w.ok(err, "Open that is tried, of what is open")
		files = append(files, again)
	}
	for range 100 {
		files = append(files, w.open(h, vfs.OpenRead), w.open(h, vfs.OpenWrite), w.open(h, vfs.OpenRead|vfs.OpenWrite))
	}
	held := func(when string, open, pinned int64) {
		t.Helper()
		if st := w.fs.Stats(); st.OpenFiles != open || st.Pinned != pinned {
			t.Errorf("%s %d descriptors are open and %d pinned, want %d and %d", when, st.OpenFiles, st.Pinned, open, pinned)
		}
	}
	held("with 300 Files", 2, 1)
	w.fs.Sweep(100)
	w.fs.EvictAll()
	held("after a hundred idle seconds", 2, 1)
	for _, f := range files[1:] {
		f.Close()
	}
	await.Until(t, "the descriptor for writing is closed", func() bool { return w.fs.Stats().OpenFiles == 1 })
	w.fs.Sweep(3)
	held("with a File to read", 1, 1)
	var a vfs.Attr
	if n, _, err := files[0].Read(&vfs.Op{Cred: w.op.Cred, Try: true}, 0, make([]byte, 4), &a); n != 4 && !errors.Is(err, vfs.ErrWouldBlock) {
		t.Errorf("Read: %d, %v", n, err)
	}
	files[0].Close()
	w.fs.Sweep(3)
	held("with none", 0, 0)
}

// A removed file that is open stays after rounds of the sweeper, also if another process removed
// it. After its last Close, no descriptor of it is open.
func TestOpenFilesOutliveSweeps(t *testing.T) {
	for _, index := range []bool{false, true} {
		w := newWorld(t, local.Config{IndexHandles: index})
		for _, by := range []string{"us", "another process"} {
			h := w.used(by)
			f := w.open(h, vfs.OpenRead|vfs.OpenWrite)
			w.ok(w.write(h, "more"), "Write")
			if by == "us" {
				w.remove(w.fs.Root(), by)
			} else {
				w.ok(os.Remove(w.path(by)), "remove")
			}
			w.fs.Sweep(100)
			w.fs.EvictAll()
			if a, err := w.attr(h); err != nil || a.Nlink != 0 || a.Size != 4 {
				t.Errorf("removed by %s: %+v, %v", by, a, err)
			}
			_, err := f.Commit(w.op, 0, 0)
			w.ok(err, "Commit")
			f.Close()
			await.Until(t, "nothing is open", func() bool { return w.fs.Stats().OpenFiles == 0 })
			if _, err := w.attr(h); err == nil {
				t.Errorf("removed by %s: the file is there after the last Close", by)
			}
			await.Until(t, "its descriptors are closed", func() bool { return len(holding(t, w.path())) == 0 })
		}
	}
}

// However many files clients open, enough descriptors stay available for other files.
func TestOpenFilesAreBounded(t *testing.T) {
	w := newWorld(t, local.Config{Descriptors: local.NewDescriptors(200)})
	var files []vfs.File
	var refused vfs.Handle
	for i := range 200 {
		h := w.create(w.fs.Root(), fmt.Sprint("f", i))
		f, err := w.fs.Open(w.op, h, vfs.OpenRead|vfs.OpenWrite)
		if err != nil {
			w.want(err, vfs.ErrDelay, "Open beyond the bound")
			refused = h
			break
		}
		files = append(files, f)
	}
	if len(files) < 100 || refused.IsZero() {
		t.Fatalf("%d files could be opened, a file more: %v", len(files), !refused.IsZero())
	}
	for i := range 300 {
		w.used(fmt.Sprint("other", i))
	}
	if held := w.fs.Stats(); held.OpenFiles+held.Nodes > 200 {
		t.Errorf("%+v", held)
	}
	// Opening an open file once more needs no further descriptor.
	first, err := w.lookup(w.fs.Root(), "f0")
	w.ok(err, "Lookup")
	w.open(first, vfs.OpenWrite).Close()
	w.open(first, vfs.OpenRead).Close()
	if _, err = w.fs.Open(w.op, refused, vfs.OpenRead); err != vfs.ErrDelay {
		t.Errorf("Open of one file too many: %v", err)
	}
	files[3].Close()
	w.open(refused, vfs.OpenRead)
	for _, f := range files {
		f.Close()
	}
	if n := w.fs.Stats().Pinned; n != 1 {
		t.Errorf("%d descriptors are pinned by one File", n)
	}
}

// If a file that is open through one export is removed through another export, it stays until it
// is closed.
func TestOpenFileRemovedThroughAnotherExport(t *testing.T) {
	base := t.TempDir()
	if err := os.Mkdir(filepath.Join(base, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	outer, inner := newWorld(t, local.Config{Root: base}), newWorld(t, local.Config{Root: filepath.Join(base, "sub")})
	h := inner.used("f")
	f := inner.open(h, vfs.OpenRead)
	sub, err := outer.lookup(outer.fs.Root(), "sub")
	outer.ok(err, "Lookup")
	_, err = outer.lookup(sub, "f")
	outer.ok(err, "Lookup")
	outer.remove(sub, "f")
	inner.fs.Sweep(10)
	if _, err := inner.attr(h); err != nil {
		t.Errorf("GetAttr of a file that is open: %v", err)
	}
	var a vfs.Attr
	if n, _, err := f.Read(inner.op, 0, make([]byte, 4), &a); n != 4 || err != nil {
		t.Errorf("Read: %d, %v", n, err)
	}
}

// On a read-only export, Open for writing fails with EROFS.
func TestOpenOfAReadOnlyExport(t *testing.T) {
	w := newWorld(t, local.Config{})
	w.used("f")
	w.again(local.Config{Root: w.cfg.Root, StateDir: w.cfg.StateDir, ReadOnly: true})
	h, err := w.lookup(w.fs.Root(), "f")
	w.ok(err, "Lookup")
	for _, access := range []vfs.OpenAccess{vfs.OpenWrite, vfs.OpenRead | vfs.OpenWrite | vfs.OpenOwner} {
		_, err = w.fs.Open(w.op, h, access)
		w.want(err, unix.EROFS, "Open to write")
	}
	w.open(h, vfs.OpenRead)
}

// Reads and writes through a File allocate no memory.
func TestFilesAllocateNothing(t *testing.T) {
	w := newWorld(t, local.Config{})
	h := w.used("f")
	settle(t, w.fs, w.op.Cred, h)
	f := w.open(h, vfs.OpenRead|vfs.OpenWrite)
	try := &vfs.Op{Cred: w.op.Cred, Try: true}
	var a vfs.Attr
	buf, data := make([]byte, 4), [][]byte{make([]byte, 4)}
	for _, c := range []struct {
		what string
		call func() error
	}{
		{"Read", func() error { _, _, err := f.Read(try, 0, buf, &a); return err }},
		{"Write", func() error { _, _, _, err := f.Write(w.op, 0, data, vfs.Unstable); return err }},
	} {
		if err := c.call(); err != nil {
			t.Errorf("%s: %v", c.what, err)
		} else if n := testing.AllocsPerRun(100, func() { c.call() }); n >= 1 && !raceEnabled {
			t.Errorf("%s allocates %v times", c.what, n)
		}
	}
}

// defaultACL returns a value of system.posix_acl_default (linux/posix_acl_xattr.h) with rights for
// the owner, the group and others.
func defaultACL(user, group, other uint16) []byte {
	b := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range [][2]uint16{{0x01, user}, {0x04, group}, {0x20, other}} {
		b = binary.LittleEndian.AppendUint16(b, e[0])
		b = binary.LittleEndian.AppendUint16(b, e[1])
		b = binary.LittleEndian.AppendUint32(b, ^uint32(0))
	}
	return b
}

// If the directory has a default ACL, the ACL decides instead of the umask (RFC 8275).
func TestUmaskLeavesDefaultACLs(t *testing.T) {
	w := newWorld(t, local.Config{})
	d := w.mkdir(w.fs.Root(), "d")
	if err := unix.Setxattr(w.path("d"), "system.posix_acl_default", defaultACL(7, 7, 5), 0); err != nil {
		t.Skip(err)
	}
	s := mode(0o666)
	s.UseUmask, s.Umask = true, 0o077
	for dir, want := range map[vfs.Handle]struct{ file, dir uint32 }{d: {0o664, 0o775}, w.fs.Root(): {0o600, 0o700}} {
		for how, m := range map[string]vfs.CreateMode{"guarded": vfs.Guarded, "exclusive": vfs.Exclusive} {
			o, _, err := w.fs.Create(w.op, dir, []byte(how), &vfs.CreateHow{Mode: m, Attr: s})
			w.ok(err, "Create")
			if o.Attr.Mode != want.file {
				t.Errorf("%s: mode %o, want %o", how, o.Attr.Mode, want.file)
			}
		}
		s := s
		s.Mode = 0o777
		o, _, err := w.fs.Mkdir(w.op, dir, []byte("sub"), &s)
		w.ok(err, "Mkdir")
		if o.Attr.Mode != want.dir {
			t.Errorf("directory: mode %o, want %o", o.Attr.Mode, want.dir)
		}
	}
}

// The Close of a File never waits, even if the file system stalls and the file has no name any
// more.
func TestCloseOfAFileNeverWaits(t *testing.T) {
	if !stalled.Alone(t, 1) {
		return
	}
	m := stalled.Mount(t)
	w := newWorld(t, local.Config{Root: m.Dir})
	for _, removed := range []bool{false, true} {
		h := w.create(w.fs.Root(), "f")
		f := w.open(h, vfs.OpenRead|vfs.OpenWrite)
		_, _, _, err := f.Write(w.op, 0, [][]byte{[]byte("text")}, vfs.Unstable)
		w.ok(err, "Write")
		if removed {
			w.remove(w.fs.Root(), "f")
		}
		m.Stall()
		ends(t, "Close", f.Close)
		m.LetGo()
		if !removed {
			w.remove(w.fs.Root(), "f")
		}
	}
	w.ok(w.fs.Close(), "Close")
}
