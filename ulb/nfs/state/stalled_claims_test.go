package state

import (
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// stalledClaims is the vfs.Claimer of a file system that has stalled: giving up a claim waits until
// gate is closed. That is so for FUSE and other network file systems, whose locks are a request to a
// server, and for the last close of a file on a frozen file system.
type stalledClaims struct{ gate chan struct{} }

func (s *stalledClaims) Claim(vfs.Handle, uint64, uint64, vfs.ClaimMode) error { return nil }
func (s *stalledClaims) TestClaim(vfs.Handle, uint64, uint64, vfs.ClaimMode) (vfs.Claimed, bool, error) {
	return vfs.Claimed{}, false, nil
}
func (s *stalledClaims) DropClaims(vfs.Handle) { <-s.gate }

func lockStalled(t *testing.T, m *Manager, c *Client, s *stalledClaims, claimed bool) {
	t.Helper()
	key := fileKey(1)
	a := OpenArgs{Client: c, OwnerName: []byte("o"), Key: key, Access: AccessBoth, Claimed: claimed}
	o, st := m.Open(&a)
	is(t, "OPEN", st, ok)
	_, _, st = m.Lock(&LockArgs{Ref: Ref{ID: o.ID, Client: c, Key: key}, New: true, OwnerName: []byte("l"), Length: 1, Write: true, Claimer: s, Claimed: claimed})
	is(t, "LOCK", st, ok)
}

// A client that held a lock in a stalled file system is evicted. The Manager's goroutine does not wait for
// that file system: it goes on to sweep, and Close ends it. The client's Companion is told at once, so that its
// sessions end, and the client can come back.
func TestStalledFileSystemHoldsNoSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := manager(t, Config{Records: &disk{}})
		s := &stalledClaims{make(chan struct{})}
		x := complete(t, m, identity("x", 1, "me"))
		lockStalled(t, m, x, s, false)
		pass(4 * leaseTime) // x is silent: it is evicted two leases after its lease
		if m.Client(x.ID) != nil {
			t.Fatal("the test is wrong: x is still known")
		}
		if of(x).gone.Load() == 0 {
			t.Error("x is evicted, but its Companion was not told: its sessions stay, and answer DELAY for ever")
		}
		z := unconfirmed(t, m, identity("z", 1, "me"))
		pass(time.Hour)
		if m.Client(z.ID) != nil {
			t.Error("a client that did not confirm itself within a lease is there after an hour")
		}
		closed := false
		go func() { m.Close(); closed = true }()
		pass(time.Hour)
		if !closed {
			t.Error("Close has not returned after an hour")
		}
		close(s.gate)
		synctest.Wait()
	})
}

// A grace period of more than three leases ends in spite of the eviction of such a client.
func TestStalledFileSystemHoldsNoGrace(t *testing.T) {
	d := &disk{}
	synctest.Test(t, func(t *testing.T) {
		m := manager(t, Config{Records: d})
		is(t, "its record", m.Record(complete(t, m, identity("x", 1, "me")), KindLock, 0, nil), ok)
		complete(t, m, identity("y", 1, "me"))
		m.Close()
	})
	synctest.Test(t, func(t *testing.T) {
		m := manager(t, Config{Records: d, Grace: 5 * leaseTime})
		s := &stalledClaims{make(chan struct{})}
		x := confirmed(t, m, identity("x", 1, "me"))
		lockStalled(t, m, x, s, true)
		for range 40 { // y comes back, and has nothing to do with the stalled file system
			y := m.ExchangeID(identity("y", 1, "me"), false)
			if y.Client != nil {
				m.Confirm(y.Client)
				m.Renew(y.Client)
			}
			pass(leaseTime / 2)
		}
		if m.InGrace() {
			t.Error("grace of five leases has not ended after twenty")
		}
		close(s.gate)
		synctest.Wait()
		m.Close()
	})
}

// A client that restarts can confirm itself at once, although its former locks are in a stalled file system.
func TestRestartedClientWaitsForNoStalledFileSystem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := manager(t, Config{Records: &disk{}})
		s := &stalledClaims{make(chan struct{})}
		x := complete(t, m, identity("x", 1, "me"))
		lockStalled(t, m, x, s, false)
		next := unconfirmed(t, m, identity("x", 2, "me"))
		done := false
		go func() { m.Confirm(next); done = true }()
		pass(time.Hour)
		if !done {
			t.Error("CREATE_SESSION of the restarted client has no answer after an hour")
		}
		close(s.gate)
		synctest.Wait()
		m.Close()
	})
}

// A client whose lease ran out held a lock in the stalled file system, and another file with a deny
// mode in a sound one. Another client opens that other file.
func TestOpenElsewhereWaitsForNoStalledFileSystem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := manager(t, Config{Records: &disk{}})
		s := &stalledClaims{make(chan struct{})}
		x, y := complete(t, m, identity("x", 1, "me")), complete(t, m, identity("y", 1, "me"))
		lockStalled(t, m, x, s, false)
		sound := FileKey{"sound", fileKey(2).Handle}
		open(t, m, x, "o", sound, AccessRead, AccessWrite)
		for range 3 {
			pass(leaseTime / 2)
			m.Renew(y)
		}
		done := false
		go func() {
			_, _ = m.Open(&OpenArgs{Client: y, OwnerName: []byte("o"), Key: sound, Access: AccessWrite})
			done = true
		}()
		pass(time.Hour)
		if !done {
			t.Error("OPEN in the sound file system has no answer after an hour")
		}
		close(s.gate)
		synctest.Wait()
		m.Close()
	})
}

