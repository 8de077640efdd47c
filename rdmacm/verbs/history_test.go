package verbs_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/device"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/fakedevice"
)

var (
	histories = flag.Int("histories", 40, "number of random histories that TestRandomHistories runs")
	history   = flag.Uint64("history", 0, "seed of the one history that TestRandomHistories runs")
)

// Random work from both sides, over devices with random limits, with faults at any call of the device and
// a random end. However it goes: each chain is done once and in order, each connection is closed once,
// no message is mixed up, and of the device's objects and the reserved memory nothing is left.
func TestRandomHistories(t *testing.T) {
	if *history != 0 {
		runHistory(t, *history)
		return
	}
	for range *histories {
		seed := rand.Uint64()
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { runHistory(t, seed) }) {
			t.Fatalf("go test -run TestRandomHistories ./rdmacm/verbs -history %d", seed)
		}
	}
}

// A side is one end of the connection of a history.
type historySide struct {
	t        *testing.T
	conn     rdmacm.Conn
	ready    chan struct{} // closed when conn and region are set
	exposes  bool          // it has a protection domain of its own
	region   rdmacm.Region // nil if the device refused it
	sources  []byte        // part of the arena from which both sides send. No RDMA Read goes to it
	sink     []byte        // part of the arena to which RDMA Reads of this side go, one chain at a time
	receives int
	other    *historySide

	dice   sync.Mutex
	random *rand.Rand // guarded by dice

	mu                     sync.Mutex
	posted, done           int
	sent, received, closed int
	reads                  int
	kept                   []*rdmacm.Recv
}

func (s *historySide) intn(n int) int {
	s.dice.Lock()
	defer s.dice.Unlock()
	return s.random.IntN(n)
}

// Received implements rdmacm.Handler. It keeps some messages for a time.
func (s *historySide) Received(m *rdmacm.Recv) {
	<-s.ready
	for _, b := range m.Bytes {
		if b != m.Bytes[0] {
			s.t.Errorf("a message of %d bytes is mixed up", len(m.Bytes))
			break
		}
	}
	s.mu.Lock()
	s.kept = append(s.kept, m)
	for len(s.kept) > s.intn(40) {
		s.kept[0].Release()
		s.kept = s.kept[1:]
	}
	s.mu.Unlock()
	s.conn.Provide(1, 1024)
	s.conn.Flush()
	s.mu.Lock()
	s.received++
	s.mu.Unlock()
}

// Closed implements rdmacm.Handler.
func (s *historySide) Closed(error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed++
}

// may takes a credit: the other side has promised a receive for each message that it got.
func (s *historySide) may() bool {
	s.other.mu.Lock()
	received := s.other.received
	s.other.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sent-received >= s.other.receives {
		return false
	}
	s.sent++
	return true
}

func (s *historySide) same(n int) []byte {
	b, c := make([]byte, n), byte(s.intn(256))
	for i := range b {
		b[i] = c
	}
	return b
}

// post posts a chain. Only one goroutine calls it.
func (s *historySide) post(work ...rdmacm.Work) {
	number, reads, called := s.posted, 0, false
	for i := range work {
		if work[i].Op == rdmacm.OpRead {
			reads++
		}
	}
	s.posted++
	s.conn.Post(&rdmacm.Chain{Work: work, Done: func(*rdmacm.Chain, error, int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if called || s.done != number {
			s.t.Errorf("chain %d is done (already: %v) when %d are", number, called, s.done)
		}
		called = true
		s.done++
		s.reads -= reads
	}})
}

// source returns up to most bytes, of the arena or not.
func (s *historySide) source(most int) []byte {
	n := s.intn(most)
	if s.intn(2) == 0 {
		at := s.intn(len(s.sources) - n)
		return s.sources[at : at+n]
	}
	return make([]byte, n)
}

// sinks returns buffers for an RDMA Read. alone is true if no other read of this side is under way:
// buffers of reads under way do not overlap.
func (s *historySide) sinks(alone bool) [][]byte {
	a, b := s.intn(5000), s.intn(9000)
	if alone && s.intn(2) == 0 {
		return [][]byte{s.sink[:a], s.sink[a : a+b]}
	}
	return [][]byte{make([]byte, a), make([]byte, b)}
}

