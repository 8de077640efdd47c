package wire

import "encoding/binary"

// An Offer2 holds the chunks that a call offers for its reply (rdma_provisional_writes and
// rdma_provisional_reply, §6.3.5, §6.3.7). They alias the message.
type Offer2 struct {
	Writes  WriteList
	Reply   ReplyChunk
	encoded []byte // both, as in the message
	writes  int    // the length of the Write list in encoded
}

// parseOffer2 reads a Write list and a Reply chunk from the start of b, and returns their length.
func parseOffer2(b []byte) (o Offer2, n int, err error) {
	at, count, err := parseList(b, sizeOfChunk)
	if err != nil {
		return Offer2{}, 0, err
	}
	writes := WriteList{b[:at], count}
	at += 4
	reply, n, err := parseReplyChunk(b[at:])
	if err != nil {
		return Offer2{}, 0, err
	}
	return Offer2{writes, reply, b[:at+n], at}, at + n, nil
}

// segments calls yield for each segment of the chunks, until yield returns false.
func (o *Offer2) segments(yield func(Segment) bool) {
	for l := o.Writes; ; {
		c := o.Reply.WriteChunk
		last := l.Len() == 0
		if !last {
			c = l.Next()
		}
		for i := range c.Len() {
			if !yield(c.At(i)) {
				return
			}
		}
		if last {
			return
		}
	}
}

// ReplySize returns the length of the header of an RDMA2_REPLY_INLINE to the call, in bytes. It returns the
// whole Write list (§4.5.2.1); only an RDMA2_REPLY_EXTERNAL returns the Reply chunk.
func (o *Offer2) ReplySize() int { return PrefixSize + o.writes }

// ExternalReplySize returns the length of an RDMA2_REPLY_EXTERNAL to the call, which must offer a Reply
// chunk, in bytes.
func (o *Offer2) ExternalReplySize() int { return PrefixSize + len(o.encoded) }

// PutReply writes the header of the call's reply to b: an RDMA2_REPLY_INLINE to the first ReplySize bytes,
// or, if p.Type says so, an RDMA2_REPLY_EXTERNAL to the first ExternalReplySize bytes. used[i] is the number
// of bytes written to Write chunk i; for a chunk without an entry in used, the number is 0. replied is the
// number of bytes written to the Reply chunk. Segments keep their handles and offsets; their lengths say
// what was written (§4.5.2.1).
func (o *Offer2) PutReply(b []byte, p Prefix2, used []uint64, replied uint64) {
	p.Put(b)
	at := PrefixSize
	for n := o.Writes.Len(); n > 0; n-- {
		first := uint64(0)
		if len(used) > 0 {
			first, used = used[0], used[1:]
		}
		from := o.encoded[at-PrefixSize:]
		size, _ := sizeOfChunk(from[4:])
		at += copy(b[at:], from[:4+size])
		putLengths(b[at-size:], first)
	}
	binary.BigEndian.PutUint32(b[at:], 0)
	at += 4
	if p.Type == TypeReplyExternal && o.Reply.Present {
		copy(b[at:], o.encoded[o.writes:])
		putLengths(b[at+4:], replied)
	}
}
