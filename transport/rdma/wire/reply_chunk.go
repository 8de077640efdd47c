package wire

import "encoding/binary"

// A ReplyChunk is the memory for a reply that is too long for a Send (RFC 8166 §4.3.3). It
// aliases the message. The zero ReplyChunk is absent.
type ReplyChunk struct {
	WriteChunk
	Present bool
}

// parseReplyChunk reads the Reply chunk field from the start of b and returns
// its length on the wire, in bytes. The chunk aliases b.
func parseReplyChunk(b []byte) (c ReplyChunk, n int, err error) {
	if len(b) < 4 {
		return ReplyChunk{}, 0, ErrTruncated
	}
	switch binary.BigEndian.Uint32(b) {
	case 0:
		return ReplyChunk{}, 4, nil
	case 1:
		w, n, err := parseWriteChunk(b[4:])
		if err != nil {
			return ReplyChunk{}, 0, err
		}
		return ReplyChunk{WriteChunk: w, Present: true}, 4 + n, nil
	}
	return ReplyChunk{}, 0, ErrDiscriminator
}

// size returns the length of the field on the wire, in bytes.
func (c ReplyChunk) size() int {
	if !c.Present {
		return 4
	}
	return 4 + c.WriteChunk.size()
}

// putUsed writes the field to b as a reply returns it: the segments' lengths cover the
// first used bytes. An offered chunk that was not used is present with lengths of 0 (RFC
// 8166 §4.3.3). It returns the field's length in bytes.
func (c *ReplyChunk) putUsed(b []byte, used uint64) int {
	if !c.Present {
		binary.BigEndian.PutUint32(b, 0)
		return 4
	}
	binary.BigEndian.PutUint32(b, 1)
	return 4 + c.WriteChunk.putUsed(b[4:], used)
}

// putReplyChunk writes the field to b, which must have room for it, and returns its length.
// nil segments mean that the chunk is absent.
func putReplyChunk(b []byte, segments []Segment) int {
	if segments == nil {
		binary.BigEndian.PutUint32(b, 0)
		return 4
	}
	binary.BigEndian.PutUint32(b, 1)
	return 4 + putSegments(b[4:], segments)
}

// replyChunkSize returns the length of the field on the wire, in bytes.
func replyChunkSize(segments []Segment) int {
	if segments == nil {
		return 4
	}
	return 8 + len(segments)*segmentSize
}
