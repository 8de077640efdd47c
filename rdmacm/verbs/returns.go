package verbs

import (
	"fmt"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/device"
)

// emptyLocked releases the staging block of s, and leaves the regions of s to deregisterLocked.
func (c *Conn) emptyLocked(s *slot) {
	if s.block != nil {
		c.out.free = append(c.out.free, s.block)
		s.block = nil
	}
	c.out.spent = append(c.out.spent, s.regions...)
	s.regions, s.copies, s.joined = s.regions[:0], s.copies[:0], nil
}

// deregisterLocked deregisters the regions of requests that are done. It runs before Done of
// their chains is called. It releases mu while it calls the device.
func (c *Conn) deregisterLocked() {
	spent := c.out.spent
	if len(spent) == 0 {
		return
	}
	c.out.spent = nil
	c.mu.Unlock()
	var kept []device.Region
	var failure error
	for _, r := range spent {
		if err := r.Deregister(); err != nil {
			kept, failure = append(kept, r), err
		}
	}
	c.mu.Lock()
	if failure != nil {
		// Until the queue pair is destroyed, the peer may reach the memory.
		c.out.spent, c.out.unfenced = append(c.out.spent, kept...), true
		c.failLocked(fmt.Errorf("verbs: memory of requests that are done: %w", failure))
	}
}

// returnedLocked handles the completion of a request. The requests before it in the ring are
// then done as well: over InfiniBand and RoCE a device completes requests in their order, RDMA Reads
// included, and a request that fails has a completion of its own even if it asked for none. Linux's
// server relies on that, too. siw does not keep the order for Reads, so over iWARP each Read has a
// completion of its own.
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
		if s := &o.ring[at%uint64(len(o.ring))]; !s.read || !c.rnic.IWARP {
			s.done = true
		}
	}
	for o.head < o.tail {
		s := &o.ring[o.head%uint64(len(o.ring))]
		if !s.done {
			break
		}
		// A request behind the first failed one (lost) counts as flushed. siw may have
		// reported it as done although an RDMA Read before it failed later.
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

// fail stores the error of a failed request in its chain's posting, unless an earlier request of
// the chain has failed. If the request failed because the peer could not be reached, its chain counts
// as flushed, as the chains behind it: there is nothing wrong with the request itself, and the same
// request can succeed over another connection.
func (s *slot) fail(status device.Status) {
	if p := s.of; p != nil && p.err == nil {
		p.failed = s.work
		switch status {
		case device.Flushed, device.LocalOperation, device.RetriesExceeded, device.ResponseTimeout:
			p.err = rdmacm.ErrFlushed
		default:
			p.err = s.failure(status)
		}
	}
}

// failure returns the error of a request that ended with status.
func (s *slot) failure(status device.Status) error {
	if p := s.of; p != nil && p.chain != nil && status == device.RemoteAccess {
		w := &p.chain.Work[s.work]
		return &rdmacm.RefusedError{Op: w.Op, STag: w.Remote.STag}
	}
	return &StatusError{Status: status}
}

// frontLocked removes the first posting from the queue and returns it, if it is a chain and
// done. It also removes short Sends that are done. If ended is true, the queue pair was
// destroyed, and postings are removed although they are not done.
func (c *Conn) frontLocked(ended bool) *posting {
	o := &c.out
	for len(o.queue) > 0 {
		p := o.queue[0]
		if !ended && (p.left > 0 || !p.complete() || o.unfenced) {
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
