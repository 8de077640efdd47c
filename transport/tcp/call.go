package tcp

import (
	"errors"
	"sync"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// A call is one call that the peer made, and the way of its reply. Until it is
// detached it is the receiving goroutine's: its message lies in the ring, and its
// reply is written where the batch of replies ends.
type call struct {
	rpc.Call
	conn     *conn
	detached bool
	w        xdr.Writer
	// frame is the reply's mark and words, and room for more. It lies in chunk,
	// in room, or in memory of its own.
	frame []byte
	chunk *chunk
	room  []byte // for a detached call's reply, where its words are few
	own   []byte // the message of a detached call
	// inRing: the message lies in memory that belongs to the connection.
	inRing bool
	// request is for the memory that a detached call waits for.
	request mem.Request
}

// keptRoom is how much memory a call that is not in use may keep, in bytes.
const keptRoom = 4 << 10

var calls = sync.Pool{New: func() any { return new(call) }}

// await detaches an admitted call that is here already until its results have
// memory, and then serves it.
func (c *call) await(plan rpc.Plan) {
	c.Call.Detach()
	c.request.Granted, c.request.Context = callGranted, c
	c.request.Size, c.request.Group = plan.Results, plan.Group
	c.conn.share.Get(&c.request)
}

// callGranted is the Granted of a call's request.
func callGranted(r *mem.Request, b *mem.Buffer, err error) {
	c := r.Context.(*call)
	r.Group = nil
	if errors.Is(err, mem.ErrClosed) {
		c.Drop() // the connection is gone
		return
	}
	// Without memory, because there never will be so much, the procedure fails.
	c.Memory = b
	c.conn.rpc.Serve(&c.Call)
}

// Room implements rpc.Way: on a byte stream there is room for anything.
func (c *call) Room() rpc.Room { return rpc.Room{Inline: c.conn.cfg.MaxReply} }

// Writer implements rpc.Way.
func (c *call) Writer(words int) *xdr.Writer {
	size := markSize + min(words, c.conn.cfg.MaxReply)
	c.dropChunk()
	switch {
	case size > chunkSize:
		c.frame = make([]byte, size)
	case !c.detached:
		k := tail(&c.conn.chunk, size)
		c.chunk, c.frame = k, k.b[k.used:k.used+size]
	case size > keptRoom:
		c.chunk = newChunk()
		c.frame = c.chunk.b[:size]
	default:
		if cap(c.room) < size {
			c.room = make([]byte, keptRoom)
		}
		c.frame = c.room[:size]
	}
	c.w.Reset(c.frame[markSize:markSize:size])
	return &c.w
}

// dropChunk gives up memory that is the call's alone.
func (c *call) dropChunk() {
	if c.chunk != nil && c.detached {
		c.chunk.Release()
	}
	c.chunk = nil
}

// Detach implements rpc.Way.
func (c *call) Detach() {
	if c.detached {
		return
	}
	c.chunk, c.frame = nil, nil
	c.detached = true
	c.conn.detach(c)
	if c.inRing {
		c.own = append(c.own[:0], c.Message...)
		c.Message = c.own
		c.inRing = false
	}
}

// Send implements rpc.Way.
func (c *call) Send() {
	n := c.conn
	size := c.w.StreamLen()
	if size > n.cfg.MaxReply || c.w.Overflow() {
		c.w.Release()
		c.Refuse(rpc.RefuseRoom)
		return
	}
	b := c.frame[:markSize+c.w.Len()]
	putMark(b, size)
	if c.detached {
		n.out.put(c.chunk, b, c.w.TakePayloads(), nil)
	} else {
		if c.chunk != nil {
			c.chunk.used += len(b)
		}
		n.batched += n.batch.message(c.chunk, b, c.w.TakePayloads(), nil)
	}
	n.count.replies.Add(1)
	c.end()
}

// Refuse implements rpc.Way. A stream has no error of its own: what is no call
// gets no answer, and a reply that cannot be carried is a failure of ours.
func (c *call) Refuse(r rpc.Refusal) {
	if r == rpc.RefuseNotACall {
		c.conn.count.malformed.Add(1)
		c.Drop()
		return
	}
	w := c.Writer(rpc.ErrorReply)
	rpc.PutAccepted(w, c.Header.XID, rpc.AcceptSystemErr)
	c.Send()
}

// Drop implements rpc.Way.
func (c *call) Drop() { c.end() }

// end gives back all that belongs to the call, and the call itself.
func (c *call) end() {
	n := c.conn
	c.dropChunk()
	if c.Memory != nil {
		c.Memory.Release()
		c.Memory = nil
	}
	c.w.Reset(nil)
	c.Message, c.Conn, c.frame = nil, nil, nil
	if !c.detached {
		return // the connection uses it again
	}
	c.conn, c.detached = nil, false
	if cap(c.own) > keptRoom {
		c.own = nil
	}
	calls.Put(c)
	n.ended()
}
