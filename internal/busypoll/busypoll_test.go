package busypoll

import (
	"math/rand/v2"
	"testing"
	"time"
)

// A scene is a Group with a clock that the test moves, by a quarter of a microsecond each time a
// member looks for input.
type scene struct {
	now   time.Duration
	procs int
	*Group
}

func newScene(most time.Duration) *scene {
	s := &scene{procs: 2, now: time.Hour}
	s.Group = New(Config{Most: most, Clock: func() time.Duration { return s.now }, Procs: func() int { return s.procs }})
	return s
}

func (s *scene) member() *Member {
	m := new(Member)
	m.Join(s.Group)
	return m
}

const look = 250 * time.Nanosecond

// A peer is a connection with one call at a time.
type peer struct {
	*Member
	awake bool
}

// call makes the peer's next call, gap after the reply to the last one. Serving it takes 5 us. call
// returns the part of the gap that was spent polling.
func (s *scene) call(p *peer, gap time.Duration, alone bool) (polled time.Duration) {
	at := s.now + gap
	if p.awake && p.Begin(alone) {
		began := s.now
		for s.now += look; s.now < at && p.Again(); s.now += look {
		}
		yields := p.Yields()
		p.End(s.now >= at)
		polled = s.now - began
		if yields && s.now >= at { // the wait ends at once
			p.Rest()
			s.now += 2 * time.Microsecond
			p.Wake()
			p.Came()
		}
	}
	if s.now < at || !p.awake {
		if p.awake {
			p.Rest()
		}
		s.now = max(s.now, at) + 15*time.Microsecond // the wake-up
		p.Wake()
		p.Came()
	}
	p.awake = true
	s.now += 5 * time.Microsecond
	return polled
}

func (s *scene) peer() *peer { return &peer{Member: s.member()} }

// The group polls for a client that calls soon after each reply.
func TestSteadyCallerIsPolledFor(t *testing.T) {
	s := newScene(50 * time.Microsecond)
	p := s.peer()
	for range 100_000 {
		s.call(p, 20*time.Microsecond, true)
	}
	if st := s.Stats(); st.Misses != 0 || st.Hits < 98_000 || st.Vain != 0 {
		t.Errorf("%+v", st)
	}
}

// The group does not poll for the first calls of a connection, or for the first after a pause.
func TestFirstCallsAreWaitedFor(t *testing.T) {
	s := newScene(50 * time.Microsecond)
	p := s.peer()
	s.call(p, 0, true)
	for range 2 {
		s.call(p, time.Second, true)
		before := s.Stats().Polls
		for range trusted {
			s.call(p, 20*time.Microsecond, true)
		}
		if n := s.Stats().Polls - before; n != 0 {
			t.Errorf("%d polls", n)
		}
		s.call(p, 20*time.Microsecond, true)
		if n := s.Stats().Polls - before; n != 1 {
			t.Errorf("%d polls, one expected", n)
		}
	}
}

// A poll lasts at most twice the gaps seen on its connection, and at most the bound.
func TestLengthFollowsTheGaps(t *testing.T) {
	for _, test := range []struct{ gap, most, longest time.Duration }{
		{10 * time.Microsecond, 50 * time.Microsecond, 20 * time.Microsecond},
		{45 * time.Microsecond, 50 * time.Microsecond, 50 * time.Microsecond},
		{20 * time.Microsecond, 200 * time.Microsecond, 40 * time.Microsecond},
		{ahead, 50 * time.Microsecond, shortest},
	} {
		s := newScene(test.most)
		p := s.peer()
		for range 200 {
			s.call(p, test.gap, true)
		}
		polled := time.Duration(0)
		for range 10 { // the group may not poll for one of these
			if polled > 0 {
				break
			}
			polled = s.call(p, time.Millisecond, true)
			for range 20 {
				s.call(p, test.gap, true)
			}
		}
		if polled > test.longest+2*look || polled < test.longest/2 {
			t.Errorf("gap %v, bound %v: polled for %v", test.gap, test.most, polled)
		}
	}
}

