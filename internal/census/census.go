package census

import (
	"errors"
	"math"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
	"github.com/nfsrdmad/nfsrdmad/internal/queue"
)

// Defaults for servers.
const (
	DefaultSetupTimeout = 10 * time.Second
	DefaultCallTimeout  = time.Minute
	// The default of Config.Setups is defaultSetups, or a quarter of Seats if that is less.
	defaultSetups = 1024
)

// Config sets the limits of a Census. 0 means no limit, except for Setups, FirstTimeout and
// QuietTimeout.
type Config struct {
	// Seats is how many connections there may be, and PerAddress how many from one client address
	// (clientaddr.Of).
	Seats, PerAddress int
	// Setups is how many set-ups may be under way, of which half may come from one client address.
	// The default is a quarter of Seats, but at least 2 and at most 1024.
	Setups int
	// SetupTimeout is how long a set-up may take. While more than half of Setups are under way, a
	// set-up may take only a fifth of SetupTimeout.
	SetupTimeout time.Duration
	// FirstTimeout is how long a connection may last after its set-up without a whole message from
	// the peer. CallTimeout is how long it may last until its stage is Known. If FirstTimeout is 0
	// or longer than CallTimeout, it is CallTimeout.
	FirstTimeout, CallTimeout time.Duration
	// While fewer than Seats/64 seats are in the stages Silent and Stranger together, FirstTimeout
	// and CallTimeout are at least QuietTimeout. The reason is that a client may connect before it
	// has something to send.
	QuietTimeout time.Duration
	// Event, if set, is called for each connection that the Census refuses or ends, from any
	// goroutine. It must not block.
	Event func(Event)
	// AcceptFailed, if set, is called for each connection that a listener could not accept, from
	// any goroutine. It must not block.
	AcceptFailed func(error)
}

func (c *Config) complete() {
	if c.Seats <= 0 {
		c.Seats = math.MaxInt
	}
	if c.PerAddress <= 0 || c.PerAddress > c.Seats {
		c.PerAddress = c.Seats
	}
	if c.CallTimeout > 0 && (c.FirstTimeout <= 0 || c.FirstTimeout > c.CallTimeout) {
		c.FirstTimeout = c.CallTimeout
	}
	if c.Setups <= 0 {
		c.Setups = min(defaultSetups, max(c.Seats/4, 2))
	}
}

// An Event reports a connection that the Census refused or ended.
type Event struct {
	Peer Peer
	Why  Reason
	// Stage is the connection's last stage, and Age the time since the connection arrived.
	Stage Stage
	Age   time.Duration
}

// A Census counts and limits connections, as the package comment describes. Any goroutine may call
// its methods.
type Census struct {
	cfg Config // SetLimits changes some fields, while it holds mu
	// given is the Config that New was called with.
	given Config

	mu        sync.Mutex
	addresses map[netip.Addr]*address
	sites     map[netip.Addr]*site
	bySite    [tallies]queue.Ranking[site] // by each tally
	stages    [stages]int                  // number of seats in each stage
	leaving   int                          // seats that were taken away, but whose connections are not closed yet
	vacated   chan struct{}                // closed when the next of those connections is closed; nil if no goroutine waits
	ends      []ending                     // seats that were taken away since c.mu was locked
	entered   uint64
	steps     uint64
	count     [reasons]uint64
	timer     *time.Timer // nil if no sweep is due
	sampled   time.Time
	closed    bool
}

// New returns a Census without connections. A Census that has no seats needs no Close.
func New(cfg Config) *Census {
	given := cfg
	cfg.complete()
	return &Census{cfg: cfg, given: given, addresses: make(map[netip.Addr]*address), sites: make(map[netip.Addr]*site)}
}

