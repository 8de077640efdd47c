package state

import (
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// openSome opens n files for c, and repeats what is to be repeated. It returns the opens.
func openSome(t *testing.T, m *Manager, c *Client, first, n int) (all []StateID) {
	t.Helper()
	for tries := 0; len(all) < n; tries++ {
		o, s := m.Open(&OpenArgs{Client: c, OwnerName: []byte("owner"), Key: fileKey(first + len(all)), Access: AccessRead})
		switch {
		case s == ok:
			all = append(all, o.ID)
		case s != TryLater && s != Full || tries > 10*n:
			t.Fatalf("%d files are open, the next: %v", len(all), s)
		default:
			time.Sleep(time.Second)
			m.Renew(c)
		}
	}
	return all
}

// However many addresses of one site open as many files as they can, a client of another site that has
// no more than its part keeps its opens and its lock, and a new client of a third site gets its part.
func TestASiteWithManyAddressesTakesNothing(t *testing.T) {
	for name, at := range map[string]string{"IPv6": "2001:db8:0:%x::1", "IPv4": "10.0.0.%d"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const memory = 2 << 20
				lost := make(map[netip.Addr]int)
				var by []netip.Addr
				m := manager(t, Config{Memory: memory, Lease: 24 * time.Hour, Event: func(e *Event) {
					if e.Kind == Reduced || e.Kind == Taken {
						lost[e.Clients[0].Address] += e.Opens
						by = append(by, e.By)
					}
				}})
				defer m.Close()
				honest := clientFrom(t, m, "192.0.2.1", "honest")
				opens := openSome(t, m, honest, 0, 200)
				lock := LockArgs{Ref: Ref{ID: opens[0], Client: honest, Key: fileKey(0)}, New: true, OwnerName: []byte("locker"), Length: 1}
				if _, _, s := m.Lock(&lock); s != ok {
					t.Fatal(s)
				}
				had := honest.memory()
				for i := range 150 {
					c := clientFrom(t, m, fmt.Sprintf(at, i), fmt.Sprint("attacker ", i))
					for n := range 60 {
						if _, s := m.Open(&OpenArgs{Client: c, OwnerName: []byte("owner"), Key: fileKey(1000 + n), Access: AccessRead}); s != ok {
							time.Sleep(time.Second)
						}
					}
				}
				next := clientFrom(t, m, "198.51.100.1", "next")
				if fill(t, m, next); next.memory() < memory/5 {
					t.Errorf("a new client gets %d of %d bytes", next.memory(), memory)
				}
				for i := range opens {
					if _, s := m.Find(&opens[i], honest); s != ok {
						t.Fatalf("open %d: %v", i, s)
					}
				}
				if m.Client(honest.ID) == nil || honest.memory() != had || lost[honest.known.address] > 0 || m.Notices(honest) != 0 {
					t.Errorf("an honest client has %d of %d bytes, verdict %#x", honest.memory(), had, m.Notices(honest))
				}
				if m.Usage().Memory > memory || len(by) == 0 {
					t.Errorf("%+v, taken for %v", m.Usage(), by)
				}
				for i := range opens[1:] {
					if _, s := m.CloseOpen(&Ref{ID: opens[i+1], Client: honest, Key: fileKey(i + 1)}, false); s != ok {
						t.Fatalf("CLOSE of open %d: %v", i+1, s)
					}
				}
			})
		})
	}
}

// A client that has more than its part loses single opens, not its lease: opens without locks first. It is told
// so (SEQ4_STATUS_ADMIN_STATE_REVOKED), and goes on with what is left.
func TestOpensAreTakenSingly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const memory = 1 << 20
		var events []*Event
		m := manager(t, Config{Memory: memory, Lease: 24 * time.Hour, Event: func(e *Event) { events = append(events, e) }})
		defer m.Close()
		large := clientFrom(t, m, "192.0.2.1", "large")
		key := fileKey(1 << 20)
		o, s := m.Open(&OpenArgs{Client: large, OwnerName: []byte("owner"), Key: key, Access: AccessRead})
		is(t, "OPEN", s, ok)
		_, _, s = m.Lock(&LockArgs{Ref: Ref{ID: o.ID, Client: large, Key: key}, New: true, OwnerName: []byte("locker"), Length: 1})
		is(t, "LOCK", s, ok)
		n := fill(t, m, large)
		locked := m.Usage().Locks
		// The client hears of its loss within a tenth of a second, and frees the stateids.
		told := make(map[StateID]bool)
		end, ended := make(chan struct{}), make(chan struct{})
		defer func() { close(end); <-ended }()
		go func() {
			defer close(ended)
			for ; ; time.Sleep(100 * time.Millisecond) {
				select {
				case <-end:
					return
				default:
				}
				var all []StateID
				m.mu.Lock()
				for s := range large.holding.revoked {
					all = append(all, s.ID())
				}
				m.mu.Unlock()
				for _, id := range all {
					if _, s := m.Find(&id, large); s != RevokedID {
						t.Error(s)
					}
					told[id] = true
					is(t, "FREE_STATEID", m.FreeStateID(&id, large), ok)
				}
			}
		}()
		for i := range 2 {
			fill(t, m, clientFrom(t, m, fmt.Sprintf("198.51.%d.1", i), fmt.Sprint("other ", i)))
		}
		taken := 0
		for _, e := range events {
			if e.Kind != Reduced {
				continue
			}
			taken += e.Opens
			if e.Clients[0].Owner != "large" || e.By == large.known.address {
				t.Errorf("%+v", e)
			}
		}
		if taken == 0 || m.Client(large.ID) == nil || large.Dying() || m.Usage().Locks != locked {
			t.Fatalf("%d opens were taken, the client is gone: %v, %d of %d locks", taken, m.Client(large.ID) == nil, m.Usage().Locks, locked)
		}
		if large.memory() > memory/2 || n-taken < 100 {
			t.Errorf("it has %d bytes, and lost %d of %d opens", large.memory(), taken, n)
		}
		time.Sleep(time.Second)
		if len(told) != taken {
			t.Errorf("it was told of %d revoked stateids, and %d opens were taken", len(told), taken)
		}
		if m.Notices(large) != 0 {
			t.Error("it has freed all of them, and is told that some are revoked")
		}
	})
}

// If clients of one site have most of the open files of a file system, they lose single ones to a client of
// another site, which keeps those that it has.
func TestOpenFilesOfASiteWithManyAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := manager(t, Config{Lease: 24 * time.Hour})
		defer m.Close()
		fs := &scarce{most: 400}
		honest := clientFrom(t, m, "192.0.2.1", "honest")
		for n := range 50 {
			is(t, "OPEN", openScarce(m, fs, honest, n), ok)
		}
		for i := range 150 {
			fillScarce(t, m, fs, clientFrom(t, m, fmt.Sprintf("2001:db8:0:%x::1", i), fmt.Sprint("attacker ", i)), 1000*(i+1))
		}
		if honest.known.origin.files.open(fs) != 50 || len(honest.holding.revoked) > 0 {
			t.Errorf("an honest client has %d of 50 files open", honest.known.origin.files.open(fs))
		}
		if n := fillScarce(t, m, fs, honest, 50); n < 50 {
			t.Errorf("it may open %d more, and has less than its part", n)
		}
		if n := fs.n.Load(); n > int64(fs.most) {
			t.Errorf("%d files are open", n)
		}
	})
}