// Polls in vain use at most a sixteenth of a processor, for one peer or for many. The peers call
// soon until the group polls for them, and then call just too late.
func TestVainPollsAreBounded(t *testing.T) {
	for _, peers := range []int{1, 100} {
		s := newScene(50 * time.Microsecond)
		all := make([]*peer, peers)
		for i := range all {
			all[i] = s.peer()
		}
		began := s.now
		for i := 0; s.now-began < 10*time.Second; i++ {
			p := all[i/1000%peers]
			if p.trust >= trusted && p.awake {
				s.call(p, 51*time.Microsecond, true) // just too late
			} else {
				s.call(p, time.Microsecond, true)
			}
			if i%1000 == 999 { // continue with the next peer
				p.Rest()
				p.awake = false
			}
		}
		st := s.Stats()
		t.Logf("%d peers: %+v of %v", peers, st, s.now-began)
		if st.Misses == 0 || st.Hits != 0 {
			t.Errorf("%d peers: %+v: the peers did not do what they were to", peers, st)
		}
		if most := (s.now-began)/16 + 4*time.Millisecond; st.Vain > most {
			t.Errorf("%d peers: %v spent in vain, of %v", peers, st.Vain, most)
		}
	}
}

// Polls in vain use at most a sixteenth of a processor even if a peer makes calls in time before
// each of them.
func TestVainPollsBetweenHitsAreBounded(t *testing.T) {
	s := newScene(50 * time.Microsecond)
	p := s.peer()
	began := s.now
	for i := 0; s.now-began < 10*time.Second; i++ {
		if i%(redeemed+4) == 0 {
			s.call(p, 51*time.Microsecond, true)
		} else {
			s.call(p, 25*time.Microsecond, true)
		}
	}
	st := s.Stats()
	t.Logf("%+v of %v", st, s.now-began)
	if most := (s.now-began)/16 + 4*time.Millisecond; st.Vain > most || st.Misses == 0 {
		t.Errorf("%+v: of %v", st, most)
	}
}

// Polls in vain use at most a sixteenth of a processor for any behaviour of peers.
func TestVainPollsOfAnyPeers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	s := newScene(50 * time.Microsecond)
	all := []*peer{s.peer(), s.peer(), s.peer()}
	began := s.now
	for range 50_000 {
		p := all[r.IntN(len(all))]
		for range r.IntN(40) {
			gap := time.Duration(r.IntN(60)) * time.Microsecond
			if r.IntN(20) == 0 {
				gap = time.Duration(r.IntN(1000)) * time.Microsecond
			}
			s.call(p, gap, r.IntN(10) > 0)
		}
		if p.awake {
			p.Rest()
			p.awake = false
		}
	}
	st := s.Stats()
	t.Logf("%+v of %v", st, s.now-began)
	if most := (s.now-began)/16 + 4*time.Millisecond; st.Vain > most || st.Hits == 0 || st.Misses == 0 {
		t.Errorf("%+v: of %v", st, most)
	}
	if st.Polls != st.Hits+st.Misses+st.Broken || s.taken.Load() {
		t.Errorf("%+v, taken %v", st, s.taken.Load())
	}
}

// Even after a long time without polls, at most 4 ms may be spent on polls in vain at once.
func TestCreditIsBounded(t *testing.T) {
	s := newScene(50 * time.Microsecond)
	p := s.ready(t)
	s.now += time.Hour
	if !p.Begin(true) {
		t.Fatal("does not poll")
	}
	if s.credit > 4*time.Millisecond {
		t.Errorf("%v", s.credit)
	}
	p.End(true)
}

// After a call that came too late, the group does not poll for the next 2 calls, the late one
// included. Each further late call doubles that number, up to 64. Eight calls in time reset it to
// 2.
func TestLateCallsAreWaitedOut(t *testing.T) {
	s := newScene(50 * time.Microsecond)
	p := s.peer()
	inTime := func() (polled bool) {
		before := s.Stats().Polls
		s.call(p, 20*time.Microsecond, true)
		return s.Stats().Polls > before
	}
	for !inTime() {
	}
	for round := range 2 {
		for _, want := range []int{2, 4, 8, 16, 32, 64, 64} {
			before := s.Stats().Misses
			s.call(p, 51*time.Microsecond, true)
			if s.Stats().Misses != before+1 {
				t.Fatal("it is not polled for")
			}
			n := 1
			for !inTime() {
				n++
			}
			if n != want {
				t.Errorf("round %d: %d calls are waited for, want %d", round, n, want)
			}
		}
		for hits := 0; hits < 8; {
			if inTime() {
				hits++
			}
		}
	}
}

