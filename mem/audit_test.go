package mem

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"
)

// audit recomputes a pool's counters from its Buffers and requestQueues. It returns the first
// error: a wrong sum, an exceeded limit, a wrong queue, or a queue that waits although it could be
// served.
func (p *Pool) audit() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.auditSums(); err != nil {
		return err
	}
	if err := p.auditQueues(); err != nil {
		return err
	}
	return p.auditWaits()
}

func (p *Pool) auditSums() error {
	type sum struct{ pages, main, small int32 }
	shares, clients, groups := map[*Share]sum{}, map[*client]sum{}, map[*Group]sum{}
	var all sum
	for _, b := range p.buffers {
		if b.share == nil {
			continue
		}
		is := sum{pages: b.pages, small: b.pages}
		if b.page < p.main.total {
			is = sum{pages: b.pages, main: b.pages}
		}
		plus := func(a sum) sum { return sum{a.pages + is.pages, a.main + is.main, a.small + is.small} }
		all = plus(all)
		shares[b.share], clients[b.share.client], groups[b.group] = plus(shares[b.share]), plus(clients[b.share.client]), plus(groups[b.group])
	}
	if all.main != p.main.inUse || all.small != p.reserve.inUse {
		return fmt.Errorf("%d and %d pages are in use, counted %d and %d", all.main, all.small, p.main.inUse, p.reserve.inUse)
	}
	var grouped int32
	for g, is := range groups {
		if g.held != is.pages || g.main != is.main {
			return fmt.Errorf("a group holds %d pages, %d of the main zone; counted %d and %d", is.pages, is.main, g.held, g.main)
		}
		if g != &p.ungrouped {
			grouped += is.main
		}
	}
	if grouped != p.grouped {
		return fmt.Errorf("groups hold %d pages of the main zone, counted %d", grouped, p.grouped)
	}
	var heap int64
	heaps := map[*client]int64{}
	for i, s := range p.shares {
		if s.at != i || s.closed {
			return fmt.Errorf("share %d is at %d, closed %v", i, s.at, s.closed)
		}
		if s.pages != shares[s].pages || s.pages > p.limit {
			return fmt.Errorf("a share holds %d pages of %d, counted %d", shares[s].pages, p.limit, s.pages)
		}
		if _, ok := clients[s.client]; !ok {
			clients[s.client] = sum{}
		}
		heaps[s.client] += s.heap
		heap += s.heap
	}
	for c, is := range clients {
		if c.pages != is.pages || c.small != is.small {
			return fmt.Errorf("a client holds %d pages, %d of the reserve; counted %d and %d", is.pages, is.small, c.pages, c.small)
		}
		if heaps[c] > c.heap.Load() {
			return fmt.Errorf("a client is charged %d, its shares %d", c.heap.Load(), heaps[c])
		}
	}
	if heap > p.heap.Load() || p.heapPages != pagesIn(p.heap.Load()) {
		return fmt.Errorf("%d bytes charged, counted %d", heap, p.heap.Load())
	}
	for key, c := range p.clients {
		if c.key != key || c.shares == 0 && c.pages == 0 && c.heap.Load() == 0 {
			return fmt.Errorf("client %v is to be forgotten", key)
		}
	}
	return nil
}

func (p *Pool) auditQueues() error {
	waiting, small, queues := 0, 0, 0
	for _, s := range p.shares {
		for i, q := range s.queues {
			n, pages := 0, int64(0)
			for r := q.First; r != nil; r = r.Next {
				if r.queue != q || r.share != s || r.pages <= smallPages != q.small {
					return fmt.Errorf("a request is in another's queue")
				}
				n++
				pages += int64(r.pages)
			}
			if n == 0 || n != q.Len || pages != q.pages || q.share != s {
				return fmt.Errorf("a queue of %d requests, %d pages: %+v", n, pages, q)
			}
			if i > 0 && q.round <= s.queues[i-1].round || q.round > s.client.round {
				return fmt.Errorf("the queues of a share have turns in wrong rounds")
			}
			if !slices.Contains(q.group.queues, q) || !slices.Contains(p.crowded, q.group) || q.small != slices.Contains(p.small, q) {
				return fmt.Errorf("a queue waits where it does not belong")
			}
			waiting += n
			queues++
			if q.small {
				small++
			}
		}
	}
	if waiting != p.waiting {
		return fmt.Errorf("%d requests wait, counted %d", waiting, p.waiting)
	}
	for _, g := range p.crowded {
		if len(g.queues) == 0 || !slices.IsSortedFunc(g.queues, byTurn) {
			return fmt.Errorf("a group is listed, and nothing waits in it, or not in the order of turns")
		}
		queues -= len(g.queues)
	}
	if queues != 0 || small != len(p.small) || !slices.IsSortedFunc(p.small, byTurn) {
		return fmt.Errorf("%d queues are listed nowhere, %d small ones in a list of %d", queues, small, len(p.small))
	}
	return nil
}

func byTurn(a, b *requestQueue) int { return a.compare(b.turn) }

// auditWaits returns an error if a waiting request could be served.
func (p *Pool) auditWaits() error {
	mainHas := func(n int32) bool { return int64(p.main.inUse+n)+p.heapPages <= int64(p.main.total) && p.main.has(n) }
	if p.next != nil && mainHas(p.next.need()) {
		return fmt.Errorf("there is a block for the request that is next")
	}
	if p.waiting == 0 && p.unfittable > 0 {
		return fmt.Errorf("none waits, and %d queues find no memory", p.unfittable)
	}
	for _, q := range p.small {
		if q.share.fitsLocked(q, q.need()) && p.mayTakeLocked(q.share.client, q.need()) && p.reserve.has(q.need()) {
			return fmt.Errorf("a small request waits, and the reserve has room for it")
		}
	}
	if p.next == nil && p.nextLocked() != nil {
		return fmt.Errorf("a request waits for the main zone, and none is next")
	}
	return nil
}

// audited fails the test if audit finds an error.
func audited(t testing.TB, p *Pool) {
	t.Helper()
	if err := p.audit(); err != nil {
		t.Fatal(err)
	}
}

// A failer is a testing.TB, or a rapid.T.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// delivered waits until Granted was called for every grant. The wait is needed because another
// goroutine calls Granted if there are many grants.
func delivered(t failer, p *Pool) {
	t.Helper()
	becomes(t, "what was granted is delivered", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return !p.delivering
	})
}

// becomes waits until a condition holds that other goroutines bring about. It fails the test after
// 20 s.
func becomes(t failer, what string, holds func() bool) {
	t.Helper()
	for began := time.Now(); !holds(); runtime.Gosched() {
		if time.Since(began) > 20*time.Second {
			t.Fatalf("waited 20 s in vain until %s", what)
		}
	}
}
