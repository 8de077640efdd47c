package local_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// newXFS makes and mounts an XFS file system on an image of 300 MB, the smallest size of XFS. Most
// of the image is holes.
func newXFS(t *testing.T) *disk {
	if unix.Access("/dev/loop-control", unix.W_OK) != nil || os.Geteuid() != 0 {
		t.Skip("no disks can be made here")
	}
	d := &disk{t, filepath.Join(t.TempDir(), "image"), t.TempDir(), "loop,nouuid"}
	if err := os.WriteFile(d.image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(d.image, 300<<20); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs.xfs", "-q", d.image).CombinedOutput(); err != nil {
		t.Skipf("mkfs.xfs: %v: %s", err, out)
	}
	d.mount()
	return d
}

// The owner of a new object is on the disk when the call returns, even if the file system commits
// its log between the system call that makes the name and the one that sets the owner.
func TestPowerCutAfterACommitBetweenNameAndOwner(t *testing.T) {
	others(t)
	disks := map[string]func(t *testing.T) *disk{"XFS": newXFS}
	for name, options := range diskKinds {
		disks["ext4, "+name] = func(t *testing.T) *disk { return newDisk(t, options...) }
	}
	for name, made := range disks {
		t.Run(name, func(t *testing.T) {
			d := made(t)
			w := newWorld(t, local.Config{Root: d.dir, Sync: true})
			root := w.fs.Root()
			s := vfs.SetAttr{SetMode: true, Mode: 0o6711, SetUID: true, UID: 1001, SetGID: true, GID: 1002}
			committed := 0
			w.fs.OnNote(func() {
				w.ok(syncAll(d.dir), "syncfs")
				committed++
			})
			for what, do := range map[string]func(name []byte) error{
				"file": func(name []byte) error {
					_, _, err := w.fs.Create(w.op, root, name, &vfs.CreateHow{Attr: s})
					return err
				},
				"directory": func(name []byte) error {
					_, _, err := w.fs.Mkdir(w.op, root, name, &s)
					return err
				},
				"symlink": func(name []byte) error {
					_, _, err := w.fs.Symlink(w.op, root, name, []byte("to"), &s)
					return err
				},
				"fifo": func(name []byte) error {
					_, _, err := w.fs.Mknod(w.op, root, name, vfs.FIFO, &s, 0, 0)
					return err
				},
			} {
				before := committed
				w.ok(do([]byte(what)), what)
				if committed == before {
					t.Fatalf("%s: nothing was committed in between: the test proves nothing", what)
				}
				left := d.cut()
				var st unix.Stat_t
				err := unix.Lstat(filepath.Join(left.dir, what), &st)
				if err != nil || st.Uid != 1001 || st.Gid != 1002 || what != "symlink" && st.Mode&0o7777 != 0o6711 {
					t.Errorf("%s: %v, owned by %d:%d with mode %o", what, err, st.Uid, st.Gid, st.Mode&0o7777)
				}
			}
		})
	}
}

// The verifier of an exclusive create is made durable with the name, even if it is stored after
// the name was made.
func TestMarksMadeAfterTheNameAreSynced(t *testing.T) {
	d := newDisk(t, diskKinds["journal"]...)
	for _, unnamed := range []bool{true, false} {
		s := newSyncs()
		w := newWorld(t, local.Config{Root: d.dir, Sync: true, SyncHook: s.hook})
		w.fs.SetUnnamed(unnamed)
		how := &vfs.CreateHow{Mode: vfs.Exclusive, Verifier: [8]byte{1}}
		name := fmt.Sprint("f", unnamed)
		_, _, err := w.fs.Create(w.op, w.fs.Root(), []byte(name), how)
		w.ok(err, "Create")
		// The sync of the directory stores the name. The file needs a sync of its own if the
		// verifier is not in the same transaction.
		want := map[bool][]string{true: {"fsync ."}, false: {"fsync .", "fsync " + name}}[unnamed]
		if got := s.take(t, d.dir); !slices.Equal(got, want) {
			t.Errorf("unnamed %v: synced %q, not %q", unnamed, got, want)
		}
	}
}

// A create without further attributes makes one sync call. A create with further attributes makes
// one more.
func TestOneSyncForAPlainCreate(t *testing.T) {
	others(t)
	d := newDisk(t, diskKinds["journal"]...)
	s := newSyncs()
	w := newWorld(t, local.Config{Root: d.dir, Sync: true, SyncHook: s.hook})
	attr := vfs.SetAttr{SetMode: true, Mode: 0o644, SetUID: true, UID: w.op.Cred.UID, SetGID: true, GID: w.op.Cred.GID}
	_, _, err := w.fs.Create(w.op, w.fs.Root(), []byte("f"), &vfs.CreateHow{Attr: attr})
	w.ok(err, "Create")
	_, _, err = w.fs.Mkdir(w.op, w.fs.Root(), []byte("d"), &attr)
	w.ok(err, "Mkdir")
	if n := s.total(); n != 2 {
		t.Errorf("%d syncs for two plain objects", n)
	}
	attr.UID = 1001
	_, _, err = w.fs.Create(w.op, w.fs.Root(), []byte("another's"), &vfs.CreateHow{Attr: attr})
	w.ok(err, "Create")
	if n := s.total(); n != 4 {
		t.Errorf("%d syncs for a file of another owner", n-2)
	}
}
