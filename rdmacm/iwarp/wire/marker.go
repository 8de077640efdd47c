package wire

import "encoding/binary"

// Markers (RFC 5044 §4.2, §4.3).
const (
	MarkerSize     = 4
	MarkerInterval = 512
)

// A Marker lays out a stream with markers in it: the first before the first
// FPDU, one every MarkerInterval bytes from there. The zero Marker stands at
// the start of full operation.
type Marker struct {
	// next is how many bytes of stream come before the next marker.
	next int
	// at is how far the current FPDU's length field lies behind.
	at int
}

// Begin starts an FPDU: the next byte of stream is its length field, unless a
// marker is due first.
func (m *Marker) Begin() { m.at = 0 }

// MaxMarkers is how many bytes of markers n bytes of an FPDU can bring along.
func MaxMarkers(n int) int {
	return (n/(MarkerInterval-MarkerSize) + 2) * MarkerSize
}

// Put copies p to the start of b, markers put in where they are due, and
// returns how many bytes that made.
func (m *Marker) Put(b, p []byte) int {
	n := 0
	for len(p) > 0 {
		if m.next == 0 {
			m.put(b[n:])
			n += MarkerSize
		}
		k := copy(b[n:n+min(len(p), m.next)], p)
		n, p = n+k, p[k:]
		m.at += k
		m.next -= k
	}
	return n
}

// Due says whether a marker is due before the next byte. A marker that is due
// between the pad and the CRC counts into the CRC (RFC 5044 §4.4).
func (m *Marker) Due() bool { return m.next == 0 }

// PutDue writes the marker that is due.
func (m *Marker) PutDue(b []byte) int {
	m.put(b)
	return MarkerSize
}

func (m *Marker) put(b []byte) {
	binary.BigEndian.PutUint32(b, uint32(m.at)&0xffff)
	m.next = MarkerInterval - MarkerSize
	// A marker between FPDUs belongs to the one that follows, whose length
	// field comes behind it: the pointer is 0 and stays so.
	if m.at > 0 {
		m.at += MarkerSize
	}
}
