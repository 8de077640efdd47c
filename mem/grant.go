package mem

// The functions here are called with p.mu held.

// charge adds n pages to the holdings of s, its client and g. main: they are pages of the main
// zone.
func (p *Pool) charge(s *Share, g *Group, n int32, main bool) {
	if g.held == 0 {
		g.since = p.tick
	}
	g.hold(n, main)
	s.add(g, n)
	c := s.client
	if c.add(g, n); c.pages == n && c.lines == 0 {
		p.active++
	}
}

// discharge undoes charge.
func (p *Pool) discharge(s *Share, g *Group, n int32, main bool) {
	s.add(g, -n)
	c := s.client
	if c.add(g, -n); c.pages == 0 && c.lines == 0 {
		p.active--
		if c.shares == 0 {
			c.forget()
		}
	}
	g.hold(-n, main)
}

// takeIdle takes n pages of the main zone for a request of g, unless a line waits for them.
func (p *Pool) takeIdle(g *Group, n int32) (extent, bool) {
	if p.front != nil || p.large.head != nil || g.crowds() || !g.room(n) {
		return extent{}, false
	}
	return p.takeMain(n)
}

// enqueue puts r at the end of its line. A line without requests is opened first.
func (p *Pool) enqueue(r *Request, g *Group) {
	small := r.pages <= smallPages
	l := r.share.line(g, small)
	first := l == nil
	if first {
		l = p.open(r.share, g, small)
	}
	l.push(r)
	l.pages += int64(r.pages)
	l.count++
	r.line, r.place = l, inLine
	p.waiting++
	if first {
		p.stand(l)
	}
}

// dequeue takes r out of its line and closes the line if it is empty. The caller has to serve the
// lines that waited behind it.
func (p *Pool) dequeue(r *Request) (empty bool) {
	l := r.line
	l.remove(r)
	l.pages -= int64(r.pages)
	l.count--
	r.line = nil
	p.waiting--
	if l.head != nil {
		return false
	}
	p.leave(l)
	p.close(l)
	return true
}

// stand puts a line into the queue where it has to wait.
func (p *Pool) stand(l *line) {
	switch g := l.group; {
	case p.park(l):
	case l.small:
		p.join(&p.small, l)
	case g.crowds() || !g.room(l.head.pages):
		p.crowd(g, l)
	default:
		p.join(&p.large, l)
	}
}

// park moves l to its share's list if the share has no room for its first request. It returns
// false otherwise.
func (p *Pool) park(l *line) bool {
	s := l.share
	if s.full == nil || s.full == l {
		if s.room(l.head.pages) {
			return false
		}
		s.full = l
	}
	p.step(l)
	s.parked.push(l)
	return true
}

// step takes l out of its list, so that it can wait elsewhere. If l had its group's turn, it
// gives the turn up and returns true.
func (p *Pool) step(l *line) (next bool) {
	if l.in != nil {
		p.leave(l)
	}
	if l.group.next != l {
		return false
	}
	l.group.next = nil
	p.passed = true
	return true
}

// let lets the other lines of l's share continue, because l waits for something other than its
// share.
func (p *Pool) let(l *line) {
	if s := l.share; s.full == l {
		s.full = nil
		p.unpark(s)
	}
}

// unpark lets the parked lines of s continue if there is room. The line s.full comes before any
// other.
func (p *Pool) unpark(s *Share) {
	for l := s.parked.head; l != nil; {
		if s.full != nil {
			if l = s.full; l.in != &s.parked {
				return
			}
		}
		if !s.room(l.head.pages) {
			s.full = l
			return
		}
		p.leave(l)
		p.stand(l)
		l = s.parked.head
	}
}

// goOn lets lines continue after s returned memory.
func (p *Pool) goOn(s *Share) {
	p.unpark(s)
	p.admitAll()
	p.grant()
}

// grant serves all lines that can be served.
func (p *Pool) grant() {
	if p.waiting == 0 {
		return
	}
	if p.aside.head != nil {
		p.recall()
	}
	// A small line that was served may let a large line of its share continue.
	for again := true; again; {
		for p.grantMain() {
		}
		if p.passed {
			p.passed = false
			p.admitAll()
		}
		again = p.grantSmall()
	}
}

