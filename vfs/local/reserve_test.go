package local_test

import (
	"errors"
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// reserved mounts an ext4 file system that reserves a quarter of its blocks for user 0, and makes
// a file of user 1001 in it.
func reserved(t *testing.T) (w *world, file vfs.Handle) {
	others(t)
	w = newWorld(t, local.Config{Root: newDisk(t, "-m", "25").dir})
	s := vfs.SetAttr{SetMode: true, Mode: 0o600, SetUID: true, UID: 1001, SetGID: true, GID: 1001}
	o, _, err := w.fs.Create(w.op, w.fs.Root(), []byte("f"), &vfs.CreateHow{Attr: s})
	w.ok(err, "Create")
	return w, o.Handle
}

// fill writes to the file as c, from offset on, until no space is left. It returns the
// number of bytes written.
func (w *world) fill(c *vfs.Cred, file vfs.Handle, offset uint64, piece int) (wrote uint64) {
	w.Helper()
	data := [][]byte{make([]byte, piece)}
	for wrote < 64<<20 {
		n, _, _, err := w.fs.Write(&vfs.Op{Cred: c}, file, offset+wrote, data, vfs.Unstable)
		wrote += uint64(n)
		switch {
		case errors.Is(err, syscall.ENOSPC) && len(data[0]) > 4096:
			data[0] = data[0][:4096] // try smaller pieces for the remaining space
		case errors.Is(err, syscall.ENOSPC):
			return wrote
		default:
			w.ok(err, "Write")
		}
	}
	w.Fatal("the file system is never full")
	return 0
}

// ownBlocks is the space, in bytes, that the file system itself may take from the reserve for its
// extent trees.
const ownBlocks = 64 << 10

// space returns the free bytes, and how many of them users other than user 0 may use.
func (w *world) space() (free, available int64) {
	w.Helper()
	var s unix.Statfs_t
	w.ok(unix.Statfs(w.cfg.Root, &s))
	return int64(s.Bfree) * s.Frsize, int64(s.Bavail) * s.Frsize
}

// Writes of other users do not use up the blocks that are reserved for user 0. User 0 itself may
// use them, as with Linux's NFS server.
func TestReserveIsUser0s(t *testing.T) {
	user := id(1001, 1001)
	for name, piece := range map[string]int{"large writes": 1 << 20, "small writes": 5000} {
		t.Run(name, func(t *testing.T) {
			w, f := reserved(t)
			free, available := w.space()
			reserve := free - available
			if reserve < 4<<20 {
				t.Fatalf("the reserve is %d bytes", reserve)
			}
			wrote := w.fill(user, f, 0, piece)
			_, err := w.fs.Commit(&vfs.Op{Cred: user}, f, 0, 0)
			w.ok(err, "Commit")
			wrote += w.fill(user, f, wrote, piece) // use the space that the first call left
			if free, _ = w.space(); free < reserve-ownBlocks {
				t.Errorf("of a reserve of %d bytes %d are left", reserve, free)
			}
			if int64(wrote) < available*9/10 {
				t.Errorf("%d bytes could be written of %d", wrote, available)
			}
			// Existing blocks can be overwritten.
			_, _, _, err = w.fs.Write(&vfs.Op{Cred: user}, f, 100, [][]byte{{1}}, vfs.FileSync)
			w.ok(err, "Write to what is there")
			if more := w.fill(w.op.Cred, f, wrote, piece); int64(more) < reserve/2 {
				t.Errorf("user 0 could write %d bytes to a reserve of %d", more, reserve)
			}
		})
	}
}

// Writes of single bytes do not use up the reserve: the FS counts the blocks that writes take.
func TestReserveAndSingleBytes(t *testing.T) {
	w, f := reserved(t)
	free, available := w.space()
	reserve := free - available
	user := &vfs.Op{Cred: id(1001, 1001)}
	var err error
	for i := uint64(0); err == nil; i++ {
		_, _, _, err = w.fs.Write(user, f, i<<12, [][]byte{{1}}, vfs.Unstable)
	}
	w.want(err, syscall.ENOSPC, "Write")
	if free, _ = w.space(); free < reserve-ownBlocks {
		t.Errorf("of a reserve of %d bytes %d are left", reserve, free)
	}
}

// Writes do not use up the reserve if other programs have used the space above it.
func TestReserveThatOthersComeNear(t *testing.T) {
	user := id(1001, 1001)
	w, f := reserved(t)
	_, _, _, err := w.fs.Write(&vfs.Op{Cred: user}, f, 0, [][]byte{{1}}, vfs.Unstable)
	w.ok(err, "Write")
	free, available := w.space()
	reserve := free - available
	w.ok(os.WriteFile(w.path("other"), make([]byte, available-1<<20), 0o600))
	w.fs.Sweep(1)
	w.fill(user, f, 0, 64<<10)
	if free, _ = w.space(); free < reserve-ownBlocks {
		t.Errorf("of a reserve of %d bytes %d are left", reserve, free)
	}
}

// While the space above the reserve is large, the daemon writes without switching a thread.
func TestWritesFarFromTheReserveAreTheDaemons(t *testing.T) {
	others(t)
	w := newWorld(t, local.Config{})
	if _, available := w.space(); available < 2<<30 {
		t.Skip("there is too little space here")
	}
	s := mode(0o666)
	o, _, err := w.fs.Create(w.op, w.fs.Root(), []byte("f"), &vfs.CreateHow{Attr: s})
	w.ok(err, "Create")
	user := &vfs.Op{Cred: id(1001, 1001)}
	write := func() {
		_, _, _, err := w.fs.Write(user, o.Handle, 0, [][]byte{make([]byte, 1<<20)}, vfs.Unstable)
		w.ok(err, "Write")
	}
	// The ctime is new, so each write asks the kernel for a verdict, on a switched thread.
	before := w.fs.Stats()
	for range 50 {
		write()
	}
	after := w.fs.Stats()
	if n := after.Switches - before.Switches; n > after.Verdicts-before.Verdicts {
		t.Errorf("%d switches for 50 writes and %d verdicts", n, after.Verdicts-before.Verdicts)
	}
}
