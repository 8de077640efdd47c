package census

import (
	"net/netip"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// The model is a list of connections in the order of their last steps. To find the connections
// that lose their seats it looks at all of them.
type model struct {
	cfg   Config
	all   []*guest
	stage map[*guest]Stage
	clock int
	// reached is the time at which an address or a site came to its present tally.
	reached [tallies]map[netip.Prefix]int
}

// alone is an address as a prefix, and siteOf its site (RFC 1918 addresses of host: a /24).
func alone(a netip.Addr) netip.Prefix  { return netip.PrefixFrom(a, a.BitLen()) }
func siteOf(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, 24).Masked() }

func (m *model) counts(by tally, g *guest) bool {
	switch by {
	case ofStrangers:
		return m.stage[g] != Known
	case ofSetups:
		return m.stage[g] == Arriving
	}
	return true
}

// held counts the guests of a site or of an address.
func (m *model) held(by tally, at netip.Prefix) (n int) {
	for _, g := range m.all {
		if at.Contains(g.from) && m.counts(by, g) {
			n++
		}
	}
	return n
}

func (m *model) total(by tally) int { return m.held(by, netip.PrefixFrom(netip.IPv4Unspecified(), 0)) }

// change applies f to a guest of address a and records when the tallies of a and of its site changed.
func (m *model) change(a netip.Addr, f func()) {
	places := []netip.Prefix{alone(a), siteOf(a)}
	var before [tallies][2]int
	for by := range tallies {
		for i, at := range places {
			before[by][i] = m.held(by, at)
		}
	}
	f()
	m.clock++
	for by := range tallies {
		for i, at := range places {
			if m.held(by, at) != before[by][i] {
				m.reached[by][at] = m.clock
			}
		}
	}
}

// step moves a guest to another stage.
func (m *model) step(g *guest, stage Stage) {
	m.change(g.from, func() { m.stage[g] = stage })
	m.all = append(slices.DeleteFunc(m.all, func(o *guest) bool { return o == g }), g)
}

func (m *model) drop(g *guest) {
	m.change(g.from, func() { m.all = slices.DeleteFunc(m.all, func(o *guest) bool { return o == g }) })
}

// most returns the address with the highest tally in the site with the highest, if a newcomer of a
// were counted too.
func (m *model) most(by tally, a netip.Addr) netip.Addr {
	at := m.mostOf(by, siteOf, a, netip.PrefixFrom(netip.IPv4Unspecified(), 0))
	if at == siteOf(a) {
		return m.mostOf(by, alone, a, at).Addr()
	}
	return m.mostOf(by, alone, netip.Addr{}, at).Addr()
}

// mostOf returns the place of the guests within an area that has the highest tally, if a newcomer of
// a were counted too, unless a is the zero Addr.
func (m *model) mostOf(by tally, place func(netip.Addr) netip.Prefix, a netip.Addr, within netip.Prefix) netip.Prefix {
	var own, best netip.Prefix
	n := 0
	if a.IsValid() {
		own = place(a)
		best, n = own, m.held(by, own)+1
	}
	for _, g := range m.all {
		at := place(g.from)
		held := m.held(by, at)
		if at == own || held == 0 || !within.Contains(g.from) {
			continue
		}
		if held > n || held == n && (best == own || m.reached[by][at] < m.reached[by][best]) {
			best, n = at, held
		}
	}
	return best
}

// first returns the first guest of a for which fits returns true.
func (m *model) first(a netip.Addr, fits func(s Stage) bool) *guest {
	for _, g := range m.all {
		if g.from == a && fits(m.stage[g]) {
			return g
		}
	}
	return nil
}

func stranger(s Stage) bool { return s != Known }
func arriving(s Stage) bool { return s == Arriving }

// losers returns the guests that lose their seats for a newcomer of a.
func (m *model) losers(a netip.Addr) (all []*guest, refused bool) {
	own, total := m.held(ofSeats, alone(a)), len(m.all)
	var s *guest
	switch {
	case m.held(ofSetups, alone(a)) >= m.cfg.Setups/2:
		s = m.first(a, arriving)
	case m.total(ofSetups) >= m.cfg.Setups:
		s = m.first(m.most(ofSetups, a), arriving)
	}
	if s != nil {
		all = append(all, s)
		total--
		if s.from == a {
			own--
		}
	}
	switch {
	case own >= m.cfg.PerAddress:
		s = m.first(a, stranger)
	case total < m.cfg.Seats:
		return all, false
	case m.total(ofStrangers) >= m.cfg.Seats/strangersPart:
		s = m.first(m.most(ofStrangers, a), stranger)
	default:
		most := m.most(ofSeats, a)
		if s = m.first(most, stranger); s == nil && most != a {
			s = m.first(most, func(Stage) bool { return true })
		}
	}
	if s == nil {
		return nil, true
	}
	return append(all, s), false
}

