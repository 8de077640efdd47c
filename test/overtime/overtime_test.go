package overtime

import (
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
	"github.com/nfsrdmad/nfsrdmad/transport/tcp"
)

// inMemory has the durations for runs in memory, which do not use real time.
var inMemory = scale{
	timeout:  []time.Duration{time.Second, 5 * time.Second, 20 * time.Second, time.Minute},
	lag:      5 * time.Millisecond,
	slow:     40 * time.Millisecond,
	stuck:    100 * time.Second,
	latest:   100 * time.Second,
	think:    2 * time.Second,
	length:   20 * time.Second,
	patience: 2 * time.Hour,
}

// slowly is inMemory for connections that the client dropped long ago: their messages arrive up
// to a quarter of an hour later, between the calls of that time.
var slowly = func() scale {
	sc := inMemory
	sc.think, sc.latest, sc.length = 2*time.Minute, 15*time.Minute, 10*time.Minute
	return sc
}()

// onLoopback has the durations for runs over sockets, which use real time.
var onLoopback = scale{
	timeout:  []time.Duration{20 * time.Millisecond, 50 * time.Millisecond, 200 * time.Millisecond},
	lag:      2 * time.Millisecond,
	slow:     5 * time.Millisecond,
	stuck:    200 * time.Millisecond,
	latest:   200 * time.Millisecond,
	think:    10 * time.Millisecond,
	length:   100 * time.Millisecond,
	patience: time.Minute,
}

// version3Of and version4Of return the protocol of a client for the objects of a site.
func version3Of(o *objects) protocol { return version3{o} }
func version4Of(o *objects) protocol { return version4{&owner{objects: o}} }

// A setting is a protocol, a transport and the behaviour of the clients.
type setting struct {
	name    string
	version func(*objects) protocol
	rdma    bool
	// sockets is true for runs over loopback in real time. Otherwise runs are in memory, in a
	// synctest bubble.
	sockets bool
	// timers is true if clients send calls without an answer again. copies is true if they do so
	// also over the same connection.
	timers, copies bool
	// twins is true if the two clients have one address and begin with the same XID.
	twins bool
}

var settings = []setting{
	{name: "NFSv3 over TCP", version: version3Of, timers: true, copies: true},
	{name: "NFSv3 over RDMA", version: version3Of, rdma: true, timers: true},
	{name: "NFSv4.0 over TCP", version: version4Of},
	{name: "NFSv4.0 over RDMA", version: version4Of, rdma: true},
}

// A tally has the sums of several runs.
type tally struct{ calls, copies, failed atomic.Int64 }

// one runs one seed and checks its history.
func (s setting) one(t *testing.T, seed uint64, sum *tally) (err error) {
	if s.sockets {
		return s.judge(seed, onLoopback, sum)
	}
	sc := inMemory
	if seed%4 == 0 {
		sc = slowly
	}
	synctest.Test(t, func(*testing.T) { err = s.judge(seed, sc, sum) })
	return err
}

// serve serves a site over the transport of a setting, with at most underWay calls under way on
// each connection.
func (s setting) serve(at *site, underWay int) (transport, error) {
	switch {
	case s.sockets && s.rdma:
		return rdmaOnLoopback(at, rdma.Config{Credits: underWay})
	case s.sockets:
		return tcpOnLoopback(at, tcp.Config{MaxInFlight: underWay})
	case s.rdma:
		return rdmaInMemory(at, rdma.Config{Credits: underWay})
	}
	return tcpInMemory(at, tcp.Config{MaxInFlight: underWay}), nil
}

