package census

import (
	"errors"
	"net/netip"
	"testing"
)

// A newcomer from the address that holds the most seats takes the seat of a peer of that address
// that is not known. If there is none, it is refused.
func TestNewcomerOfTheLargestHolder(t *testing.T) {
	c := New(Config{Seats: 64})
	small := enter(t, c, host(2), Known)
	var own []*guest
	for range 62 {
		own = append(own, enter(t, c, host(1), Known))
	}
	stranger := enter(t, c, host(1), Stranger)
	again := enter(t, c, host(1), Stranger)
	if stranger.ended() != Evicted {
		t.Errorf("the stranger of the same address: %v", stranger.ended())
	}
	again.seat.Known()
	if _, err := tryEnter(c, host(1), Arriving); !errors.Is(err, Full) {
		t.Errorf("without strangers: %v", err)
	}
	if small.ended() != 0 || count(own, true) > 0 {
		t.Error("a known peer lost its seat")
	}
	if s := c.Stats(); s.Count[Full] != 1 {
		t.Errorf("%+v", s)
	}
}

// One address may have a limited number of seats, even if others are free. Its newcomers take seats
// of its peers that are not known, not of its known peers.
func TestSeatsOfOneAddress(t *testing.T) {
	c := New(Config{Seats: 1000, PerAddress: 10})
	var known []*guest
	for range 9 {
		known = append(known, enter(t, c, host(1), Known))
	}
	first := enter(t, c, host(1), Stranger)
	second := enter(t, c, host(1), Stranger)
	if first.ended() != Evicted || second.ended() != 0 {
		t.Errorf("the strangers: %v, %v", first.ended(), second.ended())
	}
	second.seat.Known()
	if _, err := tryEnter(c, host(1), Arriving); !errors.Is(err, AddressFull) {
		t.Errorf("the eleventh: %v", err)
	}
	if count(known, true) > 0 {
		t.Error("a known peer lost its seat")
	}
	enter(t, c, host(2), Stranger)
	known[0].seat.Leave()
	enter(t, c, host(1), Stranger)
}

// If an address has all its seats, a newcomer of that address takes the seat of its connection that
// has been idle for longest. If none is idle, the newcomer is refused.
func TestNewcomerTakesThePlaceOfItsOwnIdleConnection(t *testing.T) {
	for _, cfg := range []Config{{Seats: 1000, PerAddress: 10}, {Seats: 11}} {
		bubble(t, func(t *testing.T, wait func(n int)) {
			c := New(cfg)
			defer c.Close()
			other := enter(t, c, host(2), Known)
			var own []*guest
			for range 10 {
				own = append(own, enter(t, c, host(1), Known))
			}
			if _, err := tryEnter(c, host(1), Stranger); err == nil {
				t.Error("no connection was idle, and a newcomer had a seat")
			}
			wait(25)
			for i, g := range own {
				if i != 3 && i != 6 {
					g.moved.Add(1)
				}
			}
			wait(10) // until the idle time counts
			for _, idle := range []int{3, 6} {
				enter(t, c, host(1), Known)
				if own[idle].ended() != Evicted {
					t.Error("another one than the idlest went")
				}
			}
			if _, err := tryEnter(c, host(1), Stranger); err == nil || count(own, true) != 2 || other.ended() != 0 {
				t.Errorf("the last newcomer: %v, %d of the address went, of another address: %v", err, count(own, true), other.ended())
			}
		})
	}
}

// A machine's own mounts, which use privileged ports, get some seats whatever the machine's other
// users hold, and do not lose them to these users.
func TestPlacesForPrivilegedPorts(t *testing.T) {
	bubble(t, func(t *testing.T, wait func(n int)) {
		c := New(Config{Seats: 1000, PerAddress: 40})
		defer c.Close()
		from := func(port uint16) Peer { return Peer{Addr: netip.AddrPortFrom(host(1), port)} }
		var users, mounts []*guest
		for i := range uint16(40) {
			g, err := tryEnterAs(c, from(2000+i), Known)
			if err != nil {
				t.Fatal(err)
			}
			users = append(users, g)
		}
		for i := range uint16(privilegedPlaces) {
			g, err := tryEnterAs(c, from(700+i), Known)
			if err != nil {
				t.Fatalf("mount %d: %v", i, err)
			}
			mounts = append(mounts, g)
		}
		if _, err := tryEnterAs(c, from(900), Known); !errors.Is(err, AddressFull) {
			t.Errorf("one more: %v", err)
		}
		wait(25)
		for i := range uint16(100) {
			if g, err := tryEnterAs(c, from(3000+i), Known); err == nil {
				users = append(users, g)
			}
		}
		if n := count(mounts, true); n > 0 {
			t.Errorf("%d mounts lost their places to other users", n)
		}
		if n := count(users, false); n != 40-privilegedPlaces {
			t.Errorf("other users have %d", n)
		}
	})
}

