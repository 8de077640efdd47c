package verbs

import (
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
