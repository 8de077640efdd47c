package wire

import (
	"encoding/binary"
)

// segmentSize is the length of a plain segment on the wire, in bytes: handle,
// length, offset (RFC 8166 §3.4.3).
const segmentSize = 16

// A Segment is a piece of memory of the Requester: Length bytes that start at Offset in the region
// whose STag is Handle.
type Segment struct {
	Handle, Length uint32
	Offset         uint64
}

// getSegment reads the segment at the start of b. b must have at least segmentSize bytes.
func getSegment(b []byte) Segment {
	_ = b[segmentSize-1]
	return Segment{
		Handle: binary.BigEndian.Uint32(b),
		Length: binary.BigEndian.Uint32(b[4:]),
		Offset: binary.BigEndian.Uint64(b[8:]),
	}
}

// appendTo appends s to b.
func (s Segment) appendTo(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, s.Handle)
	b = binary.BigEndian.AppendUint32(b, s.Length)
	return binary.BigEndian.AppendUint64(b, s.Offset)
}

// wraps reports whether s reaches beyond the last 64-bit offset.
func (s Segment) wraps() bool {
	return s.Length > 0 && s.Offset+uint64(s.Length-1) < s.Offset
}

// ReadSegmentSize is the length of a segment in a Read list on the wire, in bytes: the word
// that announces it, the position, and a plain segment.
const ReadSegmentSize = 4 + 4 + segmentSize

// A ReadSegment is a piece of the Read chunk at Position: one entry of a Read list (RFC
// 8166 §4.3.1). All entries with one position, in the order of the list, make up a Read
// chunk.
type ReadSegment struct {
	// Position is an offset, in bytes, in the whole Payload stream, from which no chunk is removed.
	// If Position is 0, the chunk is the Payload stream itself (a Position-Zero Read chunk).
	Position uint32
	Segment
}

// A ReadList is a parsed Read list that aliases the message. The zero ReadList is empty.
type ReadList struct {
	entries []byte // encoded entries of ReadSegmentSize bytes each
}

// parseList reads a list from the start of b: entries, each preceded by the word 1, then the word 0. It
// returns the length of the entries on the wire, in bytes, and their number. size returns the length of
// the entry at the start of its argument, without the word before it.
func parseList(b []byte, size func(b []byte) (int, error)) (length, count int, err error) {
	for {
		if len(b)-length < 4 {
			return 0, 0, ErrTruncated
		}
		switch binary.BigEndian.Uint32(b[length:]) {
		case 0:
			return length, count, nil
		case 1:
			n, err := size(b[length+4:])
			if err != nil {
				return 0, 0, err
			}
			length += 4 + n
			count++
		default:
			return 0, 0, ErrDiscriminator
		}
	}
}

// sizeOfReadSegment returns the length of an entry of a Read list, without the word before it.
func sizeOfReadSegment(b []byte) (int, error) {
	if len(b) < ReadSegmentSize-4 {
		return 0, ErrTruncated
	}
	return ReadSegmentSize - 4, nil
}

// Len is the number of segments in l.
func (l ReadList) Len() int { return len(l.entries) / ReadSegmentSize }

// At returns segment i of l.
func (l ReadList) At(i int) ReadSegment {
	e := l.entries[i*ReadSegmentSize : (i+1)*ReadSegmentSize]
	return ReadSegment{Position: binary.BigEndian.Uint32(e[4:]), Segment: getSegment(e[8:])}
}

// A WriteChunk is memory of the Requester for one result, or for a whole reply (the Reply chunk)
// (RFC 8166 §3.4.6). It aliases the message. A WriteChunk without segments is an empty Write chunk;
// its result goes inline.
type WriteChunk struct {
	segments []byte // encoded segments of segmentSize bytes each
}

// sizeOfChunk returns the length of the Write chunk at the start of b, a counted array of segments, in
// bytes.
func sizeOfChunk(b []byte) (int, error) {
	if len(b) < 4 {
		return 0, ErrTruncated
	}
	count := binary.BigEndian.Uint32(b)
	if uint64(count)*segmentSize > uint64(len(b)-4) {
		return 0, ErrTruncated
	}
	return 4 + int(count)*segmentSize, nil
}

// Len is the number of segments in c.
func (c WriteChunk) Len() int { return len(c.segments) / segmentSize }

// At returns segment i of c.
func (c WriteChunk) At(i int) Segment { return getSegment(c.segments[i*segmentSize:]) }

// Bytes returns the capacity of c: the sum of its segments' lengths.
func (c WriteChunk) Bytes() uint64 {
	var sum uint64
	for i := 0; i < len(c.segments); i += segmentSize {
		sum += uint64(binary.BigEndian.Uint32(c.segments[i+4:]))
	}
	return sum
}

// putLengths sets the lengths of the segments of the encoded chunk at the start of b so that they add
// up to used bytes, the number of bytes that were written to the chunk (RFC 8166 §3.4.6). It keeps the
// lengths of the first segments, shortens the segment with which the sum would exceed used, and sets
// the lengths of the segments behind it to 0. It returns the length of the chunk on the wire.
func putLengths(b []byte, used uint64) int {
	end := 4 + int(binary.BigEndian.Uint32(b))*segmentSize
	for at := 4 + 4; at < end; at += segmentSize {
		length := min(used, uint64(binary.BigEndian.Uint32(b[at:])))
		binary.BigEndian.PutUint32(b[at:], uint32(length))
		used -= length
	}
	return end
}

// A WriteList is a parsed Write list that aliases the message (RFC 8166 §4.3.2). The zero
// WriteList is empty.
type WriteList struct {
	chunks []byte // encoded chunks, each preceded by the word 1, as on the wire
	count  int
}

// Len is the number of chunks in l.
func (l WriteList) Len() int { return l.count }

// Next removes and returns the first chunk of l, which must not be empty.
func (l *WriteList) Next() WriteChunk {
	n, _ := sizeOfChunk(l.chunks[4:])
	c := WriteChunk{l.chunks[8 : 4+n]}
	l.chunks = l.chunks[4+n:]
	l.count--
	return c
}

// A ReplyChunk is the memory for a reply that is too long for a Send (RFC 8166 §4.3.3). It aliases
// the message. The zero ReplyChunk stands for an absent chunk.
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
		n, err := sizeOfChunk(b[4:])
		if err != nil {
			return ReplyChunk{}, 0, err
		}
		return ReplyChunk{WriteChunk{b[8 : 4+n]}, true}, 4 + n, nil
	}
	return ReplyChunk{}, 0, ErrDiscriminator
}
