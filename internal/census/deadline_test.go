package census

import (
	"testing"
	"testing/synctest"
	"time"
)

// bubble runs a test under testing/synctest; wait lets n seconds pass.
func bubble(t *testing.T, test func(t *testing.T, wait func(n int))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, func(n int) {
			time.Sleep(time.Duration(n) * time.Second)
			synctest.Wait()
		})
	})
}

var timed = Config{
	Seats: 1000, Setups: 20,
	SetupTimeout: 10 * time.Second, FirstTimeout: 10 * time.Second, CallTimeout: time.Minute,
}

// A connection has a time limit for each stage: for its set-up, until its first whole message,
// and until its first served call.
func TestDeadlines(t *testing.T) {
	for _, c := range []struct {
		stage Stage
		lasts int // seconds; 0 for ever
		why   Reason
	}{
		{Arriving, 10, SlowSetup},
		{Silent, 10, NothingHeard},
		{Stranger, 60, NothingServed},
		{Known, 0, 0},
	} {
		t.Run(c.stage.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, wait func(int)) {
				census := New(timed)
				defer census.Close()
				wait(3)
				g := enter(t, census, host(1), c.stage)
				if c.lasts == 0 {
					wait(100 * 3600)
					if g.ended() != 0 {
						t.Errorf("ended: %v", g.ended())
					}
					return
				}
				wait(c.lasts - 1)
				if g.ended() != 0 {
					t.Errorf("too early: %v", g.ended())
				}
				wait(2)
				if g.ended() != c.why {
					t.Errorf("after its time: %v, want %v", g.ended(), c.why)
				}
				if s := census.Stats(); s.Total() != 0 || s.Leaving != 0 || s.Count[c.why] != 1 {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

// Each connection ends at its own deadline, or at most sweepEvery later, whenever other connections
// came.
func TestDeadlinesOfMany(t *testing.T) {
	bubble(t, func(t *testing.T, wait func(int)) {
		c := New(timed)
		defer c.Close()
		var all []*guest
		for i := range 30 {
			all = append(all, enter(t, c, host(1), Stage(1+i%2)))
			wait(1)
		}
		for second := 30; second < 100; second++ {
			for i, g := range all {
				lasts := 10
				if i%2 == 1 {
					lasts = 60
				}
				if age := second - i; age < lasts && g.ended() != 0 || age > lasts+1 && g.ended() == 0 {
					t.Fatalf("connection %d in second %d: %v", i, second, g.ended())
				}
			}
			wait(1)
		}
	})
}

// While more than half of the permitted set-ups are under way, each has a fifth of the time,
// including those that began before.
func TestSetupsUnderPressure(t *testing.T) {
	bubble(t, func(t *testing.T, wait func(int)) {
		c := New(timed)
		defer c.Close()
		var all []*guest
		for i := range 10 {
			all = append(all, enter(t, c, host(i), Arriving))
		}
		wait(3)
		if n := count(all, true); n > 0 {
			t.Fatalf("%d of 10 ended without need", n)
		}
		last := enter(t, c, host(10), Arriving)
		wait(1)
		if n := count(all, true); n == 0 {
			t.Error("none ended, with more than half of the slots taken for 3 s")
		}
		if last.ended() != 0 {
			t.Errorf("a set-up of 1 s: %v", last.ended())
		}
		for i := range 9 {
			enter(t, c, host(20+i), Arriving)
		}
		wait(3)
		if n := c.Stats().Seats[Arriving]; n > 10 {
			t.Errorf("%d set-ups of more than 2 s are under way", n)
		}
	})
}

// A peer is not late while this side works on its call.
func TestBusyIsNotLate(t *testing.T) {
	for _, stage := range []Stage{Silent, Stranger} {
		bubble(t, func(t *testing.T, wait func(int)) {
			c := New(timed)
			defer c.Close()
			g := enter(t, c, host(1), stage)
			g.busy.Store(true)
			wait(1000)
			if g.ended() != 0 {
				t.Fatalf("%v: %v", stage, g.ended())
			}
			g.busy.Store(false)
			wait(61)
			if g.ended() == 0 {
				t.Errorf("%v: it lasts, although it is not busy any more", stage)
			}
		})
	}
}

// Without deadlines, and without connections, no timer runs.
func TestNoTimerWithoutNeed(t *testing.T) {
	bubble(t, func(t *testing.T, wait func(int)) {
		c := New(Config{})
		g := enter(t, c, host(1), Stranger)
		if c.timer != nil {
			t.Error("a timer, although nothing has a deadline")
		}
		g.seat.Known()
		g.seat.Leave()
		wait(int(sampleEvery/time.Second) + 1)
		if c.timer != nil {
			t.Error("the timer is set, although there is nothing to wait for")
		}
	})
}

// A call timeout alone works, too: a stage without a timeout has no bound.
func TestOnlyACallTimeout(t *testing.T) {
	bubble(t, func(t *testing.T, wait func(int)) {
		c := New(Config{CallTimeout: 30 * time.Second})
		defer c.Close()
		a, b := enter(t, c, host(1), Silent), enter(t, c, host(1), Stranger)
		s := enter(t, c, host(1), Arriving)
		wait(29)
		if a.ended() != 0 || b.ended() != 0 {
			t.Errorf("too early: %v, %v", a.ended(), b.ended())
		}
		wait(2)
		if a.ended() != NothingHeard || b.ended() != NothingServed || s.ended() != 0 {
			t.Errorf("%v, %v, %v", a.ended(), b.ended(), s.ended())
		}
	})
}

// Peers that are not known get QuietTimeout while there are few of them.
func TestQuietPeers(t *testing.T) {
	bubble(t, func(t *testing.T, wait func(int)) {
		cfg := timed
		cfg.QuietTimeout = 6 * time.Minute
		c := New(cfg)
		defer c.Close()
		few := cfg.Seats/quietPart - 1
		var all []*guest
		for i := range few {
			all = append(all, enter(t, c, host(1), Stage(1+i%2)))
		}
		enter(t, c, host(1), Known)
		wait(359)
		for i, g := range all {
			if g.ended() != 0 {
				t.Fatalf("%d of %d: %v", i, few, g.ended())
			}
		}
		wait(2)
		for i, g := range all {
			if g.ended() == 0 {
				t.Errorf("%d of %d stays for ever", i, few)
			}
		}
		all = all[:0]
		for range few {
			all = append(all, enter(t, c, host(1), Silent))
		}
		wait(20)
		last := enter(t, c, host(2), Silent)
		wait(1)
		for i, g := range all {
			if g.ended() != NothingHeard {
				t.Errorf("%d, when there are many: %v", i, g.ended())
			}
		}
		wait(20)
		if last.ended() != 0 {
			t.Errorf("the last, when there are few again: %v", last.ended())
		}
	})
}
