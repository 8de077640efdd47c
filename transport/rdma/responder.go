package rdma

import (
	"net/netip"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// A responder serves the calls of one connection.
type responder struct {
	k      *connection
	calls  Calls
	conn   *rpc.Conn
	share  *mem.Share
	pool   *mem.Pool // nil: calls may move no data by RDMA
	ledger mem.Ledger
	held   held
	// maxCall and maxReply: see Config.
	maxCall, maxReply int
	// noChunks: the peer may not use chunks, because this side is a Requester of its own
	// (RFC 8167 §5.3).
	noChunks bool
	failed   *failedPart
	written  written
	// blamed: the work of a call has come back as failed. No other call is to blame for the
	// connection's end.
	blamed atomic.Bool
	// unjudged bounds the memory of calls that are not admitted yet.
	unjudged *mem.Group
	peer     netip.Addr
	reads    readQueue
	run      run
}

// newResponder serves the calls of k's peer, and grants it granted credits.
func newResponder(k *connection, calls Calls, granted int, failed *failedXIDs) *responder {
	peer := k.device.Peer().Addr().Unmap()
	s := &responder{
		k:        k,
		calls:    calls,
		conn:     calls.NewConn(k.device.Peer(), k.device.Local(), "rdma", privileged),
		maxCall:  defaultMaxCall,
		maxReply: defaultMaxReply,
		peer:     peer,
		failed:   failed.of(peer),
	}
	k.granted.Store(uint32(granted))
	s.reads.k, s.reads.depth = k, k.device.ReadDepth()
	k.responder, k.eased = s, s.goOn
	return s
}

// privileged: every connection counts as made by a privileged process. knfsd does the same.
const privileged = true

// callCost is the estimated heap memory of a call beside its message and the words of its
// reply, in bytes.
const callCost = 3072

// holder is the connection as the holder of its share of memory.
type holder connection

// Progress implements mem.Holder. The connection waits for its peer while Reads or replies
// are under way.
func (k *holder) Progress() (moved uint64, waitsForPeer bool) {
	back := k.back.Load()
	return k.device.Progress(), k.sent.Load() > back
}

// End implements mem.Holder.
func (k *holder) End(why error) {
	(*connection)(k).end(faultStarved, why)
}

// arrived begins the call m, on the receiving goroutine. A call with a faulty header costs
// as much until its RDMA_ERROR has left, so the same bounds hold for it.
func (s *responder) arrived(m *inbound) {
	if s.full() && s.hold(m) {
		return
	}
	if !s.enterRun(m) {
		return
	}
	u := &s.run
	c := u.call
	if u.call = nil; c == nil {
		c = getCall()
	}
	u.calls++
	u.bytesIn += len(m.recv.Bytes)
	c.responder, c.in = s, *m
	c.inRun = true
	c.begin()
}

// begin begins a call after enter, on any goroutine.
func (s *responder) begin(m *inbound) {
	s.k.stats.Calls.Add(1)
	s.k.stats.BytesInlineIn.Add(int64(len(m.recv.Bytes)))
	c := getCall()
	c.responder, c.in = s, *m
	c.charge(callCost + cap(m.recv.Bytes))
	c.begin()
}

// grant grants the peer more credits, from the next reply on. It promises the receives for
// them first (RFC 8166 §3.3.1).
func (s *responder) grant(more int) {
	if more > 0 {
		s.k.promise(more)
		s.k.granted.Add(uint32(more))
	}
}

// closed runs when the connection has ended because of why. Calls in progress run on; the
// device flushes their replies.
func (s *responder) closed(why error) {
	s.blame(why)
	s.conn.Close()
	s.reads.closed()
	s.dropHeld()
	if s.share != nil {
		s.share.Close()
	}
}

// A run is the state of a responder while there is input: from the first message that the
// receiving goroutine passes on until Drained. A call that is answered within the run, in
// place, needs no record, no room for its reply, no lock and no counter of its own. The run
// belongs to the receiving goroutine.
type run struct {
	// entered: the run counts as one call of the connection, for all calls served in place.
	entered bool
	// call is the record for the next call, with room for its reply.
	call *call

	// Counts for the Stats.
	calls, replies, bytesIn, bytesOut int
}

// enterRun begins a call in place for the message m. It returns false if the connection
// drains, or was ended because of too many calls.
func (s *responder) enterRun(m *inbound) bool {
	n := s.k.calls.Load()
	if !s.run.entered && n&drainBit == 0 {
		n = s.k.enter()
		s.run.entered = n > 0
	}
	if n&drainBit != 0 || !s.run.entered {
		s.k.drop(faultDraining, m)
		return false
	}
	if n > s.mostCalls()+overrunSlack && s.overrun(n) {
		m.recv.Release()
		return false
	}
	return true
}

// endRun releases what the run holds.
func (s *responder) endRun() {
	u := &s.run
	if u.call != nil {
		u.call.forget()
		callPool.Put(u.call)
	}
	if u.calls > 0 {
		st := s.k.stats
		st.Calls.Add(int64(u.calls))
		st.Replies.Add(int64(u.replies))
		st.BytesInlineIn.Add(int64(u.bytesIn))
		st.BytesInlineOut.Add(int64(u.bytesOut))
	}
	entered := u.entered
	*u = run{}
	if entered {
		s.k.leave()
	}
}

// leaveRun takes the call out of the run, so that any goroutine may continue it.
func (c *call) leaveRun() {
	if !c.inRun {
		return
	}
	c.inRun = false
	s := c.responder
	// The run counts as a call too, so the connection cannot finish draining meanwhile.
	s.k.calls.Add(1)
	n := callCost + cap(c.in.recv.Bytes)
	if c.reply.short != nil {
		n += shortWords
	}
	if c.reply.long != nil {
		n += wordsSize
	}
	c.charge(n)
}
