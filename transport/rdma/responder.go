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
	back     *backchannel // for calls in the other direction; nil if the other direction is that of a Client
	// blamed is true once an RDMA operation of a call has failed and so ended the connection. Then
	// responder.blame does not look for another call as the cause.
	blamed atomic.Bool
	// unjudged is the memory group of calls that cannot be admitted yet: see Server.unjudged.
	unjudged *mem.Group
	peer     netip.Addr
	reads    readQueue
	// watch is the framing while version 2 has something to do as soon as a call has ended (version2.eased), else nil.
	watch atomic.Pointer[version2]
}

// newResponder returns the responder for the calls of k's peer. granted is the number of credits
// that it grants the peer.
func newResponder(k *connection, calls Calls, granted int, failed *failedXIDs) *responder {
	peer := k.device.Peer().Addr().Unmap()
	s := &responder{
		k:        k,
		calls:    calls,
		conn:     calls.NewConn(k.device.Peer(), k.device.Local(), "rdma", true), // privileged, as in knfsd
		maxCall:  defaultMaxCall,
		maxReply: defaultMaxReply,
		peer:     peer,
		failed:   failed.of(peer),
	}
	k.granted.Store(uint32(granted))
	s.reads.k, s.reads.depth = k, k.device.ReadDepth()
	k.responder, k.eased = s, s.eased
	return s
}

// callCost is an estimate of the heap bytes that a call occupies in addition to its message and to
// the words of a reply of more than shortWords bytes.
const callCost = 3072 + shortWords

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
// the reply that such a call waits for have deadlines of their own. A reply that waits until the peer permits it
// does not count: with one permission now and then a peer could keep its seat forever.
func (k *seated) Busy() bool {
	n := k.calls.Load() &^ drainBit
	return n > 0 && n > (*connection)(k).unpermitted()
}

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
	if s.back != nil {
		s.back.keepAway(m.xid)
	}
	if s.full() && s.hold(m) {
		return
	}
	s.begin(m)
}

// begin begins the call m. If the connection drains, begin drops m instead; if the peer has too many
// calls outstanding, it ends the connection (overrun).
func (s *responder) begin(m *inbound) {
	n := s.k.enter()
	if n == 0 {
		s.k.drop(faultDraining, m)
		return
	}
	if n > s.mostCalls() && s.overrun(n) {
		m.recv.Release()
		s.k.leave()
		return
	}
	s.k.countCall()
	s.k.stats.BytesInlineIn.Add(int64(len(m.recv.Bytes)))
	c := getCall()
	c.responder, c.in = s, *m
	c.charge(callCost + m.cost())
	c.checkAndAdmit()
}

// enter counts a new call of the responder. It returns the number of calls under way, the new one
// included, or 0 while the connection drains.
func (k *connection) enter() int64 {
	n := k.calls.Add(1)
	if n&drainBit != 0 {
		k.leave()
		return 0
	}
	return n
}

// leave notes that a call of the responder has ended. After the last call of a draining connection,
// it disconnects.
func (k *connection) leave() {
	if k.calls.Add(-1) == drainBit {
		k.disconnect.Do(k.device.Disconnect)
	}
}

// eased starts held calls, if there are any, and lets version 2 go on if it waits for that (watch). It is called when a
// call has ended or a chain is completed.
func (s *responder) eased() {
	if v := s.watch.Load(); v != nil {
		v.eased()
	}
	if s.held.count.Load() > 0 {
		s.goOn()
	}
}

// grant grants the peer more credits, from the next reply on. First it makes this side ready to
// receive as many further calls (RFC 8166 §3.3.1).
func (s *responder) grant(more int) {
	if more > 0 {
		s.k.framing.permit(more)
		s.k.granted.Add(uint32(more))
	}
}

// credits returns how many credits a reply grants the peer. If the calls of its client occupy too much
// memory (mem.Share.Full), the peer gets only as many as a connection may always use. So a peer that
// keeps to its credits (RFC 8166 §3.3.1) sends no messages that would be held. A later reply grants more.
func (s *responder) credits() uint32 {
	n := s.k.granted.Load()
	if s.share != nil && s.share.Full(mem.LeastCalls) {
		n = min(n, mem.LeastCalls)
	}
	return n
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

// The responder counts the peer's calls. If a peer makes more calls than its credits allow, the
// responder ends the connection. The reason is that the responder makes itself ready for another
// call with each answer. So a peer that never reads answers could otherwise continue to call until
// a deadline ends the connection.

var errOverrun = errors.New("rdma: the peer called beyond its credits")

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
// number may be too high. It also is in version 2, by what messages.sent counts there in addition.
func (s *responder) answers() int64 {
	back := s.k.back.Load()
	reads := s.reads.posted()
	return max(int64(s.k.sent.Load()-back)-reads, 0)
}
