package export_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// After a mount has ended, its file system is closed and not opened again, even if a call still
// uses the mount or waits for it.
func TestMountIsGoneForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMountSite(t)
		s.set(s.found("a", 7))
		e := s.in("a")
		m := e.Mount()
		if s.table.Mounts()[0] != m {
			t.Fatal("another mount")
		}
		wanted := make(chan error)
		if m.Rest() != nil {
			t.Error("it is closed over a call")
		}
		s.changeOptions()
		if m.Rest() == nil {
			t.Fatal("it is in use")
		}
		go func() {
			_, err := s.table.Mounted(s.conn, &rpc.Cred{}, s.top, "/data/a", false)
			wanted <- err
		}()
		synctest.Wait()
		var again atomic.Bool
		s.o.fails = func() error { again.Store(true); return syscall.EIO }
		gone := s.set()
		if len(gone) != 1 || gone[0] != m {
			t.Errorf("%d are gone", len(gone))
		}
		e.Leave(s.conn)
		if err := <-wanted; !errors.Is(err, syscall.EXDEV) {
			t.Errorf("a call that waited: %v", err)
		}
		s.is("closed", &s.o.closed, 1)
		if again.Load() {
			t.Error("it is opened again")
		}
		<-m.End()
	})
}

// A mount is in use while a call is inside. Its file system is closed only after some time without
// calls.
func TestMountIsBusyWhileACallIsInside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMountSite(t)
		s.set(s.found("a", 7))
		e := s.in("a")
		m := e.Mount()
		for range 5 {
			doze(m, time.Second)
			time.Sleep(2 * time.Second)
		}
		s.is("closed while one call is inside", &s.o.closed, 0)
		if _, idle := m.Rested(); idle || m.Rest() != nil {
			t.Error("it is idle while a call is inside")
		}
		e.Leave(s.conn)
		for range 5 {
			s.in("a").Leave(s.conn)
			doze(m, time.Second)
			time.Sleep(2 * time.Second)
		}
		s.is("closed while calls follow each other", &s.o.closed, 0)
		doze(m, time.Minute)
		time.Sleep(30 * time.Second)
		doze(m, time.Minute)
		s.is("closed too soon", &s.o.closed, 0)
		time.Sleep(31 * time.Second)
		doze(m, time.Minute)
		s.is("closed", &s.o.closed, 1)
	})
}

// If clients have files open when the last call leaves, the file system of the mount stays open.
func TestMountIsHeldWhileItCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMountSite(t)
		s.set(s.found("a", 7))
		e := s.in("a")
		m := e.Mount()
		s.changeOptions()
		if m.Rest() == nil {
			t.Fatal("it is in use")
		}
		s.is("closed over a call by the former options", &s.o.closed, 0)
		s.o.inUse.Store(true)
		e.Leave(s.conn)
		s.is("closed", &s.o.closed, 0)
		if m.Awake() == nil {
			t.Error("it is asleep")
		}
	})
}

// If the file system of a mount could be opened before and cannot be opened now, calls with its
// handles get vfs.ErrDelay.
func TestHandleOfAMountThatIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMountSite(t)
		s.set(s.found("a", 7))
		e := s.in("a")
		e.Leave(s.conn)
		<-e.Mount().Rest()
		s.o.fails = func() error { return syscall.EIO }
		if _, err := s.table.Awake(e, false); !errors.Is(err, vfs.ErrDelay) {
			t.Errorf("%v", err)
		}
	})
}

// Of two mounts with one name, the server exports only the first.
func TestMountsOfOneName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMountSite(t)
		other := s.found("a", 8)
		other.Point = "/data/b"
		s.set(s.found("a", 7), other)
		all := s.table.Mounts()
		if len(all) != 1 || all[0].ID != 7 {
			t.Errorf("%d mounts, the first is %d", len(all), all[0].ID)
		}
	})
}

// If the names of two mounts give the same export ID, the server does not export the second mount.
func TestMountsOfOneIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMountSite(t)
		s.set(s.found("m102095", 7), s.found("m103450", 8))
		if a, b := s.table.Mounts()[0], s.table.Mounts()[1]; a.ExportID != b.ExportID {
			t.Fatalf("%s and %s have identities of their own", a.Name, b.Name)
		}
		first := s.in("m102095")
		defer first.Leave(s.conn)
		if _, err := s.table.Mounted(s.conn, &rpc.Cred{}, s.top, "/data/m103450", false); !errors.Is(err, syscall.EXDEV) {
			t.Errorf("the second: %v", err)
		}
		for _, m := range s.table.Mounts() {
			if strings.HasSuffix(m.Name, "m103450") != (m.Refused != "") {
				t.Errorf("%s: %q", m.Name, m.Refused)
			}
		}
		if e := s.table.ByID(first.ID); e != first {
			t.Error("its handles lead elsewhere")
		}
	})
}
