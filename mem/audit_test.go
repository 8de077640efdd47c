package mem

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

// audit compares all that a pool keeps account of with its Buffers and lines,
// and says what is wrong: sums, limits, queues, and lines that wait although
// they could be served.
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
	if f := p.front; f != nil {
		add(f.share, f.group, f.head.pages, true)
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
		if is.pages > 0 || c.lines > 0 {
			active++
		}
		if heaps[c] > c.heap.Load() {
			return fmt.Errorf("a client is charged %d, its shares %d", c.heap.Load(), heaps[c])
		}
	}
	if active != p.active || heap > p.heap.Load() || p.heapPages != pagesIn(p.heap.Load()) {
		return fmt.Errorf("%d clients active, counted %d; %d bytes charged, counted %d", active, p.active, heap, p.heap.Load())
	}
	for key, c := range p.clients {
		if c.key != key || c.gone() && !c.blamed {
			return fmt.Errorf("client %v is to be forgotten", key)
		}
	}
	return nil
}

func (p *Pool) auditQueues() error {
	waiting, seen := 0, map[*line]bool{}
	grouped, ofClient := map[*Group]int{}, map[*Client]int{}
	for _, s := range p.shares {
		for l := s.lines; l != nil; l = l.mate {
			n, pages := 0, int64(0)
			for r := l.head; r != nil; r = r.next {
				if r.line != l || r.place != inLine || r.share != s || r.pages <= smallPages != l.small {
					return fmt.Errorf("a request is in another's line")
				}
				n++
				pages += int64(r.pages)
			}
			if n == 0 || n != l.count || pages != l.pages || l.share != s || l.in == nil {
				return fmt.Errorf("a line of %d requests, %d pages: %+v", n, pages, l)
			}
			waiting += n
			seen[l] = true
			grouped[l.group]++
			ofClient[s.client]++
		}
	}
	if waiting != p.waiting {
		return fmt.Errorf("%d requests wait, counted %d", waiting, p.waiting)
	}
	found := 0
	walk := func(q *lines) error {
		var last *line
		for l := q.head; l != nil; l = l.next {
			if !seen[l] || l.in != q || l.prev != last {
				return fmt.Errorf("a line stands where it does not")
			}
			found++
			last = l
		}
		if q.tail != last {
			return fmt.Errorf("a list has another end")
		}
		return nil
	}
	turns := func(q *queue) error {
		var last *turn
		clients := map[*Client]bool{}
		for t := q.head; t != nil; t = t.next {
			if t.queue != q || t.prev != last || t.lines.head == nil || clients[t.client] {
				return fmt.Errorf("a turn that is none")
			}
			clients[t.client] = true
			if err := walk(&t.lines); err != nil {
				return err
			}
			for l := t.lines.head; l != nil; l = l.next {
				if l.turn != t || l.share.client != t.client {
					return fmt.Errorf("a line has another's turn")
				}
			}
			last = t
		}
		if q.tail != last {
			return fmt.Errorf("a queue has another end")
		}
		return nil
	}
	for _, q := range []*queue{&p.large, &p.small} {
		if err := turns(q); err != nil {
			return err
		}
	}
	for _, g := range p.crowded {
		if !g.listed {
			return fmt.Errorf("a crowded group is not listed")
		}
		if err := turns(&g.waiting); err != nil {
			return err
		}
		if g.next != nil && !seen[g.next] {
			return fmt.Errorf("a group's turn is of a line that is gone")
		}
	}
	for _, s := range p.shares {
		if err := walk(&s.parked); err != nil {
			return err
		}
		if s.full != nil && (!seen[s.full] || s.full.share != s) {
			return fmt.Errorf("a share is full for a line that is gone")
		}
	}
	if err := walk(&p.aside); err != nil {
		return err
	}
	if found != len(seen) {
		return fmt.Errorf("%d lines wait, %d stand somewhere", len(seen), found)
	}
	for g, n := range grouped {
		if g.lines != n {
			return fmt.Errorf("a group has %d lines, counted %d", n, g.lines)
		}
	}
	for c, n := range ofClient {
		if c.lines != n {
			return fmt.Errorf("a client has %d lines, counted %d", n, c.lines)
		}
	}
	return nil
}

// auditWaits looks for lines that could go on.
func (p *Pool) auditWaits() error {
	if p.front != nil {
		if int64(p.main.inUse+p.front.head.pages)+p.heapPages <= int64(p.main.total) && p.main.has(p.front.head.pages) {
			return fmt.Errorf("there is a block for the front")
		}
	} else if p.large.head != nil {
		return fmt.Errorf("a line waits for the main zone, and none has the turn")
	}
	for t := p.small.head; t != nil; t = t.next {
		for l := t.lines.head; l != nil; l = l.next {
			s, g, n := l.share, l.group, l.head.pages
			if !s.room(n) {
				continue // its share is found full when it has its turn
			}
			if p.mayTake(s.client, n) && p.reserve.has(n) {
				return fmt.Errorf("a small line waits, and the reserve has room for it")
			}
			if p.front == nil && !g.crowds() && g.room(n) && int64(p.main.inUse+n)+p.heapPages <= int64(p.main.total) && p.main.has(n) {
				return fmt.Errorf("a small line waits, and the main zone has room for it")
			}
		}
	}
	for l := p.aside.head; l != nil; l = l.next {
		if p.front == nil && p.main.has(l.head.pages) {
			return fmt.Errorf("there is a block for a line that was set aside")
		}
	}
	for _, g := range p.crowded {
		if l := g.waiting.first(); l != nil && g.next == nil && g.room(l.head.pages) {
			return fmt.Errorf("a group has room for the line that has its turn")
		}
	}
	for _, s := range p.shares {
		if s.full == nil || s.full.in == &s.parked {
			for l := s.parked.head; l != nil; l = l.next {
				if s.room(l.head.pages) && (s.full == nil || s.full == l) {
					return fmt.Errorf("a share has room for a line that it holds back")
				}
			}
		}
	}
	return nil
}

// audited fails the test if something is wrong with the pool's account.
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

// delivered waits until Granted was called for all that was granted: beyond some,
// another goroutine does that.
func delivered(t failer, p *Pool) {
	t.Helper()
	becomes(t, "what was granted is delivered", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return !p.delivering
	})
}

// becomes waits until something holds that other goroutines bring about, and
// fails the test if it takes absurdly long.
func becomes(t failer, what string, holds func() bool) {
	t.Helper()
	for began := time.Now(); !holds(); runtime.Gosched() {
		if time.Since(began) > 20*time.Second {
			t.Fatalf("waited 20 s in vain until %s", what)
		}
	}
}
