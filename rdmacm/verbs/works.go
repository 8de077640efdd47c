package verbs

import (
	"bytes"
	"fmt"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/device"
)

// A slot describes a request that the device has.
type slot struct {
	of      *posting // nil for a request of markLocked or probeLocked
	work    int
	length  int // bytes that the request moves
	read    bool
	done    bool
	block   []byte
	copies  []copyOut
	regions []device.Region
	joined  []byte // keeps the memory reachable, because the device knows only its address
}

// A copyOut is a copy that is still to be made: from a staging block to the caller's memory,
// when an RDMA Read is done.
type copyOut struct{ to, from []byte }

// worksLocked fills the slice requests from the queue, and returns the number of requests that
// it filled.
func (c *Conn) worksLocked(requests []device.Work) (n int) {
	o := &c.out
	quiet := 0 // bytes of the Reads directly before that share the next completion
	if o.probe != 0 && o.tail-o.head < uint64(len(o.ring)) {
		o.ring[o.tail%uint64(len(o.ring))] = slot{read: o.probe == device.Read}
		requests[0] = device.Work{ID: o.tail, Op: o.probe, Flags: device.Signal}
		o.probe, n = 0, 1
		o.tail++
		o.signaled = o.tail
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
		// A request that takes the last room of the queue or the last staging block is signaled.
		// Otherwise no completion might come that makes room.
		full := o.tail-o.head == uint64(len(o.ring)) || s.block != nil && len(o.free) == 0
		if full || c.rnic.SIW && s.length >= siwCopies {
			w.Flags |= device.Signal
		}
		if s.read && !c.rnic.IWARP && n > 0 && w.Flags&device.Signal != 0 {
			quiet = c.shareSignalLocked(&requests[n-1], w, s, quiet)
		}
		if w.Flags&device.Signal != 0 {
			o.signaled = o.tail
		}
		n++
	}
	return n
}

// readsTogether is the largest number of bytes that consecutive RDMA Reads with one completion bring.
const readsTogether = 1 << 20

// shareSignalLocked makes the Read before, if it is one, share the completion of w, a Read that the
// device gets in the same call. The Reads of one call of the ULP are usually posted together, as
// chains of their own. quiet is the number of bytes of the Reads that share the completion of before,
// and the result that of w.
func (c *Conn) shareSignalLocked(before, w *device.Work, s *slot, quiet int) int {
	o := &c.out
	last := &o.ring[before.ID%uint64(len(o.ring))]
	if !last.read || quiet+last.length+s.length > readsTogether {
		return 0
	}
	before.Flags &^= device.Signal
	return quiet + last.length
}

// siwCopies is the length in bytes from which on a request must be signaled on siw. siw sends an
// unsignaled request of that length without a copy, so that its TCP may read the memory again after
// the request is done, for a retransmission. By then the memory may have the data of another client.
const siwCopies = 4096

// complete reports whether the device has got all requests of p.
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
	rdmacm.OpWrite: device.Write, rdmacm.OpRead: device.Read, rdmacm.OpSend: device.Send,
}

// workLocked makes w the next request of p. The request is a whole Work, or a part of one if
// the device cannot take all its pieces or bytes at once. workLocked returns false if no
// staging block is free, or if the device refuses to register the memory.
func (c *Conn) workLocked(w *device.Work, s *slot, p *posting) bool {
	work := &p.chain.Work[p.next]
	s.work, s.read = p.next, work.Op == rdmacm.OpRead
	w.Op = ops[work.Op]
	if work.Op == rdmacm.OpWrite || s.read {
		w.RKey, w.Remote = work.Remote.STag, work.Remote.Offset+uint64(p.at)
	}
	moved, whole, ok := c.piecesLocked(w, s, work, p.at)
	send := p.send && p.next == len(p.chain.Work)-1
	if ok && !whole && send {
		// A Send must not be divided, so its pieces are joined in one.
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
	if !whole && (send || moved == 0) {
		panic(fmt.Sprintf("verbs: %v of %d bytes is divided after %d: see judge", work.Op, work.Length(), moved))
	}
	s.length = moved
	if p.at += moved; whole {
		p.next, p.at = p.next+1, 0
		if p.send && p.complete() {
			p.send = false
			c.out.unsent--
		}
	}
	if s.read && c.rnic.IWARP || p.complete() {
		w.Flags |= device.Signal
		c.out.unsignaled = 0
	}
	return true
}

// piecesLocked adds the pieces of work to w, as many as one request takes. The parameter at is
// the number of bytes of work that earlier requests carry. moved is the number of bytes added.
// whole is true if no piece is left. ok is false if a piece needs a staging block and none is
// free, or if the device refuses to register the memory.
func (c *Conn) piecesLocked(w *device.Work, s *slot, work *rdmacm.Work, at int) (moved int, whole, ok bool) {
	most, limit := c.out.sges, c.port.MaxMessage
	if s.read {
		most = min(most, c.rnic.ReadSGEs)
	}
	used := 0 // bytes of s.block
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

// sgeLocked sets e to the first n bytes of b. If the device knows the memory of b, e names it
// directly. If b fits into the rest of a staging block, of which the request already uses *used
// bytes, e names a place in that block. The sink of an RDMA Read on iWARP is never in a staging
// block. Otherwise sgeLocked registers b until the request is done.
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
	// On iWARP the peer can write to the sink of a Read, so the sink must share no registered
	// memory with other data.
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
