package rdma

import (
	"cmp"
	"errors"
	"math"
	"math/rand/v2"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// versionOpen is the framing of a server that serves both versions until the client has sent its first
// message: that one decides (draft-ietf-nfsv4-rpcrdma-version-two-07 §4.3.3). A message of an unknown
// version decides nothing.
type versionOpen struct{ version1 }

// mostUndecided is how many messages a client may send without a version that the server knows.
const mostUndecided = spareReceives

func (v versionOpen) read(r *rdmacm.Recv) inbound {
	k := v.k
	p, ok := wire.ParsePrefix2(r.Bytes)
	switch {
	case ok && p.Version == wire.Version2:
		k.framing = newVersion2(k, k.granted.Load())
		k.speaks(wire.Version2)
	case ok && p.Version == wire.Version1:
		k.framing = v.version1
		k.speaks(wire.Version1)
	default:
		return v.unknown(r, ok)
	}
	return k.framing.read(r)
}

// unknown refuses a message of an unknown version at once, on the receiving goroutine, so that no other
// goroutine uses the framing before it is chosen.
func (v versionOpen) unknown(r *rdmacm.Recv, whole bool) inbound {
	k := v.k
	m := v.version1.read(r)
	r.Release()
	if k.undecided++; k.undecided > mostUndecided {
		k.endConnection(faultVersion, errNoVersion)
		return inbound{kind: kindDone}
	}
	if m.fault != faultVersion || !whole {
		k.promise(1)
		k.note(cmp.Or(m.fault, faultStrayError), answerDrop, m.xid)
		return inbound{kind: kindDone}
	}
	o := new(outbound)
	o.init(wire.MaxErrorSize, ignoreOutcome)
	k.note(m.fault, v.putError(o, &m, m.fault), m.xid)
	v.version1.post(o)
	return inbound{kind: kindDone}
}

var errNoVersion = errors.New("rdma: the client proposes no version that this server knows")

// announcedProperties are the properties that a side tells of itself.
var announcedProperties = [...]wire.PropertyID{
	wire.PropSendSize, wire.PropReceiveSize, wire.PropSegmentSize, wire.PropSegments, wire.PropReverse,
}

// announce sends this side's properties. On the side of a client, that is the first message, which
// proposes version 2. With it the peer may send permits more messages.
func (v *version2) announce(permits int) {
	v.announced = true
	k := v.k
	own := wire.Properties{
		SendSize: uint32(k.own.SendSize), ReceiveSize: uint32(k.own.ReceiveSize),
		SegmentSize: math.MaxUint32, Segments: uint32(limits2.Segments),
	}
	which := announcedProperties[:]
	if !k.dialed {
		which = which[:len(which)-1] // only clients announce support for calls in the other direction
	} else if k.responder != nil {
		own.Reverse = wire.ReverseSimple
	}
	o := new(outbound)
	size := own.Size(which...)
	o.init(size, ignoreOutcome)
	o.setHeaderSize(size)
	own.Put(o.head, wire.Prefix2{XID: 1 + rand.Uint32N(math.MaxUint32), Version: wire.Version2, Type: wire.TypeConnpropFinal}, which...)
	o.permits = permits
	v.send(o)
}

// refusedVersion reports whether the first message of the server refuses version 2. If the server knows
// version 1, the connection goes on with that. A server that says VERS_MISMATCH knows both versions and takes neither here,
// so the connection ends.
func (v *version2) refusedVersion(p wire.Prefix2, message []byte) bool {
	body, ok := wire.ParseErrorBody2(message)
	switch {
	case p.Type != wire.TypeError || !ok:
		return false
	case body.Code == wire.Err2VersMismatch:
		v.k.versionRefused()
		v.k.endConnection(faultRefused, errRefused2)
		return true
	case body.Code != wire.Err2Vers:
		return false
	}
	decided := v.decided
	v.decided = nil
	if body.Low > wire.Version1 || body.High < wire.Version1 {
		v.k.endConnection(faultVersion, errNoCommonVersion)
		return true
	}
	q := v.k.requester
	v.k.promise(1)
	q.mu.Lock()
	v.k.framing = version1{v.k}
	q.mu.Unlock()
	v.replaced()
	decided(wire.Version1)
	return true
}

var errNoCommonVersion = errors.New("rdma: the server speaks neither version 1 nor version 2")

// settle notes that the server has accepted version 2. Its caller calls the result, which tells the client, after it has
// read the message: if the message has the server's properties, the client's first call keeps to them.
func (v *version2) settle() (tell func()) {
	decided := v.decided
	v.decided = nil
	v.apply()
	v.mu.Lock()
	v.released = true
	v.mu.Unlock()
	return func() { decided(wire.Version2) }
}

// properties applies the properties that the peer announces (§5, §6.3.4).
func (v *version2) properties(m *inbound, p wire.Prefix2) {
	if refusal := v.staged.Parse(m.recv.Bytes); refusal.Refused() {
		f := faultProperty
		if refusal.Answer.Code == wire.Err2BadXDR {
			f = faultHeader
		}
		if v.announcedFor() {
			m.recv.Release()
			v.sendError(m, f, 0)
		} else {
			v.refuse(m, p, f)
		}
		return
	}
	m.recv.Release()
	v.staged.HostAuth = nil // nothing uses the token, and it may be long
	if p.Type == wire.TypeConnpropFinal {
		v.peer = v.staged
		v.unapplied = true
		v.apply()
	}
	if !v.announcedFor() {
		v.discard()
	}
	v.resume()
}

// announcedFor reports whether the message at hand is the first one of a client. The server's announcement
// has permitted another message in its place (arrive), so nothing else may.
func (v *version2) announcedFor() bool { return !v.k.dialed && v.received == 1 }

// apply puts the peer's properties into effect, or the defaults before it has announced any. Calls under
// way and a goroutine that sends calls read what apply writes. While there are any, apply does nothing, and
// the next message of the peer calls it again.
func (v *version2) apply() {
	k := v.k
	if k.calls.Load()&^drainBit != 0 {
		return
	}
	if s := k.responder; s != nil { // nor a goroutine that begins held calls
		s.held.mu.Lock()
		defer s.held.mu.Unlock()
		if s.held.going || len(s.held.messages) > 0 {
			return
		}
	}
	q := k.requester
	if q != nil {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.pumping {
			return
		}
	}
	v.unapplied, v.inEffect = false, v.peer
	k.sendLimit = min(k.own.SendSize, int(min(v.peer.ReceiveSize, math.MaxInt32)))
	limits := k.device.Limits()
	if limits.MaxSend > 0 {
		k.sendLimit = min(k.sendLimit, limits.MaxSend)
	}
	k.receiveLimit = min(k.own.ReceiveSize, int(min(v.peer.SendSize, math.MaxInt32)))
	k.invalidate = k.own.RemoteInvalidation && limits.RemoteInvalidation
	if q == nil {
		return
	}
	q.credits.granted = noLimit
	q.maxSegment = min(q.ownSegment, int(min(v.peer.SegmentSize, math.MaxInt32)))
	q.maxSegments = int(min(v.peer.Segments, math.MaxInt32))
	if q.maxSegment == 0 || q.maxSegments == 0 {
		q.shortOnly, q.maxSegment = true, 1
	}
	v.mu.Lock()
	v.reverse = v.peer.Reverse >= wire.ReverseSimple
	v.mu.Unlock()
}
