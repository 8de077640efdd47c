package rdma

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

type recv = rdmacm.Recv

// A call is the responder's record of one call, and the way of its reply. It
// goes through stages, one goroutine at a time: arrived, admitted, memory
// granted, chunks read, served, answered. A call in a Position-Zero chunk has
// its memory granted and that chunk read before it can be admitted.
type call struct {
	responder *responder
	recv      *recv
	xid       uint32
	version   uint32 // of the message, which an RDMA_ERROR repeats
	offer     wire.Offer
	// tag is the steering tag that the reply invalidates, if invalidate.
	tag        uint32
	invalidate bool
	rpc        rpc.Call
	plan       rpc.Plan
	admitted   bool
	stage      callStage
	// inRun: the goroutine that receives has the call, and no other can get it.
	inRun bool

	// segments are the Read list by ascending position, chunks those that are
	// not at position zero; zeroSegments lead segments, zeroBytes long.
	segments     []wire.ReadSegment
	zeroSegments int
	zeroBytes    int
	chunks       []readChunk
	placed       []rpc.Placed
	excised      []xdr.Excised

	// The reserved memory and what is where in it.
	request mem.Request
	memory  *mem.Buffer
	zeroAt  int
	wordsAt int
	words   int // bytes reserved for reply words
	results int

	// What is left to be read, into memory from nextAt on.
	reading  []wire.ReadSegment
	cut      []wire.ReadSegment // reading, at stagePrefix
	nextByte uint32             // within reading[0]
	nextAt   int
	unread   atomic.Int32
	lost     atomic.Bool
	queued   *call // readQueue's link

	// claim is what the call has a part of, while its Reads are under way.
	claim                   *readClaim
	claimPieces, claimBytes int

	// The reply.
	write  xdr.Writer
	short  *[shortWords]byte // the reply's words, in one of both
	long   *[wordsSize]byte
	head   []byte
	work   []rdmacm.Work
	local  [][]byte // the header, then the stream left for the Send
	pieces [][]byte // of the Writes
	slots  []int32  // Write chunk of each payload, or -1
	used   []uint64 // bytes of each Write chunk, but for the last ones if nothing was left for them
	chain  rdmacm.Chain
	copied []byte

	// charged is what the connection's ledger has of the call; sent is the length
	// of the chain, in bytes.
	charged, sent int
}

// callStage is what of a call is being brought.
type callStage uint8

const (
	stageChunks callStage = iota // what is not at position zero
	stagePrefix                  // the start of the Position-Zero chunk, to judge the call by
	stageZero                    // the Position-Zero chunk
)

// A readChunk is a Read chunk at a position above zero.
type readChunk struct {
	position uint32
	length   int
	at       int // in the call's memory
}

// callPool keeps records of calls for all connections: in steady state a call
// allocates nothing.
var callPool sync.Pool

func newCallRecord() *call {
	c := &call{
		head:   make([]byte, 0, 128),
		work:   make([]rdmacm.Work, 0, 4),
		local:  make([][]byte, 0, 8),
		pieces: make([][]byte, 0, 8),
	}
	c.request.Granted = callGranted
	c.request.Context = c
	c.chain.Done = callDone
	c.chain.Context = c
	return c
}

// newCall takes a record for the message r.
func newCall(s *responder, p wire.Prefix, r *recv) *call {
	c := getCall()
	c.take(s, p, r)
	return c
}

func getCall() *call {
	if c, ok := callPool.Get().(*call); ok {
		return c
	}
	return newCallRecord()
}

// take makes c the record for the message r.
func (c *call) take(s *responder, p wire.Prefix, r *recv) {
	c.responder, c.recv = s, r
	c.xid, c.version = p.XID, p.Version
}

// finishInRun ends a call that was answered in place and took nothing but its record:
// the next one gets that.
func (c *call) finishInRun() bool {
	u := &c.responder.run
	if !c.inRun || u.call != nil || c.memory != nil || c.long != nil || c.charged != 0 || len(c.segments)+len(c.work)+len(c.used) > 0 {
		return false
	}
	c.write.Release()
	c.recv.Release()
	c.recv = nil
	c.admitted, c.words, c.results = false, 0, 0
	u.call = c
	return true
}

// finish gives back all that the call holds. The receive was promised anew
// before, so that the peer may call again.
func (c *call) finish() {
	s := c.responder
	if c.finishInRun() {
		s.goOn()
		return
	}
	k := s.k
	s.reads.leave(c)
	s.ledger.Add(-c.charged)
	c.write.Release()
	if c.memory != nil {
		c.memory.Release()
	}
	c.recv.Release()
	inRun := c.inRun
	c.forget()
	callPool.Put(c)
	if !inRun {
		k.leave()
	}
	s.goOn()
}

// forget makes c a record of no call.
func (c *call) forget() {
	c.dropWords()
	c.responder, c.recv, c.memory = nil, nil, nil
	c.inRun = false
	c.offer, c.tag, c.invalidate = wire.Offer{}, 0, false
	c.rpc.Reset()
	c.plan = rpc.Plan{}
	c.request.Group = nil
	c.admitted, c.stage = false, stageChunks
	c.claim, c.claimPieces, c.claimBytes = nil, 0, 0
	c.charged, c.sent = 0, 0
	c.reading, c.cut = nil, c.cut[:0]
	c.segments, c.chunks, c.placed = c.segments[:0], c.chunks[:0], c.placed[:0]
	clear(c.excised)
	c.excised = c.excised[:0]
	c.zeroSegments, c.zeroBytes, c.words, c.results = 0, 0, 0, 0
	c.lost.Store(false)
	clear(c.work)
	clear(c.local)
	clear(c.pieces)
	c.work, c.local, c.pieces, c.slots = c.work[:0], c.local[:0], c.pieces[:0], c.slots[:0]
	c.used = c.used[:0]
}

