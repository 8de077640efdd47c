package wire

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// putMarked makes an FPDU with markers.
func putMarked(m *Marker, fpdu []byte) []byte {
	b := make([]byte, len(fpdu)+MaxMarkers(len(fpdu)))
	m.Begin()
	at := m.Put(b, fpdu[:len(fpdu)-CRCSize])
	if m.Due() {
		at += m.PutDue(b[at:])
	}
	var crc [CRCSize]byte
	PutCRC(crc[:], CRC(0, b[:at]))
	return b[:at+m.Put(b[at:], crc[:])]
}

// IW-304: the markers are those of RFC 5044 Figures 5 and 6: one before the first FPDU, and one
// after 492 bytes that points back to its FPDU.
func TestMarkerFigures(t *testing.T) {
	zeros := make([]byte, 24)
	m := new(Marker)
	fig5 := append(unhex(t, "002a 4143 00000000 00000000 00000001 00000000"), append(zeros, 0, 0, 0, 0)...)
	got := putMarked(m, fig5)
	if !bytes.Equal(got[:4], make([]byte, 4)) || !bytes.Equal(got[len(got)-4:], unhex(t, "52239983")) {
		t.Fatalf("Figure 5: %x", got)
	}
	// Figure 6: the FPDU before had 492 bytes, so that 16 bytes of this one come before the
	// marker.
	m = &Marker{next: 20}
	fig6 := append(unhex(t, "002a 4143 00000000 00000000 00000002 00000000"), append(zeros, 0, 0, 0, 0)...)
	got = putMarked(m, fig6)
	if !bytes.Equal(got[20:24], unhex(t, "00000014")) || !bytes.Equal(got[len(got)-4:], unhex(t, "84925898")) {
		t.Fatalf("Figure 6: %x", got)
	}
}

// IW-305: a long stream has a marker every 512 bytes. A marker within an FPDU points back to the
// FPDU's length field; a marker between two FPDUs is 0.
func TestMarkersInALongStream(t *testing.T) {
	m := new(Marker)
	var stream []byte
	type span struct{ start, end int }
	var fpdus []span
	for i := range 3000 {
		f := make([]byte, FPDUSize(14+(i*37)%1500))
		PutFPDU(f, f[LengthSize:len(f)-CRCSize-Pad(14+(i*37)%1500)], false)
		start := len(stream)
		stream = append(stream, putMarked(m, f)...)
		if start%MarkerInterval == 0 {
			start += MarkerSize
		}
		fpdus = append(fpdus, span{start, len(stream)})
	}
	at := 0
	for pos := 0; pos < len(stream); pos += MarkerInterval {
		for fpdus[at].end <= pos {
			at++
		}
		want := 0
		if pos > fpdus[at].start {
			want = pos - fpdus[at].start
		}
		if got := binary.BigEndian.Uint32(stream[pos:]); got != uint32(want) {
			t.Fatalf("marker at %d is %d, want %d", pos, got, want)
		}
	}
}
