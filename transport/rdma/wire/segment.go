package wire

import "encoding/binary"

// segmentSize is the length of a plain segment on the wire, in bytes: handle,
// length, offset (RFC 8166 §3.4.3).
const segmentSize = 16

// A Segment names memory of the Requester: Length bytes from Offset of the region that
// Handle (the STag) names.
type Segment struct {
	Handle, Length uint32
	Offset         uint64
}

// getSegment reads the segment at the start of b, which holds one.
func getSegment(b []byte) Segment {
	_ = b[segmentSize-1]
	return Segment{
		Handle: binary.BigEndian.Uint32(b),
		Length: binary.BigEndian.Uint32(b[4:]),
		Offset: binary.BigEndian.Uint64(b[8:]),
	}
}

// put writes s to the first segmentSize bytes of b.
func (s Segment) put(b []byte) {
	_ = b[segmentSize-1]
	binary.BigEndian.PutUint32(b, s.Handle)
	binary.BigEndian.PutUint32(b[4:], s.Length)
	binary.BigEndian.PutUint64(b[8:], s.Offset)
}

// wraps reports whether s reaches beyond the last 64-bit offset.
func (s Segment) wraps() bool {
	return s.Length > 0 && s.Offset+uint64(s.Length-1) < s.Offset
}
