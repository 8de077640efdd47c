package wire

// Lists holds the chunk lists of a header to be sent (RFC 8166 §4.3). The zero Lists are
// empty.
type Lists struct {
	// Reads is the Read list: the segments of all Read chunks.
	Reads []ReadSegment
	// Writes is the Write list. A chunk without segments is an empty Write chunk.
	Writes [][]Segment
	// Reply is the Reply chunk, or nil if there is none.
	Reply []Segment
}

// Size is the length of the lists on the wire, in bytes.
func (l *Lists) Size() int {
	return len(l.Reads)*ReadSegmentSize + 4 + writeListSize(l.Writes) + replyChunkSize(l.Reply)
}

// Put writes the lists to the first Size bytes of b.
func (l *Lists) Put(b []byte) {
	n := putReadList(b, l.Reads)
	n += putWriteList(b[n:], l.Writes)
	putReplyChunk(b[n:], l.Reply)
}
