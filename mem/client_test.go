package mem

import (
	"net/netip"
	"testing"
	"time"
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

// While a call of a closed share goes on, the pool knows its Client, even if the call has charged little.
// So shares with one key never have two Clients.
func TestChargesKeepTheClient(t *testing.T) {
	p := newPool(t, 16*mib, 0)
	old := p.OpenShare("a", nil)
	var l Ledger
	l.Open(old)
	l.Add(ledgerStep / 4)
	old.Close()
	now := p.OpenShare("a", nil)
	if now.client != old.client {
		t.Error("a new share has another Client")
	}
	l.Add(4 * ledgerStep)
	audited(t, p)
	l.Add(-17 * ledgerStep / 4)
	audited(t, p)
	next := p.OpenShare("a", nil)
	if now.client != next.client {
		t.Error("two open shares with one key have two Clients")
	}
	now.Close()
	next.Close()
	if st := p.Stats(); st.Clients != 0 || st.Charged != 0 {
		t.Errorf("%+v", st)
	}
}

// setBlame begins or ends the blame of c, as the sweeper does.
func setBlame(p *Pool, c *Client, is bool) {
	p.mu.Lock()
	if is {
		p.blameUntilLocked(c, time.Now().Add(time.Hour))
	} else if c.blamed {
		p.unblameLocked(c)
	}
	p.grantLocked()
	p.deliverAndUnlock()
}

// A client that is blamed while it waits is in the way of no neighbour that is not, and one that is forgiven while
// it waits comes before those who are blamed.
func TestBlameOfAClientThatWaits(t *testing.T) {
	p := configured(t, Config{Ceiling: 64 * mib})
	g := p.NewGroup()
	blamed, waits := p.OpenShare(site(2, 1), nil), p.OpenShare(site(1, 1), nil)
	setBlame(p, blamed.client, true)
	var held []*Buffer
	for _, s := range []*Share{blamed, waits} { // as much as each may have
		for {
			b, ok := s.TryGetIn(g, mib)
			if !ok {
				break
			}
			held = append(held, b)
		}
	}
	first := ask(waits, g, "waits", 4*mib, nil)
	small := ask(waits, g, "waits for the reserve", PageSize, nil)
	if first.calls+small.calls != 1 {
		t.Fatal("the client is not at its bound")
	}
	setBlame(p, waits.client, true)
	neighbour := ask(p.OpenShare(site(1, 2), nil), g, "neighbour", mib, nil)
	if neighbour.calls != 1 {
		t.Error("a neighbour waits behind one that is blamed")
	}
	audited(t, p)
	again := ask(waits, g, "waits", mib, nil)
	setBlame(p, waits.client, false)
	audited(t, p)
	late := ask(waits, g, "late", PageSize, nil)
	audited(t, p)
	release(held)
	drain(t, p, []*wish{first, small, neighbour, again, late})
}
