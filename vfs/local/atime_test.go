package local_test

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// settle reads h until a read no longer updates the atime, so that a read with Op.Try succeeds.
// That takes some milliseconds, because the kernel takes times from a coarse clock.
func settle(t testing.TB, fs *local.FS, c *vfs.Cred, h vfs.Handle) {
	t.Helper()
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	limit := time.After(bound)
	var a vfs.Attr
	for {
		if _, _, err := fs.Read(&vfs.Op{Cred: c}, h, 0, make([]byte, 1), &a); err != nil {
			t.Fatal("Read: ", err)
		}
		if _, _, err := fs.Read(&vfs.Op{Cred: c, Try: true}, h, 0, make([]byte, 1), &a); err == nil {
			return
		}
		select {
		case <-again.C:
		case <-limit:
			t.Fatalf("an attempt to read is refused still, with %+v", a)
		}
	}
}

// The first read after a change, or after a day, updates the atime. A read with Op.Try then
// returns ErrWouldBlock. It succeeds if it leaves the atime unchanged.
func TestAttemptsReadWhereNothingIsNoted(t *testing.T) {
	w := newWorld(t, local.Config{})
	f := w.create(w.fs.Root(), "f")
	w.ok(w.write(f, "text"), "Write")
	attempt := func() error {
		var a vfs.Attr
		_, _, err := w.fs.Read(&vfs.Op{Cred: w.op.Cred, Try: true}, f, 0, make([]byte, 4), &a)
		return err
	}
	look := func() {
		t.Helper()
		_, err := w.attr(f)
		w.ok(err, "GetAttr")
	}
	s := mode(0o600)
	for _, c := range []struct {
		what   string
		change func() error
	}{
		{"a write", func() error { return w.write(f, "more") }},
		{"a change of attributes", func() error { _, err := w.fs.SetAttr(w.op, f, &s, nil); return err }},
		{"another's change that was seen", func() error {
			_, err := w.attr(f)
			return errors.Join(os.Chmod(w.path("f"), 0o640), err)
		}},
	} {
		settle(t, w.fs, w.op.Cred, f)
		w.ok(c.change(), c.what)
		look()
		w.want(attempt(), vfs.ErrWouldBlock, "an attempt after "+c.what)
	}

	const left = 3 // seconds left until a day has passed
	w.fs.SetClock(func() time.Time { return time.Now().Add(24*time.Hour - left*time.Second - time.Second/2) })
	settle(t, w.fs, w.op.Cred, f)
	for range left {
		w.ok(attempt(), "an attempt before the day is over")
		w.fs.Sweep(1)
	}
	w.want(attempt(), vfs.ErrWouldBlock, "an attempt after a day")
	w.fs.SetClock(func() time.Time { return time.Now().Add(25 * time.Hour) })
	w.readSome(f)
	w.want(attempt(), vfs.ErrWouldBlock, "an attempt after a read that will be noted again")
}

// A read that is refused does not update the atime, even while other callers have the file open,
// because the FS checks the caller's rights before it reads.
func TestReadThatIsRefusedIsNotNoted(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only user 0 may act as another")
	}
	w := newWorld(t, local.Config{})
	f := w.create(w.fs.Root(), "f")
	w.ok(w.write(f, "text"), "Write")
	w.ok(os.Chmod(w.path("f"), 0o600))
	stranger := &vfs.Op{Cred: &vfs.Cred{UID: 4321, GID: 4321}}
	read := func(op *vfs.Op) error {
		_, _, err := w.fs.Read(op, f, 0, make([]byte, 4), new(vfs.Attr))
		return err
	}
	before := time.Unix(1000, 0)
	forget := func() { w.ok(os.Chtimes(w.path("f"), before, time.Now())) }
	atime := func() time.Time {
		a, err := w.attr(f)
		w.ok(err, "GetAttr")
		return a.Atime.Time()
	}
	forget()
	w.ok(read(w.op), "Read")
	if atime().Equal(before) {
		t.Skip("the file system does not note reads")
	}
	forget()
	w.want(read(stranger), syscall.EACCES, "Read")
	if got := atime(); !got.Equal(before) {
		t.Errorf("a refused Read set the atime to %v", got)
	}
}
