package wire

import (
	"encoding/binary"
	"fmt"
)

// A Layer is the protocol layer that found a Terminate's error.
type Layer uint8

// Layers.
const (
	LayerRDMAP Layer = 0
	LayerDDP   Layer = 1
	LayerMPA   Layer = 2
)

func (l Layer) String() string {
	switch l {
	case LayerRDMAP:
		return "RDMAP"
	case LayerDDP:
		return "DDP"
	case LayerMPA:
		return "MPA"
	}
	return fmt.Sprintf("Layer(%d)", uint8(l))
}

// A Cause is the reason that a Terminate gives.
type Cause struct {
	Layer Layer
	Type  uint8
	Code  uint8
}

// The causes that the standards list (RFC 5040 Figure 9, RFC 5041 §7.2, RFC 5044 §8, RFC 6581 §8).
var (
	RDMAPCatastrophic  = listed(LayerRDMAP, 0, 0x00, "local catastrophic error")
	RDMAPInvalidSTag   = listed(LayerRDMAP, 1, 0x00, "invalid STag")
	RDMAPBounds        = listed(LayerRDMAP, 1, 0x01, "base or bounds violation")
	RDMAPAccess        = listed(LayerRDMAP, 1, 0x02, "access rights violation")
	RDMAPNotAssociated = listed(LayerRDMAP, 1, 0x03, "STag of another stream")
	RDMAPWrap          = listed(LayerRDMAP, 1, 0x04, "tagged offset wraps")
	RDMAPNotInvalid    = listed(LayerRDMAP, 1, 0x09, "STag cannot be invalidated")
	RDMAPProtection    = listed(LayerRDMAP, 1, 0xff, "protection error")
	RDMAPVersionFault  = listed(LayerRDMAP, 2, 0x05, "invalid RDMAP version")
	RDMAPOpcode        = listed(LayerRDMAP, 2, 0x06, "unexpected opcode")
	RDMAPStream        = listed(LayerRDMAP, 2, 0x07, "catastrophic error of this stream")
	RDMAPGlobal        = listed(LayerRDMAP, 2, 0x08, "global catastrophic error")
	RDMAPNotInvalidOp  = listed(LayerRDMAP, 2, 0x09, "STag cannot be invalidated") // siw's code for RDMAPNotInvalid
	RDMAPOperation     = listed(LayerRDMAP, 2, 0xff, "operation error")

	DDPCatastrophic    = listed(LayerDDP, 0, 0x00, "local catastrophic error")
	DDPInvalidSTag     = listed(LayerDDP, 1, 0x00, "invalid STag")
	DDPBounds          = listed(LayerDDP, 1, 0x01, "base or bounds violation")
	DDPNotAssociated   = listed(LayerDDP, 1, 0x02, "STag of another stream")
	DDPWrap            = listed(LayerDDP, 1, 0x03, "tagged offset wraps")
	DDPTaggedVersion   = listed(LayerDDP, 1, 0x04, "invalid DDP version")
	DDPQueue           = listed(LayerDDP, 2, 0x01, "invalid queue number")
	DDPNoBuffer        = listed(LayerDDP, 2, 0x02, "no buffer for the message")
	DDPMSN             = listed(LayerDDP, 2, 0x03, "invalid message sequence number")
	DDPOffset          = listed(LayerDDP, 2, 0x04, "invalid message offset")
	DDPTooLong         = listed(LayerDDP, 2, 0x05, "message too long for its buffer")
	DDPUntaggedVersion = listed(LayerDDP, 2, 0x06, "invalid DDP version")

	MPALost         = listed(LayerMPA, 0, 0x01, "TCP connection lost")
	MPACRC          = listed(LayerMPA, 0, 0x02, "CRC mismatch")
	MPAMarker       = listed(LayerMPA, 0, 0x03, "marker and length disagree") // also a ULPDU too short
	MPAStartup      = listed(LayerMPA, 0, 0x04, "bad start-up frame")
	MPACatastrophic = listed(LayerMPA, 0, 0x05, "local catastrophic error")
	MPAReadDepth    = listed(LayerMPA, 0, 0x06, "insufficient IRD")
	MPANoRTR        = listed(LayerMPA, 0, 0x07, "no matching RTR option")
)

// causeNames describes the causes that the standards list.
var causeNames = make(map[Cause]string)

func listed(layer Layer, typ, code uint8, name string) Cause {
	c := Cause{layer, typ, code}
	causeNames[c] = name
	return c
}

