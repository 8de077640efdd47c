package state

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/nfsrdmad/nfsrdmad/test/await"
)

// Each way in which much state ends does little under one lock: a release, the end of a file system, the end of a lease, a
// CLOSE, and the confirmation of the client's next incarnation. One open has many locks, and one of them has many ranges.
func TestMuchStateEndsInPieces(t *testing.T) {
	const n = 4000
	key := fileKey(0)
	for _, end := range []struct {
		name string
		of   func(t *testing.T, m *Manager, c *Client, id StateID)
	}{
		{"release", func(t *testing.T, m *Manager, c *Client, _ StateID) {
			is(t, "opens that are taken", m.Release(Which{Client: c}), n+1)
		}},
		{"the end of a file system", func(_ *testing.T, m *Manager, _ *Client, _ StateID) { m.Revoke(key.Domain) }},
		{"the end of a lease", func(t *testing.T, m *Manager, c *Client, _ StateID) {
			pass(2 * leaseTime)
			if err := m.Evict(c); err != nil {
				t.Error(err)
			}
		}},
		{"CLOSE", func(t *testing.T, m *Manager, c *Client, id StateID) {
			_, v := m.CloseOpen(&Ref{ID: id, Client: c, Key: key}, false)
			is(t, "CLOSE", v, ok)
		}},
		{"the next incarnation", func(t *testing.T, m *Manager, c *Client, _ StateID) {
			is(t, "its confirmation", m.Confirm(next(t, m, c)), ok)
		}},
	} {
		t.Run(end.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := manager(t, Config{})
				defer m.Close()
				c := newClient(m, Sessions, "c")
				id := open(t, m, c, "o", key, AccessBoth, 0)
				lock := func(owner string, at uint64) {
					_, _, v := m.Lock(&LockArgs{Ref: Ref{ID: id, Client: c, Key: key}, New: true, OwnerName: []byte(owner), Offset: at, Length: 1})
					is(t, "LOCK", v, ok)
				}
				for i := range uint64(n) {
					lock(fmt.Sprint(i), 4*i)
					lock("one", 4*i+2)
					open(t, m, c, "o", fileKey(1+int(i)), AccessRead, 0)
				}
				m.files.did = pieces{}
				end.of(t, m, c, id)
				u := m.Usage()
				if u.Locks+u.Ranges > 0 {
					t.Errorf("left over: %+v", u)
				}
				if did := m.files.did; did.most > pieceSteps+1 || did.n < 2*n/pieceSteps {
					t.Errorf("%d pieces, the largest with %d steps", did.n, did.most)
				}
			})
		})
	}
}

// While a CLOSE ends locks in pieces, the stateid of the open stays current, whatever locks the client makes meanwhile: so
// an OPEN of the file, which changes the stateid, stops the CLOSE.
func TestOpenBetweenThePiecesOfAClose(t *testing.T) {
	m := newManager(t)
	c, key := newClient(m, Sessions, "c"), fileKey(0)
	ref := Ref{ID: open(t, m, c, "o", key, AccessBoth, 0), Client: c, Key: key}
	made := 0
	lock := func(n int) {
		for range n {
			_, _, v := m.Lock(&LockArgs{Ref: ref, New: true, OwnerName: fmt.Append(nil, made), Offset: 2 * uint64(made), Length: 1})
			is(t, "LOCK", v, ok)
			made++
		}
	}
	lock(2 * pieceSteps)
	gaps := 0
	_, v := m.closeOpen(&ref, false, func() bool {
		if m.Usage().Opens == 0 {
			return true
		}
		_, v := m.Find(&ref.ID, c)
		is(t, "the stateid of the open", v, ok)
		if gaps++; v == ok && gaps < 20 {
			lock(pieceSteps)
		}
		return true
	})
	is(t, "CLOSE", v, ok)
	if u := m.Usage(); gaps < 20 || u.Opens+u.Locks > 0 {
		t.Errorf("after %d pieces: %+v", gaps, u)
	}
	ref.ID = open(t, m, c, "o", key, AccessBoth, 0)
	lock(2 * pieceSteps)
	var again StateID
	_, v = m.closeOpen(&ref, false, func() bool {
		if again == (StateID{}) {
			again = open(t, m, c, "o", key, AccessBoth, 0)
		}
		return true
	})
	is(t, "CLOSE of a file that is open again", v, OldID)
	_, v = m.Find(&again, c)
	is(t, "the open", v, ok)
}

