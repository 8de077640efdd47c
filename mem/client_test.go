package mem

import (
	"net/netip"
	"testing"
)

// Shares with equal keys belong to one client. The pool forgets the client when all its shares
// are closed and all its memory is back, in any order.
func TestClientsAreForgotten(t *testing.T) {
	p := newPool(t, 8*mib, 0)
	clients := func(want int) {
		t.Helper()
		audited(t, p)
		if st := p.Stats(); st.Clients != want {
			t.Fatalf("%d clients are known, want %d", st.Clients, want)
		}
	}
	key := netip.MustParseAddr("192.0.2.1")
	a, b := p.OpenShare(key, nil), p.OpenShare(netip.MustParseAddr("192.0.2.1"), nil)
	if a.client != b.client {
		t.Error("equal keys are two clients")
	}
	other := p.OpenShare(netip.MustParseAddr("192.0.2.2"), nil)
	p.NewShare().Close()
	clients(2)
	held, _ := a.TryGet(mib)
	b.Charge(1)
	a.Close()
	b.Close()
	clients(2)
	held.Release()
	clients(2)
	b.Discharge(1)
	clients(1)
	held, _ = other.TryGet(PageSize)
	waits := ask(other, nil, "waits", 4*mib, nil)
	waits.want(t, 0, nil)
	other.Close()
	waits.want(t, 1, ErrClosed)
	clients(1)
	held.Release()
	clients(0)
	if p.OpenShare(key, nil).client == a.client {
		t.Error("a client that was forgotten comes back")
	}
}

// A share of a closed pool is closed, and belongs to no client.
func TestShareOfClosedPool(t *testing.T) {
	p := newPool(t, 4*mib, 0)
	p.Close()
	s := p.OpenShare("a", nil)
	s.Close()
	w := ask(s, nil, "late", 1, nil)
	w.want(t, 1, ErrClosed)
	if st := p.Stats(); st.Clients != 0 || st.Shares != 0 {
		t.Errorf("%+v", st)
	}
}
