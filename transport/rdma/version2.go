package rdma

import (
	"encoding/binary"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// version2 is the framing of RPC-over-RDMA version 2 (draft-ietf-nfsv4-rpcrdma-version-two-07, "the
// draft" below). What differs from version 1:
//
//   - Header types: a header says itself whether it belongs to a call or to a reply. Some messages carry
//     no RPC message: properties, grants of credits, errors.
//   - Credits (version2_credits.go) count messages, in both directions alike. A message waits in a queue
//     (version2_send.go) while the peer permits none.
//   - Parts (version2_parts.go): an RPC message may be longer than a Send.
//   - Set-up (version2_setup.go): the first message of a client proposes the version, and each side
//     announces its properties once.
type version2 struct {
	k *connection

	// The receiving goroutine alone uses these fields. peer holds the peer's properties. If unapplied is true,
	// they are not in effect yet (apply).
	sequence  wire.Sequence
	run       run
	peer      wire.Properties
	staged    wire.Properties
	unapplied bool
	announced bool // this side has sent its properties
	// expired is the time of the last call of Sequence.Expire, or the zero time before there was anything to forget.
	expired time.Time
	// decided, unless nil, is called with the version of the connection when the server has chosen it.
	decided func(version uint32)

	// inEffect are the properties of the peer that apply last put into effect, on the side of a client. The
	// requester's lock guards them.
	inEffect wire.Properties

	// errands is the number of errors that the framing itself has sent (refuse) and the device has not
	// completed.
	errands atomic.Int32
	// turn is turnFree, or a goroutine posts messages.
	turn atomic.Uint32

	mu sync.Mutex
	credits2
	// messages are those of this connection. They are not counted in Stats one by one, because an addition to a counter
	// of all connections costs more than one to these.
	messages messageCounts
	// alone is the number of messages that this side may send before released is true (§4.3).
	alone    uint32
	released bool
	// running is true while a message in parts is sent, up to the last part.
	running bool
	// inParts are XIDs of the latest replies that this side has sent in parts; nextInParts is the entry that the next
	// one replaces.
	inParts     [8]partedReply
	nextInParts int
	// surplus is how many messages more than it should the peer may send, because one message has ended two calls
	// (brokenReply). The next calls of this side take that back.
	surplus int
	// reverse is true if the peer takes calls that it does not send itself. callsRefused is true once it has refused
	// the header type of one (renounce).
	reverse, callsRefused bool
	// blocked is true if a call waits because mayCall has not permitted it.
	blocked bool
	// first and last are the ends of the queue of waiting messages, linked by outbound.next.
	first, last *outbound
	waiting     int
	// owed is true if the peer needs a grant, and granting while the device has one.
	owed, granting bool
	grant          outbound
	patience       *time.Timer
	// runBegan is when the first part of the peer's incomplete RPC message came, or the zero time if there is none.
	// runTimer looks at it.
	runBegan time.Time
	runTimer *time.Timer
	ended    bool
}

// limits2 are the limits for the chunks of one call of the peer.
var limits2 = wire.Limits2{ReadChunks: 256, WriteChunks: 256, ChunkSegments: 256, Segments: 256}

// noLimit is the number of calls that a peer of version 2 allows: it limits messages instead.
const noLimit = math.MaxUint32

// leastReceive2 is the least length of a receive, in bytes, because a peer may send messages of that length
// before it knows a property (§4.2.2).
const leastReceive2 = wire.DefaultInline2

// window2 is how many messages a client is ready to receive in addition to the replies to its calls, and
// to the calls of the server.
const window2 = 64

// newVersion2 returns the framing for k. ready is for how many messages of the peer k is ready.
func newVersion2(k *connection, ready uint32) *version2 {
	v := &version2{k: k, alone: 1, peer: wire.DefaultProperties(), staged: wire.DefaultProperties()}
	v.credits2 = credits2{limit: 1, said: 1, may: ready, window: ready}
	v.unapplied = !k.dialed // what the private data said is void
	v.grant.init(wire.PrefixSize, v.grantSent)
	k.stats.versions.join(v)
	return v
}

func (v *version2) replySize(m *inbound, external bool) int {
	return m.offer.ReplySize2(replyType(external && m.offer.Reply.Present))
}

func (v *version2) putReply(head []byte, m *inbound, r returned) {
	p := wire.Prefix2{XID: m.xid, Version: wire.Version2, Type: replyType(r.external)}
	m.offer.PutReply2(head, p, r.used, uint64(r.length))
}

// putError implements framing. The RDMA2_ERROR has the XID and the version of the message, whatever they
// are (§7).
func (v *version2) putError(o *outbound, m *inbound, f Fault) Answer {
	o.setHeaderSize(wire.MaxError2Size)
	n := errorBody2(m, f).Put(o.head, wire.Prefix2{XID: m.xid, Version: m.version})
	o.setHeaderSize(n)
	o.invalidate = 0
	v.k.stats.versions.errors.Add(1)
	return answerError
}

// errorBody2 returns the body of the RDMA2_ERROR that refuses m because of f (§7.1, §7.2, §7.3).
func errorBody2(m *inbound, f Fault) wire.ErrorBody2 {
	switch f {
	case faultVersion:
		return wire.ErrorBody2{Code: wire.Err2Vers, Low: wire.Version1, High: wire.Version2}
	case faultMismatch:
		return wire.ErrorBody2{Code: wire.Err2VersMismatch}
	case faultHeaderType:
		return wire.ErrorBody2{Code: wire.Err2InvalHtype}
	case faultContinuation:
		return wire.ErrorBody2{Code: wire.Err2InvalCont}
	case faultProperty:
		return wire.ErrorBody2{Code: wire.Err2BadPropval}
	case faultReadChunks:
		return wire.ErrorBody2{Code: wire.Err2ReadChunks, Max: uint32(limits2.ReadChunks)}
	case faultWriteChunks:
		return wire.ErrorBody2{Code: wire.Err2WriteChunks, Max: uint32(limits2.WriteChunks)}
	case faultSegments:
		h := wire.Call2{Body: m.body, Reads: m.reads, Offer: m.offer}
		return h.Within(limits2).Answer
	case faultNoReads:
		return wire.ErrorBody2{Code: wire.Err2ReadChunks}
	case faultNoChunks:
		if m.body.Len() > 0 || m.reads.Len() > 0 {
			return wire.ErrorBody2{Code: wire.Err2ReadChunks}
		}
		// Write chunks, too, because replies in this direction are one Send (§7.3.2).
		return wire.ErrorBody2{Code: wire.Err2ReplyResource}
	case faultResult:
		return wire.ErrorBody2{Code: wire.Err2WriteResource, Index: m.lack.chunk, Needed: m.lack.bytes}
	case faultNoRoom:
		return wire.ErrorBody2{Code: wire.Err2ReplyResource, Needed: m.lack.bytes}
	case faultFailedBefore, faultTooLarge, faultEcho:
		return wire.ErrorBody2{Code: wire.Err2System}
	}
	return wire.ErrorBody2{Code: wire.Err2BadXDR}
}

func replyType(external bool) wire.HeaderType {
	if external {
		return wire.TypeReplyExternal
	}
	return wire.TypeReplyInline
}

func callType(external bool) wire.HeaderType {
	if external {
		return wire.TypeCallExternal
	}
	return wire.TypeCallInline
}

func (v *version2) callSize(l *wire.Lists, external bool) int { return l.Size2(callType(external)) }

// answerSize implements framing. An RDMA2_REPLY_INLINE returns the Write list alone.
func (v *version2) answerSize(l *wire.Lists) int {
	writes := wire.Lists{Writes: l.Writes}
	return wire.PrefixSize + writes.Size() - 2*4
}

func (v *version2) putCall(head []byte, xid uint32, l *wire.Lists, _ uint32, external bool) {
	invalidate := uint32(0)
	if v.k.invalidate {
		invalidate = handleOf(l)
	}
	l.Put2(head, wire.Prefix2{XID: xid, Version: wire.Version2, Type: callType(external)}, invalidate)
}

// handleOf returns a handle of the lists, or 0. The handles of Write chunks come first, because the memory
// that they name is most expensive to take back.
func handleOf(l *wire.Lists) uint32 {
	for _, c := range l.Writes {
		if len(c) > 0 {
			return c[0].Handle
		}
	}
	switch {
	case len(l.Reply) > 0:
		return l.Reply[0].Handle
	case len(l.Reads) > 0:
		return l.Reads[0].Handle
	}
	return 0
}

// A Refused2Error is an RDMA2_ERROR that answered a call (§7). The draft lets a requester change such a
// call and send it again; this one does not, so the call fails.
type Refused2Error struct {
	wire.ErrorBody2
}

func (e *Refused2Error) Error() string {
	return "rdma: peer refused the call with " + e.Code.String()
}

// stamp writes the credits of a message into its header.
func stamp(o *outbound, limit uint32) { binary.BigEndian.PutUint32(o.head[8:], limit) }
