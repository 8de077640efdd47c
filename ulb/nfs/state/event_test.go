package state

import (
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// told collects the Events of a Manager.
type told struct {
	mu  sync.Mutex
	all []Event
}

func (e *told) event(x *Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, *x)
}

// take returns the Events since the last take.
func (e *told) take() []Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := e.all
	e.all = nil
	return all
}

// The Manager reports the start of the grace period with the clients that may reclaim state, and
// its end with the clients that did not.
func TestGraceIsTold(t *testing.T) {
	for _, comes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			d, e := &disk{}, &told{}
			m := manager(t, Config{Records: d, Event: e.event})
			holds(t, m)
			m.Close()
			if all := e.take(); len(all) != 0 {
				t.Errorf("without a grace period: %+v", all)
			}
			m = manager(t, Config{Records: d, Event: e.event})
			defer m.Close()
			all := e.take()
			if len(all) != 1 || all[0].Kind != GraceBegan || len(all[0].Clients) != 1 || all[0].Clients[0].Owner != "client" || all[0].For != m.Lease() {
				t.Errorf("at the start: %+v", all)
			}
			if comes {
				complete(t, m, me())
			}
			time.Sleep(3 * m.Lease())
			synctest.Wait()
			all = e.take()
			if len(all) != 1 || all[0].Kind != GraceEnded || len(all[0].Clients) == 0 != comes {
				t.Errorf("the client comes: %v: %+v", comes, all)
			}
		})
	}
}

// The Manager reports each client whose state it takes away, with the reason. A client without
// state, or a client that restarts, causes no Event.
func TestManagerReportsTakenState(t *testing.T) {
	for name, c := range map[string]struct {
		why  Why
		take func(t *testing.T, m *Manager)
	}{
		"another client wants it": {Wanted, func(t *testing.T, m *Manager) {
			time.Sleep(m.Lease() + m.unwritten() + 1)
			open(t, m, newClient(m, 1, "other"), "owner", fileKey(1), AccessWrite, 0)
		}},
		"another client has its name": {Named, func(t *testing.T, m *Manager) {
			time.Sleep(m.Lease() + m.unwritten() + 1)
			id := &Identity{Owner: []byte("holder"), Verifier: [8]byte{1}, Caller: Caller{Principal: "another user"}}
			if x := m.ExchangeID(id, false); x.Expired == nil || m.Evict(x.Expired) != nil {
				t.Errorf("%+v", x)
			}
		}},
		"it is gone for too long": {Swept, func(t *testing.T, m *Manager) {
			time.Sleep(m.cfg.Courtesy + 2*m.Lease())
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &told{}
				m := manager(t, Config{Event: e.event})
				defer m.Close()
				idle := newClient(m, 1, "idle")
				open(t, m, newClient(m, 1, "holder"), "owner", fileKey(1), AccessRead, AccessWrite)
				c.take(t, m)
				synctest.Wait()
				m.Evict(idle)
				all := e.take()
				if len(all) != 1 || all[0].Kind != Taken || all[0].Why != c.why || all[0].Clients[0].Owner != "holder" {
					t.Errorf("%+v", all)
				}
			})
		})
	}
}

// Of two principals of one machine with one name, the second waits while the first has a valid lease, and
// the Manager reports it. After that the Manager accepts the second one.
func TestTwoClientsWithOneName(t *testing.T) {
	here := netip.MustParseAddr("192.0.2.1")
	const first, second, inUse = "uid 1", "uid 2", NameTaken
	for kind, exchange := range map[string]func(m *Manager, verifier byte, from string) (*Client, Verdict, *Client){
		"4.0": func(m *Manager, verifier byte, from string) (*Client, Verdict, *Client) {
			r := m.SetClientID(&Identity{Owner: []byte("clone"), Verifier: [8]byte{verifier}, Caller: Caller{Principal: from, Address: here}}, Callback{})
			if r.Client != nil {
				m.ConfirmClientID(r.Client.ID, r.Confirm, from)
			}
			return r.Client, r.Verdict, r.Expired
		},
		"4.1": func(m *Manager, verifier byte, from string) (*Client, Verdict, *Client) {
			x := m.ExchangeID(&Identity{Owner: []byte("clone"), Verifier: [8]byte{verifier}, Caller: Caller{Principal: from, Address: here}}, false)
			if x.Client != nil {
				m.Confirm(x.Client)
				m.ReclaimComplete(x.Client, nil)
			}
			return x.Client, x.Verdict, x.Expired
		},
	} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &told{}
				m := manager(t, Config{Event: e.event})
				defer m.Close()
				c, _, _ := exchange(m, 1, first)
				open(t, m, c, "owner", fileKey(1), AccessRead, 0)
				for range 3 {
					if c, s, _ := exchange(m, 2, second); c != nil || s != inUse {
						t.Errorf("the second gets on beside the first: %v", s)
					}
					m.Renew(c)
					time.Sleep(m.Lease() / 2)
				}
				all := e.take()
				if len(all) != 3 || slices.ContainsFunc(all, func(e Event) bool {
					return e.Kind != NameInUse || e.By != here || e.Clients[0].Principal != first || e.Clients[0].Owner != "clone"
				}) {
					t.Errorf("%+v", all)
				}
				time.Sleep(m.Lease())
				if _, _, expired := exchange(m, 2, second); expired != nil {
					if err := m.Evict(expired); err != nil {
						t.Fatal(err)
					}
				}
				if c, s, _ := exchange(m, 2, second); c == nil || s != ok {
					t.Errorf("the second does not get on: %v", s)
				}
			})
		})
	}
}
