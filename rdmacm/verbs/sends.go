package verbs

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/device"
)

// Blocks of staging, which take copies of what the device cannot reach where it is.
const (
	blockSize = 4096
	blocks    = 32
	shortSend = 512 // bytes of the longest SendShort
	// signalShorts is how many short Sends there are between two that ask for a signal.
	signalShorts = 8
)

// sends are what was posted and is not done. Conn.mu guards them.
type sends struct {
	sges   int
	queue  []*posting // in the order of Post; those before issued are with the device
	issued int
	spare  []*posting
	// ring has a slot for each request of the send queue: those from head to tail are
	// with the device.
	ring       []slot
	head, tail uint64
	lost       uint64    // the first request that failed
	sending    bool      // a goroutine hands requests to the device
	sent       sync.Cond // sending has become false
	armed      bool      // the goroutine of the connection wakes when the next signal comes, or is awake
	chains     int       // in queue, but for short Sends
	unsent     int
	reads      int             // RDMA Reads posted, not done
	moved      uint64          // bytes of requests that are done
	unsignaled int             // short Sends since the last signal
	nudge      bool            // an empty RDMA Read is to go out
	spent      []device.Region // of requests that are done
	slabs      []*slab
	free       [][]byte // blocks
	key        uint32   // of the blocks
}

// A posting is a chain between Post and Done, or a short Send.
type posting struct {
	chain *rdmacm.Chain // nil: a short Send
	// next is the work to be handed to the device next, from byte at on.
	next, at int
	left     int // requests with the device
	reads    int
	send     bool // it has a Send that the device has not
	failed   int
	err      error

	block  []byte // of a short Send
	length int
}

// A slot is a request that the device has.
type slot struct {
	of      *posting // nil: the marker behind short Sends
	work    int
	length  int // bytes
	read    bool
	done    bool
	block   []byte
	copies  []copyOut
	regions []device.Region
	joined  []byte // the device knows it by its address
}

// A copyOut is where the bytes of a block go when an RDMA Read is done.
type copyOut struct{ to, from []byte }

func (o *sends) init(depth, sges int) {
	o.ring, o.sges, o.lost = make([]slot, depth), sges, math.MaxUint64
}

// blockLocked is a block of staging, or nil.
func (c *Conn) blockLocked() []byte {
	o := &c.out
	if o.slabs == nil {
		s, err := newSlab(c.domain.Domain, blocks, blockSize, device.LocalWrite)
		if err != nil {
			c.failLocked(err) // no end of work would make room
			return nil
		}
		o.slabs, o.key = []*slab{s}, s.region.LKey()
		for i := range blocks {
			o.free = append(o.free, s.memory[i*blockSize:][:blockSize:blockSize])
		}
	}
	if len(o.free) == 0 {
		return nil
	}
	b := o.free[len(o.free)-1]
	o.free = o.free[:len(o.free)-1]
	return b
}

func (o *sends) postingLocked() *posting {
	if n := len(o.spare); n > 0 {
		p := o.spare[n-1]
		o.spare = o.spare[:n-1]
		return p
	}
	return new(posting)
}

// Post implements rdmacm.Conn.
func (c *Conn) Post(ch *rdmacm.Chain) {
	checkChain(ch)
	c.mu.Lock()
	if c.over {
		c.mu.Unlock()
		ch.Done(ch, rdmacm.ErrClosed, -1)
		return
	}
	o := &c.out
	p := o.postingLocked()
	*p = posting{chain: ch, failed: -1}
	if p.failed, p.err = c.unfitLocked(p); p.err != nil {
		p.next, p.reads, p.send = len(ch.Work), 0, false
	}
	o.reads += p.reads
	if p.send {
		o.unsent++
	}
	o.queue = append(o.queue, p)
	o.chains++
	c.watchLocked()
	if len(ch.Work) == 0 || p.err != nil {
		c.dev.Wake() // nothing of it completes
	}
	c.kickLocked()
	c.mu.Unlock()
}

// unfitLocked says why a chain comes back with nothing of it carried out, and which of its
// work is to blame.
func (c *Conn) unfitLocked(p *posting) (failed int, err error) {
	if c.ending.phase > live {
		return -1, rdmacm.ErrClosed
	}
	for i := range p.chain.Work {
		w := &p.chain.Work[i]
		if len(w.Local) > maxLocal {
			return i, fmt.Errorf("verbs: %d local pieces exceed %d", len(w.Local), maxLocal)
		}
		switch w.Op {
		case rdmacm.OpRead:
			if p.reads++; c.out.reads+p.reads > c.readDepth {
				return i, rdmacm.ErrReadDepth
			}
		case rdmacm.OpSendInvalidate:
			return i, errors.New("verbs: Send with Invalidate is not offered")
		case rdmacm.OpSend:
			p.send = true
			if n := w.Length(); n > maxSend {
				return i, &rdmacm.LengthError{Length: n, Limit: maxSend}
			}
		}
	}
	return -1, nil
}

