package local_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest/stalled"
)

// onDisk opens an FS for the mount point of d.
func onDisk(t *testing.T, d *stalled.Disk, cfg local.Config) *world {
	t.Helper()
	cfg.Root, cfg.Sync = d.Mountpoint, true
	fs, err := local.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &world{t, fs, cfg, &vfs.Op{Cred: id(0, 0)}}
}

// forgotten closes the FS, drops the disk's data from memory, and opens the FS again.
func (w *world) forgotten(d *stalled.Disk) *world {
	w.Helper()
	w.ok(w.fs.Close(), "Close")
	d.Remount()
	return onDisk(w.T, d, w.cfg)
}

// While the disk hangs, calls with Op.Try on a file system that keeps attributes in memory return,
// also beside a call that hangs. None of them reads from the disk or waits for it.
func TestStalledDisk(t *testing.T) {
	if !stalled.Alone(t, 1) {
		return
	}
	d := stalled.NewDisk(t)
	hung := 0
	for _, open := range []bool{false, true} {
		for _, c := range calls {
			stalled.Step("%s, files are open: %v", c.method, open)
			w := onDisk(t, d, local.Config{})
			x := fixtureAt(w, true)
			for i, name := range []string{fmt.Sprint(fixtures), fmt.Sprint(fixtures, "/file")} {
				w.ok(os.Chown(w.path(name), 1001, 1001))
				w.ok(unix.Setxattr(w.path(name), "system.posix_acl_access", longACL(uint32(i)), 0), "setxattr")
			}
			w = w.forgotten(d)
			x.world = w
			for _, h := range []vfs.Handle{x.dir, x.sub, x.file, x.link} {
				_, err := w.attr(h)
				w.ok(err, "GetAttr")
			}
			if open {
				w.readSome(x.file)
			}
			if ofFiles[c.method] {
				x.open()
			}
			d.Stall()
			var err error
			ends(t, "the attempt of "+c.method, func() { err = c.make(x, &vfs.Op{Cred: w.op.Cred, Try: true}) })
			if err != nil && !errors.Is(err, vfs.ErrWouldBlock) {
				t.Errorf("%s, tried: %v", c.method, err)
			}
			ended := make(chan error, 1)
			go func() { ended <- c.make(x, w.op) }()
			if hangs(t, d.FileSystem, ended) {
				hung++
			}
			x.othersEnd(c)
			d.LetGo()
			x.succeeds(c, ended)
			x.close()
			w.ok(w.fs.Close(), "Close")
		}
	}
	if hung < len(calls) {
		t.Errorf("%d of %d calls hung: this was no stall", hung, 2*len(calls))
	}
}

// longACL returns an access ACL that does not fit into an inode. ext4 stores it in a separate
// block, and reads that block at its first permission check. Files with the same ACL share the
// block.
func longACL(first uint32) []byte {
	b := binary.LittleEndian.AppendUint32(nil, 2) // version
	entry := func(tag, perm uint16, who uint32) {
		b = binary.LittleEndian.AppendUint16(b, tag)
		b = binary.LittleEndian.AppendUint16(b, perm)
		b = binary.LittleEndian.AppendUint32(b, who)
	}
	const userObj, user, groupObj, mask, other, none = 1, 2, 4, 16, 32, math.MaxUint32
	entry(userObj, 7, none)
	for u := range uint32(64) {
		entry(user, 7, 5000+first+u)
	}
	entry(groupObj, 7, none)
	entry(mask, 7, none)
	entry(other, 0, none)
	return b
}