func (s *historySide) act() {
	r := s.other.region
	switch s.intn(8) {
	case 0, 1:
		if s.may() && !s.conn.SendShort([][]byte{s.same(s.intn(500))}, 0) {
			s.mu.Lock()
			s.sent--
			s.mu.Unlock()
		}
	case 2, 3:
		var work []rdmacm.Work
		for range s.intn(4) {
			if r == nil {
				break
			}
			var local [][]byte
			for range 1 + s.intn(8) {
				local = append(local, s.source(3000))
			}
			work = append(work, rdmacm.Work{Op: rdmacm.OpWrite, Local: local, Remote: rdmacm.Remote{STag: r.STag(), Offset: r.Offset()}})
		}
		if s.may() {
			work = append(work, rdmacm.Work{Op: rdmacm.OpSend, Local: [][]byte{s.same(s.intn(1000))}})
		}
		s.post(work...)
	case 4:
		s.mu.Lock()
		free, alone := r != nil && s.reads < s.conn.ReadDepth(), s.reads == 0
		if free {
			s.reads++
		}
		s.mu.Unlock()
		if free {
			s.post(rdmacm.Work{Op: rdmacm.OpRead, Local: s.sinks(alone), Remote: rdmacm.Remote{STag: r.STag(), Offset: r.Offset()}})
		}
	case 5:
		s.conn.Flush()
		s.conn.Progress()
	case 6:
		if r, err := s.conn.Register(make([]byte, 100+s.intn(5000)), rdmacm.RemoteWrite); err == nil {
			r.Deregister()
		}
	case 7:
		time.Sleep(time.Duration(s.intn(300)) * time.Microsecond)
	}
}

// A faultPlan is the plan of a history's faults.
type faultPlan struct {
	mu     sync.Mutex
	random *rand.Rand
	calls  map[string]bool // calls that may fail
	rate   int             // one in rate does
	on     bool
}

var failures = []error{syscall.EMFILE, syscall.ENOMEM, syscall.ENOSPC, syscall.EIO, syscall.EAGAIN}

func (f *faultPlan) fail(call string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.on || !f.calls[call] || f.random.IntN(f.rate) > 0 {
		return nil
	}
	return failures[f.random.IntN(len(failures))]
}

func (f *faultPlan) set(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.on = on
}

func runHistory(t *testing.T, seed uint64) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(seed, 0))
		part := func() *rand.Rand { return rand.New(rand.NewPCG(random.Uint64(), 1)) }
		d := fakedevice.New(random.IntN(2) == 0)
		a := &d.Attributes
		a.SIW = a.IWARP && random.IntN(2) == 0
		a.SGEs, a.ReadSGEs = 1+random.IntN(8), random.IntN(4)
		a.QPWorks = []int{4, 8, 40, 300}[random.IntN(4)]
		a.MaxMessage = []int{0, 256 << 10, 8 << 20}[random.IntN(3)]
		a.ReadsOutstanding, a.ReadsServed = random.IntN(20), random.IntN(20)
		plan := &faultPlan{random: part(), calls: make(map[string]bool), rate: 1 + random.IntN(30)}
		for _, call := range []string{"Attributes", "Carrier", "OpenDomain", "Register", "Create", "Accept", "Connect", "Route", "Flush", "Poll", "Reject"} {
			plan.calls[call] = random.IntN(4) == 0
		}
		d.Fail = plan.fail
		if random.IntN(12) == 0 {
			d.Deaf = syscall.ENOSPC
		}
		if random.IntN(4) == 0 {
			d.Lose = func(e device.EventType) bool { return e == device.Disconnected }
		}
		arena := make([]byte, 64<<10)
		p, err := verbs.New(verbs.Config{Library: d, Arena: func() []byte { return arena }, Memory: int64(random.IntN(4)) << 20})
		if err != nil {
			t.Fatal(err)
		}
		l, err := p.Listen(netip.MustParseAddrPort("127.0.0.1:0"))
		if err != nil {
			t.Fatal(err)
		}
		plan.set(random.IntN(2) == 0) // the set-up has faults, too
		near, far := newHistorySides(t, part, arena, min(max(a.QPWorks/2, 1), 32))
		far.exposes = random.IntN(2) == 0
		connected := connectHistory(t, p, l, near, far)
		if connected {
			plan.set(true)
			workAndEnd(random, d, near, far)
		}
		plan.set(false)
		d.Hang(false)
		for _, s := range []*historySide{near, far} {
			if s.conn == nil {
				continue
			}
			if !connected {
				s.conn.Abort(nil)
			}
			<-s.conn.Done()
			s.audit()
		}
		l.Close()
		time.Sleep(time.Minute) // farewells end
		if has := p.Stats().Memory; has != 0 {
			t.Errorf("%d bytes stay reserved", has)
		}
		p.Close()
		if left := d.Left(); left != (fakedevice.Left{}) {
			t.Errorf("there is left %+v", left)
		}
	})
}