// SetLimits changes Config.PerAddress and Config.CallTimeout. An address that has more seats than the
// new limit keeps them, but each newcomer from there takes one of them, or is refused. The new time
// limit also holds for the connections that exist.
func (c *Census) SetLimits(perAddress int, call time.Duration) {
	limits := c.given
	limits.PerAddress, limits.CallTimeout = perAddress, call
	limits.complete()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cfg.PerAddress, c.cfg.FirstTimeout, c.cfg.CallTimeout = limits.PerAddress, limits.FirstTimeout, limits.CallTimeout
	c.armLocked() // without a time limit before, no sweep was due
}

// Arrive asks for a seat for a connection whose set-up begins. If the Census ends the connection
// before Seat.Hold is called, it calls h.End. If there is no seat, the error is a Reason, and the
// caller closes the connection. If many connections that lost their seats are not closed yet
// (Spare), Arrive waits until fewer are, but at most a second. It never waits for a peer.
func (c *Census) Arrive(p Peer, h Holder) (*Seat, error) { return c.enter(p, Arriving, h) }

// Enter is Arrive for a connection whose set-up is complete.
func (c *Census) Enter(p Peer, h Holder) (*Seat, error) { return c.enter(p, Silent, h) }

func (c *Census) enter(p Peer, stage Stage, h Holder) (*Seat, error) {
	now := time.Now()
	s := &Seat{census: c, peer: p, arrived: now, stage: gone, holder: h}

	c.mu.Lock()
	if c.crowdedLocked() {
		c.awaitSpareLocked()
	}
	s.address = c.addressLocked(clientaddr.Of(p.Addr.Addr()))
	losers, why := c.makeRoomLocked(s, stage)
	if why == 0 {
		for _, l := range losers {
			c.loseLocked(l, Evicted)
		}
		c.entered++
		c.moveLocked(s, stage, now)
		c.armLocked()
	} else {
		c.count[why]++
	}
	c.endAndUnlock()
	if why == 0 {
		return s, nil
	}
	c.tell(Event{Peer: p, Why: why, Stage: stage})
	return nil, why
}

// crowdedLocked reports whether no further seat may be taken away, because too many connections
// that lost their seats are not closed yet (Spare).
func (c *Census) crowdedLocked() bool { return c.leaving >= Spare(c.cfg.Seats) }

// crowdWait is the longest time that a newcomer waits for connections to be closed.
const crowdWait = time.Second

// awaitSpareLocked waits until crowdedLocked is false, at most for crowdWait. It unlocks c.mu
// during the wait.
func (c *Census) awaitSpareLocked() {
	t := time.NewTimer(crowdWait)
	defer t.Stop()
	for over := false; c.crowdedLocked() && !over; {
		if c.vacated == nil {
			c.vacated = make(chan struct{})
		}
		vacated := c.vacated
		c.mu.Unlock()
		select {
		case <-vacated:
		case <-t.C:
			over = true
		}
		c.mu.Lock()
	}
}

// moveLocked moves s to another stage, and updates all counts. The seat was in the stage gone before
// it entered, and returns there when it is given up or taken away.
func (c *Census) moveLocked(s *Seat, to Stage, since time.Time) {
	a, from := s.address, s.stage
	if from != gone {
		a.queueFor(s).Remove(s)
		c.stages[from]--
	}
	s.stage, s.since = to, since
	for k := range tallies {
		if was, is := k.in(from), k.in(to); was != is {
			change := 1
			if was {
				change = -1
			}
			c.bySite[k].Add(&a.site.places[k], change)
			a.site.addresses[k].Add(&a.places[k], change)
		}
	}
	if to != gone {
		c.steps++
		s.step = c.steps
		a.queueFor(s).Add(s)
		c.stages[to]++
		c.addresses[a.client], c.sites[a.site.prefix] = a, a.site
		return
	}
	if a.places[ofSeats].Count == 0 {
		delete(c.addresses, a.client)
	}
	if a.site.places[ofSeats].Count == 0 {
		delete(c.sites, a.site.prefix)
	}
}

// An ending is a seat that was taken away, and whose Holder has to be called.
type ending struct {
	holder Holder
	event  Event
}

