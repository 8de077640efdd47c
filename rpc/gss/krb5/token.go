package krb5

import "encoding/binary"

// headerSize is the length of the header of a per-message token, in bytes.
const headerSize = 16

// Token IDs (RFC 4121 §4.1, §4.2.6).
const (
	idAPReq    = 0x0100
	idAPRep    = 0x0200
	idKRBError = 0x0300
	idMIC      = 0x0404
	idWrap     = 0x0504
)

// Flags of a header (RFC 4121 §4.2.2).
const (
	sentByAcceptor = 1 << iota
	sealedFlag
	acceptorSubkey
	// knownFlags are the flags that the receiver of a token compares with the expected ones. It
	// ignores all others.
	knownFlags = sentByAcceptor | sealedFlag | acceptorSubkey
)

// filler is the value of the unused bytes of a header.
const filler = 0xFF

// putHeader writes the header of a MIC token, or of a Wrap token whose EC and RRC
// are 0 (RFC 4121 §4.2.6).
func putHeader(h []byte, id uint16, flags byte, sequence uint64) {
	binary.BigEndian.PutUint16(h, id)
	h[2], h[3] = flags, filler
	var between uint32
	if id == idMIC {
		between = 0xFFFFFFFF
	}
	binary.BigEndian.PutUint32(h[4:], between)
	binary.BigEndian.PutUint64(h[8:], sequence)
}

// These functions read and write the fields EC (extra count) and RRC (right rotation count) of a
// Wrap token's header, and compare a token's ID.
func extraCount(h []byte) int             { return int(binary.BigEndian.Uint16(h[4:])) }
func putExtraCount(h []byte, n int)       { binary.BigEndian.PutUint16(h[4:], uint16(n)) }
func rightRotation(h []byte) int          { return int(binary.BigEndian.Uint16(h[6:])) }
func putRightRotation(h []byte, n uint16) { binary.BigEndian.PutUint16(h[6:], n) }
func hasID(token []byte, id uint16) bool  { return binary.BigEndian.Uint16(token) == id }

// rotateLeft rotates b left by n bytes in place.
func rotateLeft(b []byte, n int) {
	if len(b) == 0 || n%len(b) == 0 {
		return
	}
	n %= len(b)
	var kept [64]byte
	if n <= len(kept) {
		copy(kept[:], b[:n])
		copy(b, b[n:])
		copy(b[len(b)-n:], kept[:n])
		return
	}
	reverse(b[:n])
	reverse(b[n:])
	reverse(b)
}

func reverse(b []byte) {
	for i, j := 0, len(b)-1; i < j; i, j = i+1, j-1 {
		b[i], b[j] = b[j], b[i]
	}
}
