package local_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// A read-only FS refuses every change with EROFS, with and without Op.Try, for any caller and any
// mode of the directory. It grants no right to change anything, and Info reports that it is
// read-only. Its files can be read. All this holds for a read-only mount, too; there a call with
// Op.Try need not know.
func TestReadOnly(t *testing.T) {
	t.Run("FS", func(t *testing.T) { testReadOnly(t, t.TempDir(), local.Config{ReadOnly: true}) })
	t.Run("mount", func(t *testing.T) {
		dir := t.TempDir()
		if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
			t.Skip(err)
		}
		t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
		testReadOnly(t, dir, local.Config{})
	})
}

func testReadOnly(t *testing.T, dir string, cfg local.Config) {
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
	if !cfg.ReadOnly {
		if err := unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
			t.Fatal(err)
		}
	}
	cfg.Root = dir
	w := newWorld(t, cfg)
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
		if err := change(&vfs.Op{Cred: w.op.Cred, Try: true}); cfg.ReadOnly || err != vfs.ErrWouldBlock {
			w.want(err, syscall.EROFS, what+", tried")
		}
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

// An FS follows a remount of its file system: from read-only to writable, and back.
func TestRemount(t *testing.T) {
	if !local.CanSwitch() {
		t.Skip("needs two users")
	}
	d := newDiskOf(t, "ext4")
	if err := os.WriteFile(filepath.Join(d.dir, "f"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(d.dir, "f"), 0o666); err != nil {
		t.Fatal(err)
	}
	remount := func(flags uintptr) {
		t.Helper()
		await.Until(t, "the remount is done, when no file is open for writing", func() bool {
			err := unix.Mount("", d.dir, "", unix.MS_REMOUNT|flags, "")
			if err != nil && err != unix.EBUSY {
				t.Fatal(err)
			}
			return err == nil
		})
	}
	remount(unix.MS_RDONLY)
	w := newWorld(t, local.Config{Root: d.dir, Sync: true})
	f, err := w.lookup(w.fs.Root(), "f")
	w.ok(err, "Lookup")
	users := map[string]*vfs.Op{"owner": w.op, "another user": {Cred: &vfs.Cred{UID: 1000, GID: 1000}}}
	for _, readOnly := range []bool{true, false, true, false} {
		var want error
		if readOnly {
			want = syscall.EROFS
		}
		for who, op := range users {
			_, _, _, err := w.fs.Write(op, f, 0, [][]byte{[]byte("x")}, vfs.FileSync)
			w.want(err, want, "Write by "+who)
			has, err := w.fs.Access(op, f, vfs.AccessRead|vfs.AccessModify, new(vfs.Attr))
			w.ok(err, "Access")
			if has&vfs.AccessRead == 0 || (has&vfs.AccessModify == 0) != readOnly {
				t.Errorf("read-only %v: Access of %s: %#x", readOnly, who, has)
			}
			file, err := w.fs.Open(op, f, vfs.OpenWrite)
			w.want(err, want, "Open by "+who)
			if err == nil {
				file.Close()
			}
		}
		if info, err := w.fs.Info(w.op, f); err != nil || info.ReadOnly != readOnly {
			t.Errorf("read-only %v: Info: %+v, %v", readOnly, info, err)
		}
		w.fs.Sweep(5) // closes the descriptors, which hinder a remount
		if readOnly {
			remount(0)
		} else {
			remount(unix.MS_RDONLY)
		}
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