// begin judges what can be judged before the call is known (RFC 8166 §4.5),
// admits it where it is here already, and reserves its memory.
func (c *call) begin(h *wire.Header) {
	if f := c.check(h); f != faultNone {
		c.refuse(f)
		return
	}
	s := c.responder
	c.rpc.Conn, c.rpc.Way = s.conn, c
	c.offer = h.Offer
	c.tag, c.invalidate = 0, false
	if s.k.invalidate {
		c.tag, c.invalidate = h.SoleHandle()
	}
	if h.Proc == wire.ProcMsg {
		payload := c.recv.Bytes[h.Size:]
		if c.message(payload, len(payload)) {
			c.admit()
		}
		return
	}
	s.k.stats.LongCalls.Add(1)
	c.request.Group = s.unjudged
	if !s.conn.Known() && c.zeroBytes > rpc.AdmitPrefix {
		// A stranger's call is judged by its start before room is made for the
		// rest.
		c.stage = stagePrefix
		c.request.Size = rpc.AdmitPrefix
		c.ask()
		return
	}
	// Only the reply's room bounds what the call can need for it.
	c.stage = stageZero
	room := c.Room()
	most := min(room.ReplyChunk+c.writeBytes(), s.maxReply)
	c.reserve(min(room.ReplyChunk, most), most)
}

// admit goes on with a call that was admitted.
func (c *call) admit() {
	if c.plan.Early {
		c.responder.calls.Serve(&c.rpc)
		return
	}
	if len(c.segments) == 0 && c.plan.Results == 0 && c.plan.Reply <= wordsSize {
		// Nothing is to be reserved or brought.
		c.rpc.ResultsAt, c.rpc.Excised = 0, nil
		c.responder.calls.Serve(&c.rpc)
		return
	}
	c.request.Group = c.plan.Group
	c.reserve(c.plan.Reply, c.plan.Results)
}

// check looks at the header of a call and sorts its Read list.
func (c *call) check(h *wire.Header) Fault {
	s := c.responder
	chunks := h.Reads.Len() > 0 || h.Writes.Len() > 0 || h.Reply.Present
	if !chunks {
		if h.Proc == wire.ProcNoMsg || len(c.recv.Bytes)-h.Size < 4 {
			return faultNoPayload
		}
		return faultNone
	}
	switch {
	case s.noChunks:
		return faultNoChunks
	case h.Wraps():
		return faultWraps
	case h.ReplySize() > s.k.sendLimit:
		return faultEcho
	}
	if f := c.sortReads(h.Reads); f != faultNone {
		return f
	}
	payload := len(c.recv.Bytes) - h.Size
	if h.Proc == wire.ProcNoMsg {
		payload = c.zeroBytes
	}
	switch {
	case h.Proc == wire.ProcMsg && c.zeroSegments > 0:
		return faultTwoPayloads
	case payload < 4:
		return faultNoPayload
	case len(c.segments) > 0 && s.k.device.ReadDepth() < 1:
		return faultNoReads
	case s.failed.take(s.peer, h.XID):
		return faultFailedBefore
	}
	return faultNone
}

// sortReads fills in segments and chunks from the Read list, by ascending
// position, each chunk's segments in the order of the list.
func (c *call) sortReads(l wire.ReadList) Fault {
	sorted := true
	for i := range l.Len() {
		s := l.At(i)
		if s.Position%4 != 0 {
			return faultPosition
		}
		sorted = sorted && (i == 0 || c.segments[i-1].Position <= s.Position)
		c.segments = append(c.segments, s)
	}
	if !sorted {
		slices.SortStableFunc(c.segments, func(a, b wire.ReadSegment) int { return cmp.Compare(a.Position, b.Position) })
	}
	total := 0
	for _, s := range c.segments {
		// Both bounds keep total far from overflow.
		if int64(s.Length) > int64(c.responder.maxCall-total) {
			return faultTooMuch
		}
		total += int(s.Length)
		if s.Position == 0 {
			c.zeroSegments++
			c.zeroBytes += int(s.Length)
			continue
		}
		last := len(c.chunks) - 1
		if last < 0 || c.chunks[last].position != s.Position {
			c.chunks = append(c.chunks, readChunk{position: s.Position})
			last++
		}
		c.chunks[last].length += int(s.Length)
	}
	for _, k := range c.chunks {
		c.placed = append(c.placed, rpc.Placed{Position: k.position, Length: uint32(k.length)})
	}
	return faultNone
}

// message is called when the RPC message, of length bytes without what travels
// beside it, is at hand as far as it takes to judge it. It admits the call; false
// means that the call is over.
func (c *call) message(start []byte, length int) bool {
	if !c.named(start) {
		return false
	}
	c.rpc.Message, c.rpc.MessageLen, c.rpc.Placed = start, length, c.placed
	plan, ok := c.responder.calls.Admit(&c.rpc)
	if !ok {
		return false
	}
	c.plan, c.admitted = plan, true
	return true
}

// named says whether the message has the XID of its header; otherwise the call is
// over.
func (c *call) named(message []byte) bool {
	if len(message) < 4 || binary.BigEndian.Uint32(message) != c.xid {
		c.refuse(faultXID)
		return false
	}
	return true
}

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
