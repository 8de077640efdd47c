package rdma

import (
	"net/netip"

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

// arrived begins the call m, on the receiving goroutine.
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

// reject answers a message with an RDMA_ERROR.
func (s *responder) reject(f Fault, m *inbound) {
	if !s.enter(m) {
		return
	}
	c := getCall()
	c.responder, c.in = s, *m
	c.refuse(f)
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