// grantMain serves the front, the line whose turn it is in the main zone. The front is charged
// for its first request and keeps its turn until a block is free; meanwhile no other line gets
// pages of the main zone.
func (p *Pool) grantMain() bool {
	if p.front == nil {
		l := p.choose()
		if l == nil {
			return false
		}
		p.charge(l.share, l.group, l.head.pages, true)
		p.front, p.frontTick = l, p.tick
	}
	l := p.front
	e, ok := p.takeMain(l.head.pages)
	if !ok {
		return false
	}
	p.front = nil
	p.serve(l, e)
	return true
}

// choose returns the next line of p.large: the first one of a client within its fair part, or
// without such a client the first one. It moves lines that have to wait elsewhere.
func (p *Pool) choose() *line {
	for {
		var within, first *line
		p.large.each(func(l *line) bool {
			g, n := l.group, l.head.pages
			switch {
			case p.park(l):
			case g.next != l && g.crowds() || !g.room(n):
				p.crowd(g, l)
			case n > p.fits && !p.main.has(n):
				p.setAside(l)
			case l.share.client.within(g, n):
				within = l
				return false
			case first == nil:
				first = l
			}
			return true
		})
		if within == nil {
			within = first
		}
		// Moving lines away may have let others in.
		if within != nil || p.large.head == nil && !p.passed {
			return within
		}
		p.passed = false
		p.admitAll()
	}
}

// grantSmall serves small lines, from the main zone if no line waits for that, otherwise from the
// reserve. It returns false if it served none.
func (p *Pool) grantSmall() (any bool) {
	for again := true; again; any = any || again {
		again = false
		for t := p.small.head; t != nil; {
			after := t.next
			again = p.grantTurn(t) || again
			t = after
		}
	}
	return any
}

// grantTurn serves one line of a turn in p.small. It returns false if it cannot serve any.
func (p *Pool) grantTurn(t *turn) bool {
	for l := t.lines.head; l != nil; {
		next := l.next
		if !p.park(l) {
			s, g, n := l.share, l.group, l.head.pages
			e, ok := p.takeIdle(g, n)
			if !ok {
				e, ok = p.takeReserve(s.client, n)
			}
			if ok {
				p.charge(s, g, n, e.page < p.main.total)
				p.serve(l, e)
				return true
			}
		}
		l = next
	}
	return false
}

// serve gives e, which is charged already, to the first request of l.
func (p *Pool) serve(l *line, e extent) {
	s, g, r := l.share, l.group, l.head
	next, full := g.next == l, s.full == l
	l.served()
	if !p.dequeue(r) && l.small && l.turn.queue == &p.large {
		p.leave(l)
		p.join(&p.small, l)
	}
	p.settle(r, p.buffer(s, g, e, r.Size), nil)
	if full {
		s.full = nil
		p.unpark(s)
	}
	if next {
		g.next = nil
		p.admit(g)
	}
}

// withdraw takes a waiting request out, for Cancel and Close.
func (p *Pool) withdraw(r *Request) {
	l := r.line
	s, g := l.share, l.group
	if l.head != r {
		p.dequeue(r)
		return
	}
	if p.front == l {
		p.front = nil
		p.discharge(s, g, r.pages, true)
	}
	if s.full == l {
		s.full = nil
	}
	if g.next == l {
		g.next = nil
	}
	if !p.dequeue(r) {
		// The line's next request may not have to wait where this one did.
		p.leave(l)
		p.stand(l)
	}
}

// shut closes s. All its waiting requests get ErrClosed.
func (p *Pool) shut(s *Share) {
	if s.closed {
		return
	}
	s.closed = true
	last := len(p.shares) - 1
	p.shares[s.at], p.shares[last].at = p.shares[last], s.at
	p.shares[last] = nil
	p.shares = p.shares[:last]
	for s.lines != nil {
		r := s.lines.head
		p.withdraw(r)
		p.refused++
		p.settle(r, nil, ErrClosed)
	}
	s.client.shares--
	s.client.forget()
	p.admitAll()
}