// A LOCK of a file whose claims are still to be given up waits for that, and for nothing else: a LOCK of another
// file in the same file system does not, nor does CLOSE of a file that another client had locked.
func TestLockWaitsForTheClaimsOfItsFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := manager(t, Config{Records: &disk{}})
		s := &stalledClaims{make(chan struct{})}
		x, y := complete(t, m, identity("x", 1, "me")), complete(t, m, identity("y", 1, "me"))
		lockStalled(t, m, x, s, false)
		lock := func(key FileKey) (done *atomic.Bool) {
			o, st := m.Open(&OpenArgs{Client: y, OwnerName: []byte("o"), Key: key, Access: AccessBoth})
			is(t, "OPEN", st, ok)
			done = new(atomic.Bool)
			go func() {
				_, _, st := m.Lock(&LockArgs{Ref: Ref{ID: o.ID, Client: y, Key: key}, New: true, OwnerName: []byte("l"), Length: 1, Write: true, Claimer: s})
				is(t, "LOCK", st, ok)
				done.Store(true)
			}()
			return done
		}
		m.Confirm(unconfirmed(t, m, identity("x", 2, "me")))
		synctest.Wait()
		same, other := lock(fileKey(1)), lock(fileKey(2))
		for !other.Load() {
			runtime.Gosched()
		}
		if same.Load() {
			t.Error("a LOCK was granted while the claims of its file were being given up")
		}
		close(s.gate)
		for !same.Load() {
			runtime.Gosched()
		}
		m.Close()
	})
}

// A domainOf is the domain of a file system that shows the volume, as others do.
type domainOf struct{ volume, name string }

func (d domainOf) Volume() any { return d.volume }

// A kernelOf is the Claimer of one of several file systems that show one file: as in the kernel, the claims
// of one conflict with those of the others. DropClaims of a handle in stalled waits until gate is closed.
type kernelOf struct {
	name    string
	owner   map[vfs.Handle]string // by file: the file system with a claim
	stalled vfs.Handle
	gate    chan struct{}
}

func (k *kernelOf) Claim(h vfs.Handle, _, _ uint64, mode vfs.ClaimMode) error {
	if o := k.owner[h]; o != "" && o != k.name {
		return syscall.EAGAIN
	}
	k.owner[h] = k.name
	return nil
}

func (k *kernelOf) TestClaim(h vfs.Handle, _, _ uint64, _ vfs.ClaimMode) (vfs.Claimed, bool, error) {
	o := k.owner[h]
	return vfs.Claimed{}, o != "" && o != k.name, nil
}

func (k *kernelOf) DropClaims(h vfs.Handle) {
	if h == k.stalled {
		<-k.gate
	}
	if k.owner[h] == k.name {
		delete(k.owner, h)
	}
}

// A LOCK, or a LOCKT, through one file system first has the claims given up that an ended client left on the
// file in another one, even if that one is still busy with the claims on other files.
func TestLockGivesUpTheClaimsOfOtherFileSystems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := manager(t, Config{Records: &disk{}})
		gate, owner := make(chan struct{}), make(map[vfs.Handle]string)
		shown := func(n int, name string) (FileKey, *kernelOf) {
			key := FileKey{domainOf{"volume", name}, fileKey(n).Handle}
			return key, &kernelOf{name: name, owner: owner, stalled: fileKey(1).Handle, gate: gate}
		}
		lock := func(c *Client, n int, name string) Verdict {
			key, claimer := shown(n, name)
			o, st := m.Open(&OpenArgs{Client: c, OwnerName: []byte("o"), Key: key, Access: AccessBoth})
			is(t, "OPEN", st, ok)
			_, _, st = m.Lock(&LockArgs{
				Ref: Ref{ID: o.ID, Client: c, Key: key}, New: true, OwnerName: []byte("l"), Length: 1, Write: true, Claimer: claimer,
			})
			return st
		}
		x, y := complete(t, m, identity("x", 1, "me")), complete(t, m, identity("y", 1, "me"))
		for n := 1; n <= 3; n++ {
			is(t, "LOCK through one", lock(x, n, "one"), ok)
		}
		w := &m.giving
		key, _ := shown(1, "one")
		g := m.acquire()
		c := m.files.claims[key]
		c.users++
		g.release()
		w.soon(m, c) // the queue is busy with file 1
		synctest.Wait()
		m.Confirm(unconfirmed(t, m, identity("x", 2, "me")))
		synctest.Wait()
		is(t, "LOCK of file 2 through the other", lock(y, 2, "other"), ok)
		key, claimer := shown(3, "other")
		d, st := m.TestLock(y, []byte("l"), key, 0, 1, true, claimer, nil)
		if st != ok {
			t.Errorf("LOCKT of file 3 through the other: %v, %+v", st, d)
		}
		close(gate)
		synctest.Wait()
		m.Close()
	})
}