// A mount that connects keeps its seat while newcomers from other ports of its address come, even
// before its first call. This holds if the address has all the seats that it may have, and if no
// seat is left at all.
func TestMountsKeepTheirPlacesBeforeTheirFirstCall(t *testing.T) {
	for _, cfg := range []Config{{Seats: 1000, PerAddress: 40, Setups: 200}, {Seats: 40, Setups: 200}, {Seats: 8, Setups: 200}} {
		for _, stage := range []Stage{Arriving, Silent, Stranger} {
			for _, users := range []Stage{Stranger, Known} {
				c := New(cfg)
				from := func(port uint16) Peer { return Peer{Addr: netip.AddrPortFrom(host(1), port)} }
				enter := func(first, n uint16, stage Stage) (all []*guest) {
					for i := range n {
						if g, err := tryEnterAs(c, from(first+i), stage); err == nil {
							all = append(all, g)
						}
					}
					return all
				}
				enter(2000, 100, users)
				mounts := enter(700, privilegedPlaces, stage)
				want := min(privilegedPlaces, cfg.Seats)
				enter(3000, 100, users)
				if n := count(mounts, false); n != want {
					t.Errorf("%d seats, %v: %d of %d mounts have their seats beside other users that are %v", cfg.Seats, stage, n, want, users)
				}
				c.Close()
			}
		}
	}
}

// A mount that connects keeps its set-up while newcomers from other ports of its address begin
// theirs, whether its own address or all addresses together have as many set-ups as there may be.
func TestMountsKeepTheirSetups(t *testing.T) {
	from := func(n int, port uint16) Peer { return Peer{Addr: netip.AddrPortFrom(host(n), port)} }
	for _, hosts := range []int{1, 2} {
		c := New(Config{Setups: 100})
		var mounts []*guest
		for port := range uint16(privilegedPlaces) {
			g, err := tryEnterAs(c, from(1, 700+port), Arriving)
			if err != nil {
				t.Fatal(err)
			}
			mounts = append(mounts, g)
		}
		for port := range uint16(200) {
			for n := 1; n <= hosts; n++ {
				_, _ = tryEnterAs(c, from(n, 2000+port), Arriving)
			}
		}
		if n := count(mounts, true); n != 0 {
			t.Errorf("newcomers from %d hosts: %d of %d mounts lost their set-ups", hosts, n, len(mounts))
		}
		c.Close()
	}
}

// If all set-ups come from privileged ports, the oldest set-up is ended for a new one.
func TestMountsEndTheirOwnSetups(t *testing.T) {
	c := New(Config{Setups: 100})
	defer c.Close()
	for port := range uint16(200) {
		if _, err := tryEnterAs(c, Peer{Addr: netip.AddrPortFrom(host(1), 1+port)}, Arriving); err != nil {
			t.Fatal(err)
		}
	}
	if n := c.Stats().Seats[Arriving]; n != 50 {
		t.Errorf("%d set-ups from privileged ports of one host, want 50", n)
	}
}

// Many addresses of one site displace no more connections of others than a site with few addresses
// does. If the addresses belong to many sites, an address that lost connections to them can come
// back.
func TestManyAddressesOfOneSite(t *testing.T) {
	from := func(i int, sites bool) netip.Addr {
		b := [16]byte{0x20, 1, 0xd, 0xb8}
		at := 6
		if sites {
			at = 4
		}
		b[at], b[at+1] = byte(i>>8), byte(i)
		return netip.AddrFrom16(b)
	}
	for _, sites := range []bool{false, true} {
		bubble(t, func(t *testing.T, wait func(n int)) {
			c := New(Config{Seats: 1000})
			defer c.Close()
			var honest []*guest
			for range 16 {
				honest = append(honest, enter(t, c, host(1), Known))
			}
			for i := range 4000 {
				if g, err := tryEnter(c, from(i%800, sites), Known); err == nil {
					g.moved.Add(1)
				}
				if i%400 == 0 {
					wait(11)
				}
			}
			if n := count(honest, true); n > 0 && !sites {
				t.Errorf("%d connections went for those of a site that has more", n)
			}
			for i := range 16 {
				wait(11)
				if _, err := tryEnter(c, host(1), Known); err != nil {
					t.Errorf("connection %d does not come back: %v", i, err)
				}
			}
		})
	}
}

// While strangers hold many seats or many set-ups, newcomers of a site with many addresses take those
// of that site: a site's newcomer has time for its first call, however many addresses another has.
func TestStrangersOfOneSite(t *testing.T) {
	for _, stage := range []Stage{Arriving, Silent, Stranger} {
		c := New(Config{Seats: 100, Setups: 50})
		for i := range 200 {
			enter(t, c, host(256+i), stage)
		}
		honest := enter(t, c, host(1), stage)
		for i := range 200 {
			enter(t, c, host(256+i), stage)
		}
		if why := honest.ended(); why != 0 {
			t.Errorf("%v: the newcomer of another site has lost its seat: %v", stage, why)
		}
		c.Close()
	}
}