// checkChain panics for chains that no provider need understand.
func checkChain(ch *rdmacm.Chain) {
	if ch.Done == nil {
		panic("verbs: chain without Done")
	}
	for i := range ch.Work {
		switch ch.Work[i].Op {
		case rdmacm.OpWrite, rdmacm.OpRead:
		case rdmacm.OpSend, rdmacm.OpSendInvalidate:
			if i != len(ch.Work)-1 {
				panic("verbs: a Send must be the last of its chain")
			}
		default:
			panic(fmt.Sprintf("verbs: work of kind %v", ch.Work[i].Op))
		}
	}
}

// SendShort implements rdmacm.Conn.
func (c *Conn) SendShort(local [][]byte, invalidate uint32) bool {
	n := 0
	for _, b := range local {
		n += len(b)
	}
	if n > shortSend || invalidate != 0 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	o := &c.out
	if c.ending.phase > live || c.over || o.issued < len(o.queue) && o.queue[len(o.queue)-1].chain != nil {
		return false
	}
	block := c.blockLocked()
	if block == nil {
		return false
	}
	p := o.postingLocked()
	*p = posting{block: block, failed: -1}
	for _, b := range local {
		p.length += copy(block[p.length:], b)
	}
	o.queue = append(o.queue, p)
	c.watchLocked()
	c.kickLocked()
	return true
}

// Progress implements rdmacm.Conn: a device tells of work that is done, no more.
func (c *Conn) Progress() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.moved
}

// Flush implements rdmacm.Conn.
func (c *Conn) Flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sendLocked()
}

// Unsent implements rdmacm.Conn.
func (c *Conn) Unsent() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.unsent
}

// kickLocked hands the device what waits, unless the Handler is being called: then that is
// done when it has drained.
func (c *Conn) kickLocked() {
	if !c.batching {
		c.sendLocked()
	}
}

// sendLocked hands the device what it has room for. One goroutine at a time does; what
// others bring meanwhile it takes along. mu is let go during calls of the device; registering
// memory is one.
func (c *Conn) sendLocked() {
	o := &c.out
	if o.sending {
		return
	}
	o.sending = true
	// After a fault nothing is posted: it would seem to be done where the device has refused
	// what stands before it.
	for c.ending.phase < draining && !c.ending.failed {
		receives, err := c.receivesLocked(c.dev.Receives())
		if err != nil {
			c.failLocked(err)
			break
		}
		works := c.worksLocked(c.dev.Works())
		if receives+works == 0 {
			if o.chains > 0 && !o.armed {
				// The device may have completed work, and thereby made room, without an event.
				o.armed = true
				c.dev.Wake()
			}
			break
		}
		arm := o.chains > 0
		o.armed = o.armed || arm
		c.mu.Unlock()
		_, err = c.dev.Flush(arm, receives, works)
		c.mu.Lock()
		if err != nil {
			// Work that the device has not taken never completes; the end of the connection
			// returns it.
			c.failLocked(err)
			break
		}
	}
	o.sending = false
	o.sent.Broadcast()
}

// worksLocked fills requests from the queue, and returns how many.
func (c *Conn) worksLocked(requests []device.Work) (n int) {
	o := &c.out
	if o.nudge && o.tail-o.head < uint64(len(o.ring)) {
		o.ring[o.tail%uint64(len(o.ring))] = slot{read: true}
		requests[0] = device.Work{ID: o.tail, Op: device.Read, Flags: device.Signal}
		o.nudge, n = false, 1
		o.tail++
	}
	for n < len(requests) && o.tail-o.head < uint64(len(o.ring)) {
		for o.issued < len(o.queue) && o.queue[o.issued].complete() {
			o.issued++
		}
		if o.issued == len(o.queue) {
			break
		}
		p, s := o.queue[o.issued], &o.ring[o.tail%uint64(len(o.ring))]
		*s = slot{of: p, copies: s.copies[:0], regions: s.regions[:0]}
		w := &requests[n]
		w.ID, w.Count, w.Flags, w.Remote, w.RKey = o.tail, 0, 0, 0, 0
		if p.chain == nil {
			o.shortLocked(w, s, p)
		} else if !c.workLocked(w, s, p) {
			break
		}
		p.left++
		o.tail++
		n++
	}
	return n
}

