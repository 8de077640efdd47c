package overtime

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"
)

// A run lets clients make calls, and records the calls and their answers: the history. The seed
// determines the calls, and the events that disturb the clients (see the package comment).
type run struct {
	seed    uint64
	site    *site
	version func(*objects) protocol
	clients []*machine
	history *history
	begun   time.Time
	calls   int // number of calls of each thread
	threads int // number of threads of each client
	twins   bool

	mu     sync.Mutex
	failed error // the first error that is not an answer in the history
}

// fail records err as the error of the run, unless the run already has one. It is for errors that
// are not answers to calls in the history.
func (r *run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == nil {
		r.failed = err
	}
}

// A scale has the limits of the durations in a run.
type scale struct {
	timeout []time.Duration // a run uses one of these
	lag     time.Duration   // longest delay of one message
	slow    time.Duration   // longest duration of one operation of the disk
	stuck   time.Duration   // longest time for which the disk is stuck
	latest  time.Duration   // longest time for which line.hold delays messages
	think   time.Duration   // longest pause between two calls of a thread
	length  time.Duration   // time during which events happen to connections
	// patience is the longest time that a client waits for an answer.
	patience time.Duration
}

// random returns a separate random source for each use, so that one more random number in one use
// does not change the numbers of others.
func (r *run) random(use uint64) *rand.Rand { return rand.New(rand.NewPCG(r.seed, use)) }

// A dice is a random source that several goroutines can use.
type dice struct {
	mu sync.Mutex
	*rand.Rand
}

func (d *dice) upTo(most time.Duration) time.Duration {
	if most <= 0 {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Duration(d.Int64N(int64(most)))
}

// Arguments of random: each names one of the run's random sources.
const (
	ofRun uint64 = iota
	ofNetwork
	ofDisk
	ofFate
	ofServer
	ofLooker
	ofClients = 1000
	ofThreads = 2000
)

// newRun returns a run over a site. If ports is true, clients choose the local ports of their
// connections. If timers is true, clients send calls without an answer again after a time. If
// copies is true, they may do so several times on the same connection before they replace it.
func newRun(seed uint64, sc scale, s *site, version func(*objects) protocol, dial dialer, ports, timers, copies bool) *run {
	r := &run{seed: seed, site: s, version: version, begun: time.Now()}
	now := func() time.Duration { return time.Since(r.begun) }
	r.history = &history{now: now, ids: make(map[string]int)}
	r.history.ids[string(s.objects.target)] = target
	how := r.random(ofRun)
	network := &dice{Rand: r.random(ofNetwork)}
	h := &habits{
		tries: 1, patience: sc.patience, latest: sc.latest, ports: ports,
		lag: func() time.Duration { return network.upTo(sc.lag) },
	}
	timeout := sc.timeout[how.IntN(len(sc.timeout))]
	if timers {
		h.timeout = timeout
	}
	if copies {
		h.tries = 1 + how.IntN(3)
	}
	r.threads, r.calls = 1+how.IntN(6), 4+how.IntN(20)
	for i := range 1 + how.IntN(2) {
		random := r.random(ofClients + uint64(i))
		r.clients = append(r.clients, &machine{
			habits: h, name: fmt.Sprint("client ", i+1), credential: fmt.Sprint("machine", i+1), dial: dial, now: now, random: random,
			at:   netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, byte(1 + seed>>8%250), byte(seed), byte(10 + i)}), 700),
			next: random.Uint32(),
		})
	}
	return r
}

// twin replaces the clients by two that have one address and make the same calls with the same
// XIDs. Their credentials name different machines, as those of Linux clients do.
func (r *run) twin() {
	one := r.clients[0]
	one.tries = math.MaxInt // never replace the connection
	one.ports = false
	r.clients = []*machine{one, {
		habits: one.habits, name: "client 2", credential: "machine2", dial: one.dial, now: one.now, random: r.random(ofClients + 1),
		at: netip.AddrPortFrom(one.at.Addr(), one.at.Port()+1), next: one.next,
	}}
	r.twins = true
}