func (s setting) judge(seed uint64, sc scale, sum *tally) error {
	r := &run{seed: seed}
	how := r.random(ofServer)
	slow := &dice{Rand: r.random(ofDisk)}
	busy := []time.Duration{0, sc.slow / 20, sc.slow}[how.IntN(3)]
	site, err := newSite(func() time.Duration { return slow.upTo(busy) }, rpc.Config{})
	if err != nil {
		return err
	}
	tr, err := s.serve(site, []int{1, 2, 4, 128}[how.IntN(4)])
	if err != nil {
		return err
	}
	r = newRun(seed, sc, site, s.version, tr.dial, tr.ports, s.timers, s.copies)
	if s.twins {
		r.twin()
	}
	r.run(sc)
	for _, c := range r.clients {
		c.end()
	}
	for until := time.Now().Add(sc.patience); tr.open() > 0 && time.Now().Before(until); {
		time.Sleep(sc.patience / 1000)
	}
	left := tr.open()
	looker := &machine{habits: r.clients[0].habits, name: "the end", dial: tr.dial, now: r.history.now, random: r.random(ofLooker), at: netip.AddrPortFrom(r.clients[0].at.Addr(), 0)}
	r.look(looker)
	looker.end()
	tr.close()
	site.close()
	n, what := site.disk.again()
	for _, c := range r.clients {
		sum.copies.Add(int64(c.copies))
	}
	sum.calls.Add(int64(len(r.history.events)))
	if r.failed != nil {
		return r.failed
	}
	if err := r.history.check(); err != nil {
		return err
	}
	if n > 0 {
		return fmt.Errorf("%d WRITEs were executed more than once, such as %+v", n, what)
	}
	for _, e := range r.history.events {
		if e.told.status == unknown {
			return fmt.Errorf("no answer within %v:\n%v", sc.patience, e)
		}
		if e.told.status == wrong {
			return fmt.Errorf("not an answer that this call may get:\n%v", e)
		}
	}
	if left > 0 {
		return fmt.Errorf("the server has %d connections long after all have ended", left)
	}
	return nil
}

// seeds returns the seeds for a test: OVERTIME_SEEDS seeds from OVERTIME_FROM on. The default
// number is `most`.
func seeds(most int) (from, to uint64) {
	from = number("OVERTIME_FROM", 1)
	return from, from + number("OVERTIME_SEEDS", most)
}

// number returns a number from an environment variable, or otherwise if it is not set.
func number(name string, otherwise int) uint64 {
	n, err := strconv.Atoi(os.Getenv(name))
	if err != nil {
		n = otherwise
	}
	return uint64(n)
}

// Whatever happens to connections and to the disk, each call of a client takes effect exactly
// once, at one moment between its first sending and its answer.
func TestHistoriesAreThoseOfCallsExecutedOnce(t *testing.T) {
	for _, s := range settings {
		t.Run(s.name, func(t *testing.T) { s.all(t, 60, runtime.GOMAXPROCS(0)) })
	}
}

// Each call takes effect exactly once also if two clients behind one address begin with the same
// XID and make the same calls. Their connections last.
func TestHistoriesOfTwoClientsOfOneAddress(t *testing.T) {
	for _, s := range settings {
		s.twins = true
		t.Run(s.name, func(t *testing.T) { s.all(t, 30, runtime.GOMAXPROCS(0)) })
	}
}

// Each call takes effect exactly once also over the kernel's TCP and over the software RNIC.
func TestHistoriesOverSockets(t *testing.T) {
	for _, s := range settings {
		s.sockets = true
		t.Run(s.name, func(t *testing.T) { s.all(t, 24, 12) })
	}
}

// all runs the seeds of a test, `together` of them at a time.
func (s setting) all(t *testing.T, most, together int) {
	from, to := seeds(most)
	var sum tally
	var next atomic.Uint64
	next.Store(from)
	var all sync.WaitGroup
	for range together {
		all.Go(func() {
			for seed := next.Add(1) - 1; seed < to; seed = next.Add(1) - 1 {
				if err := s.one(t, seed, &sum); err != nil && sum.failed.Add(1) <= 3 {
					t.Errorf("OVERTIME_FROM=%d OVERTIME_SEEDS=1: %v", seed, err)
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d seeds: %d failed; %d calls, %d copies", to-from, sum.failed.Load(), sum.calls.Load(), sum.copies.Load())
}
