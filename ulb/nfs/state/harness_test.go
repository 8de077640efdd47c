package state

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

const ok = Granted

// newManager makes a Manager. The end of the test closes it.
func newManager(t testing.TB) *Manager {
	t.Helper()
	m, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// newClient makes a client that may open files.
func newClient(m *Manager, kind ClientKind, name string) *Client {
	id := &Identity{Owner: []byte(name)}
	if kind == 0 {
		r := m.SetClientID(id, Callback{})
		m.ConfirmClientID(r.Client.ID, r.Confirm, "")
		return r.Client
	}
	x := m.ExchangeID(id, false)
	m.Confirm(x.Client)
	m.ReclaimComplete(x.Client, nil)
	return x.Client
}

// fileKey returns the key of file number n.
func fileKey(n int) FileKey {
	h, _ := vfs.MakeHandle(fmt.Appendf(nil, "file %d", n))
	return FileKey{"domain", h}
}

func idOf(n int) fileID {
	k := fileKey(n)
	return k.id()
}

// An openCount counts open files.
type openCount struct{ n atomic.Int64 }

// A countedFile is an open file. An openCount counts it until its Close.
type countedFile struct {
	vfs.File
	count  *openCount
	closed atomic.Bool
}

func (c *openCount) open() *countedFile {
	c.n.Add(1)
	return &countedFile{count: c}
}

func (f *countedFile) Close() {
	if f.closed.Swap(true) {
		panic("closed twice")
	}
	f.count.n.Add(-1)
}

// open opens a file. It fails the test if the Manager refuses.
func open(t testing.TB, m *Manager, c *Client, owner string, key FileKey, access, deny Access) StateID {
	t.Helper()
	if _, first := m.MayHold(c, KindOpen, deny, false); first && deny != 0 {
		if s := m.Record(c, KindOpen, deny, nil); s != ok {
			t.Fatal(s)
		}
	}
	o, s := m.Open(&OpenArgs{Client: c, OwnerName: []byte(owner), Key: key, Access: access, Deny: deny})
	if s != ok {
		t.Fatal(s)
	}
	return o.ID
}

func nothingLeft(t interface {
	Helper()
	Errorf(string, ...any)
}, m *Manager) {
	t.Helper()
	if u := m.Usage(); u != (Usage{}) {
		t.Errorf("left over: %+v", u)
	}
	if n := len(m.files.unconfirmed); n != 0 {
		t.Errorf("%d unconfirmed open-owners are left, of no client", n)
	}
	if n := m.files.denials.all.Load(); n != 0 {
		t.Errorf("%d files are still denied to others, or may be", n)
	}
	for i := range m.ways.all {
		if n := m.ways.all[i].changes(); n != 0 {
			t.Errorf("%d changes have no end", n)
		}
	}
}

// givenUp waits until the local claims in all queues are given up.
func givenUp(m *Manager) {
	w := &m.giving
	w.mu.Lock()
	domains := slices.Collect(maps.Keys(w.queues))
	w.mu.Unlock()
	for _, domain := range domains {
		w.wait(domain)
	}
}

// An open-owner of minor version 0 that was never confirmed ends with its client.
func TestUnconfirmedOwnersEndWithTheirClient(t *testing.T) {
	m := newManager(t)
	c := newClient(m, 0, "c")
	for i := range 3 {
		o, s := m.Open(&OpenArgs{Client: c, OwnerName: fmt.Append(nil, i), Key: fileKey(i), Access: AccessRead})
		is(t, "OPEN", s, ok)
		_ = o
	}
	if n := len(m.files.unconfirmed); n != 3 {
		t.Fatalf("%d unconfirmed owners", n)
	}
	g := m.acquire()
	g.dropAll(c)
	g.release()
	nothingLeft(t, m)
}

// asks returns the answer to an access, which ends at once.
func asks(m *Manager, i *Intent) Answer {
	p, a := m.Ask(i)
	p.Done()
	return a
}
