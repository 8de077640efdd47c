package state

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// A Later says what a request waits for: the disk of the records, the end of a Hold, or the end of a host that has
// restarted. It waits for the disk if a client's record must be written, or clients whose leases ran out must be evicted.
// A method of the Manager that gets a Later does not wait: it returns AfterDisk (Ask: Delayed), and the caller calls
// Await. So such a request keeps no goroutine.
type Later struct {
	m      *Manager // nil if the request waits for a Hold
	record *Client
	expel  []*Client
	hold   *Hold
	ended  *Client
}

// Await begins to wait, and calls again when the caller is to repeat the request: exactly once, on any
// goroutine, perhaps before Await returns. Afterwards l may be used again.
func (l *Later) Await(again func()) {
	e := errand{*l, again}
	*l = Later{}
	if h := e.hold; h != nil {
		h.await(again)
		return
	}
	if c := e.ended; c != nil {
		g := e.m.acquire()
		waits := g.afterEnd(c, again)
		if g.release(); !waits {
			again()
		}
		return
	}
	e.m.errands.add(&e)
}

// Disk is the lane (rpc.Call.Resume) of calls that wait for the disk of the records on a worker: those that
// make or end a client.
type Disk struct{}

// An errand is a Later for which a request waits.
type errand struct {
	Later
	again func()
}

// errands executes what requests wait for: one goroutine, which exists while there is something to do.
// What comes meanwhile shares its next writes.
type errands struct {
	mu    sync.Mutex
	next  []*errand
	begun bool
}

func (q *errands) add(e *errand) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.next = append(q.next, e)
	if !q.begun {
		q.begun = true
		go q.run(e.m)
	}
}

func (q *errands) run(m *Manager) {
	for {
		q.mu.Lock()
		some := q.next
		q.next, q.begun = nil, len(some) > 0
		q.mu.Unlock()
		if len(some) == 0 {
			return
		}
		m.execute(some)
		for _, e := range some {
			e.again()
		}
	}
}

func (m *Manager) execute(some []*errand) {
	records, expel := make(map[*Client]struct{}), make(map[*Client]struct{})
	for _, e := range some {
		if e.record != nil {
			records[e.record] = struct{}{}
		}
		for _, c := range e.expel {
			expel[c] = struct{}{}
		}
	}
	if len(records) > 0 {
		m.record(slices.Collect(maps.Keys(records))...)
	}
	if len(expel) > 0 {
		_ = m.expel(expel)
	}
}

// After a failed write of the records, requests that need the records are refused for this time: long enough
// for those that have waited for the write to be repeated, and so to hear of the failure. Then requests try
// again.
const afterFailure = 100 * time.Millisecond

// failingLocked reports whether the records could not be written a short time ago. The caller holds m.mu.
func (m *Manager) failingLocked() bool { return m.failed != 0 && m.now()-m.failed < afterFailure }

// waits stores in later that a request waits for the eviction of the clients in late. It returns false if
// the request is not to wait, because the records cannot be written.
func (m *Manager) waits(later *Later, late *courtesy) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failingLocked() {
		return false
	}
	*later = Later{m: m, expel: slices.Collect(maps.Keys(late.clients))}
	return true
}

// wrote notes whether a write of the records succeeded, and returns its error.
func (m *Manager) wrote(err error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failed = 0; err != nil {
		m.failed = max(m.now(), 1)
	}
	return err
}
