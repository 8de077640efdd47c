package local_test

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// slowDisk mounts a file system whose disk is a file on another file system. stop freezes that
// other file system and so stops the disk. goOn ends this.
func slowDisk(t *testing.T, opts string, mkfs ...string) (dir string, stop, goOn func()) {
	t.Helper()
	if unix.Access("/dev/loop-control", unix.W_OK) != nil || os.Geteuid() != 0 {
		t.Skip("no disks can be made here")
	}
	in := func(where, size, opts string, mkfs ...string) string {
		image, dir := filepath.Join(where, "image"), t.TempDir()
		for _, c := range [][]string{{"truncate", "-s", size, image}, append(mkfs, image), {"mount", "-o", opts, image, dir}} {
			if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
				t.Skipf("%v: %v: %s", c, err, out)
			}
		}
		t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
		return dir
	}
	outer := in(t.TempDir(), "500M", "loop", "mkfs.ext4", "-q")
	dir = in(outer, "320M", "loop,"+opts, mkfs...)
	goOn = func() { exec.Command("fsfreeze", "-u", outer).Run() }
	t.Cleanup(goOn)
	return dir, func() {
		if out, err := exec.Command("fsfreeze", "-f", outer).CombinedOutput(); err != nil {
			t.Skipf("fsfreeze: %v: %s", err, out)
		}
	}, goOn
}

// begun starts do, which changes the file, and waits until the file's ctime has changed. At that
// moment the change itself has not taken effect yet. begun skips the test if do does not wait for
// the disk.
func begun(t *testing.T, file string, do func() error) (end chan error) {
	t.Helper()
	ctime := func() unix.Timespec {
		var st unix.Stat_t
		if err := unix.Stat(file, &st); err != nil {
			t.Fatal(err)
		}
		return st.Ctim
	}
	was := ctime()
	end = async(do)
	for ctime() == was {
		time.Sleep(time.Millisecond)
	}
	select {
	case err := <-end:
		t.Skipf("the change does not wait for the disk: %v", err)
	default:
	}
	return end
}

// If a name is looked up while its removal waits for the disk, it is not found after the removal,
// even if the directory's ctime does not change again.
func TestNameOfARemovalThatTakesLong(t *testing.T) {
	remove := func(w *world, d vfs.Handle) error { _, err := w.fs.Remove(w.op, d, []byte("a")); return err }
	rename := func(w *world, _ vfs.Handle) error { return os.Rename(w.path("d/a"), w.path("d/c")) }
	for name, c := range map[string]struct {
		opts, mkfs string
		do         func(w *world, d vfs.Handle) error
	}{
		"renamed by a local program, ext4": {"dirsync", "mkfs.ext4", rename},
		"removed by a client, ext4":        {"dirsync", "mkfs.ext4", remove},
		"renamed by a local program, XFS":  {"wsync", "mkfs.xfs", rename},
		"removed by a client, XFS":         {"wsync", "mkfs.xfs", remove},
	} {
		t.Run(name, func(t *testing.T) {
			dir, stop, goOn := slowDisk(t, c.opts, c.mkfs, "-q")
			w := newWorld(t, local.Config{Root: dir})
			d := w.mkdir(w.fs.Root(), "d")
			w.ok(w.write(w.create(d, "a"), "text"))
			w.ok(os.Link(w.path("d/a"), w.path("d/b"))) // a second name keeps the file
			syncAll(dir)
			find := func() error { _, err := w.lookup(d, "a"); return err }
			w.ok(find(), "Lookup")
			w.fs.Later(time.Hour) // so that every ctime counts as old
			stop()
			end := begun(t, w.path("d"), func() error { return c.do(w, d) })
			for range 2 {
				if err := find(); err != nil && !errors.Is(err, syscall.ENOENT) {
					t.Errorf("Lookup beside it: %v", err)
				}
			}
			goOn()
			w.ok(<-end)
			w.want(find(), syscall.ENOENT, "Lookup behind it")
		})
	}
}

// accessACL returns an ACL that gives user uid the rights perm, and lets the owner read and write.
func accessACL(uid uint32, perm uint16) []byte {
	b := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range []struct {
		tag, perm uint16
		id        uint32
	}{{1, 6, ^uint32(0)}, {2, perm, uid}, {4, 0, ^uint32(0)}, {16, 6, ^uint32(0)}, {32, 0, ^uint32(0)}} {
		b = binary.LittleEndian.AppendUint16(b, e.tag)
		b = binary.LittleEndian.AppendUint16(b, e.perm)
		b = binary.LittleEndian.AppendUint32(b, e.id)
	}
	return b
}

// If the kernel grants a right while the ACL that gives it is being removed, the FS forgets this
// verdict within seconds.
func TestRightOfAnACLThatIsBeingRemoved(t *testing.T) {
	others(t)
	dir, stop, goOn := slowDisk(t, "wsync", "mkfs.xfs", "-q")
	w := newWorld(t, local.Config{Root: dir})
	w.ok(os.Chmod(dir, 0o755))
	f := w.create(w.fs.Root(), "f")
	w.ok(os.Chmod(w.path("f"), 0o600))
	w.ok(unix.Setxattr(w.path("f"), "system.posix_acl_access", accessACL(1000, 6), 0))
	syncAll(dir)
	w.fs.Later(time.Hour) // so that every ctime counts as old
	ask := func() vfs.Access {
		has, err := w.fs.Access(as(id(1000, 1000)), f, vfs.AccessRead|vfs.AccessModify, new(vfs.Attr))
		w.ok(err, "Access")
		return has
	}
	if ask() != vfs.AccessRead|vfs.AccessModify {
		t.Fatal("the ACL grants nothing")
	}
	stop()
	end := begun(t, w.path("f"), func() error { return unix.Removexattr(w.path("f"), "system.posix_acl_access") })
	t.Logf("while the ACL is being removed: %b", ask())
	goOn()
	w.ok(<-end)
	w.fs.Sweep(10)
	if has := ask(); has != 0 {
		t.Errorf("ten seconds after the ACL was removed: %b", has)
	}
	_, _, err := w.fs.Read(as(id(1000, 1000)), f, 0, make([]byte, 1), new(vfs.Attr))
	w.want(err, syscall.EACCES, "Read")
}
