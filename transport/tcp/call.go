package tcp

import (
	"errors"
	"sync"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// A call is one call of the peer, and implements rpc.Way for its reply. At first the receiving
// goroutine owns it: its message lies in the ring, and its reply goes to the end of the batch of
// replies. Detach ends that, so that another goroutine can serve the call.
type call struct {
	rpc.Call
	conn     *conn
	detached bool
	w        xdr.Writer
	// frame is the buffer for the record mark and the words of the reply. It is a part of chunk,
	// room or words. A reply from the reply cache may be longer than planned; then frame has memory
	// of its own.
	frame []byte
	chunk *chunk
	room  []byte // buffer for a short reply of a detached call
	words []byte // part of Memory for a reply that may have many words
	own   []byte // copy of the message of a detached call
	// inRing is true if the message lies in the connection's ring.
	inRing bool
	// request asks for the memory that a detached call waits for. awaited is how many of its bytes
	// are for the reply's words.
	request mem.Request
	awaited int
	// charged is how many bytes the ledger of the connection counts for a detached call.
	charged int
}

// callCost is an estimate of the bytes that a detached call (Detach) occupies in addition to its
// message and its reply.
const callCost = 2 << 10

// keptRoom limits two buffers of a call, in bytes. An unused call keeps the buffer call.own only if
// own has at most keptRoom bytes. call.room never has more; it grows in steps of roomStep bytes.
const (
	keptRoom = 4 << 10
	roomStep = 512
)

var calls = sync.Pool{New: func() any { return new(call) }}

// await is called for a complete and admitted call. It lets the receiving goroutine continue
// without the call (Detach), and asks for the memory for its results. callGranted then passes the
// call to the executor (rpc.Server.Hand).
func (c *call) await(plan *rpc.Plan, words, size int) {
	c.Call.WaitsFor(rpc.WaitMemory)
	c.Call.Detach()
	c.awaited = words
	c.request.Granted, c.request.Context = callGranted, c
	c.request.Size, c.request.Group = size, plan.Group
	c.conn.share.Get(&c.request)
}

// planned returns the payload memory that an admitted call needs for its reply, in bytes.
// words is the part for the reply's words, or 0 if a chunk can hold them. size is the total
// for words and payload.
func planned(plan *rpc.Plan) (words, size int) {
	if words = markSize + plan.Reply; words <= chunkSize {
		return 0, plan.Results
	}
	words = (words + mem.PageSize - 1) &^ (mem.PageSize - 1)
	return words, words + plan.Results
}

// setMemory makes b the memory of the call. The reply's words go to the part of b that starts at
// offset at; the parameter words is its length in bytes. The payload follows this part.
func (c *call) setMemory(b *mem.Buffer, at, words int) {
	c.Memory, c.ResultsAt = b, at+words
	if words > 0 {
		c.words = b.Bytes()[at : at+words : at+words]
	}
}

// callGranted is the function Granted of a call's request. It passes the call to the executor
// (rpc.Server.Hand).
func callGranted(r *mem.Request, b *mem.Buffer, err error) {
	c := r.Context.(*call)
	r.Group = nil
	if errors.Is(err, mem.ErrClosed) {
		c.Leaves()
		c.Drop() // the connection has ended
		return
	}
	if b != nil {
		c.setMemory(b, 0, c.awaited)
	} // otherwise the pool can never grant so much, and the procedure will fail
	// This goroutine released the memory of another call or connection, and must not be delayed. So
	// the executor runs the call.
	c.conn.rpc.Hand(&c.Call)
}

// Room implements rpc.Way. On a byte stream, MaxReply is the only limit for a reply.
func (c *call) Room() rpc.Room {
	return rpc.Room{Inline: c.conn.cfg.MaxReply}
}

// Place implements rpc.Way. On TCP all results are in the record.
func (c *call) Place(int) (int, bool) { return 0, false }

// Writer implements rpc.Way.
func (c *call) Writer(words int) *xdr.Writer {
	c.place(markSize + min(words, c.conn.cfg.MaxReply))
	c.w.Reset(c.frame[markSize:markSize:len(c.frame)])
	return &c.w
}

// place sets c.frame to memory for size bytes: the record mark and the reply's words.
func (c *call) place(size int) {
	c.dropChunk()
	switch {
	case size > chunkSize && size <= len(c.words):
		c.frame = c.words[:size]
	case size > chunkSize:
		// There is no payload memory for these words. A reply from the reply cache may be longer
		// than planned, or the pool can never grant so much.
		c.frame = make([]byte, size)
	case !c.detached:
		k := tail(&c.conn.chunk, size)
		c.chunk, c.frame = k, k.b[k.used:k.used+size]
	case size > keptRoom:
		c.chunk = newChunk()
		c.frame = c.chunk.b[:size]
	default:
		if cap(c.room) < size {
			c.room = make([]byte, (size+roomStep-1)&^(roomStep-1))
		}
		c.frame = c.room[:size]
	}
	c.charge()
}

// If the call is detached (Detach), charge makes the connection's ledger count the memory that the
// call occupies now.
func (c *call) charge() {
	if !c.detached {
		return
	}
	n := callCost + cap(c.own) + cap(c.room)
	if c.chunk != nil {
		n += chunkSize
	}
	c.conn.ledger.Add(n - c.charged)
	c.charged = n
}

// dropChunk sets c.chunk to nil. If the call is detached (Detach), it also releases the chunk,
// which then belongs to the call. Otherwise the chunk belongs to the connection.
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
	c.detached = true
	c.conn.detach(c)
	if shared := c.chunk; shared != nil {
		// The words written so far move out of the chunk that replies share.
		size := len(c.frame)
		c.chunk = nil
		c.place(size)
		c.w.Rebase(c.frame[markSize:markSize:size])
	}
	if c.inRing {
		c.own = append(c.own[:0], c.Message...)
		c.Message = c.own
		c.inRing = false
	}
	c.charge()
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
	var lies counted
	switch {
	case c.chunk != nil:
		lies = c.chunk
	case len(c.words) > 0 && &b[0] == &c.words[0]:
		lies = c.Memory
	}
	switch {
	case c.detached:
		n.out.mu.Lock()
		n.out.appendLocked(lies, b, c.w.TakePayloads(), nil)
		n.out.pushAndUnlock()
	case c.chunk != nil:
		c.chunk.used += len(b)
		n.batched += n.batch.message(lies, b, c.w.TakePayloads(), nil)
	default:
		if len(b) <= smallReply {
			lies, b = gather(&n.chunk, b)
		}
		n.batched += n.batch.message(lies, b, c.w.TakePayloads(), nil)
	}
	if !c.detached && c.Changes() {
		n.changes++
	}
	n.count.replies.Add(1)
	c.releaseAll()
}

// Refuse implements rpc.Way. TCP has no error messages of its own. A message that is not a call
// gets no answer. A reply that is too large becomes SYSTEM_ERR.
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
func (c *call) Drop() { c.releaseAll() }

// DropAndClose implements rpc.Way.
func (c *call) DropAndClose() {
	n := c.conn
	c.releaseAll()
	n.kill(errEnded)
}

// releaseAll releases everything that c holds. After that, c is used for another call.
func (c *call) releaseAll() {
	n := c.conn
	c.dropChunk()
	if c.Memory != nil {
		c.Memory.Release()
		c.Memory = nil
	}
	c.w.Reset(nil)
	c.Message, c.Conn, c.frame, c.words = nil, nil, nil, nil
	if !c.detached {
		return // the receiving goroutine uses c again
	}
	n.ledger.Add(-c.charged)
	c.conn, c.detached, c.charged = nil, false, 0
	if cap(c.own) > keptRoom {
		c.own = nil
	}
	calls.Put(c)
	n.ended()
}
