package wire

import "encoding/binary"

// A WriteChunk is memory of the Requester for one result, or for a whole reply (the Reply
// chunk) (RFC 8166 §3.4.6). It aliases the message. Without segments it is an empty Write
// chunk: its result goes inline.
type WriteChunk struct {
	segments []byte // encoded segments of segmentSize bytes each
}

// parseWriteChunk reads a counted array of segments from the start of b.
func parseWriteChunk(b []byte) (c WriteChunk, n int, err error) {
	if len(b) < 4 {
		return WriteChunk{}, 0, ErrTruncated
	}
	count := binary.BigEndian.Uint32(b)
	if uint64(count)*segmentSize > uint64(len(b)-4) {
		return WriteChunk{}, 0, ErrTruncated
	}
	n = 4 + int(count)*segmentSize
	return WriteChunk{segments: b[4:n]}, n, nil
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

// size returns the length of c on the wire, in bytes, the word with the segment count
// included.
func (c WriteChunk) size() int { return 4 + len(c.segments) }

// putUsed writes c to b as a reply returns it: all its segments, with lengths that cover
// the first used bytes (RFC 8166 §3.4.6). It returns the length written, in bytes.
func (c WriteChunk) putUsed(b []byte, used uint64) int {
	binary.BigEndian.PutUint32(b, uint32(c.Len()))
	n := 4 + copy(b[4:], c.segments)
	putLengths(b[4:n], used)
	return n
}

// putLengths cuts the lengths of the segments in b so that together they cover the first
// used bytes.
func putLengths(b []byte, used uint64) {
	for at := 4; at < len(b); at += segmentSize {
		length := min(used, uint64(binary.BigEndian.Uint32(b[at:])))
		binary.BigEndian.PutUint32(b[at:], uint32(length))
		used -= length
	}
}

// A WriteList is a parsed Write list that aliases the message (RFC 8166 §4.3.2). The zero
// WriteList is empty.
type WriteList struct {
	chunks []byte // encoded chunks, each preceded by the word 1, as on the wire
	count  int
}

// parseWriteList reads a Write list from the start of b and returns its length
// on the wire, in bytes. The list aliases b.
func parseWriteList(b []byte) (l WriteList, n int, err error) {
	for {
		if len(b)-n < 4 {
			return WriteList{}, 0, ErrTruncated
		}
		switch binary.BigEndian.Uint32(b[n:]) {
		case 0:
			l.chunks = b[:n]
			return l, n + 4, nil
		case 1:
			_, size, err := parseWriteChunk(b[n+4:])
			if err != nil {
				return WriteList{}, 0, err
			}
			n += 4 + size
			l.count++
		default:
			return WriteList{}, 0, ErrDiscriminator
		}
	}
}

// Len is the number of chunks in l.
func (l WriteList) Len() int { return l.count }

// Next removes and returns the first chunk of l, which must have one.
func (l *WriteList) Next() WriteChunk {
	c, n, _ := parseWriteChunk(l.chunks[4:])
	l.chunks = l.chunks[4+n:]
	l.count--
	return c
}

// size returns the length of l on the wire, in bytes.
func (l WriteList) size() int { return len(l.chunks) + 4 }

// putUsed writes l to b as a reply returns it: the lengths in chunk i cover its first
// used[i] bytes, and chunks beyond used have lengths of 0. It returns the length written,
// in bytes.
func (l *WriteList) putUsed(b []byte, used []uint64) int {
	n := copy(b, l.chunks)
	for at := 0; at < n; {
		end := at + 8 + int(binary.BigEndian.Uint32(b[at+4:]))*segmentSize
		first := uint64(0)
		if len(used) > 0 {
			first, used = used[0], used[1:]
		}
		putLengths(b[at+8:end], first)
		at = end
	}
	binary.BigEndian.PutUint32(b[n:], 0)
	return n + 4
}

// writeListSize returns the length on the wire of a Write list of these chunks, in bytes.
func writeListSize(chunks [][]Segment) int {
	n := 4
	for _, c := range chunks {
		n += 8 + len(c)*segmentSize
	}
	return n
}

// putWriteList writes the list of chunks to b, which must have room for it, and
// returns its length. A chunk without segments is an empty Write chunk.
func putWriteList(b []byte, chunks [][]Segment) int {
	n := 0
	for _, c := range chunks {
		binary.BigEndian.PutUint32(b[n:], 1)
		n += 4 + putSegments(b[n+4:], c)
	}
	binary.BigEndian.PutUint32(b[n:], 0)
	return n + 4
}

// putSegments writes a counted array of segments to b.
func putSegments(b []byte, segments []Segment) int {
	binary.BigEndian.PutUint32(b, uint32(len(segments)))
	n := 4
	for _, s := range segments {
		s.put(b[n:])
		n += segmentSize
	}
	return n
}
