package rdma

import (
	"errors"
	"sync"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// callStage says which part of a call the responder reads at present.
type callStage uint8

const (
	stageChunks callStage = iota // the chunks at positions above zero
	stagePrefix                  // the first bytes of the Position-Zero chunk, by which the call is admitted
	stageZero                    // the Position-Zero chunk
)

// A reservation is the memory of a call. zeroAt, wordsAt and results are the offsets at
// which its parts start. The words of a reply are its XDR data without payloads.
type reservation struct {
	request mem.Request
	memory  *mem.Buffer // nil until it is granted
	zeroAt  int         // offset of the Position-Zero chunk
	wordsAt int
	words   int // bytes reserved for the reply's words
	results int
}

func (r *reservation) reset() {
	r.request.Group, r.memory = nil, nil
	r.words, r.results = 0, 0
}

// reserve requests the whole memory of the call at once: for the chunks that are read, for the
// payload of the reply (results bytes) and, if the rest of the reply (words bytes) exceeds wordsSize,
// for that rest. Chunks and results start at page boundaries, so that a file system can use them
// directly.
func (c *call) reserve(words, results int) {
	at := 0
	for i := range c.list.chunks {
		c.list.chunks[i].at = at
		at += pages(c.list.chunks[i].length)
	}
	c.reserved.zeroAt = at
	at += pages(c.list.zeroBytes)
	c.reserved.wordsAt = at
	if words = min(words, c.Room().Largest()); words > wordsSize {
		c.reserved.words = words
		at += pages(words)
	}
	c.reserved.results = at
	at += results
	if at == 0 || c.responder.share == nil {
		c.rpc.ResultsAt = 0
		c.pull(false)
		return
	}
	c.reserved.request.Size = at
	if len(c.list.segments) > 0 {
		c.responder.reads.enter(c)
		return
	}
	c.ask()
}

// ask requests the memory of c.reserved.request. If too little is free, the pool calls
// callGranted later.
func (c *call) ask() {
	share := c.responder.share
	if b, ok := share.TryGetIn(c.reserved.request.Group, c.reserved.request.Size); ok {
		c.granted(b, false)
		return
	}
	c.rpc.AwaitsMemory()
	share.Get(&c.reserved.request)
}

// pages rounds n up to whole pages.
func pages(n int) int { return (n + mem.PageSize - 1) &^ (mem.PageSize - 1) }

// callGranted is mem.Request.Granted for the memory of a call. It runs on a goroutine that releases
// memory or closes a mem.Share. So it only starts the RDMA Reads, and leaves everything else to the
// executor (Calls.Hand).
func callGranted(r *mem.Request, b *mem.Buffer, err error) {
	c := r.Context.(*call)
	c.rpc.Leaves()
	switch {
	case err == nil:
		c.granted(b, true)
	case errors.Is(err, mem.ErrTooLarge):
		// The call needs more memory than the pool can ever grant.
		c.refuse(faultTooLarge)
	default:
		c.Drop()
	}
}

func (c *call) granted(b *mem.Buffer, later bool) {
	c.reserved.memory = b
	if c.stage != stagePrefix {
		c.rpc.Memory, c.rpc.ResultsAt = b, c.reserved.results
	}
	c.pull(later)
}

// pull starts the RDMA Reads of the call's stage. If there are none, the call continues at once. If
// later is true, it then continues on the executor (Calls.Hand).
func (c *call) pull(later bool) {
	c.reads.nextByte, c.reads.nextAt = 0, 0
	left := uint32(rpc.AdmitPrefix)
	switch c.stage {
	case stagePrefix:
		for _, s := range c.list.segments[:c.list.zeroSegments] {
			s.Length = min(s.Length, left)
			left -= s.Length
			c.reads.cut = append(c.reads.cut, s)
		}
		c.reads.reading = c.reads.cut
	case stageZero:
		c.reads.reading, c.reads.nextAt = c.list.segments[:c.list.zeroSegments], c.reserved.zeroAt
		if c.reads.prefix != nil {
			// The call was admitted by its prefix, so the prefix is not read again.
			for c.reads.reading[0].Length < left {
				left -= c.reads.reading[0].Length
				c.reads.reading = c.reads.reading[1:]
			}
			c.reads.nextByte, c.reads.nextAt = left, c.reserved.zeroAt+rpc.AdmitPrefix
		}
	default:
		c.reads.reading = c.list.segments[c.list.zeroSegments:]
	}
	pieces, skipped := 0, c.reads.nextByte
	for _, s := range c.reads.reading {
		pieces += (int(s.Length-skipped) + maxRead - 1) / maxRead
		skipped = 0
	}
	if pieces == 0 {
		c.pulled(later)
		return
	}
	c.reads.unread.Store(int32(pieces))
	c.reads.lost.Store(false)
	c.responder.reads.push(c)
}

// readBack is called for each RDMA Read that has completed. After the last one the call
// continues. A failed Read has ended the connection, so the peer gets no answer. Even then
// the call keeps its memory until its last Read has completed, because until then the
// device may write there.
func (c *call) readBack(ok bool) {
	if !ok {
		c.reads.lost.Store(true)
	}
	if c.reads.unread.Add(-1) > 0 {
		return
	}
	if c.reads.lost.Load() {
		c.Drop()
		return
	}
	c.pulled(false)
}

// pulled continues the call when the Reads of its stage are done. If later is true, the executor
// serves the call (Calls.Hand).
func (c *call) pulled(later bool) {
	switch c.stage {
	case stagePrefix:
		// Copy the prefix and release its memory, because a call must not wait for payload memory
		// while it holds some (package mem).
		c.keepPrefix(c.reserved.memory.Bytes())
		c.reserved.memory.Release()
		c.reserved.memory = nil
		if c.message(c.reads.prefix[:], c.list.zeroBytes) {
			c.stage = stageZero
			c.admit()
		}
		return
	case stageZero:
		zero := c.reserved.memory.Bytes()[c.reserved.zeroAt : c.reserved.zeroAt+c.list.zeroBytes : c.reserved.zeroAt+c.list.zeroBytes]
		if c.reads.prefix != nil {
			copy(zero, c.reads.prefix[:])
		} else if !c.message(zero, len(zero)) {
			return
		}
		c.rpc.Message = zero
		c.stage = stageChunks
		if c.plan.Early {
			c.responder.calls.Serve(&c.rpc)
			return
		}
		c.pull(later)
		return
	}
	if c.claim != nil {
		c.responder.reads.leave(c)
	}
	for _, k := range c.list.chunks {
		var data []byte
		if k.length > 0 {
			data = c.reserved.memory.Bytes()[k.at : k.at+k.length : k.at+k.length]
		}
		c.list.excised = append(c.list.excised, xdr.Excised{Position: k.position, Data: data})
	}
	c.rpc.Excised = c.list.excised
	if later {
		c.responder.calls.Hand(&c.rpc)
	} else {
		c.responder.calls.Serve(&c.rpc)
	}
}

// A prefix is the first bytes of a Position-Zero chunk of a peer that has not proved to be a client
// yet (rpc.Conn.Known). The RPC server admits or refuses the call on the basis of these bytes. The
// peer may change its memory at any time. So the prefix is read only once, and the call that is
// served begins with the same bytes.
type prefix [rpc.AdmitPrefix]byte

var prefixPool = sync.Pool{New: func() any { return new(prefix) }}

// keepPrefix copies the first bytes of the call from b, which is payload memory, to c.reads.prefix.
func (c *call) keepPrefix(b []byte) {
	c.reads.prefix = prefixPool.Get().(*prefix)
	c.charge(len(c.reads.prefix))
	copy(c.reads.prefix[:], b)
}

func (r *reads) dropPrefix() {
	if r.prefix != nil {
		prefixPool.Put(r.prefix)
		r.prefix = nil
	}
}