// For any order of arrivals, first calls and ends, the same guests lose their seats as in the
// model, the counts agree, and the bounds hold.
func TestCensusAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{
			Seats:      rapid.IntRange(8, 24).Draw(t, "seats"),
			PerAddress: rapid.IntRange(2, 24).Draw(t, "per address"),
			Setups:     rapid.IntRange(2, 8).Draw(t, "set-ups"),
		}
		cfg.PerAddress = min(cfg.PerAddress, cfg.Seats)
		c := New(cfg)
		m := &model{cfg: cfg, stage: make(map[*guest]Stage)}
		for by := range m.reached {
			m.reached[by] = make(map[netip.Prefix]int)
		}
		arrive := func(t *rapid.T) {
			a := host(rapid.IntRange(0, 2).Draw(t, "site")<<8 + rapid.IntRange(1, 3).Draw(t, "address"))
			losers, refused := m.losers(a)
			g, err := tryEnter(c, a, Arriving)
			if (err != nil) != refused {
				t.Fatalf("refused: %v, in the model: %v", err, refused)
			}
			for _, l := range losers {
				if l.ended() != Evicted {
					t.Fatalf("another one than %v, %v lost its seat", l.from, m.stage[l])
				}
				m.drop(l)
			}
			for _, g := range m.all {
				if g.ended() != 0 {
					t.Fatalf("%v, %v lost its seat", g.from, m.stage[g])
				}
			}
			if err == nil {
				m.change(a, func() { m.all = append(m.all, g) })
			}
		}
		pick := func(t *rapid.T, what string) *guest {
			if len(m.all) == 0 {
				t.Skip("no guest is there")
			}
			return rapid.SampledFrom(m.all).Draw(t, what)
		}
		t.Repeat(map[string]func(*rapid.T){
			"arrive":       arrive,
			"arrive again": arrive,
			"set up": func(t *rapid.T) {
				g := pick(t, "who")
				g.seat.Hold(g, &g.moved)
				if m.stage[g] == Arriving {
					m.step(g, Silent)
				}
			},
			"become known": func(t *rapid.T) {
				g := pick(t, "who")
				g.seat.Known()
				if m.stage[g] != Known {
					m.step(g, Known)
				}
			},
			"leave": func(t *rapid.T) {
				g := pick(t, "who")
				g.seat.Leave()
				m.drop(g)
			},
			"": func(t *rapid.T) {
				s := c.Stats()
				var want [stages]int
				for _, g := range m.all {
					want[m.stage[g]]++
				}
				if s.Seats != want || s.Leaving != 0 {
					t.Fatalf("%+v, in the model %v", s, want)
				}
				if len(m.all) > cfg.Seats || m.total(ofSetups) > cfg.Setups {
					t.Fatalf("%d seats and %d set-ups are taken", len(m.all), m.total(ofSetups))
				}
				for by := range tallies {
					if total := c.bySite[by].Total; total != m.total(by) {
						t.Fatalf("tally %d is %d", by, total)
					}
				}
			},
		})
		for _, g := range slices.Clone(m.all) {
			g.seat.Leave()
		}
		if s := c.Stats(); s.Total() != 0 || s.Addresses != 0 || s.Leaving != 0 {
			t.Fatalf("%+v when all have left", s)
		}
	})
}

// If many connections arrive and leave at once, none is counted twice or lost.
func TestManyAtOnce(t *testing.T) {
	c := New(Config{Seats: 200, PerAddress: 150, Setups: 40, SetupTimeout: 1, FirstTimeout: 1, CallTimeout: 2})
	defer c.Close()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			var mine []*guest
			for k := range 2000 {
				g, err := tryEnter(c, host(i*(k%5)), Stage(k%4))
				if err != nil {
					continue
				}
				mine = append(mine, g)
				if k%3 == 0 {
					mine[k%len(mine)].seat.Leave()
				}
			}
			for _, g := range mine {
				g.seat.Leave()
			}
		})
	}
	all.Wait()
	if s := c.Stats(); s.Total() != 0 || s.Addresses != 0 || s.Leaving != 0 {
		t.Errorf("%+v when all have left", s)
	}
}
