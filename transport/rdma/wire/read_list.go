package wire

import "encoding/binary"

// ReadSegmentSize is the length of a segment in a Read list on the wire, in bytes: the word
// that announces it, the position, and a plain segment.
const ReadSegmentSize = 4 + 4 + segmentSize

// A ReadSegment is a piece of the Read chunk at Position: one entry of a Read list (RFC
// 8166 §4.3.1). All entries with one position, in the order of the list, make up a Read
// chunk.
type ReadSegment struct {
	// Position counts bytes of the unreduced Payload stream; 0 is the
	// Payload stream itself (a Position-Zero Read chunk).
	Position uint32
	Segment
}

// A ReadList is a parsed Read list that aliases the message. The zero ReadList is empty.
type ReadList struct {
	entries []byte // encoded entries of ReadSegmentSize bytes each
}

// parseReadList reads a Read list from the start of b and returns its length on
// the wire, in bytes. The list aliases b.
func parseReadList(b []byte) (l ReadList, n int, err error) {
	for {
		if len(b)-n < 4 {
			return ReadList{}, 0, ErrTruncated
		}
		switch binary.BigEndian.Uint32(b[n:]) {
		case 0:
			return ReadList{entries: b[:n]}, n + 4, nil
		case 1:
			if len(b)-n < ReadSegmentSize {
				return ReadList{}, 0, ErrTruncated
			}
			n += ReadSegmentSize
		default:
			return ReadList{}, 0, ErrDiscriminator
		}
	}
}

// Len is the number of segments in l.
func (l ReadList) Len() int { return len(l.entries) / ReadSegmentSize }

// At returns segment i of l.
func (l ReadList) At(i int) ReadSegment {
	e := l.entries[i*ReadSegmentSize : (i+1)*ReadSegmentSize]
	return ReadSegment{Position: binary.BigEndian.Uint32(e[4:]), Segment: getSegment(e[8:])}
}

// putReadList writes the list of segments to b, which must have room for it,
// and returns its length.
func putReadList(b []byte, segments []ReadSegment) int {
	n := 0
	for _, s := range segments {
		binary.BigEndian.PutUint32(b[n:], 1)
		binary.BigEndian.PutUint32(b[n+4:], s.Position)
		s.Segment.put(b[n+8:])
		n += ReadSegmentSize
	}
	binary.BigEndian.PutUint32(b[n:], 0)
	return n + 4
}
