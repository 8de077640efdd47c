package rdma

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sync"

	"github.com/nfsrdmad/nfsrdmad/internal/queue"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// A call is one call of the peer in the responder, and implements rpc.Way for its reply. It goes
// through stages, one goroutine at a time: arrived, admitted, memory granted, chunks read, served,
// answered. If the call is in a Position-Zero Read chunk, the responder gets its memory and reads
// that chunk before it admits the call. The fields after charged hold the data that the stages add.
type call struct {
	queue.Links[call] // links in readQueue.calls or in readClaim.waiting
	responder         *responder
	in                inbound
	rpc               rpc.Call
	plan              rpc.Plan
	// charged is how many bytes the ledger of the connection counts for this call.
	charged int

	list     readList
	reserved reservation
	claim    *readClaim // counts the call's Reads, unless nil
	stage    callStage
	reads    reads
	reply    reply
}

// callPool keeps unused calls for all connections, so that in steady state none is allocated.
var callPool sync.Pool

func newCallRecord() *call {
	c := new(call)
	c.reserved.request.Granted, c.reserved.request.Context = callGranted, c
	c.reply.out.init(128, c.sent)
	c.reply.out.role = roleAnswer
	c.reply.out.work, c.reply.out.local = make([]rdmacm.Work, 0, 4), make([][]byte, 0, 8)
	c.reply.pieces = make([][]byte, 0, 8)
	return c
}

// getCall returns an unused call. Its caller sets responder and in.
func getCall() *call {
	if c, ok := callPool.Get().(*call); ok {
		return c
	}
	return newCallRecord()
}

// finish releases everything that the call holds. send or Drop has already made this side ready
// to receive the peer's next call.
func (c *call) finish() {
	s := c.responder
	if c.claim != nil {
		s.reads.leave(c)
	}
	s.ledger.Add(-c.charged)
	c.reply.write.Release()
	if c.reserved.memory != nil {
		c.reserved.memory.Release()
	}
	c.in.recv.Release()
	c.in.whole.release()

	c.responder, c.in, c.charged = nil, inbound{}, 0
	c.rpc.Reset()
	c.plan, c.stage, c.claim = rpc.Plan{}, stageChunks, nil
	c.list.reset()
	c.reserved.reset()
	c.reads.reset()
	c.reply.reset()
	callPool.Put(c)
	s.k.leave()
	s.eased()
}

// checkAndAdmit checks the header of a call (RFC 8166 §4.5). If the RPC message is inline,
// checkAndAdmit also admits the call. Otherwise it first reserves memory for the Position-Zero
// chunk.
func (c *call) checkAndAdmit() {
	if f := c.check(); f != faultNone {
		c.refuse(f)
		return
	}
	s := c.responder
	c.rpc.Conn, c.rpc.Way = s.conn, c
	c.reply.out.invalidate = c.in.invalidate
	if !c.in.external {
		payload := c.in.payload()
		if c.message(payload, len(payload)) {
			c.admit()
		}
		return
	}
	s.k.stats.LongCalls.Add(1)
	c.reserved.request.Group = s.unjudged
	if !s.conn.Known() && c.list.zeroBytes > rpc.AdmitPrefix {
		// This peer has not proved to be a client yet (rpc.Conn.Known). So the RPC server admits
		// or refuses the call by its first AdmitPrefix bytes, before memory is reserved for the
		// rest.
		c.stage = stagePrefix
		c.reserved.request.Size = rpc.AdmitPrefix
		c.ask()
		return
	}
	// The procedure is not known yet, so the memory is for the largest reply that fits into the
	// call's chunks, up to maxReply.
	c.stage = stageZero
	room := c.Room().Largest()
	c.reserve(min(room, s.maxReply), pages(min(room+c.writeBytes(), s.maxReply)))
}

// admit continues with a call that the RPC server has admitted. If the call needs no memory, or has
// to be answered early (rpc.Plan.Early), admit serves it at once. Otherwise it first reserves the
// memory.
func (c *call) admit() {
	if c.plan.Early {
		c.responder.calls.Serve(&c.rpc)
		return
	}
	if len(c.list.segments) == 0 && c.plan.Results == 0 && c.plan.Reply <= wordsSize {
		// The call needs no memory and no RDMA Reads.
		c.rpc.ResultsAt, c.rpc.Excised = 0, nil
		c.responder.calls.Serve(&c.rpc)
		return
	}
	c.reserved.request.Group = c.plan.Group
	c.reserve(c.plan.Reply, c.plan.Results)
}

