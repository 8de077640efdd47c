package rdma

import (
	"errors"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// callStage is what of a call is being brought.
type callStage uint8

const (
	stageChunks callStage = iota // what is not at position zero
	stagePrefix                  // the start of the Position-Zero chunk, to judge the call by
	stageZero                    // the Position-Zero chunk
)

// reserve asks for the memory of the call, all of it at once: its chunks, its
// reply's words where they exceed the record's, and results. Chunks and results
// start at pages, so that a file system may take and give them as they are.
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

// ask gets the memory of c.request, now or when there is some.
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

// callGranted is the Granted of a call's request. The goroutine gave memory back,
// or closes a share: it starts what there is to bring, and no more.
func callGranted(r *mem.Request, b *mem.Buffer, err error) {
	c := r.Context.(*call)
	switch {
	case err == nil:
		c.granted(b, true)
	case errors.Is(err, mem.ErrTooLarge):
		// More than this server could ever give.
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

// pull starts the RDMA Reads of the call's stage. Without any it goes on at once,
// or, where that is to be later, on the executor.
func (c *call) pull(later bool) {
	c.nextByte, c.nextAt = 0, 0
	switch c.stage {
	case stagePrefix:
		left := uint32(rpc.AdmitPrefix)
		for _, s := range c.segments[:c.zeroSegments] {
			s.Length = min(s.Length, left)
			left -= s.Length
			c.cut = append(c.cut, s)
		}
		c.reading = c.cut
	case stageZero:
		c.reading, c.nextAt = c.segments[:c.zeroSegments], c.zeroAt
	default:
		c.reading = c.segments[c.zeroSegments:]
	}
	pieces := 0
	for _, s := range c.reading {
		pieces += (int(s.Length) + maxRead - 1) / maxRead
	}
	if pieces == 0 {
		c.pulled(later)
		return
	}
	c.unread.Store(int32(pieces))
	c.leaveRun()
	c.responder.reads.push(c)
}

// readBack is called for each Read that came back; with the last, the call goes
// on. A Read that failed has ended the connection; nothing is left to be told
// to the peer, but memory is kept until the last Read has let go of it.
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

// pulled goes on when the Reads of the call's stage are done.
func (c *call) pulled(later bool) {
	switch c.stage {
	case stagePrefix:
		if !c.message(c.memory.Bytes(), c.zeroBytes) {
			return
		}
		c.stage = stageZero
		if !c.plan.Early {
			// All that the call needs is asked for at once, by one that holds
			// nothing. What was judged by is read again.
			c.memory.Release()
			c.memory = nil
		}
		c.admit()
		return
	case stageZero:
		zero := c.memory.Bytes()[c.zeroAt : c.zeroAt+c.zeroBytes : c.zeroAt+c.zeroBytes]
		if !c.admitted {
			if !c.message(zero, len(zero)) {
				return
			}
		} else if !c.named(zero) {
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
