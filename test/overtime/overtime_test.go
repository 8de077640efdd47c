package overtime

import (
	"fmt"
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

// inMemory is how long things last where time costs nothing.
var inMemory = scale{
	timeout:  []time.Duration{time.Second, 5 * time.Second, 20 * time.Second},
	lag:      5 * time.Millisecond,
	slow:     40 * time.Millisecond,
	stuck:    100 * time.Second,
	latest:   100 * time.Second,
	think:    2 * time.Second,
	length:   20 * time.Second,
	patience: 2 * time.Hour,
}

// version3Of and version4Of speak about the objects of a site.
func version3Of(o *objects) protocol { return version3{o} }
func version4Of(o *objects) protocol { return version4{o} }

// A setting is what histories are made in.
type setting struct {
	name    string
	version func(*objects) protocol
	rdma    bool
	// timers: calls are sent again without an answer; copies: over the same connection too.
	timers, copies bool
}

var settings = []setting{
	{"NFSv3 over TCP", version3Of, false, true, true},
	{"NFSv3 over RDMA", version3Of, true, true, false},
	{"NFSv4.0 over TCP", version4Of, false, false, false},
	{"NFSv4.0 over RDMA", version4Of, true, false, false},
}

// A tally is what runs came to, together.
type tally struct{ calls, copies, failed atomic.Int64 }

// one makes the history of one seed and checks it.
func (s setting) one(t *testing.T, seed uint64, sum *tally) error {
	var err error
	synctest.Test(t, func(t *testing.T) { err = s.inBubble(t, seed, sum) })
	return err
}

func (s setting) inBubble(t *testing.T, seed uint64, sum *tally) error {
	sc := inMemory
	r := &run{seed: seed}
	how := r.random(ofServer)
	slow := &dice{Rand: r.random(ofDisk)}
	busy := []time.Duration{0, sc.slow / 20, sc.slow}[how.IntN(3)]
	site, err := newSite(func() time.Duration { return slow.upTo(busy) }, rpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	underWay := []int{1, 2, 4, 128}[how.IntN(4)]
	var tr transport
	if s.rdma {
		tr, err = rdmaInMemory(site, rdma.Config{Credits: underWay})
	} else {
		tr = tcpInMemory(site, tcp.Config{MaxInFlight: underWay})
	}
	if err != nil {
		t.Fatal(err)
	}
	r = newRun(seed, sc, site, s.version, tr.dial, tr.ports, s.timers, s.copies)
	r.run(sc)
	for _, c := range r.clients {
		c.end()
	}
	for range 100 {
		if tr.open() == 0 {
			break
		}
		time.Sleep(time.Minute)
	}
	left := tr.open()
	looker := &machine{habits: r.clients[0].habits, name: "the end", dial: tr.dial, now: r.history.now, random: r.random(ofLooker), at: server}
	r.look(looker)
	looker.end()
	tr.close()
	site.close()
	n, what := site.disk.again()
	for _, c := range r.clients {
		sum.copies.Add(int64(c.copies))
	}
	sum.calls.Add(int64(len(r.history.events)))
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

// seeds are those that a test is to try: OVERTIME_SEEDS of them from OVERTIME_FROM on.
func seeds(most int) (from, to uint64) {
	from = number("OVERTIME_FROM", 1)
	return from, from + number("OVERTIME_SEEDS", most)
}

// number is what the environment says of a size, or otherwise.
func number(name string, otherwise int) uint64 {
	n, err := strconv.Atoi(os.Getenv(name))
	if err != nil {
		n = otherwise
	}
	return uint64(n)
}

// Whatever becomes of connections, and of the disk, each call of a client has the effect
// of one execution at one moment between its first sending and its answer.
func TestHistoriesAreThoseOfCallsExecutedOnce(t *testing.T) {
	for _, s := range settings {
		t.Run(s.name, func(t *testing.T) {
			from, to := seeds(60)
			var sum tally
			var next atomic.Uint64
			next.Store(from)
			var all sync.WaitGroup
			var told sync.Mutex
			for range runtime.GOMAXPROCS(0) {
				all.Go(func() {
					for seed := next.Add(1) - 1; seed < to; seed = next.Add(1) - 1 {
						if err := s.one(t, seed, &sum); err != nil {
							if sum.failed.Add(1) <= 3 {
								told.Lock()
								t.Errorf("OVERTIME_FROM=%d OVERTIME_SEEDS=1: %v", seed, err)
								told.Unlock()
							}
						}
					}
				})
			}
			all.Wait()
			t.Logf("%d seeds: %d failed; %d calls, %d copies", to-from, sum.failed.Load(), sum.calls.Load(), sum.copies.Load())
		})
	}
}
