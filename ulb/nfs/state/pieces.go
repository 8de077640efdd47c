package state

import "runtime"

// A piecewise does long work under the Manager's mutex in pieces: it releases the mutex between two pieces, and each piece
// does little (pieceSteps), so that the work delays no request. After each piece it tells the clients that get the locks that
// have become free, because these are reserved for a short time (reservation). All other work that its guard has collected
// comes at the end: it may wait for file systems, and the caller may hold Manager.recording until then.
type piecewise struct {
	*guard
	// steps are those of this piece, and all tells what the earlier ones did.
	steps int
	all   pieces
	// between, unless it is nil, is called after each piece, without the mutex. If it returns false, the work stops.
	between func() bool
	stopped bool
	// whole is true if the caller needs the work to be done in one piece.
	whole bool
	// freed are files in which locks have ended in this piece, and waiters is how many wait there.
	freed   map[*file]struct{}
	waiters int
}

// inPieces takes the mutex. The caller calls end.
func (m *Manager) inPieces(between func() bool) *piecewise {
	return &piecewise{guard: m.acquire(), between: between}
}

// end releases the mutex, and does the collected work.
func (p *piecewise) end() pieces {
	p.pause()
	p.finish()
	return p.all
}

// room returns how many steps this piece has left. However many wait in a file, half a piece goes to other work.
func (p *piecewise) room() int { return pieceSteps - p.steps - min(p.waiters, pieceSteps/2) }

// step counts n steps. If the piece has then done enough, step releases the mutex for a while. So after step the caller checks
// again what it knows of the state, unless nothing else can change it.
func (p *piecewise) step(n int) {
	if p.steps += n; p.room() <= 0 {
		p.yield()
	}
}

// yield ends a piece and begins the next one.
func (p *piecewise) yield() {
	if p.whole || p.stopped {
		return
	}
	p.pause()
	runtime.Gosched()
	p.mu.Lock()
}

// pause ends a piece, and releases the mutex.
func (p *piecewise) pause() {
	p.offer()
	p.endIdle()
	did := p.steps + p.waiters
	p.files.did.add(did)
	p.mu.Unlock()
	p.sendNotices()
	p.all.add(did)
	p.steps, p.waiters = 0, 0
	if p.between != nil && !p.stopped && !p.between() {
		p.stopped = true
	}
}

// frees notes that locks, or waiters, in a file are about to end, or have ended. Each file is searched once at the end of
// the piece. If this piece has other files with many waiters to search, frees ends it.
func (p *piecewise) frees(of *file) {
	if _, known := p.freed[of]; known || len(of.waiting) == 0 {
		return
	}
	if len(p.freed) > 0 && p.waiters+len(of.waiting) > pieceSteps {
		p.yield()
	}
	if p.freed == nil {
		p.freed = make(map[*file]struct{})
	}
	p.freed[of] = struct{}{}
	p.waiters += len(of.waiting)
}

// offer offers to the waiters the locks that have become free in this piece.
func (p *piecewise) offer() {
	for of := range p.freed {
		p.released(of)
	}
	clear(p.freed)
}

// eachOpen calls f for the opens of the clients that those selects. f may end the open. An open that begins meanwhile may
// be left out.
func (m *Manager) eachOpen(clients []*Client, those func(*State) bool, between func() bool, f func(p *piecewise, s *State)) {
	p := m.inPieces(between)
	defer p.end()
	for _, c := range clients {
		// Between two pieces other goroutines may change the map. The language permits that.
		for s := range c.holding.states {
			if p.stopped {
				return
			}
			if s.Kind == KindOpen && those(s) {
				f(p, s)
			}
			p.step(1)
		}
		p.step(1)
	}
}

// endOpen ends an open, which no request can use any more, and all locks made through it.
func (p *piecewise) endOpen(s *State) {
	p.endLocks(s)
	if s.file != nil && s.waiters > 0 {
		p.frees(s.file)
	}
	if s.file == nil {
		return // another goroutine has ended it between two pieces
	}
	p.guard.endOpen(s)
	p.step(1)
}

// endLocks ends all locks made through an open.
func (p *piecewise) endLocks(s *State) {
	for _, lock := range s.locks {
		for lock.file != nil {
			if p.frees(lock.file); lock.file != nil {
				p.step(p.endPart(lock, max(1, p.room())))
			}
		}
	}
}

// endPart ends a lock stateid if it has no more than this number of ranges (room), or else so many of them. It returns how
// many steps it took.
func (p *piecewise) endPart(s *State, room int) (steps int) {
	ranges := s.held.Ranges()
	if len(ranges) < room || p.whole {
		p.endLock(s)
		return 1 + len(ranges)
	}
	p.giveUpLater(s.Key, ranges[:room])
	p.counted(s, s.file.locked.Unlock(&s.held, ranges[0].First, ranges[room-1].Last))
	return room
}

// empty removes all state of c, which is gone, or about to be removed (lease.ending).
func (p *piecewise) empty(c *Client) {
	for of := range c.holding.waiting {
		p.step(len(of.waiting))
		of.unqueue(p.guard, func(w *waiter) bool { return w.Client == c })
		p.frees(of) // its place in the queue may have kept others waiting
	}
	for s := range c.holding.states {
		if s.Kind == KindOpen {
			p.endOpen(s)
		}
		p.step(1)
	}
	for _, o := range c.holding.owners {
		p.forgetOwner(o)
		p.step(1)
	}
	for s := range c.holding.revoked {
		p.files.slab.remove(s)
		p.chargeRevoked(c, -1)
		delete(c.holding.revoked, s)
		p.step(1)
	}
	c.holding.idle = nil
}

// drain ends all state of c, which is about to be removed. From the first piece on, c can use nothing of it, and gets nothing.
func (p *piecewise) drain(c *Client) {
	c.known.dying.Store(true)
	c.known.ending.Store(true)
	p.empty(c)
}

// dropAll removes all state of c, which is gone, in one piece.
func (g *guard) dropAll(c *Client) {
	p := piecewise{guard: g, whole: true}
	p.empty(c)
	p.offer()
}
