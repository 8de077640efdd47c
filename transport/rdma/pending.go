package rdma

// pending are the calls of one connection that were sent and are not answered, by
// XID. XIDs follow each other, so that nearly always each call has a slot of its own;
// a call that finds its slot taken goes to the map. The zero value has room for one.
type pending struct {
	size   int // of slots, a power of 2
	slots  []*exchange
	others map[uint32]*exchange
	n      int
}

// mostSlots bounds the slots of one connection, whatever credits are asked for.
const mostSlots = 1024

// newPending has slots for so many calls at a time, once there is one.
func newPending(calls int) pending {
	p := pending{size: 1}
	for p.size < min(calls, mostSlots) {
		p.size *= 2
	}
	return p
}

// of is the call with this XID, or nil.
func (p *pending) of(xid uint32) *exchange {
	if p.n == 0 {
		return nil
	}
	if e := p.slots[xid&uint32(p.size-1)]; e != nil && e.xid == xid {
		return e
	}
	return p.others[xid]
}

// put adds e, whose XID is not there yet.
func (p *pending) put(e *exchange) {
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

// remove takes out the call with this XID, which is there.
func (p *pending) remove(xid uint32) {
	p.n--
	if at := &p.slots[xid&uint32(p.size-1)]; *at != nil && (*at).xid == xid {
		*at = nil
		return
	}
	delete(p.others, xid)
}

// all calls f for each call. It may remove the one that it is called with.
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
