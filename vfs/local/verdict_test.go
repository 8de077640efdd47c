package local_test

import (
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// later sets the clock forward by an hour, so that every ctime counts as old.
func (w *world) later() { w.fs.SetClock(func() time.Time { return time.Now().Add(time.Hour) }) }

func others(t *testing.T) {
	if !local.CanSwitch() {
		t.Skip("takes other users")
	}
}

// The FS remembers a verdict for some seconds while the file's state stays the same. While the
// ctime is new, it remembers none, because a later change may get the same ctime.
func TestVerdictsAreRemembered(t *testing.T) {
	others(t)
	w := newWorld(t, local.Config{})
	w.fs.SetClock(func() time.Time { return time.Time{} }) // so that no ctime counts as old
	ann := &vfs.Op{Cred: id(1001, 1001)}
	try := &vfs.Op{Cred: ann.Cred, Try: true}
	f := w.create(w.fs.Root(), "f")
	var a vfs.Attr
	ask := func(op *vfs.Op) (vfs.Access, error) {
		return w.fs.Access(op, f, vfs.AccessRead|vfs.AccessModify, &a)
	}
	expect := func(what string, op *vfs.Op, want vfs.Access, wantErr error) {
		t.Helper()
		if got, err := ask(op); got != want || err != wantErr {
			t.Errorf("%s: %v, %v", what, got, err)
		}
	}
	expect("young", ann, vfs.AccessRead, nil)
	expect("young, at once", try, 0, vfs.ErrWouldBlock)
	w.later()
	expect("old", ann, vfs.AccessRead, nil)
	asked := w.fs.Stats().Verdicts
	expect("old, at once", try, vfs.AccessRead, nil)
	if n := w.fs.Stats().Verdicts - asked; n != 0 {
		t.Errorf("the kernel was asked %d times for what it had said", n)
	}
	w.fs.Sweep(10)
	expect("ten seconds later, at once", try, 0, vfs.ErrWouldBlock)
	expect("ten seconds later", ann, vfs.AccessRead, nil)
	other := &vfs.Op{Cred: id(1001, 1001, 7), Try: true}
	expect("with another group", other, 0, vfs.ErrWouldBlock)

	w.ok(os.Chmod(w.path("f"), 0o666))
	expect("after a chmod, at once", try, 0, vfs.ErrWouldBlock)
	expect("after a chmod", ann, vfs.AccessRead|vfs.AccessModify, nil)
}

// Access is right for each caller, even if there are more callers than verdicts that the FS
// remembers for one file.
func TestVerdictsOfMany(t *testing.T) {
	others(t)
	w := newWorld(t, local.Config{})
	f := w.create(w.fs.Root(), "f")
	s := vfs.SetAttr{SetGID: true, GID: 1003, SetMode: true, Mode: 0o640}
	_, err := w.fs.SetAttr(w.op, f, &s, nil)
	w.ok(err, "SetAttr")
	w.later()
	for range 3 {
		for g := uint32(1000); g < 1010; g++ {
			var a vfs.Attr
			got, err := w.fs.Access(&vfs.Op{Cred: id(2000, 2000, g)}, f, vfs.AccessRead, &a)
			if err != nil || (got != 0) != (g == 1003) {
				t.Errorf("group %d: %v, %v", g, got, err)
			}
		}
	}
}

// A remembered name leads to the file that has the name now.
func TestNamesAreRemembered(t *testing.T) {
	w := newWorld(t, local.Config{})
	d := w.mkdir(w.fs.Root(), "d")
	f, g := w.create(d, "f"), w.create(d, "g")
	w.later()
	find := func(want vfs.Handle, wantErr error) {
		t.Helper()
		if h, err := w.lookup(d, "f"); err != wantErr || err == nil && h != want {
			t.Errorf("%v, %v; want %v", h, err, want)
		}
	}
	find(f, nil)
	find(f, nil)
	w.ok(os.Rename(w.path("d", "f"), w.path("d", "x")))
	find(vfs.Handle{}, syscall.ENOENT)
	w.ok(os.Rename(w.path("d", "g"), w.path("d", "f")))
	find(g, nil)
	w.remove(d, "f")
	find(vfs.Handle{}, syscall.ENOENT)
	h := w.create(d, "f")
	find(h, nil)
	w.fs.EvictAll()
	find(h, nil)
}

// Change grows with each change through the FS, even if the ctime does not. It never falls,
// even after the FS dropped the file.
func TestChangeMoves(t *testing.T) {
	w := newWorld(t, local.Config{})
	d := w.mkdir(w.fs.Root(), "d")
	last := uint64(0)
	for i := range 200 {
		name := []byte{byte('a' + i%26), byte('a' + i/26)}
		_, ch, err := w.fs.Create(w.op, d, name, &vfs.CreateHow{})
		w.ok(err, "Create")
		if ch.Before.Change >= ch.After.Change || ch.Before.Change < last {
			t.Fatalf("%d, %d after %d", ch.Before.Change, ch.After.Change, last)
		}
		last = ch.After.Change
		if i%3 == 0 {
			w.fs.EvictAll()
		}
		a, err := w.attr(d)
		w.ok(err, "GetAttr")
		if a.Change != last {
			t.Fatalf("%d was told, and %d is", last, a.Change)
		}
	}
}

// Change also grows if the clock of the file system stands still or is set back.
func TestChangeMovesWithinATick(t *testing.T) {
	w := newWorld(t, local.Config{})
	f := w.create(w.fs.Root(), "f")
	var st unix.Stat_t
	w.ok(unix.Stat(w.path("f"), &st))
	first := w.fs.Told(f, &st, false)
	second := w.fs.Told(f, &st, true)
	third := w.fs.Told(f, &st, true)
	if first >= second || second >= third || w.fs.Told(f, &st, false) != third {
		t.Errorf("%d, %d, %d", first, second, third)
	}
	w.fs.EvictAll()
	if a, err := w.attr(f); err != nil || a.Change != third {
		t.Errorf("%d was told, and %d is after the file was let go, %v", third, a.Change, err)
	}
	for _, by := range []int64{-1000, 2000} {
		st.Ctim.Sec += by
		next := w.fs.Told(f, &st, false)
		if next <= third {
			t.Errorf("the ctime moved by %d s: %d after %d", by, next, third)
		}
		third = next
	}
}

// A write with Op.Try to a file with set-id bits returns ErrWouldBlock, because the write clears
// the bits and so changes the inode.
func TestTryWriteLeavesSetIDBits(t *testing.T) {
	dir, ok := places(t)["tmpfs"]
	if !ok {
		t.Skip("where a tmpfs can be mounted, attempts write")
	}
	w := newWorld(t, local.Config{Root: dir(t)})
	f := w.create(w.fs.Root(), "f")
	w.ok(w.write(f, "text"), "Write")
	try := &vfs.Op{Cred: w.op.Cred, Try: true}
	attempt := func() error {
		_, _, _, err := w.fs.Write(try, f, 0, [][]byte{[]byte("more")}, vfs.Unstable)
		return err
	}
	w.ok(attempt(), "an attempt to write")
	s := mode(0o4755)
	_, err := w.fs.SetAttr(w.op, f, &s, nil)
	w.ok(err, "SetAttr")
	w.want(attempt(), vfs.ErrWouldBlock, "an attempt to write a set-uid file")
	if a, err := w.attr(f); err != nil || a.Mode != 0o4755 {
		t.Errorf("mode %o after it, %v", a.Mode, err)
	}
}

// Read with Op.Try returns only data that is in memory.
func TestTryRead(t *testing.T) {
	w := newWorld(t, local.Config{})
	f := w.create(w.fs.Root(), "f")
	w.ok(w.write(f, "0123456789"), "Write")
	settle(t, w.fs, w.op.Cred, f)
	try := &vfs.Op{Cred: w.op.Cred, Try: true}
	var a vfs.Attr
	buf := make([]byte, 20)
	n, eof, err := w.fs.Read(try, f, 5, buf, &a)
	if err != nil || n != 5 || !eof || string(buf[:n]) != "56789" || a.Size != 10 {
		t.Errorf("%d, %v, %v, %+v", n, eof, err, a)
	}
	w.fs.Sweep(5)
	_, err = w.fs.Commit(w.op, f, 0, 0)
	w.ok(err, "Commit")
	w.fs.Sweep(5)
	if _, _, err = w.fs.Read(try, f, 5, buf, &a); err != vfs.ErrWouldBlock {
		t.Errorf("a file that is not open: %v", err)
	}
	w.fs.EvictAll()
	if err = w.fs.GetAttr(try, f, &a); err != vfs.ErrWouldBlock {
		t.Errorf("a file that is not at hand: %v", err)
	}
}
