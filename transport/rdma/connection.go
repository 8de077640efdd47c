package rdma

import (
	"encoding/binary"
	"math"
	"sync"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

// Message types of RPC (RFC 5531 §9), which tell the directions of a
// bidirectional connection apart (RFC 8167 §5).
const (
	rpcCall  = 0
	rpcReply = 1
)

// A connection is one end of an RPC-over-RDMA connection. It sorts what arrives
// into calls, for its responder, and replies, for its requester; either may be
// missing. It is the rdmacm.Handler of its device connection.
type connection struct {
	device rdmacm.Conn
	// sendLimit is the largest message to send; receiveSize is what is
	// promised for each receive; receiveLimit is the largest that the peer
	// will send.
	sendLimit, receiveSize, receiveLimit int
	// maxLocal is how many pieces one work request may gather.
	maxLocal int
	// invalidate: both sides allow remote invalidation (V1-115).
	invalidate bool
	responder  *responder
	requester  *requester
	// dialed: this side opened the connection, so that what cannot be told
	// to be a call counts as a reply.
	dialed   bool
	stats    *Stats
	watch    watch
	onClosed func(error)

	// moved is how many bytes went to and fro: inline, by Reads and by Writes.
	moved atomic.Uint64

	early early
	// calls counts the responder's calls, with drainBit.
	calls      atomic.Int64
	disconnect sync.Once
}

// drainBit in connection.calls: no call is begun any more, and the connection
// ends with the last.
const drainBit = 1 << 62

// early keeps what arrives before the connection is set up: a Handler may be
// called before Accept or Dial has returned the Conn.
type early struct {
	ready    atomic.Bool
	mu       sync.Mutex
	messages []*rdmacm.Recv
	closed   bool
	err      error
}

// agree computes the thresholds from what both sides said (RFC 8797 §4.2).
func (k *connection) agree(device rdmacm.Conn, own, peer PrivateData) {
	k.device = device
	limits := device.Limits()
	k.sendLimit = min(own.SendSize, peer.ReceiveSize)
	if limits.MaxSend > 0 {
		k.sendLimit = min(k.sendLimit, limits.MaxSend)
	}
	if k.maxLocal = limits.MaxLocal; k.maxLocal < 1 {
		k.maxLocal = math.MaxInt
	}
	k.receiveSize = own.ReceiveSize
	k.receiveLimit = min(own.ReceiveSize, peer.SendSize)
	k.invalidate = own.RemoteInvalidation && peer.RemoteInvalidation && limits.RemoteInvalidation
}

// start takes up what arrived early, in order, and everything after it.
func (k *connection) start() {
	e := &k.early
	for {
		e.mu.Lock()
		messages := e.messages
		e.messages = nil
		if len(messages) == 0 {
			e.ready.Store(true)
			closed, err := e.closed, e.err
			e.mu.Unlock()
			if closed {
				k.closed(err)
			}
			return
		}
		e.mu.Unlock()
		for _, r := range messages {
			k.received(r)
		}
	}
}

// Received implements rdmacm.Handler.
func (k *connection) Received(r *rdmacm.Recv) {
	if e := &k.early; !e.ready.Load() {
		e.mu.Lock()
		if !e.ready.Load() {
			e.messages = append(e.messages, r)
			e.mu.Unlock()
			return
		}
		e.mu.Unlock()
	}
	k.received(r)
}

// Drained implements rdmacm.Handler: the device sends by itself what was posted.
func (k *connection) Drained() {}

// Closed implements rdmacm.Handler.
func (k *connection) Closed(err error) {
	if e := &k.early; !e.ready.Load() {
		e.mu.Lock()
		if !e.ready.Load() {
			e.closed, e.err = true, err
			e.mu.Unlock()
			return
		}
		e.mu.Unlock()
	}
	k.closed(err)
}

func (k *connection) closed(err error) {
	k.watch.stop()
	if k.responder != nil {
		k.responder.closed()
	}
	if k.requester != nil {
		k.requester.closed(err)
	}
	k.onClosed(err)
}

// received sorts a message. The order of the checks is that of RFC 8166 §4.5:
// length, RDMA_ERROR before the version, version, procedure, lists.
func (k *connection) received(r *rdmacm.Recv) {
	k.moved.Add(uint64(len(r.Bytes)))
	p, ok := ParsePrefix(r.Bytes)
	switch {
	case !ok:
		k.discard(r)
		return
	case p.Proc == ProcError:
		// Before the length: ERR_CHUNK is shorter than any header. Before
		// the version: it may be an echo. It is never answered.
		if k.requester == nil {
			k.discard(r)
			return
		}
		k.requester.refused(p, r)
		return
	case len(r.Bytes) < MinHeader:
		k.discard(r)
		return
	}
	if p.Version != Version1 {
		k.reject(r, p, ErrVers)
		return
	}
	switch p.Proc {
	case ProcDone:
		k.discard(r)
		return
	case ProcMsg, ProcNoMsg:
	default:
		k.reject(r, p, ErrChunk)
		return
	}
	var h Header
	if err := h.Parse(r.Bytes); err != nil {
		k.reject(r, p, ErrChunk)
		return
	}
	if k.isReply(&h, r.Bytes[h.Size:]) {
		k.requester.replied(&h, r)
		return
	}
	k.responder.arrived(&h, r)
}

// isReply tells the direction of a message by its RPC message type, and without
// a Payload stream by its lists: a call in chunks has a Read list, a reply has
// not (RFC 8166 §4.3.1).
func (k *connection) isReply(h *Header, payload []byte) bool {
	if k.responder == nil {
		return true
	}
	if k.requester == nil { // a reply is no call: the responder says so
		return false
	}
	if h.Proc == ProcNoMsg {
		return h.Reads.Len() == 0 && (k.dialed || k.requester.waits(h.XID))
	}
	return len(payload) >= 8 && binary.BigEndian.Uint32(payload[4:]) == rpcReply
}

// reject answers a message whose header cannot be served, if it may have been a
// call: what cannot be a reply that is waited for.
func (k *connection) reject(r *rdmacm.Recv, p Prefix, code ErrorCode) {
	if k.dialed || k.requester != nil && k.requester.waits(p.XID) {
		k.discard(r)
		return
	}
	k.responder.reject(r, p, code)
}

// discard forgets a message: no answer, no disconnect, the receive promised
// anew.
func (k *connection) discard(r *rdmacm.Recv) {
	r.Release()
	k.device.Provide(1, k.receiveSize)
	k.stats.Discarded.Add(1)
}

// post hands a chain to the device and sees that it comes back in time.
func (k *connection) post(c *rdmacm.Chain) {
	k.watch.posted(k)
	k.device.Post(c)
}

// enter begins a call of the responder's, and says how many there are with it; 0
// while the connection drains.
func (k *connection) enter() int64 {
	n := k.calls.Add(1)
	if n&drainBit != 0 {
		k.leave()
		return 0
	}
	return n
}

// leave ends a call.
func (k *connection) leave() {
	if k.calls.Add(-1) == drainBit {
		k.disconnect.Do(k.device.Disconnect)
	}
}

// drain lets the calls in progress end, and the connection with the last.
func (k *connection) drain() {
	if k.calls.Or(drainBit) == 0 {
		k.disconnect.Do(k.device.Disconnect)
	}
}
