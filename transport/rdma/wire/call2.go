package wire

import "encoding/binary"

// Sizes of the shortest headers of calls, in bytes: the prefix, the handle, and empty lists. The Payload
// stream or, in RDMA2_CALL_EXTERNAL, a segment comes in addition.
const (
	MinCallInline   = PrefixSize + 4 + 12
	MinCallExternal = MinCallInline + 4
)

// A Call2 is the decoded Transport stream of RDMA2_CALL_INLINE and RDMA2_CALL_EXTERNAL (§6.3.5, §6.3.7). Its
// lists alias the message.
type Call2 struct {
	Prefix2
	// InvalidateHandle is the handle that the Responder may invalidate with its reply, or 0 (§6.5).
	InvalidateHandle uint32
	// Body is the Call chunk of RDMA2_CALL_EXTERNAL: the segments, all of position 0, that hold the
	// Payload stream. It is empty in RDMA2_CALL_INLINE.
	Body  ReadList
	Reads ReadList
	Offer
	// Size is the header's length in bytes. The Payload stream of RDMA2_CALL_INLINE starts there. In
	// RDMA2_CALL_EXTERNAL, bytes behind the header have no meaning.
	Size int
}

// Parse reads the header at the start of b, a message of either type. It checks what the header itself
// shows: whether the lists can be decoded, their order and positions (§4.5.1, §6.6.3), and whether a segment
// reaches beyond the last 64-bit offset. Whatever the outcome, Parse sets the prefix. It allocates nothing.
func (h *Call2) Parse(b []byte) Refusal {
	*h = Call2{}
	var ok bool
	if h.Prefix2, ok = ParsePrefix2(b); !ok {
		return Refusal{Why: whyTruncated}
	}
	at := PrefixSize + 4
	if len(b) < at {
		return h.badXDR(whyTruncated)
	}
	h.InvalidateHandle = binary.BigEndian.Uint32(b[PrefixSize:])
	var body ReadList
	if h.Type == TypeCallExternal {
		n, _, err := parseList(b[at:], sizeOfReadSegment)
		if err != nil {
			return h.badXDR(why(err))
		}
		body = ReadList{b[at : at+n]}
		at += n + 4
	}
	n, _, err := parseList(b[at:], sizeOfReadSegment)
	if err != nil {
		return h.badXDR(why(err))
	}
	reads := ReadList{b[at : at+n]}
	at += n + 4
	offer, n, err := parseOffer(b[at:])
	if err != nil {
		return h.badXDR(why(err))
	}
	h.Body, h.Reads, h.Offer, h.Size = body, reads, offer, at+n
	return h.judgeLists()
}

// ParseChunkless2 reads the header of an RDMA2_CALL_INLINE whose lists are all empty, and returns what Call2.Parse would set:
// the offer, and the header's length in bytes. For other headers ok is false. Most calls have no chunks, and ParseChunkless2
// is faster than Parse. The caller knows the type.
func ParseChunkless2(b []byte) (o Offer, size int, ok bool) {
	const reads, writes = PrefixSize + 4, PrefixSize + 8
	if len(b) < MinCallInline || binary.BigEndian.Uint32(b[reads:]) != 0 || binary.BigEndian.Uint64(b[writes:]) != 0 {
		return Offer{}, 0, false
	}
	return Offer{Writes: WriteList{chunks: b[writes:writes]}, encoded: b[writes:MinCallInline]}, MinCallInline, true
}

// judgeLists checks the segments of the lists.
func (h *Call2) judgeLists() Refusal {
	if h.Type == TypeCallExternal && h.Body.Len() == 0 {
		return h.badXDR("the Call chunk has no segments")
	}
	for i := range h.Body.Len() {
		if h.Body.At(i).Position != 0 {
			return h.badXDR("a segment of the Call chunk has a position other than 0")
		}
	}
	last := uint32(0)
	for i := range h.Reads.Len() {
		switch p := h.Reads.At(i).Position; {
		case p == 0:
			return h.badXDR("a segment of the Read list has position 0")
		case p%4 != 0:
			return h.badXDR("a position in the Read list is not a multiple of 4")
		case p < last:
			return h.badXDR("the positions in the Read list go backwards")
		default:
			last = p
		}
	}
	for s := range h.segments {
		if s.wraps() {
			return h.badXDR("a segment reaches beyond the last offset")
		}
	}
	return Refusal{}
}

// segments calls yield for each segment of the lists, until yield returns false.
func (h *Call2) segments(yield func(Segment) bool) {
	for _, l := range [...]ReadList{h.Body, h.Reads} {
		for i := range l.Len() {
			if !yield(l.At(i).Segment) {
				return
			}
		}
	}
	h.Offer.segments(yield)
}

