package state

import (
	"net/netip"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

func newHost(t testing.TB, m *Manager, name string) *Client {
	t.Helper()
	c, s := m.HostOf([]byte(name), hostAddress, netip.MustParseAddr("192.0.2.1"), nil)
	is(t, "HostOf", s, ok)
	return c
}

func hostLock(m *Manager, c *Client, owner string, key FileKey, write, wait bool) Verdict {
	_, s := m.HostLock(&LockArgs{Host: c, OwnerName: []byte(owner), Ref: Ref{Client: c, Key: key}, Length: 10, Write: write, Wait: wait, Tag: owner})
	return s
}

// A host that holds nothing is remembered, with its record, for an hour. One that holds or waits for something stays.
func TestIdleHostsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager(t)
		idle, holds, waits := newHost(t, m, "idle"), newHost(t, m, "holds"), newHost(t, m, "waits")
		is(t, "LOCK", hostLock(m, idle, "o", fileKey(1), true, false), ok)
		is(t, "UNLOCK", m.HostUnlock(&HostRange{Ref: Ref{Client: idle, Key: fileKey(1)}, Owner: []byte("o"), Length: 10}, nil), ok)
		is(t, "LOCK", hostLock(m, holds, "o", fileKey(2), true, false), ok)
		is(t, "LOCK that waits", hostLock(m, waits, "o", fileKey(2), true, true), LockConflict)
		time.Sleep(50 * time.Minute)
		if n := len(m.HostsAt(hostAddress)); n != 3 {
			t.Errorf("%d hosts after 50 minutes", n)
		}
		time.Sleep(24 * time.Hour)
		if n := len(m.HostsAt(hostAddress)); n != 2 {
			t.Errorf("%d hosts after a day", n)
		}
		if m.FindHost([]byte("idle"), hostAddress) != nil {
			t.Error("the idle host is remembered")
		}
	})
}

// If the clients of an address have all its places, hosts that hold nothing make room for a new one, but not those that have
// just called.
func TestHostsThatHaveJustCalledStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager(t)
		for i := range maxClientsFrom {
			newHost(t, m, "host "+strconv.Itoa(i))
		}
		next := func() (s Verdict) {
			_, s = m.HostOf([]byte("next"), hostAddress, hostAddress, nil)
			return s
		}
		is(t, "one more host", next(), TryLater)
		m.wake()
		synctest.Wait()
		is(t, "one more host after a sweep", next(), TryLater)
		if n := len(m.HostsAt(hostAddress)); n != maxClientsFrom {
			t.Errorf("%d hosts", n)
		}
		time.Sleep(time.Minute)
		next() // makes the sweep remove the others
		time.Sleep(time.Minute)
		is(t, "one more host when the others are silent", next(), ok)
	})
}

// The lock of a host keeps no OPEN away, whatever it denies: a host opens no files.
func TestHostLocksDenyNoOpens(t *testing.T) {
	m := newManager(t)
	h, c, key := newHost(t, m, "h"), newClient(m, 1, "c"), fileKey(1)
	is(t, "LOCK", hostLock(m, h, "o", key, true, false), ok)
	id := open(t, m, c, "c", key, AccessBoth, AccessBoth)
	_, d, s := m.Lock(&LockArgs{Ref: Ref{ID: id, Client: c, Key: key}, New: true, OwnerName: []byte("l"), Length: 1, Write: true})
	is(t, "LOCK of an NFSv4 client", s, LockConflict)
	if d == nil || d.ClientID != h.ID {
		t.Errorf("denied by %+v", d)
	}
	is(t, "UNLOCK", m.HostUnlock(&HostRange{Ref: Ref{Client: h, Key: key}, Owner: []byte("o"), Offset: 5, Length: 100}, nil), ok)
	if _, _, s = m.Lock(&LockArgs{Ref: Ref{ID: id, Client: c, Key: key}, New: true, OwnerName: []byte("l"), Offset: 5, Length: 1, Write: true}); s != ok {
		t.Error(s)
	}
}

// A host that waits gets its notice when an NFSv4 client closes the file, which no other one has open.
func TestHostWaitsForNFSv4(t *testing.T) {
	m := newManager(t)
	var told []any
	m.NotifyHosts(func(n LockNotice) { told = append(told, n.Tag) })
	m.NotifyLocks(func(LockNotice) { t.Error("a notice for a session") })
	h, c, key := newHost(t, m, "h"), newClient(m, 1, "c"), fileKey(1)
	id := open(t, m, c, "c", key, AccessBoth, 0)
	_, _, s := m.Lock(&LockArgs{Ref: Ref{ID: id, Client: c, Key: key}, New: true, OwnerName: []byte("l"), Length: 1, Write: true})
	is(t, "LOCK of an NFSv4 client", s, ok)
	is(t, "LOCK", hostLock(m, h, "o", key, true, true), LockConflict)
	_, s = m.CloseOpen(&Ref{ID: id, Client: c, Key: key}, false)
	is(t, "CLOSE", s, ok)
	if len(told) != 1 || told[0] != "o" {
		t.Fatalf("told %v", told)
	}
	a := LockArgs{Host: h, OwnerName: []byte("o"), Ref: Ref{Client: h, Key: key}, Length: 10, Write: true, IfWaits: true, Tag: "another LOCK"}
	_, s = m.HostLock(&a)
	is(t, "taking it for another LOCK", s, NotFound)
	a.Tag = "o"
	_, s = m.HostLock(&a)
	is(t, "taking it", s, ok)
	_, s = m.HostLock(&a)
	is(t, "taking it again", s, NotFound)
	m.ForgetHost(h)
	m.removeNow(c)
	nothingLeft(t, m)
}

