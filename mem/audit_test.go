package mem

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/queue"
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
	type sum struct {
		pages, main, small int32
		by                 map[*Group]int32
	}
	shares, clients, groups := map[*Share]*sum{}, map[*Client]*sum{}, map[*Group]*sum{}
	var main, reserve int32
	add := func(s *Share, g *Group, n int32, inMain bool) {
		if shares[s] == nil {
			shares[s] = &sum{by: map[*Group]int32{}}
		}
		if clients[s.client] == nil {
			clients[s.client] = &sum{by: map[*Group]int32{}}
		}
		if groups[g] == nil {
			groups[g] = &sum{}
		}
		for _, of := range []*sum{shares[s], clients[s.client], groups[g]} {
			of.pages += n
			if of.by != nil {
				of.by[g] += n
			}
			if inMain {
				of.main += n
			} else {
				of.small += n
			}
		}
	}
	for _, b := range p.buffers {
		if b.share == nil {
			continue
		}
		if b.page < p.main.total {
			main += b.pages
		} else {
			reserve += b.pages
		}
		add(b.share, b.group, b.pages, b.page < p.main.total)
	}
	if main != p.main.inUse || reserve != p.reserve.inUse {
		return fmt.Errorf("%d and %d pages are in use, counted %d and %d", main, reserve, p.main.inUse, p.reserve.inUse)
	}
	if f := p.current; f != nil {
		add(f.share, f.group, f.need(), true)
	}
	var grouped int32
	var heap int64
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
	same := func(h *holding, is *sum) error {
		if is == nil {
			is = &sum{}
		}
		if h.pages != is.pages {
			return fmt.Errorf("%d pages are held, counted %d", is.pages, h.pages)
		}
		for g, n := range is.by {
			if h.of(g) != n {
				return fmt.Errorf("%d pages of a group are held, counted %d", n, h.of(g))
			}
		}
		for _, in := range h.in {
			if in.pages != is.by[in.group] {
				return fmt.Errorf("%d pages of a group are held, counted %d", is.by[in.group], in.pages)
			}
		}
		return nil
	}
	active := int32(0)
	heaps := map[*Client]int64{}
	for i, s := range p.shares {
		if s.at != i || s.closed {
			return fmt.Errorf("share %d is at %d, closed %v", i, s.at, s.closed)
		}
		if err := same(&s.holding, shares[s]); err != nil {
			return fmt.Errorf("share: %w", err)
		}
		if clients[s.client] == nil {
			clients[s.client] = &sum{}
		}
		heaps[s.client] += s.heap
		heap += s.heap
		if s.pages > p.limit {
			return fmt.Errorf("a share holds %d pages of %d", s.pages, p.limit)
		}
	}
	for c, is := range clients {
		if err := same(&c.holding, is); err != nil {
			return fmt.Errorf("client: %w", err)
		}
		if c.small != is.small {
			return fmt.Errorf("a client holds %d pages of the reserve, counted %d", is.small, c.small)
		}
		if is.pages > 0 || c.queues > 0 {
			active++
		}
		if heaps[c] > c.heap.Held() {
			return fmt.Errorf("a client is charged %d, its shares %d", c.heap.Held(), heaps[c])
		}
	}
	if active != p.active || heap > p.heap.Held() || p.heapPages != pagesIn(p.heap.Held()) {
		return fmt.Errorf("%d clients active, counted %d; %d bytes charged, counted %d", active, p.active, heap, p.heap.Held())
	}
	blamed := 0
	for key, c := range p.clients {
		if c.blamed {
			blamed++
		}
		if c.key != key || c.goneLocked() && !c.blamed {
			return fmt.Errorf("client %v is to be forgotten", key)
		}
	}
	if n := p.blames.Len; n != blamed {
		return fmt.Errorf("%d clients are blamed, counted %d", blamed, n)
	}
	return nil
}