// ready returns a connection that would poll.
func (s *scene) ready(t *testing.T) *peer {
	t.Helper()
	p := s.peer()
	s.now += quiet
	for range 3 * trusted {
		s.call(p, 20*time.Microsecond, true)
	}
	s.now += quiet
	p.Rest()
	p.Wake()
	if !p.Begin(true) {
		t.Fatal("does not poll")
	}
	s.now += ahead
	p.End(true)
	return p
}

func TestOnePollsAtATime(t *testing.T) {
	s := newScene(50 * time.Microsecond)
	one, two := s.ready(t), s.ready(t)
	if !two.Begin(true) {
		t.Fatal("does not poll")
	}
	if one.Begin(true) {
		t.Error("two poll")
	}
	two.End(true)
	if !one.Begin(true) {
		t.Error("does not poll after the other one")
	}
}

// Another connection's input, or an errand, ends a poll. For a while after such input no poll
// begins.
func TestOtherWorkEndsAPoll(t *testing.T) {
	for name, work := range map[string]func(*scene){
		"connection": func(s *scene) { s.member().Wake() },
		"errand":     func(s *scene) { s.Errand() },
	} {
		s := newScene(50 * time.Microsecond)
		p := s.ready(t)
		if !p.Begin(true) || !p.Again() {
			t.Fatalf("%s: does not poll", name)
		}
		s.now += look
		work(s)
		if p.Again() {
			t.Errorf("%s: polls on", name)
		}
		p.End(false)
		if st := s.Stats(); st.Broken != 1 || st.Misses != 0 {
			t.Errorf("%s: %+v", name, st)
		}
		s.now += quiet - 2*look
		p.Wake()
		if polls := p.Begin(true); polls != (name == "errand") {
			t.Errorf("%s: polls soon after: %v", name, polls)
		}
		p.Rest()
		s.now += quiet
		p.Wake()
		if !p.Begin(true) {
			t.Errorf("%s: does not poll any more", name)
		}
	}
}

// If a peer's next call arrives before it can have seen the reply, the peer has several calls
// under way, and the group does not poll for it.
func TestCallsUnderWayAreNotPolledFor(t *testing.T) {
	s := newScene(50 * time.Microsecond)
	p := s.peer()
	for range 10_000 {
		s.call(p, time.Microsecond, true)
	}
	if st := s.Stats(); st.Polls > 10_000/trusted {
		t.Errorf("%+v", st)
	}
}

// A connection that polls goes to wait in the runtime's poller at regular intervals, whatever input
// comes.
func TestPollsYield(t *testing.T) {
	s := newScene(50 * time.Microsecond)
	p := s.ready(t)
	rests := 0
	for began := s.now; s.now-began < 100*time.Millisecond; {
		woken := p.woken
		s.call(p, 20*time.Microsecond, true)
		if p.woken != woken {
			rests++
			if most := turn + 2*s.cfg.Most; p.woken-woken > most {
				t.Fatalf("went on for %v", p.woken-woken)
			}
		}
	}
	if st := s.Stats(); st.Misses != 0 || rests < 500 {
		t.Errorf("%d rests, %+v", rests, st)
	}
}

func TestPollNeedsAGroupAndAFreeProcessor(t *testing.T) {
	s := newScene(50 * time.Microsecond)
	p := s.ready(t)
	s.now += procsFor
	s.procs = 1
	p.Rest()
	p.Wake()
	if p.Begin(true) {
		t.Error("polls on one processor")
	}
	s.now += procsFor
	s.procs = 2
	p.Wake()
	if !p.Begin(true) {
		t.Error("does not poll when there are two again")
	}
	s.now += ahead
	p.End(true)
	if p.Begin(false) {
		t.Error("polls with other calls under way")
	}
	if p.Begin(true) {
		t.Error("polls right behind calls that were under way")
	}
	var zero Member
	zero.Join(nil)
	zero.Join(New(Config{}))
	zero.Wake()
	zero.Came()
	if zero.Begin(true) || zero.Again() || zero.Polls() {
		t.Error("polls without a Group, or a bound")
	}
	zero.Rest()
}

// If a connection ends while it polls, other connections can poll.
func TestRestEndsAPoll(t *testing.T) {
	s := newScene(50 * time.Microsecond)
	p := s.ready(t)
	if !p.Begin(true) {
		t.Fatal("does not poll")
	}
	p.Rest()
	s.ready(t)
}

func TestPollsDoNotAllocate(t *testing.T) {
	s := newScene(50 * time.Microsecond)
	p := s.peer()
	if n := testing.AllocsPerRun(1000, func() { s.call(p, 20*time.Microsecond, true) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
