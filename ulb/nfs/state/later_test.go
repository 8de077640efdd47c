package state

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// stalls is a Records whose writes wait while stalled is not closed, and fail if fails is set.
type stalls struct {
	disk
	stalled chan struct{}
	writes  int
	fails   bool
}

func (s *stalls) write() error {
	s.writes++
	if s.stalled != nil {
		<-s.stalled
	}
	if s.fails {
		return errNoDisk
	}
	return nil
}

func (s *stalls) Put(r []Record) error {
	if err := s.write(); err != nil {
		return err
	}
	return s.disk.Put(r)
}

func (s *stalls) Remove(r []Record) error {
	if err := s.write(); err != nil {
		return err
	}
	return s.disk.Remove(r)
}

var errNoDisk = errors.New("no disk")

// theFS is the file system of deniedKey.
var theFS = &struct{ vfs.FileSystem }{}

func deniedKey() FileKey { return FileKey{theFS, fileKey(1).Handle} }

// askers are requests that need the disk of the records: a deny mode or a lock of a client whose lease ran
// out is in their way, or their client has no record yet.
var askers = map[string]func(m *Manager, c *Client, l *Later) bool{
	"OPEN": func(m *Manager, c *Client, l *Later) bool {
		_, s := m.Open(&OpenArgs{Client: c, OwnerName: []byte("o"), Key: deniedKey(), Access: AccessWrite, Later: l})
		return s == AfterDisk
	},
	"LOCKT": func(m *Manager, c *Client, l *Later) bool {
		_, s := m.TestLock(c, []byte("o"), fileKey(2), 0, 1, true, nil, l)
		return s == AfterDisk
	},
	"a WRITE of version 3": func(m *Manager, c *Client, l *Later) bool {
		return asks(m, &Intent{Use: UseWrite, FS: theFS, File: deniedKey().Handle, Op: &vfs.Op{Try: true}, Later: l, Kind: Host}) == Delayed
	},
	"a record": func(m *Manager, c *Client, l *Later) bool { return m.Record(c, KindOpen, AccessWrite, l) == AfterDisk },
}

// While the disk of the records stalls, no request waits for it, and all are repeated when it has ended.
// However many they are, they share its writes.
func TestRequestsDoNotWaitForTheDiskOfTheRecords(t *testing.T) {
	for name, ask := range askers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &stalls{}
				m, other := expiredHolder(t, d)
				d.stalled, d.writes = make(chan struct{}), 0
				const requests = 100
				again := make(chan struct{}, requests)
				for range requests {
					var l Later
					if !ask(m, other, &l) {
						t.Fatal("does not have to wait")
					}
					l.Await(func() { again <- struct{}{} })
				}
				synctest.Wait()
				if len(again) > 0 || d.writes != 1 {
					t.Errorf("%d go on, %d writes", len(again), d.writes)
				}
				close(d.stalled)
				for range requests {
					<-again
				}
				if d.writes > 3 {
					t.Errorf("%d writes", d.writes)
				}
				if ask(m, other, new(Later)) {
					t.Error("has to wait once more")
				}
			})
		})
	}
}

// If the disk of the records fails, a request that has waited for it is refused, and does not wait again
// and again. Later requests try again.
func TestRequestsAfterAFailureOfTheDiskOfTheRecords(t *testing.T) {
	for name, ask := range askers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &stalls{}
				m, other := expiredHolder(t, d)
				d.fails = true
				for range 2 {
					var l Later
					if !ask(m, other, &l) {
						t.Fatal("does not have to wait")
					}
					again := make(chan struct{})
					l.Await(func() { close(again) })
					<-again
					if ask(m, other, &l) {
						t.Error("waits again, although the disk has just failed")
					}
					time.Sleep(afterFailure)
				}
			})
		})
	}
}

// expiredHolder returns a Manager with a client whose lease ran out, and which holds file 1 with a deny mode
// and a lock of file 2, and another client.
func expiredHolder(t *testing.T, d Records) (m *Manager, other *Client) {
	m, err := New(Config{Records: d})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	old := newClient(m, 1, "old")
	for _, deny := range [...]Access{0, AccessWrite} {
		if s := m.Record(old, KindOpen, deny, nil); s != ok {
			t.Fatal(s)
		}
	}
	open(t, m, old, "owner", deniedKey(), AccessRead, AccessWrite)
	id := open(t, m, old, "owner", fileKey(2), AccessBoth, 0)
	if _, _, s := m.Lock(&LockArgs{Ref: Ref{ID: id, Client: old, Key: fileKey(2)}, New: true, OwnerName: []byte("locker"), Length: 1, Write: true}); s != ok {
		t.Fatal(s)
	}
	time.Sleep(m.Lease() + m.unwritten() + 1)
	other = newClient(m, 1, "other")
	if s := m.Record(other, KindOpen, 0, nil); s != Granted {
		t.Fatal(s)
	}
	return m, other
}

// A client goes while its request waits for its record. The repeated request is refused: no record of the
// client will ever be written.
func TestRequestsOfAClientThatHasGone(t *testing.T) {
	for name, ask := range map[string]func(m *Manager, c *Client, l *Later) Verdict{
		"a record":         func(m *Manager, c *Client, l *Later) Verdict { return m.Record(c, KindOpen, AccessWrite, l) },
		"RECLAIM_COMPLETE": func(m *Manager, c *Client, l *Later) Verdict { return m.ReclaimComplete(c, l) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &stalls{}
				m, err := New(Config{Records: d})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(m.Close)
				id := &Identity{Owner: []byte("client")}
				c := m.ExchangeID(id, false).Client
				m.Confirm(c)
				var l Later
				is(t, "the first time", ask(m, c, &l), AfterDisk)
				id.Verifier[0]++ // the client restarts
				m.Confirm(m.ExchangeID(id, false).Client)
				again := make(chan struct{})
				l.Await(func() { close(again) })
				<-again
				is(t, "again", ask(m, c, &l), Gone)
			})
		})
	}
}

// While too many records wait to be removed, none is written, and requests that need one are refused.
func TestRequestsWhileNoRecordIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := New(Config{Records: &stalls{}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.Close)
		c := newClient(m, 1, "client")
		m.mu.Lock()
		m.forgotten = make([]Record, maxClients)
		m.mu.Unlock()
		var l Later
		is(t, "the first time", m.Record(c, KindOpen, AccessWrite, &l), AfterDisk)
		again := make(chan Verdict)
		l.Await(func() { again <- m.Record(c, KindOpen, AccessWrite, &l) })
		if s := <-again; s == AfterDisk {
			t.Error("it waits again")
		}
	})
}