// String returns layer, type and code, and the cause's name if the standards list it.
func (c Cause) String() string {
	name, ok := causeNames[c]
	if !ok {
		name = "unlisted"
		if c.Type == 0 && c.Layer == LayerRDMAP { // any code
			name = causeNames[RDMAPCatastrophic]
		}
	}
	return fmt.Sprintf("%v %d/%d/%02x, %s", c.Layer, uint8(c.Layer), c.Type, c.Code, name)
}

// Header control bits of a Terminate (RFC 5040 §4.8).
const (
	terminateLength = 0x80 // M
	terminateDDP    = 0x40 // D
	terminateRDMAP  = 0x20 // R
	terminateBits   = terminateLength | terminateDDP | terminateRDMAP
	// siw on a little-endian machine sends these bits instead, because its bit-fields start
	// from the other end.
	siwTerminateBits = 0x07
)

// Sizes of a Terminate header.
const (
	terminateControl = 4
	// MaxTerminateSize is the longest Terminate header.
	MaxTerminateSize = terminateControl + 2 + UntaggedSize + ReadRequestSize
)

// A Dialect is an implementation's layout of a Terminate's control field.
type Dialect uint8

// Dialects.
const (
	DialectRFC Dialect = iota
	// DialectSIW is the layout that Linux's siw sends from little-endian machines: layer and type
	// are swapped, and the header control bits are at the other end of their byte.
	DialectSIW
	// DialectUnknown means that the Terminate quotes nothing, so both layouts are possible. Cause
	// then holds the value by the standard's layout.
	DialectUnknown
)

// A Termination is the RDMAP header of a Terminate message.
type Termination struct {
	Cause Cause
	// ParseTermination sets Dialect. Put always writes the standard's layout.
	Dialect Dialect
	// DDP is the quoted DDP header, or empty. SegmentLength is the length in bytes of the segment
	// that it belongs to.
	DDP           []byte
	SegmentLength uint16
	// RDMAP is the quoted Read Request header, or empty.
	RDMAP []byte
}

// Swapped returns the cause with layer and type exchanged, as siw writes them: see DialectSIW.
func (c Cause) Swapped() Cause { return Cause{Layer(c.Type), uint8(c.Layer), c.Code} }

// ParseTermination reads a Terminate header from b, which is the whole ULPDU behind the DDP header. The
// quotes in the result point into b. If b ends before a quote that its control bits announce, the field
// of that quote stays empty. The only error is a header that is shorter than the control field.
func ParseTermination(b []byte) (Termination, error) {
	var t Termination
	if len(b) < terminateControl {
		return t, fmt.Errorf("iwarp: Terminate header of %d bytes", len(b))
	}
	t.Cause = Cause{Layer(b[0] >> 4), b[0] & 0xf, b[1]}
	bits := b[2] & terminateBits
	switch {
	case bits != 0:
		t.Dialect = DialectRFC
	case b[2]&siwTerminateBits != 0:
		t.Dialect = DialectSIW
		t.Cause = t.Cause.Swapped()
		bits = b[2]&1<<7 | b[2]&2<<5 | b[2]&4<<3
	default:
		t.Dialect = DialectUnknown
	}
	b = b[terminateControl:]
	if bits&(terminateLength|terminateDDP) != 0 && len(b) >= 2 {
		t.SegmentLength = binary.BigEndian.Uint16(b)
		b = b[2:]
	}
	if bits&terminateDDP != 0 && len(b) > 0 {
		n := UntaggedSize
		if b[0]&tagged != 0 {
			n = TaggedSize
		}
		if len(b) < n {
			return t, nil
		}
		t.DDP, b = b[:n], b[n:]
	}
	if bits&terminateRDMAP != 0 && len(b) >= ReadRequestSize {
		t.RDMAP = b[:ReadRequestSize]
	}
	return t, nil
}

// Size returns the length of t, in bytes.
func (t *Termination) Size() int {
	n := terminateControl
	if len(t.DDP) > 0 {
		n += 2 + len(t.DDP) + len(t.RDMAP)
	}
	return n
}

// Put writes t into b, which holds at least t.Size bytes. It writes a Read Request header
// only together with a DDP header.
func (t *Termination) Put(b []byte) {
	_ = b[t.Size()-1]
	b[0] = uint8(t.Cause.Layer)<<4 | t.Cause.Type&0xf
	b[1] = t.Cause.Code
	b[2], b[3] = 0, 0
	if len(t.DDP) == 0 {
		return
	}
	b[2] = terminateLength | terminateDDP
	binary.BigEndian.PutUint16(b[terminateControl:], t.SegmentLength)
	n := copy(b[terminateControl+2:], t.DDP)
	if len(t.RDMAP) > 0 {
		b[2] |= terminateRDMAP
		copy(b[terminateControl+2+n:], t.RDMAP)
	}
}
