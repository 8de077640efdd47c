package local_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// A read-only FS refuses every change with EROFS, with and without Op.Try, for any caller and any
// mode of the directory. It grants no right to change anything, and Info reports that it is
// read-only. Its files can be read.
func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"d", "d/empty"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "d/f"), []byte("text"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "d/fifo"), 0o666); err != nil {
		t.Fatal(err)
	}
	before := listed(t, dir)
	w := newWorld(t, local.Config{Root: dir, ReadOnly: true})
	find := func(in vfs.Handle, name string) vfs.Handle {
		h, err := w.lookup(in, name)
		w.ok(err, "Lookup ", name)
		return h
	}
	d := find(w.fs.Root(), "d")
	f, fifo := find(d, "f"), find(d, "fifo")

	s := mode(0o600)
	for what, change := range map[string]func(op *vfs.Op) error{
		"Write": func(op *vfs.Op) error {
			_, _, _, err := w.fs.Write(op, f, 0, [][]byte{[]byte("x")}, vfs.Unstable)
			return err
		},
		"Write of nothing": func(op *vfs.Op) error { _, _, _, err := w.fs.Write(op, f, 0, nil, vfs.Unstable); return err },
		"SetAttr":          func(op *vfs.Op) error { _, err := w.fs.SetAttr(op, f, &s, nil); return err },
		"SetAttr of the size": func(op *vfs.Op) error {
			_, err := w.fs.SetAttr(op, f, &vfs.SetAttr{SetSize: true}, nil)
			return err
		},
		"SetAttr of times": func(op *vfs.Op) error {
			_, err := w.fs.SetAttr(op, d, &vfs.SetAttr{MtimeHow: vfs.ServerTime}, nil)
			return err
		},
		"Create": func(op *vfs.Op) error {
			_, _, err := w.fs.Create(op, d, []byte("new"), &vfs.CreateHow{Mode: vfs.Guarded})
			return err
		},
		"Create, exclusive": func(op *vfs.Op) error {
			_, _, err := w.fs.Create(op, d, []byte("new"), &vfs.CreateHow{Mode: vfs.Exclusive})
			return err
		},
		"Create of what exists, truncated": func(op *vfs.Op) error {
			_, _, err := w.fs.Create(op, d, []byte("f"), &vfs.CreateHow{Attr: vfs.SetAttr{SetSize: true}})
			return err
		},
		"Mkdir": func(op *vfs.Op) error { _, _, err := w.fs.Mkdir(op, d, []byte("new"), &s); return err },
		"Symlink": func(op *vfs.Op) error {
			_, _, err := w.fs.Symlink(op, d, []byte("new"), []byte("text"), &s)
			return err
		},
		"Mknod": func(op *vfs.Op) error {
			_, _, err := w.fs.Mknod(op, d, []byte("new"), vfs.FIFO, &s, 0, 0)
			return err
		},
		"Remove": func(op *vfs.Op) error { _, err := w.fs.Remove(op, d, []byte("f")); return err },
		"Rmdir":  func(op *vfs.Op) error { _, err := w.fs.Rmdir(op, d, []byte("empty")); return err },
		"Rename": func(op *vfs.Op) error {
			_, _, err := w.fs.Rename(op, d, []byte("f"), d, []byte("g"))
			return err
		},
		"Link": func(op *vfs.Op) error { _, err := w.fs.Link(op, f, d, []byte("g"), new(vfs.Attr)); return err },
	} {
		w.want(change(&vfs.Op{Cred: w.op.Cred, Try: true}), syscall.EROFS, what+", tried")
		w.want(change(w.op), syscall.EROFS, what)
	}
	if after := listed(t, dir); after != before {
		t.Errorf("what was refused was done:\n%s\nbefore:\n%s", after, before)
	}

	const all = vfs.AccessRead | vfs.AccessLookup | vfs.AccessModify | vfs.AccessExtend | vfs.AccessDelete
	for _, c := range []struct {
		what string
		h    vfs.Handle
		want vfs.Access
	}{
		{"a file", f, vfs.AccessRead},
		{"a directory", d, vfs.AccessRead | vfs.AccessLookup},
		// Writing to a FIFO does not change the file system, so these rights are granted.
		{"a FIFO", fifo, vfs.AccessRead | vfs.AccessModify | vfs.AccessExtend},
	} {
		if got, err := w.fs.Access(w.op, c.h, all, new(vfs.Attr)); err != nil || got != c.want {
			t.Errorf("Access to %s: %#x, %v; want %#x", c.what, got, err, c.want)
		}
	}
	if info, err := w.fs.Info(w.op, d); err != nil || !info.ReadOnly {
		t.Errorf("Info: %+v, %v", info, err)
	}
	buf := make([]byte, 10)
	if n, _, err := w.fs.Read(w.op, f, 0, buf, new(vfs.Attr)); err != nil || string(buf[:n]) != "text" {
		t.Errorf("Read: %q, %v", buf[:n], err)
	}
}

// listed returns all names below a directory, with their modes and mtimes.
func listed(t *testing.T, dir string) (all string) {
	t.Helper()
	if err := filepath.Walk(dir, func(p string, st os.FileInfo, err error) error {
		if err == nil {
			all += p + " " + st.Mode().String() + " " + st.ModTime().Format(time.RFC3339Nano) + "\n"
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all
}
