package rdma

import (
	"errors"
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// An RPC message of version 2 may travel in several Sends (§6.6.2): parts, and a last message that has the
// chunk lists. No other message comes between them.

// How many Sends a message may take. A call, and a reply that the requester expects, take few: with many, a
// chunk costs less. By BenchmarkVersions, parts have 1.8 times the rate of a Reply chunk with 3 Sends. A reply for
// which the call offers no chunk that is long enough may take more.
const (
	callSends  = 4
	replySends = 16
)

// mostParts is the length of the longest RPC message that is sent or accepted in parts, in bytes.
const mostParts = 128 << 10

// mostAhead is how many bytes of an RPC message in parts get memory with the first part, although the others
// have not come.
const mostAhead = 16 << 10

// partSize returns the length of a part in a Send of limit bytes: a multiple of 4.
func partSize(limit int) int { return (limit - wire.PartSize) &^ 3 }

// longest implements framing. Each Send but the last has a header of its own and a part of the stream. If the
// last one has no room for a part, there are none.
func (v *version2) longest(header, limit, sends int) int {
	if limit-header < wire.MinFragment {
		return limit - header
	}
	return max(limit-header, min(limit-header+(sends-1)*partSize(limit), mostParts))
}

// sendAll sends the call or reply o: as one message, or, if it is too long for a Send, in parts. The result is
// that of send.
func (v *version2) sendAll(o *outbound) bool {
	left := 0
	for _, b := range o.local[1:] {
		left += len(b)
	}
	if limit := v.k.sendLimit - len(o.head); left > limit {
		v.sendRun(v.split(o, left, limit), o)
		return false
	}
	return v.send(o)
}

// A partedReply is the XID of a reply in parts, if sent is true.
type partedReply struct {
	xid  uint32
	sent bool
}

// parts are the messages before the last one of an RPC message that is sent in parts.
type parts struct {
	messages []outbound
	heads    []byte
}

var partsPool = sync.Pool{New: func() any { return new(parts) }}

// take returns n messages with headers of wire.PartSize.
func (p *parts) take(n int) []outbound {
	if n > len(p.messages) {
		p.messages, p.heads = make([]outbound, n), make([]byte, n*wire.PartSize)
		for i := range p.messages {
			o := &p.messages[i]
			o.sent, o.middle = ignoreOutcome, true
			o.chain.Done, o.chain.Context = outboundDone, o
			o.head = p.heads[i*wire.PartSize : (i+1)*wire.PartSize]
		}
	}
	return p.messages[:n]
}

// put makes the parts free for another RPC message.
func (p *parts) put() {
	for i := range p.messages {
		p.messages[i].reset()
	}
	partsPool.Put(p)
}

// split returns the parts of o, whose stream has left bytes. To o itself it leaves the last limit bytes or fewer.
// The parts do not copy the stream. So the device must not complete o before it has completed them. That is so because
// the parts are posted before o, even after the end of the connection (version2.next), and the device completes chains
// in their order. Therefore o is posted as a chain, too. o.reset gives the parts back.
func (v *version2) split(o *outbound, left, limit int) []outbound {
	size := partSize(v.k.sendLimit)
	n := (left - limit + size - 1) / size
	o.parts = partsPool.Get().(*parts)
	all := o.parts.take(n)
	p, _ := wire.ParsePrefix2(o.head)
	p.Type-- // from RDMA2_CALL_INLINE to RDMA2_CALL_MIDDLE, and the same for replies
	stream, pieces := o.local[1:], o.local
	for i := range all {
		part := &all[i]
		part.local = append(part.local[:0], part.head)
		part.role, part.sends = o.role, n+1-i
		take := min(size, left-wire.MinFragment)
		for left -= take; take > 0; {
			piece := stream[0][:min(take, len(stream[0])):min(take, len(stream[0]))]
			part.local = append(part.local, piece)
			take -= len(piece)
			if stream[0] = stream[0][len(piece):]; len(stream[0]) == 0 {
				stream = stream[1:]
			}
		}
		wire.Part2{Prefix2: p, Remaining: uint32(left)}.Put(part.head)
	}
	o.local = append(o.local[:1], stream...)
	clear(pieces[len(o.local):])
	return all
}

// A run is an RPC message of the peer of which parts have come. Only the receiving goroutine uses it.
type run struct {
	stream *stream
	// charged is how many bytes the ledger of the connection counts for the stream.
	charged int
}

// A stream is the Payload stream of an RPC message that came in parts.
type stream struct{ bytes []byte }

var streamPool = sync.Pool{New: func() any { return new(stream) }}

// release gives the memory of the stream back, unless s is nil.
func (s *stream) release() {
	if s == nil {
		return
	}
	if s.bytes = s.bytes[:0]; cap(s.bytes) > mostAhead {
		s.bytes = nil
	}
	streamPool.Put(s)
}

// grown returns how long the memory of the stream has to be for a part of n bytes, if left bytes come after it.
func (s *stream) grown(n, left int) int {
	need := len(s.bytes) + n
	if need <= cap(s.bytes) {
		return cap(s.bytes)
	}
	return max(need, min(need+left, max(mostAhead, 2*cap(s.bytes))))
}

// add adds a part, for which the memory becomes size bytes long.
func (s *stream) add(part []byte, size int) {
	if size > cap(s.bytes) {
		s.bytes = append(make([]byte, 0, size), s.bytes...)
	}
	s.bytes = append(s.bytes, part...)
}

// mostStranger is the length of the longest call that is accepted in parts from a peer that has not proved to be
// a client yet (rpc.Conn.Known), in bytes, unless callSends messages hold more.
const mostStranger = 32 << 10

// mostIn returns the length of the longest RPC message that is accepted in parts of the type t, in bytes. While the
// connection may start no call (responder.full), a call of a stranger is no longer than one that is not in parts.
func (v *version2) mostIn(t wire.HeaderType) uint64 {
	if s := v.k.responder; t.IsCall() && s != nil && !v.k.dialed && !s.conn.Known() {
		if s.full() {
			return uint64(v.k.receiveSize)
		}
		return uint64(min(mostParts, max(mostStranger, callSends*v.k.receiveSize)))
	}
	return mostParts
}

// readPart takes a part of an RPC message that is not the last one. If the calls of the peer's client occupy too much
// memory (withheld), and the connection may start no call (responder.full), readPart keeps back the credit for a part
// of a call. So the parts of calls then occupy no more memory than the messages for which the peer had credits before.
func (v *version2) readPart(m *inbound, p wire.Prefix2) {
	var h wire.Part2
	if h.Parse(m.recv.Bytes).Refused() {
		v.sequence.Fail(p)
		v.endRun()
		if p.Type.IsReply() {
			v.badReply(m)
		} else {
			v.refuse(m, p, faultHeader)
		}
		return
	}
	v.k.stats.versions.partsReceived.Add(1)
	part := m.recv.Bytes[wire.PartSize:]
	v.sequence.Most = v.mostIn(p.Type)
	if v.sequence.Add(p, len(part), h.Remaining).Refused() {
		v.endRun()
		if p.Type.IsReply() {
			v.brokenReply(m, false)
		} else {
			v.refuse(m, p, faultContinuation)
		}
		return
	}
	if v.run.stream == nil {
		v.beginRun()
	}
	s := v.run.stream
	size := s.grown(len(part), int(h.Remaining))
	v.charge(size)
	s.add(part, size)
	m.recv.Release()
	v.forgive(p.Type.IsCall() && v.k.responder.full(), true)
}

// complete makes m a whole RPC message, after its header was read. If there were parts before m, m is the last one.
// The result is false if its length does not agree with theirs.
func (v *version2) complete(m *inbound, p wire.Prefix2) bool {
	if !v.sequence.Incomplete() {
		return true // nearly all: they came as one message
	}
	last := m.payload()
	if v.sequence.Add(p, len(last), 0).Refused() {
		v.endRun()
		return false
	}
	if s := v.run.stream; s != nil {
		s.add(last, s.grown(len(last), 0))
		m.whole, v.run.stream = s, nil
		v.runEnded()
	}
	return true
}

var errNoParts = errors.New("rdma: an RPC message in parts is not complete for too long")

// beginRun notes that an RPC message in parts has begun. It has creditPatience to become complete.
func (v *version2) beginRun() {
	// The connection waits for its peer now (holder.Progress): if memory is short and the next part does
	// not come, the pool may end the connection.
	v.k.sent.Add(1)
	v.run.stream = streamPool.Get().(*stream)
	v.mu.Lock()
	v.runBegan = time.Now()
	if v.runTimer == nil && !v.ended {
		v.runTimer = time.AfterFunc(creditPatience, v.lookAtRun)
	}
	v.mu.Unlock()
}

// lookAtRun ends the connection if the RPC message in parts is incomplete for too long. While this side keeps back
// the permission for the next part (readPart), the time does not run.
func (v *version2) lookAtRun() {
	v.mu.Lock()
	v.runTimer = nil
	late := false
	if !v.runBegan.IsZero() && !v.ended {
		if v.left() <= 0 && !v.raises() {
			v.runBegan = time.Now()
		}
		left := creditPatience - time.Since(v.runBegan)
		if late = left <= 0; !late {
			v.runTimer = time.AfterFunc(left, v.lookAtRun)
		}
	}
	v.mu.Unlock()
	if late {
		v.k.endConnection(faultStalled, errNoParts)
	}
}

// endRun forgets the parts that have come, if there are any.
func (v *version2) endRun() {
	if s := v.run.stream; s != nil {
		v.run.stream = nil
		s.release()
		v.runEnded()
	}
}

// runEnded notes that no RPC message is incomplete any more.
func (v *version2) runEnded() {
	v.charge(0)
	v.mu.Lock()
	v.runBegan = time.Time{}
	v.mu.Unlock()
	v.k.returned()
}

// charge makes the ledger of the connection count n bytes for the run.
func (v *version2) charge(n int) {
	if s := v.k.responder; s != nil {
		s.ledger.Add(n - v.run.charged)
	}
	v.run.charged = n
}

// expire lets the sequence forget a failed RPC message if no part of it has come for creditPatience.
func (v *version2) expire() {
	if !v.sequence.Failing() {
		return
	}
	switch now := time.Now(); {
	case v.expired.IsZero():
		v.expired = now
	case now.Sub(v.expired) >= creditPatience:
		v.sequence.Expire()
		v.expired = now
	}
}