// While the server takes an open with many locks in pieces, nobody can use what is left of it, nor free it, nor get the
// open again.
func TestNothingIsLeftOfAnOpenThatIsTaken(t *testing.T) {
	key := fileKey(0)
	for kind := range Sessions + 1 {
		m := newManager(t)
		c := newClient(m, kind, "c")
		var by *Client
		if kind == Sessions {
			by = c
		}
		id := open(t, m, c, "o", key, AccessBoth, 0)
		if kind == Minor0 {
			var v Verdict
			id, v = m.ConfirmOpen(&Ref{ID: id, Key: key})
			is(t, "OPEN_CONFIRM", v, ok)
		}
		ref := Ref{ID: id, Client: by, Key: key}
		var locks []StateID
		for i := range uint64(3 * pieceSteps) {
			lock, _, v := m.Lock(&LockArgs{Ref: ref, New: true, OwnerName: fmt.Append(nil, i), Offset: 2 * i, Length: 1})
			is(t, "LOCK", v, ok)
			locks = append(locks, lock)
		}
		looked := 0
		took := m.takeThose(Which{Client: c}, func() bool {
			if _, v := m.Find(&id, by); v == ok {
				return true
			}
			m.mu.Lock()
			under := m.files.usage.Locks > 0
			m.mu.Unlock()
			if !under {
				return true
			}
			looked++
			for _, lock := range []StateID{id, locks[0], locks[len(locks)-1]} {
				_, v := m.Find(&lock, by)
				is(t, "a stateid", v, RevokedID)
			}
			_, _, v := m.Lock(&LockArgs{Ref: ref, New: true, OwnerName: []byte("more"), Offset: 1, Length: 1})
			is(t, "LOCK", v, RevokedID)
			want := RevokedID
			if kind == Minor0 {
				want = TryLater // its CLOSE says that it has lost the open, and there is nothing to forget yet
			}
			_, v = m.CloseOpen(&ref, false)
			is(t, "CLOSE", v, want)
			_, v = m.Open(&OpenArgs{Client: c, OwnerName: []byte("o"), Key: key, Access: AccessBoth})
			is(t, "OPEN", v, TryLater)
			if kind == Sessions {
				is(t, "FREE_STATEID", m.FreeStateID(&id, by), TryLater)
			}
			return true
		})
		if took != 1 || looked < 2 {
			t.Errorf("it takes %d opens, and the client looks %d times", took, looked)
		}
		_, v := m.CloseOpen(&ref, false)
		is(t, "CLOSE afterwards", v, RevokedID)
		if kind == Sessions {
			is(t, "FREE_STATEID afterwards", m.FreeStateID(&id, by), ok)
		}
	}
}

// While the server evicts a client with many locks in pieces, others get what has become free, and the client can use
// nothing of it any more.
func TestNothingIsLeftOfAClientThatIsEvicted(t *testing.T) {
	key := fileKey(0)
	for kind := range Sessions + 1 {
		m := newManager(t)
		c, other := newClient(m, kind, "c"), newClient(m, Sessions, "other")
		theirs := open(t, m, other, "o", key, AccessBoth, 0)
		var by *Client
		want := ExpiredID
		if kind == Sessions {
			by, want = c, UnknownID
		}
		id := open(t, m, c, "o", key, AccessBoth, 0)
		if kind == Minor0 {
			var v Verdict
			id, v = m.ConfirmOpen(&Ref{ID: id, Key: key})
			is(t, "OPEN_CONFIRM", v, ok)
		}
		ref := Ref{ID: id, Client: by, Key: key}
		const n = 3 * pieceSteps
		locks := make([]StateID, n)
		for i := range locks {
			var v Verdict
			locks[i], _, v = m.Lock(&LockArgs{Ref: ref, New: true, OwnerName: fmt.Append(nil, i), Offset: 2 * uint64(i), Length: 1, Write: true})
			is(t, "LOCK", v, ok)
		}
		looked := 0
		if err := m.evictThose([]*Client{c}, Ordered, func() bool {
			if left := m.Usage().Ranges - looked; left == 0 || left == n {
				return true // nothing, or all, has ended
			}
			for i := range locks {
				if _, _, v := m.Lock(&LockArgs{Ref: Ref{ID: theirs, Client: other, Key: key}, New: true, OwnerName: []byte("o"), Offset: 2 * uint64(i), Length: 1, Write: true}); v == ok {
					looked++
					break
				}
			}
			for _, mine := range []StateID{id, locks[0], locks[n-1]} {
				_, v := m.Resolve(&Ref{ID: mine, Client: by, Key: key}, 0)
				is(t, "a stateid for a WRITE", v, want)
				_, v = m.Find(&mine, by)
				is(t, "a stateid", v, want)
			}
			_, v := m.CloseOpen(&ref, false)
			is(t, "CLOSE", v, want)
			return true
		}); err != nil {
			t.Error(err)
		}
		if looked == 0 {
			t.Error("nobody comes between")
		}
	}
}

