package census

import (
	"testing"
	"time"
)

// SetLimits changes the time limit for a first served call, also for connections that exist, and also
// if there was no time limit before. The time limit for a first message never exceeds it, and becomes
// its own again.
func TestSetLimitsOfTime(t *testing.T) {
	for _, from := range []time.Duration{0, time.Minute, time.Hour} {
		bubble(t, func(t *testing.T, wait func(int)) {
			cfg := timed
			cfg.CallTimeout = from
			c := New(cfg)
			defer c.Close()
			old := enter(t, c, host(1), Stranger)
			wait(3)
			c.SetLimits(0, 5*time.Second)
			silent, fresh := enter(t, c, host(2), Silent), enter(t, c, host(2), Stranger)
			wait(3)
			if old.ended() != NothingServed || silent.ended() != 0 || fresh.ended() != 0 {
				t.Errorf("from %v, after 3 s: %v, %v, %v", from, old.ended(), silent.ended(), fresh.ended())
			}
			wait(4)
			if silent.ended() != NothingHeard || fresh.ended() != NothingServed {
				t.Errorf("from %v, after 7 s: %v, %v", from, silent.ended(), fresh.ended())
			}
			c.SetLimits(0, time.Hour)
			silent, fresh = enter(t, c, host(2), Silent), enter(t, c, host(2), Stranger)
			wait(12)
			if silent.ended() != NothingHeard || fresh.ended() != 0 {
				t.Errorf("from %v, back at an hour: %v, %v", from, silent.ended(), fresh.ended())
			}
		})
	}
}

// SetLimits changes how many seats an address may have. Those that it has stay until newcomers from
// there take them. 0 removes the limit, and no limit is above the number of seats.
func TestSetLimitsOfAddress(t *testing.T) {
	c := New(Config{Seats: 100, PerAddress: 8})
	defer c.Close()
	var all []*guest
	comes := func(n int) {
		for range n {
			all = append(all, enter(t, c, host(1), Stranger))
		}
	}
	is := func(what string, want int) {
		t.Helper()
		if n := count(all, false); n != want {
			t.Errorf("%s: %d seats, want %d", what, n, want)
		}
	}
	comes(10)
	is("at first", 8)
	c.SetLimits(4, 0)
	is("a lower limit alone", 8)
	comes(3)
	is("with newcomers", 8)
	c.SetLimits(20, 0)
	comes(30)
	is("a higher limit", 20)
	for _, none := range []int{0, 1000} {
		c.SetLimits(none, 0)
		comes(200)
		is("none but the seats", 100)
	}
}