func (p *Pool) auditQueues() error {
	waiting, seen := 0, map[*requestQueue]bool{}
	grouped, ofClient := map[*Group]int{}, map[*Client]int{}
	for _, s := range p.shares {
		for _, q := range s.queues {
			n, pages := 0, int64(0)
			for r := q.First; r != nil; r = r.Next {
				if r.queue != q || r.ready || r.share != s || r.pages <= smallPages != q.small {
					return fmt.Errorf("a request is in another's queue")
				}
				n++
				pages += int64(r.pages)
			}
			if n == 0 || n != q.Len || pages != q.pages || q.share != s || q.in == nil {
				return fmt.Errorf("a queue of %d requests, %d pages: %+v", n, pages, q)
			}
			waiting += n
			seen[q] = true
			grouped[q.group]++
			ofClient[s.client]++
		}
		if s.full != nil && (!seen[s.full] || s.full.share != s) {
			return fmt.Errorf("a share is full for a queue that is gone")
		}
	}
	if waiting != p.waiting {
		return fmt.Errorf("%d requests wait, counted %d", waiting, p.waiting)
	}
	found := 0
	place := func(w *waitingPlace) error {
		clients, rows := map[*Client]bool{}, 0
		for r := w.first(); r != nil; r = r.next() {
			rows++
			if r.place != w || w.rows[r.key] != r || len(r.clients) == 0 {
				return fmt.Errorf("a row is empty, or not where it belongs")
			}
			if w.reserve {
				ranks := *w.ranks(r)
				if r.rank >= len(ranks) || ranks[r.rank] != r || r.rank > 0 && r.ranksBefore(ranks[(r.rank-1)/2]) {
					return fmt.Errorf("a row of the reserve is not at its rank")
				}
			}
			for i, c := range r.clients {
				if c.row != r || c.at != i || c.First == nil || clients[c.client] || r.key != c.client.rowKey() {
					return fmt.Errorf("a client waits twice, or for nothing, or not in the row of its site and its blame")
				}
				least := c.First.need()
				for q := c.First; q != nil; q = q.Next {
					least = min(least, q.need())
				}
				if c.Len > mostNeeds {
					least = 1
				}
				if w.reserve && c.least != c.client.small+least {
					return fmt.Errorf("a client has %d pages of the reserve and wants %d, counted %d", c.client.small, least, c.least)
				}
				if i > 0 && c.less(r.clients[(i-1)/2]) {
					return fmt.Errorf("clients wait in an order that is not that of their turns")
				}
				clients[c.client] = true
				for q := c.First; q != nil; q = q.Next {
					if !seen[q] || q.in != c || q.share.client != c.client || w.group != q.group || w.reserve && !q.small {
						return fmt.Errorf("a queue waits where it does not belong")
					}
					found++
				}
			}
		}
		if n := len(w.ranked[0]) + len(w.ranked[1]); w.reserve && n != rows {
			return fmt.Errorf("%d rows of %d have a rank", n, rows)
		}
		if rows == 0 || rows != len(w.rows) {
			return fmt.Errorf("a group is listed with %d rows of %d", rows, len(w.rows))
		}
		return nil
	}
	for _, list := range []*queue.List[waitingPlace, *waitingPlace]{&p.short, &p.crowded} {
		for w := list.First; w != nil; w = w.Next {
			if err := place(w); err != nil {
				return err
			}
		}
	}
	if found != len(seen) {
		return fmt.Errorf("%d queues wait, %d are in a place", len(seen), found)
	}
	for g, n := range grouped {
		if g.queues != n {
			return fmt.Errorf("a group has %d queues, counted %d", n, g.queues)
		}
	}
	for c, n := range ofClient {
		if c.queues != n {
			return fmt.Errorf("a client has %d queues, counted %d", n, c.queues)
		}
	}
	return nil
}

// auditWaits returns an error if a waiting request could be served.
func (p *Pool) auditWaits() error {
	if p.current != nil && p.main.has(p.current.need()) {
		return fmt.Errorf("there is a block for the request that has the turn")
	}
	for w := p.short.First; w != nil; w = w.Next {
		for r := w.first(); r != nil; r = r.next() {
			q := r.candidate()
			if q == nil {
				continue
			}
			c, n := q.share.client, q.need()
			first := c.mayLocked(q.group, n)
			if p.mayHaveLocked(c.small+n) && p.reserve.has(n) {
				return fmt.Errorf("a small request waits, and the reserve has room for it")
			}
			if p.mayIdleLocked(q) {
				return fmt.Errorf("a small request waits, and the main zone has room for it")
			}
			// A neighbour of the first client may get memory that the first one may not have.
			for _, c := range r.clients {
				if q := c.candidate(); len(r.clients) <= besideMost+1 && q != nil && !first && p.mayIdleLocked(q) {
					return fmt.Errorf("a small request waits behind one that has its part, and the main zone has room for it")
				}
			}
		}
	}
	if p.waiting == 0 && p.starved+p.unfittable > 0 {
		return fmt.Errorf("none waits, and %d and %d queues find no memory", p.starved, p.unfittable)
	}
	for w := p.crowded.First; w != nil && p.current == nil; w = w.Next {
		if w.mayGoOn(p) {
			return fmt.Errorf("a request waits for the main zone, and none has the turn")
		}
	}
	return nil
}

// mayGoOn reports whether a request of the group may have memory of the main zone.
func (w *waitingPlace) mayGoOn(p *Pool) bool {
	for r := w.first(); r != nil; r = r.next() {
		q := r.candidate()
		switch {
		case w.group.blocked && r.waitsForGroup():
			return false
		case q == nil, r.bounded && r.waitsForPart(), !q.share.client.mayLocked(w.group, q.need()):
		case !w.group.roomLocked(q.need()):
			return false
		default:
			return true
		}
	}
	return false
}

// candidate is candidateLocked, by looking at all clients of the row.
func (r *siteRow) candidate() (next *requestQueue) {
	for _, c := range r.clients {
		if q := c.candidate(); q != nil && (next == nil || c.less(next.in)) {
			next = q
		}
	}
	return next
}

func (c *clientQueue) candidate() *requestQueue {
	for q := c.First; q != nil; q = q.Next {
		s, p, n := q.share, q.share.pool, q.need()
		full := s.fullLocked() != nil && s.full != q || !s.roomLocked(n)
		if !full && (c.row.place.reserve || n <= p.fits || p.main.has(n)) {
			return q
		}
	}
	return nil
}

// waitsForPart reports whether a request of the row waits for the part of its client, and waitsForGroup whether one
// waits for the limit of the group. It may not be the candidate any more: its share may have reached its limit
// since.
func (r *siteRow) waitsForPart() bool {
	return r.any(func(q *requestQueue) bool { return !q.share.client.mayLocked(q.group, q.need()) })
}

func (r *siteRow) waitsForGroup() bool {
	return r.any(func(q *requestQueue) bool { return !q.group.roomLocked(q.need()) })
}

func (r *siteRow) any(is func(*requestQueue) bool) bool {
	for _, c := range r.clients {
		for q := c.First; q != nil; q = q.Next {
			if is(q) {
				return true
			}
		}
	}
	return false
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
