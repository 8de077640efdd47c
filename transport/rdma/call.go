package rdma

import (
	"sync"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// A call is the responder's record of one call, and implements rpc.Way for its reply. It
// goes through stages, one goroutine at a time: arrived, admitted, memory granted, chunks
// read, served, answered. If the call is in a Position-Zero chunk, the responder gets its
// memory and reads that chunk before it admits the call. The fields after charged hold the
// data that the stages add.
type call struct {
	responder *responder
	in        inbound
	rpc       rpc.Call
	plan      rpc.Plan
	// inRun is true while only the receiving goroutine uses the call; see run.
	inRun bool
	// charged is the part of the connection's ledger that this call occupies, in bytes.
	charged int

	list     readList
	reserved reservation
	claimed  claimed
	stage    callStage
	reads    reads
	reply    reply
}

// callPool keeps call records for all connections, so that in steady state a call allocates
// nothing.
var callPool sync.Pool

func newCallRecord() *call {
	c := new(call)
	c.reserved.request.Granted, c.reserved.request.Context = callGranted, c
	c.reply.out.init(128, c.sent)
	c.reply.out.work, c.reply.out.local = make([]rdmacm.Work, 0, 4), make([][]byte, 0, 8)
	c.reply.pieces = make([][]byte, 0, 8)
	return c
}

// getCall returns a record. Its caller sets responder and in.
func getCall() *call {
	if c, ok := callPool.Get().(*call); ok {
		return c
	}
	return newCallRecord()
}

// finishInRun ends a call that the receiving goroutine answered itself, if the call used
// nothing but its record. The run keeps the record for its next call. finishInRun returns
// false if the call used more.
func (c *call) finishInRun() bool {
	u := &c.responder.run
	if !c.inRun || u.call != nil || c.reserved.memory != nil || c.reply.long != nil || c.charged != 0 || len(c.list.segments)+len(c.reply.out.work)+len(c.reply.slots)+len(c.reply.used) > 0 {
		return false
	}
	c.reply.write.Release()
	c.in.recv.Release()
	c.in.recv = nil
	c.reserved.words, c.reserved.results = 0, 0
	u.call = c
	return true
}

// finish releases everything that the call holds. The receive for the peer's next call was
// promised earlier, by sendCopy or Drop.
func (c *call) finish() {
	s := c.responder
	if c.finishInRun() {
		s.goOn()
		return
	}
	k := s.k
	s.reads.leave(c)
	s.ledger.Add(-c.charged)
	c.reply.write.Release()
	if c.reserved.memory != nil {
		c.reserved.memory.Release()
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
	c.responder, c.in, c.inRun, c.charged = nil, inbound{}, false, 0
	c.rpc.Reset()
	c.plan = rpc.Plan{}
	c.stage = stageChunks
	c.list.reset()
	c.reserved.reset()
	c.claimed = claimed{}
	c.reads.reset()
	c.reply.reset()
}
