package rdma

import (
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// maxReplyHeader is the longest header of an accepted reply, with a verifier of the largest
// size (RFC 8166 §6.2; RFC 5531 §8.2).
const maxReplyHeader = rpc.ReplyHeader + rpc.MaxAuthBytes

// encode writes the call's message and chooses its form: Short, Chunked or Long (RFC 8166
// §3.5). It also chooses the chunks for the reply. It returns the number of bytes of memory
// that the chunks need beyond the caller's own buffers.
func (e *exchange) encode(q *requester) (memory int, err error) {
	if err := e.marshal(); err != nil {
		return 0, err
	}
	place := !q.noPlacement && !q.shortOnly && e.x.Binding != nil
	replySize, err := e.offer(q, place)
	if err != nil {
		return 0, err
	}

	w := &e.write
	for range w.Payloads() {
		e.elsewhere = append(e.elsewhere, -1)
	}
	f := q.k.framing
	header, reads := f.callSize(&e.lists, false), 0 // reads is the length of the Read list
	e.external, e.left = false, w.StreamLen()
	if header+e.left > q.k.sendLimit {
		if q.shortOnly {
			return 0, errNoLong
		}
		if place {
			reads = e.reduce(q)
		}
		if header+reads > q.k.sendLimit || e.left > f.longest(header+reads, q.k.sendLimit, callSends) {
			// The whole Payload stream goes by RDMA, in one more Read chunk.
			e.external = true
			header = f.callSize(&e.lists, true)
			reads += q.pieces(e.left) * wire.ReadSegmentSize
			memory = pages(e.left)
		}
		if header+reads > q.k.sendLimit {
			return 0, errThreshold
		}
	}
	if len(e.segments)+reads/wire.ReadSegmentSize > q.maxSegments {
		return 0, errSegments
	}
	return memory + replySize, nil
}

// marshal writes the RPC message.
func (e *exchange) marshal() error {
	x, w := e.x, &e.write
	need := x.HeaderSize() + max(x.MaxArgs, 0)
	if cap(e.words) < need {
		e.words = make([]byte, 0, need)
	}
	w.Reset(e.words[:0:need])
	x.Put(w)
	if w.Overflow() {
		return errArguments
	}
	return nil
}

// offer decides whether the call offers Write chunks and a Reply chunk, by the size of the largest
// possible reply (RFC 8166 §4.3.2, §4.3.3). The parameter place is true if payload may be placed
// directly. offer returns the length of the Reply chunk, or 0. It fails before it makes more segments than the peer
// takes.
func (e *exchange) offer(q *requester, place bool) (reply int, err error) {
	x := e.x
	sinks := 0
	for _, s := range x.Sinks {
		sinks += padded(len(s))
	}
	offered := place && sinks > 0
	results, known := e.largestResults(!offered && sinks == 0)
	if !offered {
		results += sinks
	} else {
		for _, s := range x.Sinks {
			// A chunk for an empty sink (rpc.Exchange.Sinks) has no segments, so its result comes inline.
			chunk, err := e.chunk(q, len(s))
			if err != nil {
				return 0, err
			}
			e.lists.Writes = append(e.lists.Writes, chunk)
		}
	}
	if !known && sinks == 0 || q.shortOnly {
		return 0, nil
	}
	most := maxReplyHeader + results
	f := q.k.framing
	if most <= f.longest(f.answerSize(&e.lists), q.k.receiveLimit, callSends) {
		return 0, nil
	}
	reply = padded(most)
	e.lists.Reply, err = e.chunk(q, reply)
	return reply, err
}

// chunk returns a chunk of n bytes. Its segments are placeholders until the memory is exposed.
func (e *exchange) chunk(q *requester, n int) ([]wire.Segment, error) {
	from, pieces := len(e.segments), q.pieces(n)
	if pieces > q.maxSegments-from {
		return nil, errSegments
	}
	for range pieces {
		e.segments = append(e.segments, wire.Segment{})
	}
	return e.segments[from:], nil
}

// largestResults returns the largest possible size of the results, in bytes, without the data for
// x.Sinks. Payload counts only if withPayload is true. known is false if the exchange has neither
// MaxResults nor a Binding, so that the size is not known.
func (e *exchange) largestResults(withPayload bool) (n int, known bool) {
	x := e.x
	if x.MaxResults > 0 {
		return x.MaxResults, true
	}
	switch {
	case x.Binding == nil:
		return 0, false
	case x.Binding.Walk == nil:
		return x.Binding.MaxResults, true
	}
	args, shape := &e.args, &e.shape
	args.Reset(e.write.Bytes(), 0, nil)
	args.Skip(6 * 4)
	for range 2 { // credential, verifier
		args.Skip(4)
		args.Opaque(rpc.MaxAuthBytes)
	}
	// The Position of a payload in e.write counts only the words before the payload. The Position
	// in the message also counts the payloads before it.
	shift := 0
	for _, p := range e.write.Payloads() {
		e.beside = append(e.beside, rpc.Placed{Position: uint32(p.Position + shift), Length: uint32(len(p.Data))})
		shift += padded(len(p.Data))
	}
	x.Binding.Measure(args, e.beside, shape)
	words, payload := shape.Words, shape.Payload
	*args, *shape = xdr.Decoder{}, rpc.Shape{}
	if withPayload {
		words += padded(payload)
	}
	return words, true
}

// reduce decides that the eligible payloads leave the Payload stream and travel in Read chunks. It
// returns by how many bytes the Read list grows.
func (e *exchange) reduce(q *requester) int {
	grown := 0
	for i, p := range e.write.Payloads() {
		if p.Eligible && len(p.Data) > 0 {
			e.elsewhere[i] = 0
			e.left -= padded(len(p.Data))
			grown += q.pieces(len(p.Data)) * wire.ReadSegmentSize
		}
	}
	return grown
}

// pieces returns how many segments n bytes of memory need.
func (q *requester) pieces(n int) int { return (n + q.maxSegment - 1) / q.maxSegment }

// expose registers the memory that the peer may reach, and fills in the lists. It does so just
// before the call is sent, because memory must not be exposed earlier (RFC 8166 §8.1.3).
func (e *exchange) expose(q *requester, reserved []byte) error {
	w := &e.write
	if e.external {
		e.zero = reserved[:e.left:e.left]
		n := 0
		for _, b := range appendStream(e.out.local[:0], w, e.elsewhere) {
			n += copy(e.zero[n:], b)
		}
		reserved = reserved[pages(e.left):]
		// The Position Zero Read chunk comes first in the list, because peers that predate
		// RFC 8166 look for it there.
		if err := e.exposeRead(q, 0, e.zero); err != nil {
			return err
		}
	}
	shift := 0
	for i, p := range w.Payloads() {
		if e.elsewhere[i] >= 0 {
			if err := e.exposeRead(q, p.Position+shift, p.Data); err != nil {
				return err
			}
		}
		shift += padded(len(p.Data))
	}
	for i, chunk := range e.lists.Writes {
		if len(chunk) == 0 {
			continue
		}
		r, err := e.register(q, e.x.Sinks[i], rdmacm.RemoteWrite)
		if err != nil {
			return err
		}
		for j := range chunk {
			chunk[j] = q.segment(r, j, len(e.x.Sinks[i]))
		}
	}
	if len(reserved) > 0 {
		e.replyMem = reserved
		r, err := e.register(q, reserved, rdmacm.RemoteWrite)
		if err != nil {
			return err
		}
		for i := range e.lists.Reply {
			e.lists.Reply[i] = q.segment(r, i, len(reserved))
		}
	}
	return nil
}

func (e *exchange) exposeRead(q *requester, position int, data []byte) error {
	r, err := e.register(q, data, rdmacm.RemoteRead)
	if err != nil {
		return err
	}
	for i := range q.pieces(len(data)) {
		s := q.segment(r, i, len(data))
		e.lists.Reads = append(e.lists.Reads, wire.ReadSegment{Position: uint32(position), Segment: s})
	}
	return nil
}

// segment returns segment i of the n bytes of the region r, cut into segments of maxSegment bytes.
func (q *requester) segment(r rdmacm.Region, i, n int) wire.Segment {
	at := i * q.maxSegment
	return wire.Segment{Handle: r.STag(), Length: uint32(min(q.maxSegment, n-at)), Offset: r.Offset() + uint64(at)}
}

func (e *exchange) register(q *requester, memory []byte, access rdmacm.Access) (rdmacm.Region, error) {
	r, err := q.k.device.Register(memory, access)
	if err == nil {
		e.regions = append(e.regions, r)
	}
	return r, err
}

// putCall puts the call's header and inline message into e.out. requested is the number of
// credits that the call requests.
func (e *exchange) putCall(f framing, requested uint32) {
	e.out.setHeaderSize(f.callSize(&e.lists, e.external))
	f.putCall(e.out.head, e.xid, &e.lists, requested, e.external)
	if !e.external {
		e.out.local = appendStream(e.out.local, &e.write, e.elsewhere)
	}
}