// complete says that the device has all of p.
func (p *posting) complete() bool {
	if p.chain == nil {
		return p.next > 0
	}
	return p.next == len(p.chain.Work)
}

func (o *sends) shortLocked(w *device.Work, s *slot, p *posting) {
	w.Op = device.Send
	if p.length > 0 {
		w.Count = 1
		w.SGE[0] = device.SGE{Addr: address(p.block), Length: uint32(p.length), LKey: o.key}
	}
	if o.unsignaled++; o.unsignaled >= signalShorts {
		w.Flags |= device.Signal
		o.unsignaled = 0
	}
	s.block, p.block, s.length = p.block, nil, p.length
	p.next = 1
}

var ops = [...]device.Op{
	rdmacm.OpWrite: device.Write, rdmacm.OpRead: device.Read, rdmacm.OpSend: device.Send, rdmacm.OpSendInvalidate: device.SendInvalidate,
}

// workLocked makes w the next request of p: a whole Work, or a part where the device does
// not take so many pieces or bytes at once. It is false where staging has no room now.
func (c *Conn) workLocked(w *device.Work, s *slot, p *posting) bool {
	work := &p.chain.Work[p.next]
	s.work, s.read = p.next, work.Op == rdmacm.OpRead
	w.Op = ops[work.Op]
	if work.Op == rdmacm.OpWrite || s.read {
		w.RKey, w.Remote = work.Remote.STag, work.Remote.Offset+uint64(p.at)
	}
	moved, whole, ok := c.piecesLocked(w, s, work, p.at)
	if ok && !whole && p.send && p.next == len(p.chain.Work)-1 {
		// A Send is not cut.
		c.emptyLocked(s)
		s.joined = bytes.Join(work.Local, nil)
		joined := rdmacm.Work{Local: [][]byte{s.joined}}
		w.Count = 0
		moved, whole, ok = c.piecesLocked(w, s, &joined, 0)
	}
	if !ok {
		c.emptyLocked(s)
		return false
	}
	s.length = moved
	if p.at += moved; whole {
		p.next, p.at = p.next+1, 0
		if p.send && p.complete() {
			p.send = false
			c.out.unsent--
		}
	}
	if s.read || p.complete() {
		w.Flags |= device.Signal
		c.out.unsignaled = 0
	}
	return true
}

// piecesLocked lists the pieces of work from byte at on, as many as one request takes.
// whole: there are no more. ok is false where that takes a block of staging and there is
// none, or memory that the device refuses.
func (c *Conn) piecesLocked(w *device.Work, s *slot, work *rdmacm.Work, at int) (moved int, whole, ok bool) {
	most, limit := c.out.sges, c.rnic.MaxMessage
	if s.read {
		most = min(most, c.rnic.ReadSGEs)
	}
	used := 0 // of s.block
	for _, b := range work.Local {
		if at >= len(b) {
			at -= len(b)
			continue
		}
		for b, at = b[at:], 0; len(b) > 0; {
			if int(w.Count) == most || moved == limit {
				return moved, false, true
			}
			n, ok := c.sgeLocked(&w.SGE[w.Count], s, b[:min(len(b), limit-moved)], &used)
			if !ok {
				return 0, false, false
			}
			w.Count++
			moved += n
			b = b[n:]
		}
	}
	return moved, true, true
}

