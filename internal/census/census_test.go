package census

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Idle connections that hold all seats keep no newcomer from another address out, whatever their
// stage and however many addresses they have.
func TestIdleConnectionsLockOutNoNewcomer(t *testing.T) {
	const seats = 1000
	for _, stage := range []Stage{Silent, Known} {
		for _, addresses := range []int{1, 200, seats} {
			t.Run(fmt.Sprintf("%v from %d addresses", stage, addresses), func(t *testing.T) {
				c := New(Config{Seats: seats})
				var idle []*guest
				for i := range seats {
					idle = append(idle, enter(t, c, host(i%addresses), stage))
				}
				var fresh []*guest
				for i := range 50 {
					fresh = append(fresh, enter(t, c, host(1<<16+i), Stranger))
				}
				if n := count(fresh, true); n > 0 {
					t.Errorf("%d of 50 newcomers lost their seats to other newcomers", n)
				}
				if n := count(idle, true); n != 50 {
					t.Errorf("%d idle connections went for 50 newcomers", n)
				}
				if s := c.Stats(); s.Total() != seats || s.Leaving != 0 || s.Count[Evicted] != 50 {
					t.Errorf("%+v", s)
				}
			})
		}
	}
}

// A flood of newcomers costs no known peer its seat, whether it comes from the address of known
// peers, from one other address, or from as many addresses as there are newcomers.
func TestFloodThrowsOutNoKnownPeer(t *testing.T) {
	const seats, flood = 1024, 5_000
	home := host(1 << 16)
	for name, from := range map[string]func(i int) netip.Addr{
		"the same address":   func(int) netip.Addr { return home },
		"one other":          func(int) netip.Addr { return host(0) },
		"300 others":         func(i int) netip.Addr { return host(i % 300) },
		"a new one each":     func(i int) netip.Addr { return host(i) },
		"a new /64 each":     func(i int) netip.Addr { return netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, byte(i >> 8), byte(i)}) },
		"one and many, both": func(i int) netip.Addr { return host(i % 2 * i) },
	} {
		t.Run(name, func(t *testing.T) {
			c := New(Config{Seats: seats, Setups: 64})
			var known []*guest
			for range 16 { // as with the mount option nconnect=16
				known = append(known, enter(t, c, home, Known))
			}
			for i := range 600 { // from two addresses
				known = append(known, enter(t, c, host(2<<16+i/300), Known))
			}
			for i := range flood {
				enter(t, c, from(i), Stage(i)%Known)
			}
			if n := count(known, true); n > 0 {
				t.Errorf("%d of %d known peers were thrown out", n, len(known))
			}
		})
	}
}

// If known peers of one address hold all seats, and use them, newcomers still find seats, for long
// enough to become known: they do not take each other's seats.
func TestNewcomersDoNotTakeEachOthersSeats(t *testing.T) {
	const seats = 800
	c := New(Config{Seats: seats})
	for range seats {
		enter(t, c, host(1), Known)
	}
	var fresh []*guest
	for i := range seats / strangersPart {
		fresh = append(fresh, enter(t, c, host(100+i), Arriving))
	}
	if n := count(fresh, true); n > 0 {
		t.Errorf("%d of %d newcomers lost their seats", n, len(fresh))
	}
	for _, g := range fresh {
		g.seat.Hold(g, &g.moved)
		g.seat.Known()
	}
	if n := count(fresh, true); n > 0 {
		t.Errorf("%d of %d newcomers lost their seats", n, len(fresh))
	}
}

// Newcomers that send nothing take no seat of a peer that has sent a message, until they have taken
// all other seats twice.
func TestSilentNewcomersDoNotDisplaceThoseThatSpeak(t *testing.T) {
	const each = 150
	c := New(Config{Seats: 300, PerAddress: each, Setups: 1000})
	for range each - 1 {
		enter(t, c, host(1), Silent)
	}
	speaks := enter(t, c, host(1), Stranger)
	for range 2*each - 2 {
		enter(t, c, host(1), Silent)
		if speaks.ended() != 0 {
			t.Fatal("it went for a silent one")
		}
	}
}

// Of the known peers of the address that holds most, the one that was idle for longest loses its
// seat first.
func TestIdleLongestGoesFirst(t *testing.T) {
	bubble(t, func(t *testing.T, wait func(n int)) {
		c := New(Config{Seats: 32})
		defer c.Close()
		var all []*guest
		for range 32 {
			all = append(all, enter(t, c, host(1), Known))
		}
		wait(15)
		for i, g := range all {
			if i != 7 && i != 20 {
				g.moved.Add(1)
			}
		}
		wait(15)
		all[7].moved.Add(1)
		wait(15)
		enter(t, c, host(2), Stranger).seat.Known()
		if all[20].ended() != Evicted || count(all, true) != 1 {
			t.Errorf("the idlest: %v, %d ended", all[20].ended(), count(all, true))
		}
		enter(t, c, host(2), Stranger)
		if count(all, true) != 2 || all[7].ended() != 0 {
			t.Error("the one used last was not spared")
		}
	})
}

// No set-up waits for another. If there are too many, the oldest set-up of the address that has
// most is ended, and none of another address.
func TestSetupsUnderWay(t *testing.T) {
	c := New(Config{Seats: 10_000, Setups: 100})
	honest := enter(t, c, host(9), Arriving)
	var silent []*guest
	for range 1500 {
		silent = append(silent, enter(t, c, host(1), Arriving))
	}
	if n := count(silent, false); n != 50 {
		t.Errorf("%d set-ups of one address are under way", n)
	}
	if slices.ContainsFunc(silent[1450:], func(g *guest) bool { return g.ended() != 0 }) {
		t.Error("a later set-up ended before an earlier one")
	}
	for i := range 1000 {
		silent = append(silent, enter(t, c, host(100+i%10), Arriving))
	}
	if s := c.Stats(); s.Seats[Arriving] != 100 {
		t.Errorf("%d set-ups are under way", s.Seats[Arriving])
	}
	if honest.ended() != 0 {
		t.Error("the only set-up of its address ended")
	}
	if n := count(silent, true); n != 2500-99 {
		t.Errorf("%d set-ups ended", n)
	}
}

