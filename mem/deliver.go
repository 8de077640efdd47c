package mem

// settleLocked makes r ready: the pool will call Granted with b or err.
func (p *Pool) settleLocked(r *waiter, b *Buffer, err error) {
	r.ready, r.buffer, r.err = true, b, err
	r.share.owed++
	p.ready.Add(r)
}

// deliveries is how many Granted calls one goroutine makes before another goroutine takes over,
// so that a caller of Release is not delayed for long.
const deliveries = 16

// deliverAndUnlock starts the sweeper if it is needed, unlocks p.mu and calls Granted of all ready
// requests. Only one goroutine at a time makes these calls. So they come in the order of the
// grants, and a Granted that releases memory does not recurse.
func (p *Pool) deliverAndUnlock() {
	if p.waiting > 0 || p.Pressed() {
		p.watchLocked()
	}
	if p.delivering || p.ready.First == nil {
		p.mu.Unlock()
		return
	}
	p.delivering = true
	p.drainAndUnlock()
}

// drainAndUnlock makes the calls for deliverAndUnlock. It runs on the goroutine that set
// p.delivering, or on a goroutine that continues its work.
func (p *Pool) drainAndUnlock() {
	for n := 0; p.ready.First != nil; n++ {
		if n == deliveries {
			p.mu.Unlock()
			go func() {
				p.mu.Lock()
				p.drainAndUnlock()
			}()
			return
		}
		w := p.ready.First
		p.ready.Remove(w)
		r, b, err := w.request, w.buffer, w.err
		w.share.owed--
		*w = waiter{}
		p.mu.Unlock()
		r.Granted(r, b, err)
		p.mu.Lock()
	}
	p.delivering = false
	p.mu.Unlock()
}