// check returns the fault of a call's header, or faultNone. It also fills in c.list from the Read
// list.
func (c *call) check() Fault {
	s, m := c.responder, &c.in
	if m.fault != faultNone {
		return m.fault
	}
	if !m.chunks() {
		if m.external || len(m.payload()) < 4 {
			return faultNoPayload
		}
		return faultNone
	}
	switch {
	case s.noChunks:
		return faultNoChunks
	case m.wraps:
		return faultWraps
	case s.k.framing.replySize(m, true) > s.k.sendLimit:
		return faultEcho
	}
	if f := c.list.sort(m.body, m.reads, s.maxCall); f != faultNone {
		return f
	}
	payload := len(m.payload())
	if m.external {
		payload = c.list.zeroBytes
	}
	switch {
	case !m.external && c.list.zeroSegments > 0:
		return faultTwoPayloads
	case payload < 4:
		return faultNoPayload
	case len(c.list.segments) > 0 && s.k.device.ReadDepth() < 1:
		return faultNoReads
	case s.failed.count.Load() > 0 && s.failed.take(s.peer, m.xid):
		return faultFailedBefore
	}
	return faultNone
}

// A readList is the Read list of a call. Its segments and chunks are in the order of their
// positions.
type readList struct {
	// segments lists the segments of all chunks. The first zeroSegments of them, zeroBytes
	// bytes in total, are at position zero.
	segments     []wire.ReadSegment
	zeroSegments int
	zeroBytes    int
	// bytes is the length of all segments, and pieces the number of RDMA Reads that they need.
	bytes, pieces int
	// chunks lists the Read chunks at other positions. placed describes them for the rpc
	// package, and excised holds their data.
	chunks  []readChunk
	placed  []rpc.Placed
	excised []xdr.Excised
}

// A readChunk is a Read chunk at a position above zero.
type readChunk struct {
	position uint32
	length   int
	at       int // offset in the call's memory
}

// sort fills in r with the segments of a message's Read lists, sorted by Position. The segments of
// each chunk keep the order of the lists. The parameter most limits the total length of the
// segments, in bytes.
func (r *readList) sort(body, l wire.ReadList, most int) Fault {
	sorted := true
	for i := range body.Len() {
		r.segments = append(r.segments, body.At(i)) // all of position zero
	}
	for i := range l.Len() {
		s := l.At(i)
		if s.Position%4 != 0 {
			return faultPosition
		}
		last := len(r.segments) - 1
		sorted = sorted && (last < 0 || r.segments[last].Position <= s.Position)
		r.segments = append(r.segments, s)
	}
	if !sorted {
		slices.SortStableFunc(r.segments, func(a, b wire.ReadSegment) int { return cmp.Compare(a.Position, b.Position) })
	}
	for _, s := range r.segments {
		// The parameter most is at most 1 GiB, so r.bytes cannot overflow.
		if int64(s.Length) > int64(most-r.bytes) {
			return faultTooMuch
		}
		r.bytes += int(s.Length)
		r.pieces += (int(s.Length) + maxRead - 1) / maxRead
		if s.Position == 0 {
			r.zeroSegments++
			r.zeroBytes += int(s.Length)
			continue
		}
		last := len(r.chunks) - 1
		if last < 0 || r.chunks[last].position != s.Position {
			r.chunks = append(r.chunks, readChunk{position: s.Position})
			last++
		}
		r.chunks[last].length += int(s.Length)
	}
	for _, k := range r.chunks {
		r.placed = append(r.placed, rpc.Placed{Position: k.position, Length: uint32(k.length)})
	}
	return faultNone
}

func (r *readList) reset() {
	r.segments, r.chunks, r.placed = r.segments[:0], r.chunks[:0], r.placed[:0]
	r.zeroSegments, r.zeroBytes, r.bytes, r.pieces = 0, 0, 0, 0
	clear(r.excised)
	r.excised = r.excised[:0]
}

// message asks the RPC server to admit the call. The parameter start is the RPC message, or at
// least its first rpc.AdmitPrefix bytes. The parameter length is the length of the whole message in
// bytes, without the chunks at positions above zero. message returns false if the call is over,
// because it was refused, answered or dropped.
func (c *call) message(start []byte, length int) bool {
	if len(start) < 4 || binary.BigEndian.Uint32(start) != c.in.xid {
		c.refuse(faultXID)
		return false
	}
	c.rpc.Message, c.rpc.MessageLen, c.rpc.Placed = start, length, c.list.placed
	plan, ok := c.responder.calls.Admit(&c.rpc)
	if !ok {
		return false // c may already be in use for another call
	}
	c.plan = plan
	return true
}
