package state

import (
	"errors"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// disk is a Records that outlives a Manager. Its changes fail while broken is set.
type disk struct {
	mu      sync.Mutex
	starts  uint32
	records map[name]Record
	broken  bool
	// If slow is not nil, each change calls it first.
	slow func()
}

var errDisk = errors.New("the disk fails")

func (d *disk) Begin() (uint32, []Record, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.records == nil {
		d.records = map[name]Record{}
	}
	d.starts++
	return d.starts, d.list(), nil
}

func (d *disk) list() (all []Record) {
	for _, r := range d.records {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b Record) int { return int(a.Kind) - int(b.Kind) })
	return all
}

func (d *disk) change(f func()) error {
	if d.slow != nil {
		d.slow()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.broken {
		return errDisk
	}
	f()
	return nil
}

func (d *disk) Put(more []Record) error {
	return d.change(func() {
		for _, r := range more {
			d.records[r.name()] = r
		}
	})
}

func (d *disk) Remove(gone []Record) error {
	return d.change(func() {
		for _, r := range gone {
			delete(d.records, r.name())
		}
	})
}

// has reports whether a client has a record.
func (d *disk) has(kind ClientKind, owner string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for n := range d.records {
		if n.kind == kind && n.owner == owner {
			return true
		}
	}
	return false
}

func (d *disk) breakDown(broken bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.broken = broken
}

// companion is a Companion that counts the calls of Gone.
type companion struct{ gone atomic.Int32 }

func (c *companion) Gone() { c.gone.Add(1) }

func manager(t testing.TB, cfg Config) *Manager {
	t.Helper()
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// identity returns the Identity of a client with a companion.
func identity(owner string, verifier byte, principal string) *Identity {
	return &Identity{
		Owner: []byte(owner), Verifier: Verifier{verifier}, Companion: &companion{},
		Caller: Caller{Principal: principal, Address: netip.MustParseAddr("10.0.0.1"), Privileged: true},
	}
}

// unconfirmed makes an unconfirmed client of minor version 1.
func unconfirmed(t testing.TB, m *Manager, id *Identity) *Client {
	t.Helper()
	x := m.ExchangeID(id, false)
	if x.Verdict != Granted || x.Client == nil || x.Confirmed {
		t.Fatalf("EXCHANGE_ID: %+v", x)
	}
	return x.Client
}

func confirmed(t testing.TB, m *Manager, id *Identity) *Client {
	t.Helper()
	c := unconfirmed(t, m, id)
	is(t, "confirmation", m.Confirm(c), Granted)
	return c
}

// complete makes a client that has sent RECLAIM_COMPLETE.
func complete(t testing.TB, m *Manager, id *Identity) *Client {
	t.Helper()
	c := confirmed(t, m, id)
	s := m.ReclaimComplete(c, nil)
	is(t, "RECLAIM_COMPLETE", s, Granted)
	return c
}

// holder makes a client with an open file. The client's name is the file's key.
func holder(t testing.TB, m *Manager, id *Identity) *Client {
	t.Helper()
	c := complete(t, m, id)
	h, _ := vfs.MakeHandle(id.Owner)
	open(t, m, c, "o", FileKey{"domain", h}, AccessRead, 0)
	return c
}

func v40(t testing.TB, m *Manager, id *Identity) *Client {
	t.Helper()
	r := m.SetClientID(id, Callback{})
	is(t, "SETCLIENTID", r.Verdict, Granted)
	is(t, "SETCLIENTID_CONFIRM", m.ConfirmClientID(r.Client.ID, r.Confirm, id.Principal), Granted)
	return r.Client
}

func of(c *Client) *companion { return c.Companion().(*companion) }

func is[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, not %v", what, got, want)
	}
}

// pass lets the time d pass, and waits until all goroutines are idle.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// mayHoldNow returns the verdict for an open of a client. If claimed is true, the client reclaims the open; if not, the
// open denies everything, so that it conflicts with whatever others may reclaim.
func (m *Manager) mayHoldNow(c *Client, claimed bool) Verdict {
	deny := AccessBoth
	if claimed {
		deny = 0
	}
	g := m.acquire()
	defer g.release()
	return g.mayHold(c, KindOpen, deny, claimed)
}

func (m *Manager) mayReclaimNow(c *Client) bool {
	g := m.acquire()
	defer g.release()
	return g.mayReclaim(c)
}

func (m *Manager) expiredNow(c *Client) bool {
	g := m.acquire()
	defer g.release()
	return g.expired(c, m.now())
}

// removeNow removes a client with all its state.
func (m *Manager) removeNow(c *Client) {
	g := m.acquire()
	defer g.release()
	g.remove(c)
}

const leaseTime = 90 * time.Second