func newHistorySides(t *testing.T, part func() *rand.Rand, arena []byte, receives int) (near, far *historySide) {
	side := func(sink []byte) *historySide {
		return &historySide{t: t, random: part(), ready: make(chan struct{}), sources: arena[32<<10:], sink: sink, receives: receives}
	}
	near, far = side(arena[:16<<10]), side(arena[16<<10:32<<10])
	near.other, far.other, near.exposes = far, near, true
	return near, far
}

// connectHistory connects the sides, and reports whether that has succeeded for both.
func connectHistory(t *testing.T, p *verbs.Provider, l rdmacm.Listener, near, far *historySide) bool {
	param := func(s *historySide) rdmacm.ConnParam {
		p := rdmacm.ConnParam{Handler: s, Receives: s.receives, MaxReceives: s.receives, ReceiveSize: 1024, OutboundReads: 8}
		if s.exposes {
			p.InboundReads = 8
		}
		return p
	}
	accepted := make(chan rdmacm.Conn)
	stop := make(chan struct{})
	go func() {
		requests := make(chan rdmacm.Request)
		go func() {
			if r, err := l.Accept(); err == nil {
				requests <- r
			} else {
				close(requests)
			}
		}()
		var c rdmacm.Conn
		select {
		case r := <-requests:
			c, _ = r.Accept(param(far))
		case <-stop:
			l.Close()
			if r := <-requests; r != nil {
				r.Reject(nil)
			}
		}
		accepted <- c
	}()
	c, err := p.Dial(t.Context(), l.Addr(), param(near))
	if err == nil {
		near.conn = c
	}
	close(stop)
	if c := <-accepted; c != nil {
		far.conn = c
	}
	for _, s := range []*historySide{near, far} {
		if s.conn != nil {
			if r, err := s.conn.Register(make([]byte, 32<<10), rdmacm.RemoteRead|rdmacm.RemoteWrite); err == nil {
				s.region = r
			}
		}
	}
	close(near.ready)
	close(far.ready)
	return near.conn != nil && far.conn != nil
}

// workAndEnd lets both sides work at once, and ends the connection while they do.
func workAndEnd(random *rand.Rand, d *fakedevice.Device, near, far *historySide) {
	var working sync.WaitGroup
	stop := make(chan struct{})
	for _, s := range []*historySide{near, far} {
		working.Go(func() {
			for range 2000 {
				select {
				case <-stop:
					return
				default:
					s.act()
				}
			}
		})
	}
	time.Sleep(time.Duration(random.IntN(30)) * time.Millisecond)
	ends := []func(){
		func() { near.conn.Abort(nil) },
		func() { far.conn.Disconnect() },
		func() { near.conn.Abort(errors.New("one")); far.conn.Abort(errors.New("other")) },
		func() { d.Remove(random.IntN(2) == 0) },
		func() { d.Raise(device.QPFatal) },
		func() { d.Tell(device.AddrChange) },
		func() { d.Immediate(device.Write, random.IntN(5000)) },
		func() { d.Immediate(device.Send, 1025) },
		func() { d.SetActive(false); time.Sleep(2 * time.Second); d.SetActive(true) },
		func() {
			d.FailPort()
			time.Sleep(100 * time.Millisecond)
			d.SetActive(false)
			time.Sleep(time.Second)
			d.SetActive(true)
		},
		func() { d.Vanish(true); near.conn.Abort(nil); far.conn.Abort(nil) },
		func() { d.Hang(true); near.conn.Abort(nil); far.conn.Abort(nil) },
		func() { d.Hold(true); near.conn.Abort(nil); time.Sleep(time.Second); d.Hold(false) },
		func() { near.conn.Disconnect(); far.conn.Disconnect() },
	}
	ends[random.IntN(len(ends))]()
	time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
	d.Hang(false)
	near.conn.Abort(nil) // not every end above ends both sides
	far.conn.Abort(nil)
	<-near.conn.Done()
	<-far.conn.Done()
	close(stop)
	working.Wait()
}

// audit checks the counts of a side that has ended, and releases the messages that it keeps.
func (s *historySide) audit() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done != s.posted {
		s.t.Errorf("%d chains of %d are done", s.done, s.posted)
	}
	if s.closed != 1 {
		s.t.Errorf("Closed is called %d times", s.closed)
	}
	for _, m := range s.kept {
		m.Release()
	}
	s.kept = nil
}
