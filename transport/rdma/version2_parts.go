package rdma

import (
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// An RPC message of version 2 may travel in several Sends (§6.6.2): parts, and a last message that has the
// chunk lists. No other message comes between them.

// How many Sends a message may take. A call, and a reply that the requester expects, take few: with more, a
// chunk costs less. A reply for which the call offers no chunk that is long enough may take more.
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
		return v.send(v.split(o, left, limit)...)
	}
	return v.send(o)
}

// split returns the parts of o, whose stream has left bytes, and then o itself with the last limit bytes or
// fewer. The parts have a copy of the stream, because the caller may use its own again as soon as o is sent.
// All parts share a few allocations.
func (v *version2) split(o *outbound, left, limit int) []*outbound {
	size := partSize(v.k.sendLimit)
	most := (left-limit+size-1)/size + 1
	buffer := make([]byte, most*wire.PartSize+left)
	stream := buffer[most*wire.PartSize:][:0]
	for _, b := range o.local[1:] {
		stream = append(stream, b...)
	}
	p, _ := wire.ParsePrefix2(o.head)
	p.Type-- // from RDMA2_CALL_INLINE to RDMA2_CALL_MIDDLE, and the same for replies
	all := make([]*outbound, 0, most+1)
	parts, local, work := make([]outbound, most), make([][]byte, 2*most), make([]rdmacm.Work, most)
	for i := 0; len(stream) > limit; i++ {
		n := min(size, len(stream)-wire.MinFragment)
		part := &parts[i]
		part.sent, part.middle = ignoreOutcome, true
		part.chain.Done, part.chain.Context = outboundDone, part
		part.head = buffer[i*wire.PartSize : (i+1)*wire.PartSize]
		part.local, part.work = append(local[2*i:2*i:2*i+2], part.head, stream[:n:n]), work[i:i:i+1]
		wire.Part2{Prefix2: p, Remaining: uint32(len(stream) - n)}.Put(part.head)
		all, stream = append(all, part), stream[n:]
	}
	o.local = append(o.local[:1], stream)
	return append(all, o)
}

// A run is an RPC message of the peer of which parts have come. Only the receiving goroutine uses it.
type run struct {
	stream []byte
	// charged is how many bytes the ledger of the connection counts for the stream.
	charged int
}

// readPart takes a part of an RPC message that is not the last one.
func (v *version2) readPart(m inbound, p wire.Prefix2) inbound {
	var h wire.Part2
	if h.Parse(m.recv.Bytes).Refused() {
		v.sequence.Fail(p)
		v.endRun()
		if p.Type.IsReply() {
			return v.badReply(m)
		}
		return v.refuse(m, p, faultHeader)
	}
	part := m.recv.Bytes[wire.PartSize:]
	if v.sequence.Add(p, len(part), h.Remaining).Refused() {
		v.endRun()
		if p.Type.IsReply() {
			return v.brokenReply(m)
		}
		return v.refuse(m, p, faultContinuation)
	}
	if v.run.stream == nil {
		// The connection waits for its peer now (holder.Progress): if memory is short and the next
		// part does not come, the pool may end the connection.
		v.k.sent.Add(1)
		v.run.stream = make([]byte, 0, min(len(part)+int(h.Remaining), mostAhead))
	}
	v.run.stream = append(v.run.stream, part...)
	v.charge(cap(v.run.stream))
	m.recv.Release()
	v.discard()
	return m
}

// complete makes m, the header of which was read, a whole RPC message. The result is false if its length does
// not agree with the parts before it.
func (v *version2) complete(m *inbound, p wire.Prefix2) bool {
	last := m.payload()
	if v.sequence.Add(p, len(last), 0).Refused() {
		v.endRun()
		return false
	}
	if v.run.stream != nil {
		m.whole = append(v.run.stream, last...)
		v.endRun()
	}
	return true
}

// endRun forgets the parts that have come, if there are any.
func (v *version2) endRun() {
	if v.run.stream == nil {
		return
	}
	v.charge(0)
	v.run.stream = nil
	v.k.returned()
}

// charge makes the ledger of the connection count n bytes for the run.
func (v *version2) charge(n int) {
	if s := v.k.responder; s != nil {
		s.ledger.Add(n - v.run.charged)
	}
	v.run.charged = n
}
