package census

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
)

// A guest is a connection of the tests: it leaves as soon as the census ends it.
type guest struct {
	from  netip.Addr
	seat  *Seat
	moved atomic.Uint64
	busy  atomic.Bool
	stays bool // true if End does not make the guest leave

	mu   sync.Mutex
	told []Reason
}

func (g *guest) End(why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.told = append(g.told, why.(Reason))
	if !g.stays && g.seat != nil {
		g.seat.Leave()
	}
}

func (g *guest) Busy() bool { return g.busy.Load() }

// ended returns the reason why the guest was ended; 0 if it was not.
func (g *guest) ended() Reason {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.told) == 0 {
		return 0
	}
	return g.told[0]
}

func host(n int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})
}

func peer(a netip.Addr) Peer { return Peer{Addr: netip.AddrPortFrom(a, 700), Transport: "test"} }

// enter brings a guest to a stage.
func enter(t testing.TB, c *Census, from netip.Addr, stage Stage) *guest {
	t.Helper()
	g, err := tryEnter(c, from, stage)
	if err != nil {
		t.Fatalf("%v, %v: %v", from, stage, err)
	}
	return g
}

func tryEnter(c *Census, from netip.Addr, stage Stage) (*guest, error) {
	return tryEnterAs(c, peer(from), stage)
}

func tryEnterAs(c *Census, p Peer, stage Stage) (*guest, error) {
	g := &guest{from: p.Addr.Addr()}
	s, err := c.Arrive(p, g)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	g.seat = s
	g.mu.Unlock()
	if stage >= Silent {
		s.Hold(g, &g.moved)
	}
	if stage >= Stranger {
		s.Heard()
	}
	if stage == Known {
		s.Known()
	}
	return g, nil
}

func count(all []*guest, ended bool) (n int) {
	for _, g := range all {
		if (g.ended() != 0) == ended {
			n++
		}
	}
	return n
}
