package rdma

// pending holds the sent and unanswered calls of one connection, by XID. XIDs are
// consecutive, so nearly every call has a slot of its own; a call whose slot is taken goes
// into the map. The zero value has one slot.
type pending struct {
	size   int // number of slots, a power of 2
	slots  []*exchange
	others map[uint32]*exchange
	n      int
}

// mostSlots is the largest number of slots of one connection, however many credits it requests.
const mostSlots = 1024

// newPending returns an empty table with at least as many slots as calls, but at most mostSlots.
// The first insert allocates the slots.
func newPending(calls int) pending {
	p := pending{size: 1}
	for p.size < min(calls, mostSlots) {
		p.size *= 2
	}
	return p
}

// of returns the call with the given XID, or nil.
func (p *pending) of(xid uint32) *exchange {
	if p.n == 0 {
		return nil
	}
	if e := p.slots[xid&uint32(p.size-1)]; e != nil && e.xid == xid {
		return e
	}
	return p.others[xid]
}

// insert adds e. p must not contain a call with the same XID.
func (p *pending) insert(e *exchange) {
	if p.slots == nil {
		p.slots = make([]*exchange, max(p.size, 1))
		p.size = len(p.slots)
	}
	p.n++
	if at := &p.slots[e.xid&uint32(p.size-1)]; *at == nil {
		*at = e
		return
	}
	if p.others == nil {
		p.others = make(map[uint32]*exchange)
	}
	p.others[e.xid] = e
}

// remove takes out the call with the given XID, which must be in p.
func (p *pending) remove(xid uint32) {
	p.n--
	if at := &p.slots[xid&uint32(p.size-1)]; *at != nil && (*at).xid == xid {
		*at = nil
		return
	}
	delete(p.others, xid)
}

// The method all passes each call to f. f may remove the call that it gets.
func (p *pending) all(f func(e *exchange)) {
	for _, e := range p.slots {
		if e != nil {
			f(e)
		}
	}
	for _, e := range p.others {
		f(e)
	}
}
