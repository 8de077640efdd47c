package rdma

import (
	"errors"
	"math"
	"sync"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// A reply holds the data of a call's reply, from the call of Writer until the reply is sent.
type reply struct {
	write  xdr.Writer
	short  [shortWords]byte // buffer for a short reply's words (its XDR data without payloads)
	long   *[wordsSize]byte // buffer for the words of a longer reply, or nil
	slots  []int32          // for each payload, the index of its Write chunk, or -1
	used   []uint64         // number of bytes for each Write chunk; missing entries mean 0
	pieces [][]byte         // memory for the buffer lists of the RDMA Writes
	out    outbound
}

func (r *reply) reset() {
	if r.long != nil {
		longPool.Put(r.long)
		r.long = nil
	}
	r.out.reset()
	clear(r.pieces)
	r.pieces, r.slots, r.used = r.pieces[:0], r.slots[:0], r.used[:0]
}

// Room implements rpc.Way. Inline is the size of the largest RPC message that travels without a Reply chunk. In
// version 1 it fits into one Send: it is the inline threshold less the header, which returns the chunks that the
// call offered. In version 2 it may travel in parts.
func (c *call) Room() rpc.Room {
	k := c.responder.k
	return rpc.Room{
		Inline:     max(0, c.longest(k.framing.replySize(&c.in, false))),
		ReplyChunk: clampInt(c.in.offer.Reply.Bytes()),
	}
}

// longest returns the length of the longest Payload stream that may travel without a chunk behind a header
// of the given length. A reply to a call in the reverse direction (responder.noChunks) is one Send.
func (c *call) longest(header int) int {
	s, sends := c.responder, replySends
	if s.noChunks {
		sends = 1
	}
	return s.k.framing.longest(header, s.k.sendLimit, sends)
}

// Place implements rpc.Way. Eligible result i uses Write chunk i (RFC 8267 §6). length is
// the chunk's size in bytes. If the chunk is missing or empty, ok is false, and the result
// goes inline with the words.
func (c *call) Place(i int) (length int, ok bool) {
	for l := c.in.offer.Writes; l.Len() > 0; i-- {
		if chunk := l.Next(); i == 0 {
			return clampInt(chunk.Bytes()), chunk.Len() > 0
		}
	}
	return 0, false
}

// writeBytes returns how many bytes all Write chunks of the call have room for.
func (c *call) writeBytes() int {
	var sum uint64
	for l := c.in.offer.Writes; l.Len() > 0; {
		chunk := l.Next()
		sum += chunk.Bytes()
	}
	return clampInt(sum)
}

// clampInt returns v, but at most math.MaxInt32, which an int can hold on every machine.
func clampInt(v uint64) int { return int(min(v, math.MaxInt32)) }

// Writer implements rpc.Way.
func (c *call) Writer(words int) *xdr.Writer {
	c.reply.write.Release()
	if words > wordsSize && c.reserved.words > wordsSize && c.reserved.memory != nil {
		c.reply.write.Reset(c.reserved.memory.Bytes()[c.reserved.wordsAt : c.reserved.wordsAt : c.reserved.wordsAt+c.reserved.words])
	} else {
		c.reply.write.Reset(c.replyWords(words)[:0])
	}
	return &c.reply.write
}

// charge makes the connection's ledger count n more bytes for the call.
func (c *call) charge(n int) {
	c.charged += n
	c.responder.ledger.Add(n)
}

// Detach implements rpc.Way. There is nothing to do, because the message belongs to the call anyway.
func (c *call) Detach() {}

// Drop implements rpc.Way.
func (c *call) Drop() {
	k := c.responder.k
	k.stats.Dropped.Add(1)
	k.framing.discard()
	c.finish()
}

// DropAndClose implements rpc.Way.
func (c *call) DropAndClose() {
	k := c.responder.k
	c.Drop()
	k.endConnection(faultProgram, errEnded)
}

var errEnded = errors.New("rdma: ended by the program that was called")

// Refuse implements rpc.Way.
func (c *call) Refuse(why rpc.Refusal) {
	c.in.lack.bytes = uint32(c.rpc.Needed()) // only an answer to faultNoRoom says it
	c.refuse(refusals[why])
}

// Send implements rpc.Way. The order of decisions is that of RFC 8166 §4.3: eligible results fill
// the Write chunks. The rest goes into the Send if it fits there, otherwise into the Reply chunk.
// If it fits into neither, Send refuses the call.
func (c *call) Send() {
	k, w := c.responder.k, &c.reply.write
	if w.Overflow() {
		c.in.lack.bytes = uint32(c.plan.Reply)
		c.refuse(faultNoRoom)
		return
	}
	if !c.in.offers() && len(w.Payloads()) == 0 {
		c.sendWords()
		return
	}
	if !c.assign() {
		c.refuse(faultResult)
		return
	}
	left := streamLen(w, c.reply.slots)
	header := k.framing.replySize(&c.in, false)
	inline := header+left <= k.sendLimit
	if !inline && (!c.in.offer.Reply.Present || uint64(left) > c.in.offer.Reply.Bytes()) {
		if inline = left <= c.longest(header); !inline {
			c.in.lack.bytes = uint32(left)
			c.refuse(faultNoRoom)
			return
		}
	}
	if !inline {
		header = k.framing.replySize(&c.in, true)
	}
	o := &c.reply.out
	o.setHeaderSize(header)
	k.framing.putReply(o.head, &c.in, returned{c.reply.used, !inline, left})
	c.writeChunks()
	o.local = appendStream(o.local, w, c.reply.slots)
	if inline {
		k.stats.BytesInlineOut.Add(int64(header + left))
	} else {
		c.fill(c.in.offer.Reply.WriteChunk, o.local[1:]...)
		o.local = o.local[:1]
		k.stats.BytesInlineOut.Add(int64(header))
		k.stats.BytesReplyChunk.Add(int64(left))
		k.stats.LongReplies.Add(1)
	}
	k.countReply()
	c.post()
}

// sendWords does the work of Send if the call offers no chunks and the reply has no payloads.
func (c *call) sendWords() {
	k, o, words := c.responder.k, &c.reply.out, c.reply.write.Bytes()
	header := k.framing.replySize(&c.in, false)
	if len(words) > c.longest(header) {
		c.in.lack.bytes = uint32(len(words))
		c.refuse(faultNoRoom)
		return
	}
	o.setHeaderSize(header)
	k.framing.putReply(o.head, &c.in, returned{})
	o.local = append(o.local, words)
	k.countReply()
	k.stats.BytesInlineOut.Add(int64(header + len(words)))
	c.post()
}

// assign assigns eligible results to Write chunks in order. A result whose chunk is empty
// or missing goes inline. A result of no bytes uses up its chunk like any other (RFC 8267
// §6.4.1). assign returns false if a result is larger than its chunk.
func (c *call) assign() bool {
	l := c.in.offer.Writes
	for _, p := range c.reply.write.Payloads() {
		at := int32(-1)
		if p.Eligible && c.plan.Placement && l.Len() > 0 {
			chunk := l.Next()
			used := uint64(0)
			if chunk.Len() > 0 {
				if used = uint64(len(p.Data)); used > chunk.Bytes() {
					c.in.lack = lack{uint32(len(c.reply.used) + 1), uint32(used)}
					return false
				}
				at = int32(len(c.reply.used))
			}
			c.reply.used = append(c.reply.used, used)
		}
		c.reply.slots = append(c.reply.slots, at)
	}
	return true
}

// writeChunks adds to c.reply.out the RDMA Writes that move results into their Write chunks, without
// XDR padding.
func (c *call) writeChunks() {
	payloads, next := c.reply.write.Payloads(), 0
	slot := int32(0)
	for l := c.in.offer.Writes; l.Len() > 0; slot++ {
		chunk := l.Next()
		for next < len(payloads) && c.reply.slots[next] < slot {
			next++
		}
		if next == len(payloads) {
			return
		}
		if c.reply.slots[next] != slot {
			continue
		}
		data := payloads[next].Data
		c.responder.k.stats.BytesWritten.Add(int64(len(data)))
		if len(data) > 0 {
			c.fill(chunk, data)
		}
	}
}

// fill adds to c.reply.out the RDMA Writes that move stream into a chunk. The bytes fill the segments of
// the chunk one after the other, without gaps. No Write has more buffers than the device allows
// (maxLocal).
func (c *call) fill(chunk wire.WriteChunk, stream ...[]byte) {
	limit := c.responder.k.maxLocal
	for i := 0; i < chunk.Len() && len(stream) > 0; i++ {
		s := chunk.At(i)
		for at := uint32(0); at < s.Length && len(stream) > 0; {
			first := len(c.reply.pieces)
			from := at
			for at < s.Length && len(stream) > 0 && len(c.reply.pieces)-first < limit {
				b := stream[0]
				n := int(min(uint64(s.Length-at), uint64(len(b))))
				c.reply.pieces = append(c.reply.pieces, b[:n:n])
				at += uint32(n)
				if n == len(b) {
					stream = stream[1:]
				} else {
					stream[0] = b[n:]
				}
			}
			c.reply.out.work = append(c.reply.out.work, rdmacm.Work{
				Op: rdmacm.OpWrite, Local: c.reply.pieces[first:len(c.reply.pieces):len(c.reply.pieces)], Remote: remote(s, from),
			})
		}
	}
}

// refuse answers the call with the RDMA_ERROR that the table of faults has for f.
func (c *call) refuse(f Fault) {
	k := c.responder.k
	k.note(f, k.framing.putError(&c.reply.out, &c.in, f), c.in.xid)
	c.post()
}

// post sends the reply.
func (c *call) post() {
	s, o := c.responder, &c.reply.out
	s.written.add(c.in.xid, o)
	if o.invalidate != 0 {
		s.k.stats.Invalidated.Add(1)
	}
	if s.k.framing.post(o) {
		c.finish()
	}
}

// sent ends the call after the chain of its reply has completed.
func (c *call) sent(err error, failed int) {
	if err != nil {
		op := failed >= 0 && failed < len(c.reply.out.work) && c.reply.out.work[failed].Op == rdmacm.OpWrite
		c.responder.operationFailed(c.in.xid, err, op)
	}
	c.finish()
}

// The sizes of the two buffers for the words of a reply, in bytes. Most replies are short. A call
// gets the larger buffer only when it writes its reply, so a waiting call has none. A reply of more
// than wordsSize bytes uses the memory reserved for the call.
const (
	shortWords = 512
	wordsSize  = 4096
)

var longPool = sync.Pool{New: func() any { return new([wordsSize]byte) }}

// replyWords returns a buffer for n bytes of words: the short one if it suffices, otherwise the long
// one, even if n is more than wordsSize.
func (c *call) replyWords(n int) []byte {
	if n <= shortWords && c.reply.long == nil {
		return c.reply.short[:]
	}
	if c.reply.long == nil {
		c.reply.long = longPool.Get().(*[wordsSize]byte)
		c.charge(wordsSize)
	}
	return c.reply.long[:]
}

// writtenMost is how many handles written remembers for a connection, at most.
const writtenMost = 256

// written remembers which call's reply wrote to a handle (STag) of the peer, or invalidated it. A
// device may report work as done before the peer has seen and refused it. The error that then ends
// the connection names only the handle (rdmacm.RefusedError), not the call.
//
// To remember a handle takes one atomic addition and one store. If the list is full, the new handle
// replaces the oldest one, and a later error that names the oldest one is not traced to its call.
type written struct {
	next atomic.Uint32
	// last holds pairs of XID and handle. It is nil until a reply uses a handle.
	last atomic.Pointer[[writtenMost]atomic.Uint64]
}

// add remembers the handles that the reply o to the call xid uses: those of its RDMA Writes, and
// the one that it invalidates.
func (w *written) add(xid uint32, o *outbound) {
	for i := range o.work {
		w.store(xid, o.work[i].Remote.STag)
	}
	if o.invalidate != 0 {
		w.store(xid, o.invalidate)
	}
}

func (w *written) store(xid, stag uint32) {
	last := w.last.Load()
	if last == nil {
		w.last.CompareAndSwap(nil, new([writtenMost]atomic.Uint64))
		last = w.last.Load()
	}
	last[w.next.Add(1)%writtenMost].Store(uint64(xid)<<32 | uint64(stag))
}
