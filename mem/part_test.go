package mem

import (
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// site returns an address of a site.
func site(site, address int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(site >> 8), byte(site), byte(address)})
}

// take lets each address ask for blocks of 1 MiB in g, a share for each, until it has to wait for one
// or has most. It returns the Buffers.
func take(p *Pool, g *Group, most int, addresses ...netip.Addr) (held []*Buffer) {
	for n := 0; n < most; n++ {
		for _, a := range addresses {
			if b, ok := p.OpenShare(a, nil).TryGetIn(g, mib); ok {
				held = append(held, b)
			}
		}
	}
	return held
}

func addresses(sites, each int) (all []netip.Addr) {
	for i := range sites {
		for j := range each {
			all = append(all, site(1+i, 1+j))
		}
	}
	return all
}

// However many calls of an address, or of the addresses of a site, stall with memory of a file system, a
// quarter of it is left for others. A newcomer in their own site has something at once, too, while the
// addresses that stall are few. Two sites with many addresses can have all of it, until the pool has ended
// their connections (TestBlamedSitesHaveAnEighth).
func TestStalledCallsLeaveMemoryOfTheirFileSystem(t *testing.T) {
	for _, c := range []struct{ sites, each, most, left, neighbour int }{
		{1, 1, 17, 7, 3}, {1, 64, 23, 7, 0}, {2, 1, 24, 5, 1}, {2, 64, 30, 0, 0},
	} {
		for _, grouped := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d sites of %d in a group %v", c.sites, c.each, grouped), func(t *testing.T) {
				p := configured(t, Config{Ceiling: 64 * mib})
				g, scale := p.NewGroup(), 1
				if !grouped {
					g, scale = nil, 2 // the main zone has 60 MiB, and a group at most half of it
				}
				held := take(p, g, 128, addresses(c.sites, c.each)...)
				if n := len(held); n > scale*c.most {
					t.Errorf("those who stall hold %d MiB", n)
				}
				near := take(p, g, 64, site(1, 200))
				if n := len(near); n < c.neighbour {
					t.Errorf("%d MiB are left for a neighbour", n)
				}
				release(near)
				mine := take(p, g, 64, site(200, 1))
				if n := len(mine); n < c.left {
					t.Errorf("%d MiB are left for another site", n)
				}
				audited(t, p)
				release(append(held, mine...))
			})
		}
	}
}

// While all calls in three file systems stall, a client has memory in a fourth one.
func TestStalledFileSystemsDoNotBoundAnother(t *testing.T) {
	p := configured(t, Config{Ceiling: 64 * mib})
	var held []*Buffer
	for range 3 {
		held = append(held, take(p, p.NewGroup(), 64, addresses(1, 16)...)...)
	}
	mine := take(p, p.NewGroup(), 64, addresses(1, 2)...)
	if len(mine) < 3 {
		t.Errorf("%d MiB are left in another file system", len(mine))
	}
	audited(t, p)
	release(append(held, mine...))
}

// A large request that waits for the part of its site is not starved by smaller ones of its neighbours.
func TestNeighboursDoNotStarveALargeRequest(t *testing.T) {
	p := configured(t, Config{Ceiling: 64 * mib})
	g := p.NewGroup()
	held := take(p, g, 128, addresses(1, 64)...)
	busy := p.OpenShare(site(1, 1), nil)
	var small []*wish
	for range 8 {
		small = append(small, ask(busy, g, "small", 128<<10, nil))
	}
	released := 0
	large := ask(p.OpenShare(site(1, 99), nil), g, "large", mib, nil)
	if large.calls != 0 {
		t.Fatal("the site is not at its bound")
	}
	for i := 0; large.calls == 0; i++ {
		if i == 1000 {
			t.Fatal("1,000 smaller requests of a neighbour are served first")
		}
		if i%8 == 7 && released < len(held) {
			held[released].Release()
			released++
		}
		for j, w := range small {
			if w.calls == 1 {
				w.buffer.Release()
				small[j] = ask(busy, g, "small", 128<<10, nil)
			}
		}
		audited(t, p)
	}
	large.buffer.Release()
	release(held[released:])
	for _, w := range small {
		if w.calls == 0 {
			t.Fatal("a small request waits, and nothing is held")
		}
		w.buffer.Release()
	}
}