// A call with Op.Try does not wait for the disk, even if having its data in memory is not enough:
// the call may have to write the log, or to free an inode after the last close.
func TestAttemptsThatTakeTheDisk(t *testing.T) {
	if !stalled.Alone(t, 1) {
		return
	}
	d := stalled.NewDisk(t)
	for _, c := range []struct {
		what string
		// prepare stalls the disk at its end and returns the call to make.
		prepare func(w *world) diskAttempt
	}{
		{"COMMIT of data that is not on the disk", func(w *world) diskAttempt {
			f := w.create(w.fs.Root(), "unstable")
			_, _, _, err := w.fs.Write(w.op, f, 0, [][]byte{make([]byte, 100000)}, vfs.Unstable)
			w.ok(err, "Write")
			d.Stall()
			return diskAttempt{w: w, attempt: func(op *vfs.Op) error {
				_, err := w.fs.Commit(op, f, 0, 0)
				return err
			}, refused: true}
		}},
		{"the last reference to a file that others removed", func(w *world) diskAttempt {
			w, f := removedByOthers(w, d, "removed1")
			d.Stall()
			return diskAttempt{w: w, attempt: func(op *vfs.Op) error { return w.fs.GetAttr(op, f, new(vfs.Attr)) }}
		}},
		{"the last reference to the data of a file that others removed", func(w *world) diskAttempt {
			w, f := removedByOthers(w, d, "removed2")
			giveBack := w.fs.LastUser(f)
			d.Stall()
			return diskAttempt{w: w, attempt: func(op *vfs.Op) error { giveBack(op); return nil }}
		}},
		{"LOOKUP that would make others leave the cache", func(w *world) diskAttempt {
			w.create(w.fs.Root(), "known")
			var names []string
			for i := range 20 { // with a budget of 36 descriptors the cache holds 16 nodes
				names = append(names, fmt.Sprint("crowd", i))
				f := w.create(w.fs.Root(), names[i])
				_, _, _, err := w.fs.Write(w.op, f, 0, [][]byte{make([]byte, 100000)}, vfs.FileSync)
				w.ok(err, "Write")
			}
			w.cfg.Descriptors = local.NewDescriptors(36)
			w = w.forgotten(d)
			_, err := w.lookup(w.fs.Root(), "known")
			w.ok(err, "Lookup")
			w.fs.EvictAll()
			for _, n := range names {
				f, err := w.lookup(w.fs.Root(), n)
				w.ok(err, "Lookup")
				w.readSome(f)
				w.ok(os.Remove(w.path(n)))
			}
			d.Stall()
			return diskAttempt{w: w, attempt: func(op *vfs.Op) error {
				_, err := w.fs.Lookup(op, w.fs.Root(), []byte("known"), new(vfs.Attr))
				return err
			}, refused: true}
		}},
		{"READ that is to be noted, while the log is written", func(w *world) diskAttempt {
			f, g := w.create(w.fs.Root(), "read"), w.create(w.fs.Root(), "beside")
			w.ok(w.write(f, "text"), "Write")
			_, err := w.fs.Commit(w.op, f, 0, 0)
			w.ok(err, "Commit")
			w.ok(os.Chtimes(w.path("read"), time.Unix(1000, 0), time.Now()))
			d.Stall()
			beside := make(chan error, 1)
			s := mode(0o600)
			go func() { _, err := w.fs.SetAttr(w.op, g, &s, nil); beside <- err }()
			d.AwaitHanging(1)
			return diskAttempt{w: w, attempt: func(op *vfs.Op) error {
				_, _, err := w.fs.Read(op, f, 0, make([]byte, 4), new(vfs.Attr))
				return err
			}, refused: true, beside: beside}
		}},
	} {
		stalled.Step("%s", c.what)
		a := c.prepare(onDisk(t, d, local.Config{}))
		var err error
		ends(t, c.what, func() { err = a.attempt(&vfs.Op{Cred: a.w.op.Cred, Try: true}) })
		if a.refused && err != vfs.ErrWouldBlock {
			t.Errorf("%s: %v", c.what, err)
		}
		d.LetGo()
		if a.beside != nil {
			a.w.ok(<-a.beside)
		}
		// The work that the call left to other goroutines also ends.
		a.w.ok(a.w.fs.Close(), "Close")
	}
}

// A diskAttempt is a call with Op.Try to make while the disk hangs.
type diskAttempt struct {
	w       *world
	attempt func(op *vfs.Op) error
	refused bool       // true if the call must return ErrWouldBlock
	beside  chan error // receives the error of another call that hangs meanwhile, or nil
}

// removedByOthers makes a file, which another program then removes. Only a node of the FS keeps
// the file, so the last close frees its blocks.
func removedByOthers(w *world, d *stalled.Disk, name string) (*world, vfs.Handle) {
	w.Helper()
	f := w.create(w.fs.Root(), name)
	_, _, _, err := w.fs.Write(w.op, f, 0, [][]byte{make([]byte, 1000000)}, vfs.FileSync)
	w.ok(err, "Write")
	w = w.forgotten(d)
	_, err = w.attr(f)
	w.ok(err, "GetAttr")
	settle(w.T, w.fs, w.op.Cred, f)
	w.ok(os.Remove(w.path(name)))
	return w, f
}
