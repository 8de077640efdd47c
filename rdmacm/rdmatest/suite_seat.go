package rdmatest

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/census"
	"github.com/nfsrdmad/nfsrdmad/internal/seats"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

var seatRules = []rule{
	{"AConnectionHasASeat", counted(census.Config{}, seatHeld)},
	{"ConnectionWithoutASeatIsRefused", counted(census.Config{Seats: 1}, seatRefused)},
	{"TheSeatIsLeftAtTheEnd", counted(census.Config{}, seatLeft)},
	{"ConnectionThatLosesItsSeatIsEnded", counted(census.Config{Seats: 1}, seatLost)},
	{"TheULPMayHoldTheSeat", counted(census.Config{Seats: 1}, seatHolder)},
	{"ProviderTellsTheSeatOfMessages", counted(census.Config{FirstTimeout: time.Second}, seatHeard)},
}

// counted returns a sub-test that runs test with a Census, and with a provider whose accepted
// connections get their seats from this Census.
func counted(cfg census.Config, test func(s *suite, c *census.Census)) func(s *suite) {
	return func(s *suite) {
		if s.Counted == nil {
			s.Fatal("Options.Counted is missing")
		}
		c := census.New(cfg)
		s.Cleanup(c.Close)
		s.provider = s.Counted(s.T, seats.Of(c))
		test(s, c)
	}
}

// comes calls the function holds until it returns true. If that takes longer than Guard, comes
// fails the test.
func (s *suite) comes(what string, holds func() bool) {
	s.Helper()
	for end := time.Now().Add(Guard); !holds(); runtime.Gosched() {
		if time.Now().After(end) {
			s.Fatalf("not within %v: %s", Guard, what)
		}
	}
}

// seats waits until n seats are taken, and no connection is leaving.
func (s *suite) seats(c *census.Census, n int) {
	s.Helper()
	s.comes(fmt.Sprintf("%d seats are taken, and no connection leaves", n), func() bool {
		st := c.Stats()
		return st.Total() == n && st.Leaving == 0
	})
}

func seatHeld(s *suite, c *census.Census) {
	l := s.listen()
	dialed := s.dial(l.Addr(), common())
	r, err := l.Accept()
	s.noError(err)
	if st := c.Stats(); r.Seat() == rdmacm.Uncounted || st.Seats[census.Arriving] != 1 {
		s.Errorf("the request's seat is %v; %v", r.Seat(), st.Seats)
	}
	param := common()
	b := newPeer(s.T, &param)
	k, err := r.Accept(param.ConnParam)
	s.noError(err)
	b.begin(k)
	a := dialed()
	if st := c.Stats(); st.Seats[census.Silent] != 1 {
		s.Errorf("the connection's seat: %v", st.Seats)
	}
	r.Seat().Known()
	if st := c.Stats(); st.Seats[census.Known] != 1 {
		s.Errorf("a known peer's seat: %v", st.Seats)
	}
	s.lives(a, b)
}

// known connects a pair, and marks the accepted connection's peer as known
// (rdmacm.Seat.Known).
func (s *suite) known(l rdmacm.Listener) (a, b *Peer) {
	s.Helper()
	dialed := s.dial(l.Addr(), common())
	r, err := l.Accept()
	s.noError(err)
	param := common()
	b = newPeer(s.T, &param)
	k, err := r.Accept(param.ConnParam)
	s.noError(err)
	b.begin(k)
	r.Seat().Known()
	return dialed(), b
}

func seatRefused(s *suite, c *census.Census) {
	l := s.listen()
	a, b := s.known(l)
	param := common()
	newPeer(s.T, &param)
	if k, err := s.provider.Dial(s.Context(), l.Addr(), param.ConnParam); err == nil {
		k.Abort(nil)
		<-k.Done()
		s.Fatal("a second connection, although there is one seat")
	}
	if st := c.Stats(); st.Count[census.AddressFull] == 0 || st.Total() != 1 {
		s.Errorf("%+v", st)
	}
	s.lives(a, b)
}

