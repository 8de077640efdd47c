package wire

import (
	"encoding/binary"
	"hash/crc32"
)

// Sizes and limits of an FPDU (RFC 5044 §4.1).
const (
	LengthSize = 2 // the ULPDU_Length field
	CRCSize    = 4
	// MinULPDU and MaxULPDU are the smallest and the largest value of MULPDU, the length of the
	// longest ULPDU that a sender may put into one FPDU. A receiver must accept every value of the
	// length field, because siw exceeds MaxULPDU.
	MinULPDU = 128
	MaxULPDU = 64768
)

// Pad returns the number of pad bytes behind a ULPDU of n bytes. With the pad, the total length
// of the length field, the ULPDU and the pad is a multiple of 4.
func Pad(n int) int { return -(LengthSize + n) & 3 }

// FPDUSize returns the length on the wire of an FPDU with a ULPDU of n bytes, without markers.
func FPDUSize(n int) int { return LengthSize + n + Pad(n) + CRCSize }

// ULPDULength reads the length field at the start of an FPDU.
func ULPDULength(b []byte) int { return int(binary.BigEndian.Uint16(b)) }

// PutULPDULength writes the length field.
func PutULPDULength(b []byte, n int) { binary.BigEndian.PutUint16(b, uint16(n)) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// CRC extends crc by b. crc is the CRC32C of the preceding bytes of the FPDU, or 0 at its start.
func CRC(crc uint32, b []byte) uint32 { return crc32.Update(crc, castagnoli, b) }

// ParseCRC reads the CRC field, which is little-endian (RFC 5044 §4.4, Figure 5).
func ParseCRC(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }

// PutCRC writes the CRC field.
func PutCRC(b []byte, crc uint32) { binary.LittleEndian.PutUint32(b, crc) }

// PutFPDU wraps a ULPDU into an FPDU at the start of b and returns the FPDU's length. The
// CRC field is zero if crc is false. ulpdu may already lie in its place, b[LengthSize:].
func PutFPDU(b, ulpdu []byte, crc bool) int {
	n := len(ulpdu)
	size := FPDUSize(n)
	copy(b[LengthSize:], ulpdu)
	PutULPDULength(b, n)
	clear(b[LengthSize+n : size])
	if crc {
		PutCRC(b[size-CRCSize:], CRC(0, b[:size-CRCSize]))
	}
	return size
}
