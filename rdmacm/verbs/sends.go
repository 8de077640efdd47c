package verbs

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/device"
)

// Staging holds copies of data that the device cannot read where it lies. It consists of blocks.
const (
	blockSize = 4096
	blocks    = 32
	shortSend = 512 // size of the longest message of SendShort, in bytes
	// signalShorts is the number of short Sends of which one asks for a signal.
	signalShorts = 8
)

// sends are the chains and short Sends that were posted and are not done. Conn.mu guards them.
type sends struct {
	sges   int
	queue  []*posting // in the order of Post; the device has those before issued
	issued int
	spare  []*posting
	// ring has a slot for each request of the send queue. The device has the requests from head
	// to tail.
	ring       []slot
	head, tail uint64
	signaled   uint64    // the requests before it complete, even when the queue pair is in error
	lost       uint64    // the first request that failed
	sending    bool      // a goroutine hands requests to the device
	sent       sync.Cond // sending has become false
	armed      bool      // the goroutine of the connection is awake, or the next signal wakes it
	chains     int       // number of chains in queue
	unsent     int
	reads      int             // RDMA Reads posted, not done
	moved      uint64          // bytes moved by requests that are done
	unsignaled int             // short Sends since the last signal
	nudge      bool            // an empty RDMA Read is to be posted
	spent      []device.Region // of requests that are done
	slabs      []*slab
	free       [][]byte // free blocks of staging
	key        uint32   // local key of the blocks
}

// A posting is a chain that was posted and has not come back, or a short Send.
type posting struct {
	chain *rdmacm.Chain // nil: a short Send
	// next is the index of the work to be handed to the device next, from byte at on.
	next, at int
	left     int // number of requests that the device has
	reads    int
	send     bool // it has a Send, which the device does not have yet
	failed   int
	err      error

	block  []byte // of a short Send
	length int
}

func (o *sends) init(depth, sges int) {
	o.ring, o.sges, o.lost = make([]slot, depth), sges, math.MaxUint64
}

// blockLocked returns a block of staging, or nil if all are in use.
func (c *Conn) blockLocked() []byte {
	o := &c.out
	if o.slabs == nil {
		s, err := newSlab(c.domain.Domain, blocks, blockSize, device.LocalWrite)
		if err != nil {
			c.failLocked(err) // no work holds a block, so waiting would not help
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
		c.dev.Wake() // no completion will wake the goroutine
	}
	c.kickLocked()
	c.mu.Unlock()
}

// unfitLocked returns why the device must not get a chain, and the index of the work at fault,
// or nil.
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

// checkChain panics if the chain breaks a rule that holds for all providers.
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

// Progress implements rdmacm.Conn. A device reports work only when it is done.
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

// kickLocked calls sendLocked, unless the Handler is being called. Then step calls it after
// Drained.
func (c *Conn) kickLocked() {
	if !c.batching {
		c.sendLocked()
	}
}

// sendLocked hands requests to the device until the device has no room or none wait. Only one
// goroutine at a time does so. It also takes requests that others add meanwhile. It releases mu
// while it calls the device, for instance to register memory.
func (c *Conn) sendLocked() {
	o := &c.out
	if o.sending {
		return
	}
	o.sending = true
	// After a fault nothing is posted. Otherwise such work would seem to be done although the
	// device has refused the work before it.
	for c.ending.phase < draining && !c.ending.failed {
		receives, err := c.receivesLocked(c.dev.Receives())
		if err != nil {
			c.failLocked(err)
			break
		}
		works := 0
		if c.in.owed == 0 { // a message may tell the peer of the receives that it follows
			works = c.worksLocked(c.dev.Works())
		}
		if receives+works == 0 {
			if o.chains > 0 && !o.armed {
				// The device may have completed work, and so have room again, without an event.
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
			// Work that the device has not taken never completes. The end of the connection
			// returns it.
			c.failLocked(err)
			break
		}
	}
	o.sending = false
	o.sent.Broadcast()
}