// loseLocked takes the seat s away from its connection, which endAndUnlock then ends. The connection
// counts in c.leaving until it calls Leave.
func (c *Census) loseLocked(s *Seat, why Reason) {
	c.ends = append(c.ends, ending{s.holder, Event{Peer: s.peer, Why: why, Stage: s.stage, Age: time.Since(s.arrived)}})
	c.moveLocked(s, gone, s.since)
	c.leaving++
	c.count[why]++
	s.lost = why
}

// endAndUnlock unlocks c.mu, and calls the Holders of the seats that were taken away.
func (c *Census) endAndUnlock() {
	ends := c.ends
	c.ends = nil
	c.mu.Unlock()
	for _, e := range ends {
		e.holder.End(e.event.Why)
		c.tell(e.event)
	}
}

func (c *Census) tell(e Event) {
	if c.cfg.Event != nil {
		c.cfg.Event(e)
	}
}

// EvictStranger ends a connection whose stage is not Known: of the site that has the most such
// connections, and in it of the address that has the most. If a connection that lost its seat
// earlier is not closed yet, EvictStranger does nothing, because that connection will release its
// descriptor.
func (c *Census) EvictStranger() {
	c.mu.Lock()
	if most := c.bySite[ofStrangers].Top(); most != nil && c.leaving == 0 {
		c.loseLocked(c.givesAwayLocked(most.Of.addresses[ofStrangers].Top().Of), Evicted)
	}
	c.endAndUnlock()
}

// Knows reports whether an address has a seat in the stage Known.
func (c *Census) Knows(peer netip.Addr) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.addresses[clientaddr.Of(peer)]
	return a != nil && a.places[ofSeats].Count > a.places[ofStrangers].Count
}

// Close stops the timer, so that the Census ends no connection at a deadline any more. Connections
// can still leave their seats.
func (c *Census) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.timer != nil {
		c.timer.Stop()
	}
}

// shortagePause is how long a listener waits, at least, after accept(2) failed for lack of
// descriptors or memory, so that some can become free. acceptPause is how long it waits, at least,
// after any other error, so that a lasting error does not keep a processor busy.
const (
	shortagePause = 50 * time.Millisecond
	acceptPause   = time.Millisecond
)

// AcceptFailed is called for each error of accept(2), except that of a closed listener. It returns
// how long the listener waits before it accepts again. None of these errors ends a listener,
// because they concern one connection or are temporary (accept(2), "Error handling"). If the error
// is a shortage (IsShortage), AcceptFailed also calls EvictStranger, to make room for the next
// connection in the backlog.
func (c *Census) AcceptFailed(err error) (pause time.Duration) {
	if c.cfg.AcceptFailed != nil {
		c.cfg.AcceptFailed(err)
	}
	if IsShortage(err) {
		c.EvictStranger()
		return shortagePause
	}
	return acceptPause
}

// IsShortage reports whether err means that the process, the machine or a device is short of something
// that each connection takes: descriptors, memory, queue pairs, or places in epoll (ENOSPC).
func IsShortage(err error) bool {
	for _, shortage := range []error{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ENOSPC, syscall.EAGAIN,
	} {
		if errors.Is(err, shortage) {
			return true
		}
	}
	return false
}

// Stats is a snapshot of a Census.
type Stats struct {
	// Seats counts seats by Stage. Leaving counts the connections that lost their seats and are not
	// closed yet. Addresses counts client addresses.
	Seats              [stages]int
	Leaving, Addresses int
	// Entered is how many newcomers have got a seat. Count is how many connections the Census
	// refused or ended, by Reason.
	Entered uint64
	Count   [reasons]uint64
}

// Total is the number of seats.
func (s *Stats) Total() (n int) {
	for _, k := range s.Seats {
		n += k
	}
	return n
}

// Stats returns the counts of this moment.
func (c *Census) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Stats{Seats: c.stages, Leaving: c.leaving, Addresses: len(c.addresses), Entered: c.entered, Count: c.count}
}