// sgeLocked names the first n bytes of b for the device: where they are, if the device knows
// them; or in staging, of which the work has used some bytes already; or registered for as
// long as the work takes.
func (c *Conn) sgeLocked(e *device.SGE, s *slot, b []byte, used *int) (n int, ok bool) {
	if !c.domain.own {
		r, n := c.rnic.region(b)
		if r == nil && n > 0 {
			c.mu.Unlock()
			r = c.rnic.register(b)
			c.mu.Lock()
		}
		if r != nil {
			*e = device.SGE{Addr: address(b), Length: uint32(n), LKey: (*r).LKey()}
			return n, true
		}
	}
	// On iWARP the peer can write to the sink of a Read: it is no part of other memory.
	if len(b) <= blockSize-*used && !(s.read && c.rnic.IWARP) {
		if s.block == nil {
			if s.block = c.blockLocked(); s.block == nil {
				return 0, false
			}
		}
		place := s.block[*used:][:len(b)]
		*used += len(b)
		if s.read {
			s.copies = append(s.copies, copyOut{b, place})
		} else {
			copy(place, b)
		}
		*e = device.SGE{Addr: address(place), Length: uint32(len(b)), LKey: c.out.key}
		return len(b), true
	}
	access := 0
	if s.read {
		if access = device.LocalWrite; c.rnic.IWARP {
			access |= device.RemoteWrite
		}
	}
	c.mu.Unlock()
	r, err := c.domain.Register(b, access)
	c.mu.Lock()
	if err != nil {
		c.failLocked(fmt.Errorf("verbs: %d bytes of memory for the device: %w", len(b), err))
		return 0, false
	}
	s.regions = append(s.regions, r)
	*e = device.SGE{Addr: address(b), Length: uint32(len(b)), LKey: r.LKey()}
	return len(b), true
}

// emptyLocked gives back what the request of s needed, but for regions, which deregisterLocked
// does.
func (c *Conn) emptyLocked(s *slot) {
	if s.block != nil {
		c.out.free = append(c.out.free, s.block)
		s.block = nil
	}
	c.out.spent = append(c.out.spent, s.regions...)
	s.regions, s.copies, s.joined = s.regions[:0], s.copies[:0], nil
}

// deregisterLocked ends the regions of requests that are done, before Done of their chains
// is called. It lets go of mu while the device does so.
func (c *Conn) deregisterLocked() {
	spent := c.out.spent
	if len(spent) == 0 {
		return
	}
	c.out.spent = nil
	c.mu.Unlock()
	for _, r := range spent {
		r.Deregister()
	}
	c.mu.Lock()
}

// returnedLocked takes the completion of a request. What stands before it in the ring is
// done as well, but for RDMA Reads, which have completions of their own.
func (c *Conn) returnedLocked(done *device.Completion) {
	o := &c.out
	if done.ID < o.head || done.ID >= o.tail {
		return
	}
	s := &o.ring[done.ID%uint64(len(o.ring))]
	if done.Status != device.OK && done.Status != device.Flushed {
		c.failLocked(s.failure(done.Status))
	}
	if done.Status != device.OK {
		s.fail(done.Status)
		o.lost = min(o.lost, done.ID)
		c.ending.cut = c.ending.cut || s.of != nil && s.of.chain != nil
	}
	s.done = true
	for at := o.head; at < done.ID; at++ {
		if s := &o.ring[at%uint64(len(o.ring))]; !s.read {
			s.done = true
		}
	}
	for o.head < o.tail {
		s := &o.ring[o.head%uint64(len(o.ring))]
		if !s.done {
			break
		}
		// siw may report work as done although an RDMA Read before it fails later.
		if o.head > o.lost {
			s.fail(device.Flushed)
		}
		o.head++
		o.moved += uint64(s.length)
		p := s.of
		if p != nil {
			p.left--
			if s.read && p.err == nil {
				for _, k := range s.copies {
					copy(k.to, k.from)
				}
			}
		}
		c.emptyLocked(s)
	}
}

// fail notes the first request of a chain that failed.
func (s *slot) fail(status device.Status) {
	if p := s.of; p != nil && p.err == nil {
		p.err, p.failed = rdmacm.ErrFlushed, s.work
		if status != device.Flushed {
			p.err = s.failure(status)
		}
	}
}

// failure is the error of a request that ended with status.
func (s *slot) failure(status device.Status) error {
	if p := s.of; p != nil && p.chain != nil && status == device.RemoteAccess {
		w := &p.chain.Work[s.work]
		return &rdmacm.RefusedError{Op: w.Op, STag: w.Remote.STag}
	}
	return &StatusError{Status: status}
}

// frontLocked takes the first posting off the queue, if nothing of it is left to be done.
// ended: nothing is done any more.
func (c *Conn) frontLocked(ended bool) *posting {
	o := &c.out
	for len(o.queue) > 0 {
		p := o.queue[0]
		if !ended && (p.left > 0 || !p.complete()) {
			return nil
		}
		o.queue = o.queue[1:]
		o.issued = max(o.issued-1, 0)
		if p.chain != nil {
			o.chains--
			o.reads -= p.reads
			if p.send {
				o.unsent--
			}
			return p
		}
		if p.block != nil {
			o.free = append(o.free, p.block)
			p.block = nil
		}
		o.spare = append(o.spare, p)
	}
	return nil
}
