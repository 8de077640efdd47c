package rdma

import (
	"errors"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// callStage is the part of a call that is being read.
type callStage uint8

const (
	stageChunks callStage = iota // the chunks at positions above zero
	stagePrefix                  // the first bytes of the Position-Zero chunk, to judge the call
	stageZero                    // the Position-Zero chunk
)

// reserve requests the whole memory of the call at once: for its chunks, for its results,
// and for its reply's words if they exceed wordsSize. Chunks and results start at page
// boundaries, so that a file system can use them directly.
func (c *call) reserve(words, results int) {
	at := 0
	for i := range c.chunks {
		c.chunks[i].at = at
		at += pages(c.chunks[i].length)
	}
	c.zeroAt = at
	at += pages(c.zeroBytes)
	c.wordsAt = at
	if words = min(words, c.Room().Largest()); words > wordsSize {
		c.words = words
		at += pages(words)
	}
	c.results = at
	at += results
	if at == 0 || c.responder.share == nil {
		c.rpc.ResultsAt = 0
		c.pull(false)
		return
	}
	c.request.Size = at
	if len(c.segments) > 0 {
		c.leaveRun()
		c.responder.reads.enter(c)
		return
	}
	c.ask()
}

// ask gets the memory of c.request, now or when some is free.
func (c *call) ask() {
	share := c.responder.share
	if b, ok := share.TryGetIn(c.request.Group, c.request.Size); ok {
		c.granted(b, false)
		return
	}
	c.leaveRun()
	share.Get(&c.request)
}

// pages rounds n up to whole pages.
func pages(n int) int { return (n + mem.PageSize - 1) &^ (mem.PageSize - 1) }

// callGranted is the Granted function of a call's request. It runs on a goroutine that
// released memory or closes a share, so it only starts the RDMA Reads and leaves everything
// else to the executor.
func callGranted(r *mem.Request, b *mem.Buffer, err error) {
	c := r.Context.(*call)
	switch {
	case err == nil:
		c.granted(b, true)
	case errors.Is(err, mem.ErrTooLarge):
		// The call needs more than this server can ever give.
		c.refuse(faultTooLarge)
	default:
		c.Drop()
	}
}

func (c *call) granted(b *mem.Buffer, later bool) {
	c.memory = b
	if c.stage != stagePrefix {
		c.rpc.Memory, c.rpc.ResultsAt = b, c.results
	}
	c.pull(later)
}

// pull starts the RDMA Reads of the call's stage. If there are none, the call continues at
// once; if later is set, it continues on the executor.
func (c *call) pull(later bool) {
	c.nextByte, c.nextAt = 0, 0
	left := uint32(rpc.AdmitPrefix)
	switch c.stage {
	case stagePrefix:
		for _, s := range c.segments[:c.zeroSegments] {
			s.Length = min(s.Length, left)
			left -= s.Length
			c.cut = append(c.cut, s)
		}
		c.reading = c.cut
	case stageZero:
		c.reading, c.nextAt = c.segments[:c.zeroSegments], c.zeroAt
		if c.prefix != nil {
			// The call was judged by its prefix, so the prefix is not read again.
			for c.reading[0].Length < left {
				left -= c.reading[0].Length
				c.reading = c.reading[1:]
			}
			c.nextByte, c.nextAt = left, c.zeroAt+rpc.AdmitPrefix
		}
	default:
		c.reading = c.segments[c.zeroSegments:]
	}
	pieces, skipped := 0, c.nextByte
	for _, s := range c.reading {
		pieces += (int(s.Length-skipped) + maxRead - 1) / maxRead
		skipped = 0
	}
	if pieces == 0 {
		c.pulled(later)
		return
	}
	c.unread.Store(int32(pieces))
	c.leaveRun()
	c.responder.reads.push(c)
}

// readBack is called for each Read that came back; after the last one the call continues. A
// failed Read has ended the connection, so the peer gets no answer. But the call keeps its
// memory until the last Read has come back.
func (c *call) readBack(ok bool) {
	if !ok {
		c.lost.Store(true)
	}
	if c.unread.Add(-1) > 0 {
		return
	}
	if c.lost.Load() {
		c.Drop()
		return
	}
	c.pulled(false)
}

// pulled continues the call when the Reads of its stage are done.
func (c *call) pulled(later bool) {
	switch c.stage {
	case stagePrefix:
		// The prefix leaves payload memory: a call that holds some may not wait for more.
		c.keepPrefix(c.memory.Bytes())
		c.memory.Release()
		c.memory = nil
		if c.message(c.prefix[:], c.zeroBytes) {
			c.stage = stageZero
			c.admit()
		}
		return
	case stageZero:
		zero := c.memory.Bytes()[c.zeroAt : c.zeroAt+c.zeroBytes : c.zeroAt+c.zeroBytes]
		if c.prefix != nil {
			copy(zero, c.prefix[:])
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
	c.responder.reads.leave(c)
	for _, k := range c.chunks {
		var data []byte
		if k.length > 0 {
			data = c.memory.Bytes()[k.at : k.at+k.length : k.at+k.length]
		}
		c.excised = append(c.excised, xdr.Excised{Position: k.position, Data: data})
	}
	c.rpc.Excised = c.excised
	if later {
		c.responder.calls.Hand(&c.rpc)
	} else {
		c.responder.calls.Serve(&c.rpc)
	}
}
