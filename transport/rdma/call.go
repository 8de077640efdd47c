package rdma

import (
	"sync"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// A call is the responder's record of one call, and implements rpc.Way for its reply. It
// goes through stages, one goroutine at a time: arrived, admitted, memory granted, chunks
// read, served, answered. If the call is in a Position-Zero chunk, the responder gets its
// memory and reads that chunk before it admits the call.
type call struct {
	responder *responder
	in        inbound
	rpc       rpc.Call
	plan      rpc.Plan
	stage     callStage
	// prefix is the start of a Position-Zero chunk, if the call was judged by it (prefix.go).
	prefix *prefix
	// inRun: only the receiving goroutine uses the call.
	inRun bool

	// segments is the Read list by ascending position; the first zeroSegments of it,
	// zeroBytes long, are at position zero. chunks are the Read chunks at other positions.
	segments     []wire.ReadSegment
	zeroSegments int
	zeroBytes    int
	chunks       []readChunk
	placed       []rpc.Placed
	excised      []xdr.Excised

	// The reserved memory, and the places of its parts.
	request mem.Request
	memory  *mem.Buffer
	zeroAt  int
	wordsAt int
	words   int // bytes reserved for reply words
	results int

	// The segments that are still to be read, into memory from nextAt on.
	reading  []wire.ReadSegment
	cut      []wire.ReadSegment // reading, at stagePrefix
	nextByte uint32             // within reading[0]
	nextAt   int
	unread   atomic.Int32
	lost     atomic.Bool
	queued   *call // readQueue's link

	// claim is the readClaim that this call shares while its Reads are under way.
	claim                   *readClaim
	claimPieces, claimBytes int

	// The reply.
	write  xdr.Writer
	short  *[shortWords]byte // the reply's words are in short or in long
	long   *[wordsSize]byte
	out    outbound
	pieces [][]byte // pieces of the RDMA Writes
	slots  []int32  // for each payload, the index of its Write chunk, or -1
	used   []uint64 // bytes in each Write chunk; missing entries mean 0

	// charged is the part of the connection's ledger that this call occupies, in bytes.
	charged int
}

// A readChunk is a Read chunk at a position above zero.
type readChunk struct {
	position uint32
	length   int
	at       int // in the call's memory
}

// callPool keeps call records for all connections, so that in steady state a call allocates
// nothing.
var callPool sync.Pool

func newCallRecord() *call {
	c := &call{pieces: make([][]byte, 0, 8)}
	c.request.Granted = callGranted
	c.request.Context = c
	c.out.init(128, c.sent)
	c.out.work, c.out.local = make([]rdmacm.Work, 0, 4), make([][]byte, 0, 8)
	return c
}

// getCall returns a record. Its caller sets responder and in.
func getCall() *call {
	if c, ok := callPool.Get().(*call); ok {
		return c
	}
	return newCallRecord()
}

// finishInRun ends a call that was answered in place and used nothing but its record. The
// run keeps the record for its next call.
func (c *call) finishInRun() bool {
	u := &c.responder.run
	if !c.inRun || u.call != nil || c.memory != nil || c.long != nil || c.charged != 0 || len(c.segments)+len(c.out.work)+len(c.slots)+len(c.used) > 0 {
		return false
	}
	c.write.Release()
	c.in.recv.Release()
	c.in.recv = nil
	c.words, c.results = 0, 0
	u.call = c
	return true
}

// finish releases everything that the call holds. The receive was promised before, so that
// the peer may call again.
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
	c.in.recv.Release()
	inRun := c.inRun
	c.forget()
	callPool.Put(c)
	if !inRun {
		k.leave()
	}
	s.goOn()
}

// forget clears the record for another call.
func (c *call) forget() {
	c.dropWords()
	c.dropPrefix()
	c.responder, c.in, c.memory = nil, inbound{}, nil
	c.inRun = false
	c.rpc.Reset()
	c.plan = rpc.Plan{}
	c.request.Group = nil
	c.stage = stageChunks
	c.claim, c.claimPieces, c.claimBytes = nil, 0, 0
	c.charged = 0
	c.reading, c.cut = nil, c.cut[:0]
	c.segments, c.chunks, c.placed = c.segments[:0], c.chunks[:0], c.placed[:0]
	clear(c.excised)
	c.excised = c.excised[:0]
	c.zeroSegments, c.zeroBytes, c.words, c.results = 0, 0, 0, 0
	c.lost.Store(false)
	c.out.reset()
	clear(c.pieces)
	c.pieces, c.slots, c.used = c.pieces[:0], c.slots[:0], c.used[:0]
}
