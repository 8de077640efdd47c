package verbs

import (
	"errors"
	"fmt"
	"sync"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/device"
)

// Staging is memory, divided into blocks of blockSize bytes, for copies of data that the device
// cannot reach where the data lies.
const (
	blockSize = 4096
	blocks    = 32
	shortSend = 512 // size of the longest message of SendShort, in bytes
	// Every signalShorts-th short Send asks for a completion.
	signalShorts = 8
)

// sends holds the chains and short Sends that were posted and are not done. Conn.mu guards it.
type sends struct {
	sges   int
	queue  []*posting // in the order of Post
	issued int        // number of postings at the front of queue that the device has completely
	spare  []*posting
	// ring has a slot for each request of the send queue. The device has the requests numbered
	// from head to tail-1.
	ring       []slot
	head, tail uint64
	signaled   uint64          // 1 + the number of the last request that asked for a completion
	lost       uint64          // number of the first request that failed
	sending    bool            // a goroutine is handing requests to the device
	sent       sync.Cond       // signals that sending has become false
	armed      bool            // the connection's goroutine is awake, or the next completion wakes it
	chains     int             // number of chains in queue
	unsent     int             // number of posted chains whose Send the device does not have yet
	reads      int             // RDMA Reads posted, not done
	moved      uint64          // bytes moved by requests that are done
	unsignaled int             // short Sends since the last request that asked for a completion
	probe      device.Op       // operation of an empty request that must be posted; 0 for none
	spent      []device.Region // regions of requests that are done, to be deregistered
	unfenced   bool            // one of them could not be deregistered, so Done waits for the end of the queue pair
	staging    sync.Mutex      // held by the goroutine that makes slabs, without mu
	slabs      []*slab
	free       [][]byte // free blocks of staging
	key        uint32   // local key of the staging blocks
}

// A posting is a short Send, or a chain whose Done was not called yet.
type posting struct {
	chain *rdmacm.Chain // nil for a short Send
	// next is the index of the work that the device gets next. The field at is the offset of the
	// first byte of that work that the device does not have.
	next, at int
	left     int // number of requests of the posting that the device has
	reads    int
	send     bool // the posting has a Send, and the device does not have it yet
	failed   int
	err      error

	block  []byte // the copy of a short Send's message
	length int
}

// stageLocked makes the staging blocks, unless they exist. It releases mu while the device registers them.
func (c *Conn) stageLocked() {
	o := &c.out
	c.mu.Unlock()
	o.staging.Lock()
	defer o.staging.Unlock()
	c.mu.Lock()
	if o.slabs != nil || c.ending.phase == destroyed {
		return
	}
	c.mu.Unlock()
	s, err := newSlab(c.domain.Domain, blocks, blockSize, device.LocalWrite)
	c.mu.Lock()
	if err != nil {
		c.failLocked(err) // no work holds a block yet, so waiting for one would not help
		return
	}
	o.slabs, o.key = []*slab{s}, s.region.LKey()
	for i := range blocks {
		o.free = append(o.free, s.memory[i*blockSize:][:blockSize:blockSize])
	}
}

// blockLocked returns a staging block, or nil if all are in use. It may release mu.
func (c *Conn) blockLocked() []byte {
	o := &c.out
	if o.slabs == nil {
		c.stageLocked()
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

// unfitLocked checks a chain. If the device must not get it, unfitLocked returns the reason,
// and the index of the faulty work. Otherwise err is nil.
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

// checkChain panics if the chain has no Done, has work of an unknown kind, or has a Send before
// its last work.
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

// takesShortLocked reports whether a short Send may be posted: the connection lives, and no chain waits
// for the device, which the short Send would overtake.
func (c *Conn) takesShortLocked() bool {
	o := &c.out
	return c.ending.phase == live && !c.over && !(o.issued < len(o.queue) && o.queue[len(o.queue)-1].chain != nil)
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
	if !c.takesShortLocked() {
		return false
	}
	block := c.blockLocked()
	if block == nil {
		return false
	}
	if !c.takesShortLocked() { // blockLocked has released mu
		o.free = append(o.free, block)
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

// Progress implements rdmacm.Conn. It counts only the bytes of work that is done, because the
// device reports nothing earlier.
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

// kickLocked calls sendLocked, unless the Handler or a Done is being called. In that case step
// calls sendLocked afterwards.
func (c *Conn) kickLocked() {
	if !c.batching {
		c.sendLocked()
	}
}

// sendLocked hands requests to the device until the device has no room or no request waits.
// Only one goroutine at a time does so, and it also hands over requests that other goroutines
// add meanwhile. It releases mu while it calls the device, for instance to register memory.
func (c *Conn) sendLocked() {
	o := &c.out
	if o.sending {
		return
	}
	o.sending = true
	// After a fault the loop posts no more work. The device could complete that work although it
	// has refused earlier work.
	for c.ending.phase < draining && !c.ending.failed {
		receives, err := c.receivesLocked(c.dev.Receives())
		if err != nil {
			c.failLocked(err)
			break
		}
		works := 0
		if c.in.owed == 0 { // a message may announce receives to the peer, so the device must have them first
			works = c.worksLocked(c.dev.Works())
		}
		if receives+works == 0 {
			if o.chains > 0 && !o.armed {
				// Chains wait for completions, but the queues are not armed, so completions may have
				// come without an event. Wake makes the connection's goroutine poll for them.
				o.armed = true
				c.dev.Wake()
			}
			break
		}
		arm := o.chains > 0 && !o.armed
		o.armed = o.armed || arm
		c.mu.Unlock()
		err = c.dev.Flush(arm, receives, works)
		c.mu.Lock()
		if err != nil {
			// Work that the device did not accept never completes. The end of the connection
			// calls Done for it.
			c.failLocked(err)
			break
		}
	}
	o.sending = false
	o.sent.Broadcast()
}