// A connection that lost its seat counts until it is closed, so there are never many more
// connections than seats. Newcomers wait a moment until such connections are closed, and are
// refused only if that takes longer.
func TestConnectionsThatGo(t *testing.T) {
	bubble(t, func(t *testing.T, wait func(n int)) {
		c := New(Config{Seats: 64})
		var all []*guest
		for range 64 {
			g := enter(t, c, host(1), Stranger)
			g.stays = true
			all = append(all, g)
		}
		for i := range Spare(64) {
			enter(t, c, host(2+i), Stranger).stays = true
		}
		begin := time.Now()
		if _, err := tryEnter(c, host(99), Arriving); !errors.Is(err, Crowded) {
			t.Fatalf("beyond: %v", err)
		}
		if d := time.Since(begin); d != time.Second {
			t.Errorf("refused after %v", d)
		}
		var entered atomic.Int64
		for i := range 3 {
			go func() {
				if _, err := tryEnter(c, host(100+i), Stranger); err == nil {
					entered.Add(1)
				}
			}()
		}
		synctest.Wait()
		for i := range 2 {
			all[i].seat.Leave()
			all[i].seat.Leave()
			synctest.Wait()
			if n := entered.Load(); n != int64(i+1) {
				t.Errorf("%d newcomers are in when %d connections are closed", n, i+1)
			}
		}
		for _, g := range all {
			g.seat.Leave()
		}
		synctest.Wait()
		if s := c.Stats(); s.Leaving != 0 || s.Total() != Spare(64)+3 || entered.Load() != 3 {
			t.Errorf("%+v", s)
		}
	})
}

// If a connection loses its seat before Seat.Hold, Hold ends the connection.
func TestLostBeforeItIsHeld(t *testing.T) {
	c := New(Config{Seats: 2})
	early, late := &guest{stays: true}, &guest{stays: true}
	s, err := c.Arrive(peer(host(1)), early)
	if err != nil {
		t.Fatal(err)
	}
	enter(t, c, host(1), Stranger)
	enter(t, c, host(1), Stranger)
	s.Hold(late, &late.moved)
	if early.ended() != Evicted || late.ended() != Evicted {
		t.Errorf("told %v and %v", early.ended(), late.ended())
	}
	s.Known()
	s.Heard()
	s.Leave()
	if st := c.Stats(); st.Total() != 2 || st.Leaving != 0 {
		t.Errorf("%+v", st)
	}
}

// If the process is short of descriptors or memory, a peer that is not known loses its seat, and no
// known peer does. Other errors of accept(2) cost no connection its seat. Each error is reported.
func TestAcceptFailed(t *testing.T) {
	var told []error
	c := New(Config{AcceptFailed: func(err error) { told = append(told, err) }})
	failed := func(errno syscall.Errno) error {
		return &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", errno)}
	}
	known := enter(t, c, host(1), Known)
	c.AcceptFailed(failed(syscall.EMFILE))
	one, two := enter(t, c, host(1), Stranger), enter(t, c, host(1), Stranger)
	for _, errno := range []syscall.Errno{syscall.EPROTO, syscall.EHOSTUNREACH, syscall.EPERM} {
		if c.AcceptFailed(failed(errno)) == 0 || one.ended() != 0 {
			t.Errorf("%v: a stranger has lost its seat, or there is no pause", errno)
		}
	}
	c.AcceptFailed(failed(syscall.ENOMEM))
	if one.ended() != Evicted || two.ended() != 0 || known.ended() != 0 {
		t.Errorf("%v, %v, %v", one.ended(), two.ended(), known.ended())
	}
	c.AcceptFailed(failed(syscall.ENOSPC)) // epoll has no room
	if two.ended() != Evicted || known.ended() != 0 {
		t.Errorf("%v, %v", two.ended(), known.ended())
	}
	if len(told) != 6 {
		t.Errorf("%d errors were told, want 6: %v", len(told), told)
	}
}

// Each refusal and each end is reported, with its reason.
func TestEvents(t *testing.T) {
	var events []Event
	c := New(Config{Seats: 3, Event: func(e Event) { events = append(events, e) }})
	enter(t, c, host(2), Known)
	enter(t, c, host(1), Stranger)
	enter(t, c, host(1), Known)
	enter(t, c, host(1), Known)
	_, _ = tryEnter(c, host(1), Known)
	want := []Event{
		{Peer: peer(host(1)), Why: Evicted, Stage: Stranger},
		{Peer: peer(host(1)), Why: Full, Stage: Arriving},
	}
	if len(events) != 2 {
		t.Fatalf("%+v", events)
	}
	for i := range events {
		events[i].Age = 0
		if events[i] != want[i] {
			t.Errorf("%+v, want %+v", events[i], want[i])
		}
	}
}

// The methods of a nil Seat do nothing.
func TestNoSeat(t *testing.T) {
	var s *Seat
	s.Hold(&guest{}, nil)
	s.Heard()
	s.Known()
	s.Leave()
}

func TestReasons(t *testing.T) {
	for _, r := range Reasons() {
		if r.String() == "" || reasonTexts[r].text == "" {
			t.Errorf("reason %d has no name or no text", uint8(r))
		}
	}
	if got := Reason(99).Error(); got != "census: Reason(99)" {
		t.Error(got)
	}
}
