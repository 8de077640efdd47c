package wire

import "encoding/binary"

// Markers (RFC 5044 §4.2, §4.3).
const (
	MarkerSize     = 4
	MarkerInterval = 512
)

// A Marker inserts markers into a stream. A marker begins every MarkerInterval bytes of the
// stream, which includes the markers; the first one stands before the first FPDU. The zero Marker
// is at the start of the stream.
type Marker struct {
	// next is the number of stream bytes before the next marker.
	next int
	// at is the number of bytes from the current FPDU's length field to the present position.
	at int
}

// Begin starts an FPDU: the next byte of the stream is its length field, unless a marker is due first.
func (m *Marker) Begin() { m.at = 0 }

// MaxMarkers returns the largest number of marker bytes that n bytes of an FPDU can need.
func MaxMarkers(n int) int {
	return (n/(MarkerInterval-MarkerSize) + 2) * MarkerSize
}

// Put copies p to the start of b, inserts the markers that are due, and returns the number
// of bytes written.
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

// Due reports whether a marker is due before the next byte. If a marker is due between the pad
// and the CRC, the CRC covers it (RFC 5044 §4.4).
func (m *Marker) Due() bool { return m.next == 0 }

// PutDue writes the marker that is due to the start of b, and returns its length in bytes.
func (m *Marker) PutDue(b []byte) int {
	m.put(b)
	return MarkerSize
}

func (m *Marker) put(b []byte) {
	binary.BigEndian.PutUint32(b, uint32(m.at)&0xffff)
	m.next = MarkerInterval - MarkerSize
	// A marker between FPDUs belongs to the following FPDU, whose length field comes behind it.
	// So its pointer is 0.
	if m.at > 0 {
		m.at += MarkerSize
	}
}