// A client that waits for a lock hears that it is free after the piece in which it has become free.
func TestWaitersHearAfterEachPiece(t *testing.T) {
	key := fileKey(0)
	for name, end := range map[string]func(m *Manager, c *Client, between func() bool){
		"release":  func(m *Manager, c *Client, between func() bool) { m.takeThose(Which{Client: c}, between) },
		"eviction": func(m *Manager, c *Client, between func() bool) { _ = m.evictThose([]*Client{c}, Ordered, between) },
	} {
		t.Run(name, func(t *testing.T) {
			m := newManager(t)
			heard := 0
			m.NotifyLocks(func(LockNotice) { heard++ })
			c, other := newClient(m, Sessions, "c"), newClient(m, Sessions, "other")
			ref := Ref{ID: open(t, m, c, "o", key, AccessBoth, 0), Client: c, Key: key}
			for i := range uint64(3 * pieceSteps) {
				_, _, v := m.Lock(&LockArgs{Ref: ref, New: true, OwnerName: []byte("o"), Offset: 2 * i, Length: 1, Write: true})
				is(t, "LOCK", v, ok)
			}
			ref = Ref{ID: open(t, m, other, "o", key, AccessBoth, 0), Client: other, Key: key}
			_, _, v := m.Lock(&LockArgs{Ref: ref, New: true, OwnerName: []byte("o"), Length: 1, Write: true, Wait: true})
			is(t, "LOCK that waits", v, LockConflict)
			early := false
			end(m, c, func() bool {
				early = early || heard > 0 && m.Usage().Ranges > 0
				return true
			})
			if heard != 1 || !early {
				t.Errorf("the client hears %d times; before the last piece: %v", heard, early)
			}
		})
	}
}

// A host cannot lock upon what the server is taking from it, nor can it have a share there.
func TestHostGetsNothingUponWhatIsTaken(t *testing.T) {
	m := newManager(t)
	c := newHost(t, m, "host")
	for i := range 3 * pieceSteps {
		is(t, "LOCK", hostLock(m, c, fmt.Sprint(i), fileKey(0), false, false), ok)
	}
	looked := 0
	m.takeThose(Which{Client: c}, func() bool {
		g := m.acquire()
		open := g.findHostOpen(c, nil, &Ref{Key: fileKey(0)}, idOf(0))
		g.release()
		if open != nil && open.isRevoked() {
			looked++
			is(t, "LOCK", hostLock(m, c, "more", fileKey(0), false, false), TryLater)
		}
		return true
	})
	if looked < 2 {
		t.Errorf("the host comes %d times", looked)
	}
	is(t, "LOCK afterwards", hostLock(m, c, "more", fileKey(0), false, false), ok)
}

// next returns an unconfirmed client with the name of c, as it comes after a restart.
func next(t *testing.T, m *Manager, c *Client) *Client {
	t.Helper()
	x := m.ExchangeID(&Identity{Owner: []byte(c.Owner), Verifier: Verifier{c.Verifier[0] + 1}, Caller: Caller{Principal: c.Principal}}, false)
	if x.Verdict != ok || x.Client == nil || x.Client == c {
		t.Fatalf("EXCHANGE_ID after a restart: %+v", x)
	}
	return x.Client
}

// The restart of a host ends its locks and its waiting in pieces.
func TestHostsRestartEndsMuchInPieces(t *testing.T) {
	m := newManager(t)
	const n = 4000
	host := newHost(t, m, "host")
	for i := range n {
		_, v := m.HostLock(&LockArgs{Host: host, OwnerName: fmt.Append(nil, i), Ref: Ref{Client: host, Key: fileKey(i % 100)}, Offset: uint64(i), Length: 1})
		is(t, "LOCK", v, ok)
	}
	m.files.did = pieces{}
	m.ForgetHost(host)
	if u := m.Usage(); u.Opens+u.Locks+u.Ranges > 0 || m.FindHost([]byte("host"), hostAddress) != nil {
		t.Errorf("left over: %+v", u)
	}
	if did := m.files.did; did.most > pieceSteps+1 || did.n < n/pieceSteps {
		t.Errorf("%d pieces, the largest with %d steps", did.n, did.most)
	}
}

// many makes a client with 3 pieces of locks, and returns the stateid of its open.
func many(t *testing.T, m *Manager, c *Client) StateID {
	id := open(t, m, c, "o", fileKey(0), AccessBoth, 0)
	for i := range uint64(3 * pieceSteps) {
		_, _, v := m.Lock(&LockArgs{
			Ref: Ref{ID: id, Client: c, Key: fileKey(0)}, New: true, OwnerName: fmt.Append(nil, i), Offset: 2 * i, Length: 1, Write: true,
		})
		is(t, "LOCK", v, ok)
	}
	return id
}