// run makes all calls. It returns when each call has an answer or has waited for the time
// patience, and all events have happened.
func (r *run) run(sc scale) {
	fate := r.random(ofFate)
	var all sync.WaitGroup
	for i, c := range r.clients {
		for t := range r.threads {
			n := uint64(100*i + t)
			use := ofThreads + n
			if r.twins {
				use = ofThreads + uint64(t)
			}
			all.Go(func() { r.thread(c, fmt.Sprintf("%s.%d", c.name, t+1), n+1, r.random(use), sc) })
		}
	}
	// The events: some happen to connections, and at most one to the disk.
	var happens []func()
	for range fate.IntN(7) {
		if r.twins {
			break
		}
		at, c := time.Duration(fate.Int64N(int64(sc.length))), r.clients[fate.IntN(len(r.clients))]
		happens = append(happens, func() { time.Sleep(at); c.suffer() })
	}
	if fate.IntN(4) > 0 {
		at, long := time.Duration(fate.Int64N(int64(sc.length))), time.Duration(fate.Int64N(int64(sc.stuck)))
		happens = append(happens, func() {
			time.Sleep(at)
			release := r.site.disk.stick()
			time.Sleep(long)
			release()
		})
	}
	for _, f := range happens {
		all.Go(f)
	}
	all.Wait()
}

// thread makes the calls of one thread, one after the other.
func (r *run) thread(c *machine, who string, number uint64, random *rand.Rand, sc scale) {
	p := r.speak(c)
	if err := p.prepare(number, func(build func(xid uint32) []byte) []byte {
		m, _ := c.do(build)
		return m
	}); err != nil {
		r.fail(fmt.Errorf("%s: %w", who, err))
		return
	}
	for range r.calls {
		if random.IntN(2) == 0 { // otherwise the thread makes the next call at once
			time.Sleep(time.Duration(random.Int64N(int64(sc.think) + 1)))
		}
		a := r.draw(p, random)
		if a.deed == acquire || a.deed == release {
			a.value = number
		}
		r.one(c, who, p, a)
	}
}

// speak returns a protocol that makes calls in the name of the machine c.
func (r *run) speak(c *machine) protocol {
	o := r.site.objects
	o.machine = c.credential
	return r.version(&o)
}

// one makes one call and records it in the history.
func (r *run) one(c *machine, who string, p protocol, a asked) told {
	e := r.history.begin(who, a)
	if a.deed == write || a.deed == setSize || a.deed == exclude {
		e.asked.value = uint64(e.number + 1) // unique in the run
		a = e.asked
	}
	m, story := c.do(func(xid uint32) []byte { return p.call(xid, a) })
	t, handle := answerOf(p, m, a)
	t.id = r.history.id(handle)
	r.history.finish(e, t, story)
	return t
}

// draw returns a random call.
func (r *run) draw(p protocol, random *rand.Rand) asked {
	switch random.IntN(5) {
	case 0, 1:
		return asked{deed: []deed{read, write, write}[random.IntN(3)], object: random.IntN(blocks)}
	case 2:
		if d, any := p.locking(); any && random.IntN(2) == 0 {
			return asked{deed: d}
		}
		return asked{deed: []deed{getSize, setSize, setSize}[random.IntN(3)], object: random.IntN(sizes)}
	}
	a := asked{object: random.IntN(directories)}
	all := p.deeds(holdsDirectories(a.object))
	a.deed = all[random.IntN(len(all))]
	a.name = random.IntN(names)
	a.to = (a.name + 1 + random.IntN(names-1)) % names
	return a
}

// look reads the state of all objects with the client c, at the end of a run.
func (r *run) look(c *machine) {
	p := r.speak(c)
	for i := range blocks {
		r.one(c, "the end", p, asked{deed: read, object: i})
	}
	for i := range sizes {
		r.one(c, "the end", p, asked{deed: getSize, object: i})
	}
	for i := range directories {
		for n := range names {
			r.one(c, "the end", p, asked{deed: lookup, object: i, name: n})
		}
	}
}
