package mem

// The functions in this file are called with p.mu held; deliver and drain unlock it.
//
// settle makes r ready: Granted will be called with b or err.
func (p *Pool) settle(r *Request, b *Buffer, err error) {
	r.place, r.buffer, r.err = inReady, b, err
	r.share.owed++
	p.ready.push(r)
}

// deliveries is how many Granted calls one goroutine makes before another goroutine takes over,
// so that a caller of Release is not delayed for long.
const deliveries = 16

// deliver unlocks p.mu and calls Granted of all ready requests. Only one goroutine at a time does
// that: so the calls come in the order of the grants, and a Granted that releases memory does not
// recurse.
func (p *Pool) deliver() {
	if p.waiting > 0 || p.short {
		p.watch()
	}
	if p.delivering || p.ready.head == nil {
		p.mu.Unlock()
		return
	}
	p.delivering = true
	p.drain()
}

// drain is deliver's loop, for the goroutine that set p.delivering.
func (p *Pool) drain() {
	for n := 0; p.ready.head != nil; n++ {
		if n == deliveries {
			p.mu.Unlock()
			go func() {
				p.mu.Lock()
				p.drain()
			}()
			return
		}
		r := p.ready.head
		p.ready.remove(r)
		b, err := r.buffer, r.err
		r.share.owed--
		r.queued = queued{}
		p.mu.Unlock()
		r.Granted(r, b, err)
		p.mu.Lock()
	}
	p.delivering = false
	p.mu.Unlock()
}
