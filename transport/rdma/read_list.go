package rdma

import "encoding/binary"

// readEntrySize is an entry of a Read list on the wire: the word that says that
// it follows, the position, a plain segment.
const readEntrySize = 4 + 4 + SegmentSize

// A ReadSegment is a piece of the Read chunk at Position: one entry of a Read
// list (RFC 8166 §4.3.1). A Read chunk is all entries with one position, in the
// order of the list.
type ReadSegment struct {
	// Position counts bytes of the unreduced Payload stream; 0 is the
	// Payload stream itself (a Position-Zero Read chunk).
	Position uint32
	Segment
}

// A ReadList is a parsed Read list, in place. The zero ReadList is empty.
type ReadList struct {
	entries []byte // of readEntrySize each
}

// ParseReadList reads a Read list from the start of b and returns its length on
// the wire, in bytes. Its errors are ErrHeader's. The list aliases b.
func ParseReadList(b []byte) (l ReadList, n int, err error) {
	for {
		if len(b)-n < 4 {
			return ReadList{}, 0, errTruncated
		}
		switch binary.BigEndian.Uint32(b[n:]) {
		case 0:
			return ReadList{entries: b[:n]}, n + 4, nil
		case 1:
			if len(b)-n < readEntrySize {
				return ReadList{}, 0, errTruncated
			}
			n += readEntrySize
		default:
			return ReadList{}, 0, errDiscriminator
		}
	}
}

// Len is the number of segments in l.
func (l ReadList) Len() int { return len(l.entries) / readEntrySize }

// At is segment i of l.
func (l ReadList) At(i int) ReadSegment {
	e := l.entries[i*readEntrySize : (i+1)*readEntrySize]
	return ReadSegment{Position: binary.BigEndian.Uint32(e[4:]), Segment: getSegment(e[8:])}
}

// ReadListSize is the length on the wire of a Read list of n segments.
func ReadListSize(n int) int { return n*readEntrySize + 4 }

// PutReadList writes the list of segments to b, which must have room for it,
// and returns its length.
func PutReadList(b []byte, segments []ReadSegment) int {
	n := 0
	for _, s := range segments {
		binary.BigEndian.PutUint32(b[n:], 1)
		binary.BigEndian.PutUint32(b[n+4:], s.Position)
		s.Segment.put(b[n+8:])
		n += readEntrySize
	}
	binary.BigEndian.PutUint32(b[n:], 0)
	return n + 4
}
