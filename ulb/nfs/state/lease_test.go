package state

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// timed runs a test with a Manager in the fake time of testing/synctest.
func timed(t *testing.T, cfg Config, f func(t *testing.T, m *Manager)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := manager(t, cfg)
		defer m.Close()
		f(t, m)
	})
}

func TestLeases(t *testing.T) {
	timed(t, Config{}, func(t *testing.T, m *Manager) {
		c := confirmed(t, m, identity("client", 1, "me"))
		pass(leaseTime - time.Second)
		m.Renew(c)
		pass(leaseTime - time.Second)
		if m.expiredNow(c) {
			t.Error("a lease that was renewed ran out")
		}
		pass(2 * time.Second)
		if !m.expiredNow(c) {
			t.Error("a lease did not run out")
		}
		if !c.BeginRequest() {
			t.Error("a client in courtesy could not begin a request")
		}
		if m.expiredNow(c) {
			t.Error("a lease ran out while a request was under way")
		}
		m.EndRequest(c)
		if m.expiredNow(c) {
			t.Error("a client in courtesy could not come back")
		}
		if m.Evict(c); m.Client(c.ID) == nil {
			t.Error("a client with a lease was evicted")
		}
		pass(2 * leaseTime)
		if m.Evict(c); c.BeginRequest() || c.Busy() {
			t.Error("an evicted client began a request")
		}
	})
}

func TestUnconfirmedClientsGoAfterALease(t *testing.T) {
	timed(t, Config{}, func(t *testing.T, m *Manager) {
		a := unconfirmed(t, m, identity("a", 1, "me"))
		old := confirmed(t, m, identity("b", 1, "me"))
		b := unconfirmed(t, m, identity("b", 2, "me"))
		pass(leaseTime / 2)
		m.Renew(old)
		late := unconfirmed(t, m, identity("late", 1, "me"))
		pass(leaseTime * 3 / 4)
		if m.Client(a.ID) != nil || m.Client(b.ID) != nil || of(a).gone.Load() != 1 {
			t.Error("clients that did not confirm themselves are still there")
		}
		if m.Client(old.ID) == nil || m.Client(late.ID) == nil {
			t.Error("others went with them")
		}
	})
}

// The Manager keeps a client for a day after its lease ran out. It keeps the client's record only
// if the client holds state.
func TestCourtesyEnds(t *testing.T) {
	d := &disk{}
	timed(t, Config{Records: d}, func(t *testing.T, m *Manager) {
		c := holder(t, m, identity("client", 1, "me"))
		pass(24 * time.Hour)
		if m.Client(c.ID) == nil || !d.has(1, "client") {
			t.Fatal("the client went too soon")
		}
		pass(3 * leaseTime)
		if m.Client(c.ID) != nil || of(c).gone.Load() != 1 || d.has(1, "client") {
			t.Error("the client is still there")
		}
	})
}

// If the record of a client cannot be removed, the Manager does not evict the client. Otherwise the
// client could reclaim, after a restart, state that other clients got meanwhile.
func TestEvictionWaitsForTheRecord(t *testing.T) {
	d := &disk{}
	timed(t, Config{Records: d}, func(t *testing.T, m *Manager) {
		c := holder(t, m, identity("client", 1, "me"))
		pass(2 * leaseTime)
		d.breakDown(true)
		if err := m.Evict(c); err == nil || m.Client(c.ID) == nil || c.Dying() {
			t.Errorf("evicted: %v", err)
		}
		d.breakDown(false)
		release := make(chan struct{})
		d.slow = func() {
			if m.Client(c.ID) == nil || of(c).gone.Load() != 0 || !c.Dying() {
				t.Error("the client went before its record, or could still begin something")
			}
			<-release
		}
		done := make(chan error)
		for range 3 {
			go func() { done <- m.Evict(c) }()
		}
		synctest.Wait()
		close(release)
		for range 3 {
			if err := <-done; err != nil || m.Client(c.ID) != nil {
				t.Errorf("%v", err)
			}
		}
		if d.has(1, "client") || of(c).gone.Load() != 1 {
			t.Errorf("record %v, told %d times", d.has(1, "client"), of(c).gone.Load())
		}
	})
}

// Another principal gets the name of a client whose lease ran out.
func TestNameOfAnExpiredClient(t *testing.T) {
	timed(t, Config{Records: &disk{}}, func(t *testing.T, m *Manager) {
		c := holder(t, m, identity("client", 1, "me"))
		c.AddSessions(1)
		other := identity("client", 1, "you")
		is(t, "with a lease", m.ExchangeID(other, false).Verdict, NameTaken)
		pass(2 * leaseTime)
		x := m.ExchangeID(other, false)
		if x.Expired != c {
			t.Fatalf("%+v", x)
		}
		if err := m.Evict(x.Expired); err != nil {
			t.Fatal(err)
		}
		if x = m.ExchangeID(other, false); x.Client == nil || x.Client == c {
			t.Errorf("%+v", x)
		}
	})
}

// The Manager keeps at most maxCourteous clients whose leases ran out. It removes the longest
// expired ones first.
func TestCourteousClientsAreBounded(t *testing.T) {
	timed(t, Config{}, func(t *testing.T, m *Manager) {
		var all []*Client
		for i := range maxCourteous + 10 {
			all = append(all, confirmed(t, m, identity(fmt.Sprint(i), 1, "me")))
			pass(time.Millisecond)
		}
		pass(2 * leaseTime)
		for i, c := range all {
			if stays := m.Client(c.ID) != nil; stays != (i >= 10) {
				t.Errorf("client %d stays: %v", i, stays)
			}
		}
	})
}

// A client has a lock in a sound file system, and a call that hangs in another one. Then its machine is
// switched off. Some leases later another client gets the file. A client that goes on to renew its lease keeps it.
func TestCallThatHangsKeepsNoLeaseForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := manager(t, Config{Records: &disk{}})
		x, y := complete(t, m, identity("x", 1, "me")), complete(t, m, identity("y", 1, "me"))
		sound := FileKey{"sound", fileKey(2).Handle}
		open(t, m, x, "o", sound, AccessRead, AccessWrite)
		if !x.BeginRequest() { // a READ in the file system that hangs
			t.Fatal("no request")
		}
		for range 20 {
			pass(leaseTime / 2)
			m.Renew(y)
		}
		z := complete(t, m, identity("z", 1, "me"))
		alive := FileKey{"sound", fileKey(3).Handle}
		open(t, m, z, "o", alive, AccessRead, AccessWrite)
		if !z.BeginRequest() {
			t.Fatal("no request")
		}
		for range 20 {
			pass(leaseTime / 2)
			m.Renew(y)
			m.Renew(z)
		}
		if _, s := m.Open(&OpenArgs{Client: y, OwnerName: []byte("o"), Key: alive, Access: AccessWrite}); s == ok {
			t.Error("a client that renews its lease has lost its file")
		}
		m.EndRequest(z)
		if _, s := m.Open(&OpenArgs{Client: y, OwnerName: []byte("o"), Key: sound, Access: AccessWrite}); s != ok {
			t.Errorf("OPEN in the sound file system ten leases after the client's last call: %v", s)
		}
		m.EndRequest(x)
		m.Close()
	})
}