// A client within its part is served while other sites ask steadily within theirs, although a neighbour that asks for
// more than its part waits before it.
func TestEntitledClientBehindABorrower(t *testing.T) {
	p := configured(t, Config{Ceiling: 64 * mib, Share: 64 * mib})
	held := append(take(p, nil, 10, site(1, 1)), take(p, nil, 1, site(1, 2))...)
	type steady struct {
		share *Share
		holds []*Buffer
		waits *wish
	}
	var others []*steady
	for i := range 2 {
		a := site(2+i, 1)
		others = append(others, &steady{share: p.OpenShare(a, nil), holds: take(p, nil, 10, a)})
	}
	rest := fill(t, p, mib)
	// The first one of all has the turn. While it waits, the others come.
	first := ask(p.OpenShare("first", nil), nil, "first", mib, nil)
	borrows := ask(p.OpenShare(site(1, 1), nil), nil, "borrows", mib, nil)
	mine := ask(p.OpenShare(site(1, 2), nil), nil, "within its part", mib, nil)
	for _, o := range others {
		o.waits = ask(o.share, nil, "steady", mib, nil)
	}
	for i := 0; mine.calls == 0; i++ {
		if i == 10 {
			t.Fatal("a client within its part waits while others are served ten times")
		}
		o := others[i%2]
		o.holds[0].Release()
		if o.holds = o.holds[1:]; o.waits.calls == 1 {
			o.holds = append(o.holds, o.waits.buffer)
			o.waits = ask(o.share, nil, "steady", mib, nil)
		}
		audited(t, p)
	}
	if borrows.calls > 0 {
		t.Error("one that borrows is served while others are within their parts")
	}
	waiting := []*wish{first, borrows, mine}
	for _, o := range others {
		waiting = append(waiting, o.waits)
		release(o.holds)
	}
	release(append(held, rest...))
	drain(t, p, waiting)
}

// A client that waits for its part delays no other client. It gets memory when its own calls end, in the
// order of its requests.
func TestClientWaitsForItsPart(t *testing.T) {
	p := configured(t, Config{Ceiling: 64 * mib})
	g := p.NewGroup()
	held := take(p, g, 64, site(1, 1))
	s, other := p.OpenShare(site(1, 1), nil), p.OpenShare(site(2, 1), nil)
	var order []string
	large := ask(s, g, "large", 4*mib, &order)
	small := ask(p.OpenShare(site(1, 1), nil), g, "behind it", mib, &order)
	audited(t, p)
	if large.calls+small.calls != 0 {
		t.Fatal("a client has more than its part")
	}
	mine := ask(other, g, "other", 4*mib, &order)
	if mine.calls != 1 {
		t.Fatal("another client waits behind one that waits for its part")
	}
	for i, b := range held {
		b.Release()
		audited(t, p)
		if large.calls == 0 && small.calls > 0 {
			t.Fatalf("after %d MiB were released, a smaller request is served first", i+1)
		}
	}
	if large.calls+small.calls != 2 {
		t.Fatal("a client waits although its calls have ended")
	}
	release([]*Buffer{large.buffer, small.buffer, mine.buffer})
}

// While a client waits for its part, the pool ends connections of its site that do not move, and no
// others.
func TestOnlyTheSiteLosesConnectionsForItsPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := configured(t, Config{Ceiling: 64 * mib})
		g, l := p.NewGroup(), &ended{}
		neighbour := l.connect(p, "10.0.2.1", 0).take(t, g, 4)
		var stalled []*peer
		for i := range 16 {
			stalled = append(stalled, l.connect(p, fmt.Sprintf("10.0.1.%d-%d", i%3, i), 0).take(t, g, 1))
		}
		w := ask(p.OpenShare(site(1, 1), nil), g, "waits", 6*mib, nil)
		w.want(t, 0, nil)
		time.Sleep(time.Minute)
		w.want(t, 1, nil) // connections of its site, which do not move, have ended
		if neighbour.told.Load() > 0 {
			t.Error("a neighbour has lost its connection")
		}
		release([]*Buffer{w.buffer})
		neighbour.leave()
		for _, c := range stalled {
			if c.told.Load() == 0 {
				c.leave()
			}
		}
	})
}

// If more sites stall than there is memory, requests wait until the pool has ended their connections.
// Then these sites have an eighth of the memory together, however often they come again.
func TestBlamedSitesHaveAnEighth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := configured(t, Config{Ceiling: 64 * mib})
		g, l := p.NewGroup(), &ended{}
		var stalled []*peer
		storm := func() {
			for i := range 150 {
				c := l.connect(p, fmt.Sprintf("10.1.%d.1", i), 0)
				c.want(g)
				stalled = append(stalled, c)
			}
		}
		s := p.OpenShare(site(1, 1), nil)
		var waits []*wish
		for began := time.Now(); len(l.all()) < 150; time.Sleep(5 * time.Second) {
			if time.Since(began) > 50*time.Second {
				t.Fatalf("%d connections have ended", len(l.all()))
			}
			storm()
			waits = append(waits, ask(s, g, "waits", mib, nil))
		}
		storm()
		audited(t, p)
		mine := take(p, g, 20, site(1, 1))
		if n := len(mine); n < 6 {
			t.Errorf("%d MiB are left for another client", n)
		}
		release(mine)
		time.Sleep(time.Minute)
		for _, w := range waits {
			w.want(t, 1, nil)
			w.buffer.Release()
		}
		for _, c := range stalled {
			if c.told.Load() == 0 {
				c.leave()
			}
		}
	})
}
