package rdma

import (
	"errors"
	"fmt"
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
	pool   *mem.Pool // nil if calls may move no data by RDMA
	ledger mem.Ledger
	held   held
	// maxCall and maxReply are Config.maxCall and Config.maxReply, in bytes.
	maxCall, maxReply int
	// noChunks is true if the peer's calls must not have chunks, because this side is the Requester
	// of the connection and they travel in the reverse direction (RFC 8167 §5.3).
	noChunks bool
	failed   *failedPart
	written  written
	// blamed is true once an RDMA operation of a call has failed and so ended the connection. Then
	// responder.blame does not look for another call as the cause.
	blamed atomic.Bool
	// unjudged is the memory group of calls that cannot be admitted yet: see Server.unjudged.
	unjudged *mem.Group
	peer     netip.Addr
	reads    readQueue
	run      run
}

// newResponder returns the responder for the calls of k's peer. granted is the number of credits
// that it grants the peer.
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

// privileged is true because the server treats every RDMA peer as privileged, as knfsd
// does.
const privileged = true

// callCost is an estimate of the heap bytes that a call occupies in addition to its message and the
// words of its reply.
const callCost = 3072

// A holder is a connection in its role as a mem.Holder: while memory is short, the pool asks it
// whether the peer makes progress, and may end the connection.
type holder connection

// Progress implements mem.Holder. The connection waits for its peer while Reads or replies
// are under way.
func (k *holder) Progress() (moved uint64, waitsForPeer bool) {
	back := k.back.Load()
	return k.device.Progress(), k.sent.Load() > back
}

// End implements mem.Holder.
func (k *holder) End(why error) {
	(*connection)(k).endConnection(faultStarved, why)
}

// seated is a connection in its role as an rdmacm.Holder: the census of connections may end it (see
// rdmacm.Seat).
type seated connection

// End implements rdmacm.Holder.
func (k *seated) End(why error) { k.device.Abort(why) }

// Busy implements rdmacm.Holder: it reports whether a call is under way. The RDMA Reads and
// the reply that such a call waits for have deadlines of their own.
func (k *seated) Busy() bool { return k.calls.Load()&^drainBit > 0 }

// While memory is short, a connection with at least pressedChains incomplete chains starts no
// further calls. A chain is an RDMA Read that the peer has to answer, or a reply or call that the
// peer has to take. Calls that wait for a file system do not count, because later calls may be for
// another file system.
const pressedChains = 4

// full reports whether the connection must not start another call now: its client's calls occupy
// too much memory (mem.Share.Full), or memory is short and at least pressedChains chains of the
// connection are incomplete.
func (s *responder) full() bool {
	if s.pool == nil {
		return false
	}
	return s.share.Full(s.k.calls.Load()&^drainBit) ||
		s.pool.Pressed() && s.k.sent.Load() >= s.k.back.Load()+pressedChains
}

// arrived begins the call m on the receiving goroutine. While the connection may start no call
// (full), arrived holds m instead. A call with a faulty header goes the same way, because until its
// RDMA_ERROR is sent it occupies as much memory as another call.
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
	c.checkAndAdmit()
}

// startHeld begins a held call (see held) after enter has counted it. It may run on any goroutine.
func (s *responder) startHeld(m *inbound) {
	s.k.stats.Calls.Add(1)
	s.k.stats.BytesInlineIn.Add(int64(len(m.recv.Bytes)))
	c := getCall()
	c.responder, c.in = s, *m
	c.charge(callCost + cap(m.recv.Bytes))
	c.checkAndAdmit()
}

// grant grants the peer more credits, from the next reply on. First it makes this side ready to
// receive as many further calls (RFC 8166 §3.3.1).
func (s *responder) grant(more int) {
	if more > 0 {
		s.k.promise(more)
		s.k.granted.Add(uint32(more))
	}
}

// closed is called when the connection has ended, for the reason in the parameter why. Calls in
// progress continue; the device drops their replies.
func (s *responder) closed(why error) {
	s.blame(why)
	s.conn.Close()
	s.reads.closed()
	s.dropHeld()
	if s.share != nil {
		s.share.Close()
	}
}

// A run is the state of a responder while there is input. It begins when the receiving goroutine
// passes the first message to the responder, and ends at connection.Drained. The calls that the
// receiving goroutine answers itself use the run's call, reply buffer and counters, one after the
// other. The run belongs to the receiving goroutine.
type run struct {
	// entered is true if connection.calls counts the run as one call. This one call stands for all
	// calls that the receiving goroutine answers itself.
	entered bool
	// call is the call to use for the next message, with its reply buffer, or nil.
	call *call

	// Counts for the Stats.
	calls, replies, bytesIn, bytesOut int
}

// enterRun counts the call in m as a call of s.run. It returns false if the call must not begin: if
// the connection drains, it drops m; if the peer has too many calls outstanding, it ends the
// connection (overrun).
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

// endRun ends s.run: it adds the run's counts to the Stats, releases its call, and takes the run
// out of connection.calls.
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

// leaveRun counts the call by itself, no longer as a call of responder.run, so that any goroutine
// may continue it.
func (c *call) leaveRun() {
	if !c.inRun {
		return
	}
	c.inRun = false
	s := c.responder
	// Here drainBit need not be checked: k.calls still counts the run as one call, so the
	// connection has not disconnected yet.
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

// The responder counts the peer's calls. If a peer makes more calls than its credits allow, the
// responder ends the connection. The reason is that the responder makes itself ready for another
// call with each answer. So a peer that never reads answers could otherwise continue to call until
// a deadline ends the connection.

var errOverrun = errors.New("rdma: peer calls beyond its credits")

// Up to overrunSlack calls beyond mostCalls may be under way before enterRun calls overrun, which
// counts exactly. So an ordinary call does not pay for the exact count.
const overrunSlack = 16

// mostCalls returns the largest number of calls under way that this side can count for a peer that
// keeps to its credits. That is twice the grant, because the peer may have received all answers,
// and sent as many new calls, before this side learns of it. A few more calls (spareReceives) are
// tolerated.
func (s *responder) mostCalls() int64 { return 2*int64(s.k.granted.Load()) + spareReceives }

// overrun counts the peer's outstanding calls. Where the number is uncertain, it takes the lowest
// possible one. If there are more than mostCalls, overrun ends the connection and returns true. n
// is the number of calls under way. A call is not outstanding any more once its answer was handed
// to the network.
func (s *responder) overrun(n int64) bool {
	outstanding := n - s.answers()
	outstanding += min(int64(s.k.device.Unsent()), n-outstanding)
	if outstanding <= s.mostCalls() {
		return false
	}
	s.k.endConnection(faultOverrun, fmt.Errorf("%w: %d calls are under way, %d were granted", errOverrun, outstanding, s.k.granted.Load()))
	return true
}

// answers returns the number of posted answers that the device has not completed: all its
// incomplete chains except RDMA Reads. If chains are posted or completed meanwhile, the
// number may be too high.
func (s *responder) answers() int64 {
	back := s.k.back.Load()
	reads := s.reads.posted()
	return max(int64(s.k.sent.Load()-back)-reads, 0)
}
