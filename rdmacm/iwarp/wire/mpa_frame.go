package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Sizes of an MPA start-up frame (RFC 5044 §7.1.1).
const (
	// MPAHeaderSize is the length of the part before the private data.
	MPAHeaderSize = 20
	// MaxPrivateData is the longest private data, enhanced data included.
	MaxPrivateData = 512
	mpaKeySize     = 16
)

const (
	mpaRequestKey = "MPA ID Req Frame"
	mpaReplyKey   = "MPA ID Rep Frame"
)

// MPAFlags is the flag byte of a start-up frame.
type MPAFlags uint8

// Flags. The other bits are reserved: they are sent as 0 and not checked.
const (
	MPAMarkers  MPAFlags = 0x80 // M: the sender of this frame wants markers
	MPAChecksum MPAFlags = 0x40 // C: the sender of this frame wants CRCs
	MPARejected MPAFlags = 0x20 // R: in a reply, the connection is refused
	MPAEnhanced MPAFlags = 0x10 // S: the private data starts with Enhanced
)

// A Revision is the MPA revision of a start-up frame.
type Revision uint8

// Revisions.
const (
	RevisionConsortium Revision = 0 // not supported
	Revision1          Revision = 1 // RFC 5044
	Revision2          Revision = 2 // RFC 6581
)

// Errors of ParseMPAHeader.
var (
	ErrKey         = errors.New("iwarp: not an MPA start-up frame")
	ErrPrivateData = errors.New("iwarp: more private data than MPA allows")
)

// MPAHeader is the part of a start-up frame before the private data.
type MPAHeader struct {
	Reply    bool // the frame carries the reply key
	Flags    MPAFlags
	Revision Revision
	// Length is the length in bytes of the private data that follows, enhanced data included.
	Length int
}

// ParseMPAHeader reads a header. The errors are ErrKey and ErrPrivateData.
func ParseMPAHeader(b []byte) (MPAHeader, error) {
	_ = b[MPAHeaderSize-1]
	var h MPAHeader
	switch string(b[:mpaKeySize]) {
	case mpaRequestKey:
	case mpaReplyKey:
		h.Reply = true
	default:
		return h, ErrKey
	}
	h.Flags = MPAFlags(b[16]) & (MPAMarkers | MPAChecksum | MPARejected | MPAEnhanced)
	h.Revision = Revision(b[17])
	h.Length = int(binary.BigEndian.Uint16(b[18:]))
	if h.Length > MaxPrivateData {
		return h, ErrPrivateData
	}
	return h, nil
}

// Put writes h into the first MPAHeaderSize bytes of b.
func (h MPAHeader) Put(b []byte) {
	_ = b[MPAHeaderSize-1]
	key := mpaRequestKey
	if h.Reply {
		key = mpaReplyKey
	}
	copy(b, key)
	b[16] = uint8(h.Flags)
	b[17] = uint8(h.Revision)
	binary.BigEndian.PutUint16(b[18:], uint16(h.Length))
}

func (h MPAHeader) String() string {
	kind := "request"
	if h.Reply {
		kind = "reply"
	}
	return fmt.Sprintf("MPA %s revision %d flags %#02x private data %d", kind, h.Revision, uint8(h.Flags), h.Length)
}