// While the state of a client's earlier incarnation ends in pieces, that incarnation can use nothing of it, the new one is
// not confirmed yet, a repeated confirmation is put off, and an eviction of the earlier one waits for the last piece.
func TestEarlierIncarnationEndsInPieces(t *testing.T) {
	m := newManager(t)
	c := newClient(m, Sessions, "c")
	id := many(t, m, c)
	n := next(t, m, c)
	evicted := make(chan error, 1)
	looked := 0
	v := m.confirmThis(n, func() bool {
		if m.Client(c.ID) == nil {
			return true
		}
		if looked++; looked == 1 {
			go func() { evicted <- m.Evict(c) }()
		}
		_, v := m.Find(&id, c)
		is(t, "its stateid", v, UnknownID)
		is(t, "a repeated confirmation", m.Confirm(n), TryLater)
		is(t, "its next incarnation is confirmed", m.Confirmed(n), false)
		_, v = m.Open(&OpenArgs{Client: c, OwnerName: []byte("more"), Key: fileKey(1), Access: AccessBoth})
		is(t, "OPEN", v, TryLater)
		select {
		case err := <-evicted:
			t.Errorf("an eviction has ended before the client: %v", err)
		default:
		}
		return true
	})
	is(t, "the confirmation", v, ok)
	if err := await.Receive(t, "the eviction ends", evicted); err != nil || looked < 3 {
		t.Errorf("%d pieces; the eviction: %v", looked, err)
	}
	if u := m.Usage(); u.Opens+u.Locks > 0 || !m.Confirmed(n) || m.Client(c.ID) != nil {
		t.Errorf("after it: %+v", u)
	}
}

// If the new incarnation ends while the state of the earlier one does, the earlier one is gone all the same, with its record.
func TestNextIncarnationEndsBetweenThePieces(t *testing.T) {
	d := &disk{}
	synctest.Test(t, func(t *testing.T) {
		m := manager(t, Config{Records: d})
		defer m.Close()
		c := complete(t, m, identity("c", 1, "me"))
		is(t, "its record", m.Record(c, KindLock, 0, nil), ok)
		many(t, m, c)
		n := unconfirmed(t, m, identity("c", 2, "me"))
		destroyed := false
		v := m.confirmThis(n, func() bool {
			if !destroyed {
				destroyed = true
				is(t, "DESTROY_CLIENTID", m.Destroy(n), ok)
			}
			return true
		})
		is(t, "the confirmation", v, NoClient)
		synctest.Wait()
		if u := m.Usage(); u.Opens+u.Locks > 0 || m.Client(c.ID) != nil || d.has(1, "c") {
			t.Errorf("left over: %+v, its record: %v", u, d.has(1, "c"))
		}
		is(t, "the next confirmation", m.Confirm(unconfirmed(t, m, identity("c", 3, "me"))), ok)
	})
}

// A LOCK and a SHARE of a host that has just restarted wait, without a goroutine, until the locks from before have ended.
func TestHostThatHasRestartedWaitsForItsEnd(t *testing.T) {
	m := newManager(t)
	host := newHost(t, m, "host")
	for i := range 3 * pieceSteps {
		is(t, "LOCK", hostLock(m, host, fmt.Sprint(i), fileKey(0), false, false), ok)
	}
	resumed, ended := 0, false
	again := func() {
		resumed++
		if m.Usage().Locks > 0 || !ended {
			t.Error("a call goes on before the end")
		}
	}
	asked := 0
	m.forgetHost(host, func() bool {
		if ended = m.FindHost([]byte("host"), hostAddress) == nil; ended {
			return true
		}
		asked++
		var later Later
		_, v := m.HostLock(&LockArgs{Host: host, OwnerName: []byte("new"), Ref: Ref{Client: host, Key: fileKey(0)}, Length: 10, Write: true, Later: &later})
		if is(t, "LOCK", v, AfterDisk); v == AfterDisk {
			later.Await(again)
		}
		v = m.HostShare(&OpenArgs{Client: host, OwnerName: []byte("new"), Key: fileKey(0), Access: AccessBoth, Later: &later})
		if is(t, "SHARE", v, AfterDisk); v == AfterDisk {
			later.Await(again)
		}
		is(t, "LOCK that cannot wait", hostLock(m, host, "other", fileKey(0), true, false), TryLater)
		return true
	})
	if asked < 2 || resumed != 2*asked {
		t.Errorf("%d calls of %d go on", resumed, 2*asked)
	}
	is(t, "LOCK of the host after its restart", hostLock(m, newHost(t, m, "host"), "new", fileKey(0), true, false), ok)
}