// The end of a file system, or of an export, ends the locks and the waiting of hosts in it, and leaves nothing to
// acknowledge.
func TestRevokedHosts(t *testing.T) {
	m := newManager(t)
	h, other, key := newHost(t, m, "h"), newHost(t, m, "other"), fileKey(1)
	is(t, "LOCK", hostLock(m, h, "o", key, true, false), ok)
	is(t, "LOCK that waits", hostLock(m, other, "w", key, true, true), LockConflict)
	m.Revoke(key.Domain)
	if u := m.Usage(); u.Opens+u.Locks+u.Ranges+u.Waiters+u.Files+u.Owners > 0 {
		t.Errorf("left over: %+v", u)
	}
	_, s := m.HostLock(&LockArgs{Host: other, OwnerName: []byte("w"), Ref: Ref{Client: other, Key: key}, Length: 10, Write: true, IfWaits: true, Tag: "w"})
	is(t, "taking what it waited for", s, NotFound)
	is(t, "LOCK afterwards", hostLock(m, other, "w", key, true, false), ok)
	m.ForgetHost(h)
	m.ForgetHost(other)
	nothingLeft(t, m)
}

// A host has no more of the table of clients, of waiters and of memory than other clients of its address.
func TestHostsAreBounded(t *testing.T) {
	m, err := New(Config{Memory: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	h, key := newHost(t, m, "h"), fileKey(1)
	locked := 0
	for ; locked < 1<<16; locked++ {
		_, s := m.HostLock(&LockArgs{Host: h, OwnerName: []byte("o"), Ref: Ref{Client: h, Key: key}, Offset: uint64(2 * locked), Length: 1})
		if s != ok {
			is(t, "LOCK beyond the memory", s, FullOfOwn)
			break
		}
	}
	if held := m.Usage().Memory; held > 1<<20 || locked < 100 {
		t.Errorf("%d locks in %d bytes", locked, held)
	}
	for i := range 2 * maxClientsFrom {
		if _, s := m.HostOf([]byte(string(rune('a'+i%26))+string(rune(i))), hostAddress, hostAddress, nil); s != ok {
			is(t, "one more host", s, TryLater)
		}
	}
	if n := len(m.HostsAt(hostAddress)); n > maxClientsFrom {
		t.Errorf("%d hosts of one address", n)
	}
	is(t, "UNLOCK", m.HostUnlock(&HostRange{Ref: Ref{Client: h, Key: key}, Owner: []byte("o"), Length: vfs.ToEnd}, nil), ok)
	if u := m.Usage(); u.Opens+u.Locks+u.Ranges+u.Files > 0 {
		t.Errorf("left over: %+v", u)
	}
}

// refusing is a Claimer that refuses all claims, when its gate is open. It tells when a claim begins.
type refusing struct {
	*hanging
	asked chan struct{}
}

func (r refusing) Claim(vfs.Handle, uint64, uint64, vfs.ClaimMode) error {
	r.asked <- struct{}{}
	<-r.gate
	return syscall.EAGAIN
}

// A CANCEL that comes while its LOCK is with the file system ends the waiting that this LOCK begins when its claim is refused.
// Otherwise the host would get a lock that it has given up.
func TestCancelOfALockThatRuns(t *testing.T) {
	m, claimer := newManager(t), refusing{&hanging{gate: make(chan struct{})}, make(chan struct{}, 1)}
	host := newHost(t, m, "host")
	r := HostRange{Ref: Ref{Client: host, Key: fileKey(1)}, Owner: []byte("o"), Length: 10, Claimer: claimer}
	users := func() int {
		m.mu.Lock()
		defer m.mu.Unlock()
		if c := m.files.claims[r.Key]; c != nil {
			return c.users
		}
		return 0
	}
	locked, cancelled := make(chan Verdict, 1), make(chan bool, 1)
	go func() {
		_, v := m.HostLock(&LockArgs{Host: host, Ref: r.Ref, OwnerName: r.Owner, Length: 10, Write: true, Wait: true, Claimer: claimer})
		locked <- v
	}()
	<-claimer.asked
	go func() { cancelled <- m.HostCancel(&r, true) }()
	for users() < 2 {
		select {
		case <-cancelled:
			t.Fatal("the CANCEL does not wait for the LOCK")
		default:
			runtime.Gosched()
		}
	}
	close(claimer.gate)
	is(t, "LOCK", <-locked, LockConflict)
	is(t, "CANCEL has ended the waiting", <-cancelled, true)
	is(t, "waiters", m.Usage().Waiters, 0)
}