// Invalidates returns the handle that the Responder may invalidate with the last Send of its reply. ok is
// false if the call names none, or one that its lists do not have: to invalidate that would end the
// connection (§6.5).
func (h *Call2) Invalidates() (handle uint32, ok bool) {
	if h.InvalidateHandle == 0 {
		return 0, false
	}
	for s := range h.segments {
		if s.Handle == h.InvalidateHandle {
			return s.Handle, true
		}
	}
	return 0, false
}

// Limits2 are the limits of a Responder for the chunks of one call (§7.3).
type Limits2 struct {
	// ReadChunks and WriteChunks are the greatest numbers of chunks in the Read list and the Write list.
	ReadChunks, WriteChunks int
	// ChunkSegments is the greatest number of segments in one chunk, Segments that in all lists.
	ChunkSegments, Segments int
	// Parts is true if replies may come in parts, so that a call without Write chunks can be served.
	Parts bool
}

// Within checks the numbers of chunks and segments of a call (§7.3.1, §7.3.2, §7.3.3). The number in
// RDMA2_ERR_SEGMENTS is one for which the call, with the same chunks, is within the limits. If there is none,
// the answer is RDMA2_ERR_SYSTEM.
func (h *Call2) Within(l Limits2) Refusal {
	if h.Size == MinCallInline {
		return Refusal{} // most calls have no chunks
	}
	chunks, longest := h.Reads.chunks()
	switch {
	case chunks > l.ReadChunks:
		return Refusal{ErrorBody2{Code: Err2ReadChunks, Max: uint32(l.ReadChunks)}, "too many Read chunks"}
	case h.Writes.Len() > 0 && l.WriteChunks == 0 && !l.Parts:
		return Refusal{ErrorBody2{Code: Err2ReplyResource}, "there are no Write chunks, and no replies in parts"}
	case h.Writes.Len() > l.WriteChunks:
		return Refusal{ErrorBody2{Code: Err2WriteChunks, Max: uint32(l.WriteChunks)}, "too many Write chunks"}
	}
	longest = max(longest, h.Body.Len(), h.Reply.Len())
	total := h.Body.Len() + h.Reads.Len() + h.Reply.Len()
	chunks += min(h.Body.Len(), 1) + min(h.Reply.Len(), 1)
	for w := h.Writes; w.Len() > 0; {
		n := w.Next().Len()
		longest = max(longest, n)
		total += n
		chunks += min(n, 1)
	}
	if longest <= l.ChunkSegments && total <= l.Segments {
		return Refusal{}
	}
	each := min(l.ChunkSegments, l.Segments/chunks)
	if each == 0 {
		return Refusal{ErrorBody2{Code: Err2System}, "more chunks than segments are accepted"}
	}
	return Refusal{ErrorBody2{Code: Err2Segments, Max: uint32(each)}, "too many segments"}
}

// chunks returns the number of Read chunks in l, in which the segments of a chunk stand together, and the
// number of segments of the longest one.
func (l ReadList) chunks() (chunks, longest int) {
	var position uint32
	n := 0
	for i := range l.Len() {
		if p := l.At(i).Position; i == 0 || p != position {
			chunks, n, position = chunks+1, 0, p
		}
		n++
		longest = max(longest, n)
	}
	return chunks, longest
}

// The lists of a call to be sent are Lists, as in version 1. In RDMA2_CALL_EXTERNAL their first Read segments, those of
// position 0, are the Call chunk, which has a list of its own.

// Size2 is the length of the whole header of a call of type t with the lists, prefix included, in bytes.
func (l *Lists) Size2(t HeaderType) int {
	n := PrefixSize + 4 + l.Size()
	if t == TypeCallExternal {
		n += 4
	}
	return n
}

// Put2 writes the whole header of a call to the first Size2(p.Type) bytes of b. invalidate is a handle of the lists that
// the Responder may invalidate, or 0 for none. It panics if b is shorter.
func (l *Lists) Put2(b []byte, p Prefix2, invalidate uint32) {
	_ = b[l.Size2(p.Type)-1]
	p.Put(b)
	binary.BigEndian.PutUint32(b[PrefixSize:], invalidate)
	at := PrefixSize + 4
	rest := *l
	if p.Type == TypeCallExternal {
		body := b[at:at]
		for len(rest.Reads) > 0 && rest.Reads[0].Position == 0 {
			body = binary.BigEndian.AppendUint32(body, 1)
			body = binary.BigEndian.AppendUint32(body, 0)
			body = rest.Reads[0].appendTo(body)
			rest.Reads = rest.Reads[1:]
		}
		binary.BigEndian.AppendUint32(body, 0)
		at += len(body) + 4
	}
	rest.Put(b[at:])
}