func seatLeft(s *suite, c *census.Census) {
	for name, end := range map[string]func(a, b *Peer){
		"the dialer disconnects":   func(a, b *Peer) { a.Conn().Disconnect() },
		"the acceptor disconnects": func(a, b *Peer) { b.Conn().Disconnect() },
		"the dialer aborts":        func(a, b *Peer) { a.Conn().Abort(nil) },
		"the acceptor aborts":      func(a, b *Peer) { b.Conn().Abort(nil) },
	} {
		s.Run(name, func(t *testing.T) {
			s := &suite{T: t, Options: s.Options, provider: s.provider}
			a, b := s.known(s.listen())
			end(a, b)
			a.End()
			b.End()
			s.seats(c, 0)
		})
	}
	s.Run("the request is rejected", func(t *testing.T) {
		s := &suite{T: t, Options: s.Options, provider: s.provider}
		l := s.listen()
		failed := make(chan error, 1)
		param := common()
		newPeer(s.T, &param)
		go func() {
			_, err := s.provider.Dial(s.Context(), l.Addr(), param.ConnParam)
			failed <- err
		}()
		r, err := l.Accept()
		s.noError(err)
		s.noError(r.Reject(nil))
		if err := within(s.T, "Dial returns", failed); err == nil {
			s.Error("Dial succeeds")
		}
		s.seats(c, 0)
	})
	s.Run("the listener is closed", func(t *testing.T) {
		s := &suite{T: t, Options: s.Options, provider: s.provider}
		l := s.listen()
		failed := make(chan error, 1)
		param := common()
		newPeer(s.T, &param)
		go func() {
			_, err := s.provider.Dial(s.Context(), l.Addr(), param.ConnParam)
			failed <- err
		}()
		s.seats(c, 1)
		s.noError(l.Close())
		if err := within(s.T, "Dial returns", failed); err == nil {
			s.Error("Dial succeeds")
		}
		s.seats(c, 0)
	})
}

func seatLost(s *suite, c *census.Census) {
	l := s.listen()
	first := s.dial(l.Addr(), common())
	b := AcceptPeer(s.T, l, common())
	a := first()
	second := s.dial(l.Addr(), common())
	d := AcceptPeer(s.T, l, common())
	if err := b.End(); !errors.Is(err, census.Evicted) {
		s.Errorf("the first ends by %v", err)
	}
	s.killedUnless(rdmacm.AbortLooksOrderly, a)
	s.lives(second(), d)
	s.seats(c, 1)
}

// ulp is a Holder like that of a ULP. It passes the reason for the end to the test.
type ulp struct{ ended chan error }

func (u *ulp) End(why error) { u.ended <- why }
func (u *ulp) Busy() bool    { return false }

func seatHolder(s *suite, c *census.Census) {
	l := s.listen()
	first := s.dial(l.Addr(), common())
	r, err := l.Accept()
	s.noError(err)
	param := common()
	b := newPeer(s.T, &param)
	k, err := r.Accept(param.ConnParam)
	s.noError(err)
	b.begin(k)
	u := &ulp{make(chan error, 1)}
	r.Seat().Hold(u, nil)
	a := first()
	second := s.dial(l.Addr(), common())
	d := AcceptPeer(s.T, l, common())
	if why := within(s.T, "the holder is told", u.ended); why != census.Evicted {
		s.Errorf("the holder is told %v", why)
	}
	// When the ULP has ended the connection, the provider gives the seat up.
	s.lives(a, b)
	k.Abort(nil)
	b.End()
	s.lives(second(), d)
	s.seats(c, 1)
}

func seatHeard(s *suite, c *census.Census) {
	l := s.listen()
	dialed := s.dial(l.Addr(), common())
	b := AcceptPeer(s.T, l, common())
	a := dialed()
	s.lives(a, b)
	s.comes("the seat is a stranger's", func() bool { return c.Stats().Seats[census.Stranger] == 1 })
	s.lives(a, b)
}
