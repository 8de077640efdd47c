package rdma

import (
	"errors"
	"math"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// A connection is this side's end of an RPC-over-RDMA connection. Its responder and its requester
// send and receive through the embedded messages; either of the two may be nil. The connection is
// the rdmacm.Handler of the device's connection.
type connection struct {
	messages
	responder *responder
	requester *requester
	// dialed is true if this side opened the connection. If a header does not show whether its
	// message is a call or a reply, this side then takes it for a reply.
	dialed bool
	// version2 is true if this side serves version 2 too (server), or proposes it (client).
	version2 bool
	// versionRefused, unless nil, is called when the server refuses version 2 although it has accepted it before.
	versionRefused func()
	// chosen is Config.Chosen.
	chosen func(peer netip.AddrPort, version int)
	// undecided counts the messages of a client before one has decided the version (versionOpen).
	undecided int
	onClosed  func(error)
	early     early
	// calls is the number of the responder's calls in progress, plus drainBit while the
	// connection drains.
	calls      atomic.Int64
	disconnect sync.Once
}

// drainBit is added to connection.calls while the connection drains. Then no new call begins, and
// the connection ends with its last call.
const drainBit = 1 << 62

// early keeps the events that the device reports before the connection is set up: the device may call
// the Handler before Accept or Dial has returned the Conn.
type early struct {
	ready  atomic.Bool
	mu     sync.Mutex
	events []func()
}

// keep keeps an event for connection.start. It returns false if start has already run all events.
func (e *early) keep(event func()) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ready.Load() {
		return false
	}
	e.events = append(e.events, event)
	return true
}

// take returns the events that were kept since the last call. If there are none, no further event
// will be kept.
func (e *early) take() []func() {
	e.mu.Lock()
	defer e.mu.Unlock()
	events := e.events
	e.events = nil
	e.ready.Store(len(events) == 0)
	return events
}

// newConnection returns a connection. own is the private data that it sends to the peer. event may
// be nil.
func newConnection(own wire.PrivateData, stats *Stats, event func(Event)) *connection {
	k := &connection{messages: messages{own: own, stats: stats, event: event}}
	k.framing = version1{k}
	return k
}

// newest returns the newest version that this side supports.
func (k *connection) newest() uint32 {
	if k.version2 {
		return 2
	}
	return 1
}

// param returns the set-up parameters for the device. The parameter calls is how many calls of the
// peer this side is ready to receive at first. The parameter most is the largest number of calls
// and replies that it will ever be ready to receive. param adds spareReceives to both.
func (k *connection) param(calls, most int) rdmacm.ConnParam {
	private := make([]byte, wire.PrivateDataSize)
	k.own.Put(private)
	return rdmacm.ConnParam{
		PrivateData: private,
		Handler:     k,
		Receives:    calls + spareReceives,
		ReceiveSize: k.own.ReceiveSize,
		MaxReceives: most + spareReceives,
	}
}

// agree computes the inline thresholds, and whether a Send may invalidate an STag, from the
// private data of both sides (RFC 8797 §4.2) and the limits of the device.
func (k *connection) agree(device rdmacm.Conn) {
	k.device = device
	own := k.own
	peer, _ := wire.ParsePrivateData(device.PeerPrivateData())
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

// start processes the early events, in order. Later events are processed as they come.
func (k *connection) start() {
	for events := k.early.take(); len(events) > 0; events = k.early.take() {
		for _, event := range events {
			event()
		}
	}
}

// Closed implements rdmacm.Handler.
func (k *connection) Closed(err error) {
	if !k.early.keep(func() { k.closed(err) }) {
		k.closed(err)
	}
}

func (k *connection) closed(err error) {
	if errors.Is(err, rdmacm.ErrStalled) {
		k.note(faultStalled, answerClose, 0)
	}
	k.framing.closed()
	k.speaksNoMore()
	if k.responder != nil {
		k.responder.closed(err)
	}
	if k.requester != nil {
		k.requester.closed(err)
	}
	k.onClosed(err)
}

// drain lets the calls in progress end, and ends the connection after the last one.
func (k *connection) drain() {
	if k.calls.Or(drainBit) == 0 {
		k.disconnect.Do(k.device.Disconnect)
	}
}
