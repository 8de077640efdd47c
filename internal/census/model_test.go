package census

import (
	"net/netip"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// Rankings of the model.
const (
	bySeats = iota
	byStrangers
	byArriving
	rankings
)

// The model is a list of connections in the order of their last steps. To find the connections
// that lose their seats it looks at all of them.
type model struct {
	cfg   Config
	all   []*guest
	stage map[*guest]Stage
	clock int
	// reached is the time at which an address came to hold its present number of seats, for each
	// ranking.
	reached [rankings]map[netip.Addr]int
}

func (m *model) counts(by int, g *guest) bool {
	switch by {
	case byStrangers:
		return m.stage[g] != Known
	case byArriving:
		return m.stage[g] == Arriving
	}
	return true
}

func (m *model) held(by int, a netip.Addr) (n int) {
	for _, g := range m.all {
		if g.from == a && m.counts(by, g) {
			n++
		}
	}
	return n
}

func (m *model) total(by int) (n int) {
	for _, g := range m.all {
		if m.counts(by, g) {
			n++
		}
	}
	return n
}

// change applies f to a guest of address a and records when the counts of a changed.
func (m *model) change(a netip.Addr, f func()) {
	var before [rankings]int
	for by := range before {
		before[by] = m.held(by, a)
	}
	f()
	m.clock++
	for by, n := range before {
		if m.held(by, a) != n {
			m.reached[by][a] = m.clock
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

// most returns the address that would have the highest count if a newcomer of a were counted too.
func (m *model) most(by int, a netip.Addr) netip.Addr {
	best, n := a, m.held(by, a)+1
	for _, g := range m.all {
		held := m.held(by, g.from)
		if g.from == a {
			continue
		}
		if held > n || held == n && (best == a || m.reached[by][g.from] < m.reached[by][best]) {
			best, n = g.from, held
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
	own, total := m.held(bySeats, a), len(m.all)
	var s *guest
	switch {
	case m.held(byArriving, a) >= m.cfg.Setups/2:
		s = m.first(a, arriving)
	case m.total(byArriving) >= m.cfg.Setups:
		s = m.first(m.most(byArriving, a), arriving)
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
	case m.total(byStrangers) >= m.cfg.Seats/strangersPart:
		s = m.first(m.most(byStrangers, a), stranger)
	default:
		most := m.most(bySeats, a)
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
			m.reached[by] = make(map[netip.Addr]int)
		}
		arrive := func(t *rapid.T) {
			a := host(rapid.IntRange(1, 6).Draw(t, "address"))
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
				if len(m.all) > cfg.Seats || m.total(byArriving) > cfg.Setups {
					t.Fatalf("%d seats and %d set-ups are taken", len(m.all), m.total(byArriving))
				}
				for by, total := range [rankings]int{c.bySite.Total, c.strangers.Total, c.arriving.Total} {
					if total != m.total(by) {
						t.Fatalf("ranking %d counts %d", by, total)
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
