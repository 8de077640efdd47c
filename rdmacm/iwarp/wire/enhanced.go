package wire

import "encoding/binary"

// EnhancedSize is the length of Enhanced, in bytes.
const EnhancedSize = 4

// DepthUnset in place of a read depth means that the depth is not negotiated.
const DepthUnset = 0x3fff

// RTR is a set of forms of the ready-to-receive message (RFC 6581 §9.2).
type RTR uint8

// Forms of the ready-to-receive message.
const (
	RTRSend RTR = 1 << iota
	RTRWrite
	RTRRead
)

// Enhanced is the enhanced connection data (RFC 6581 §9) at the start of the private data.
type Enhanced struct {
	// PeerToPeer is flag A. If it is false, RTR has no meaning, and Put does not write it.
	PeerToPeer bool
	RTR        RTR // flags B, C and D
	IRD, ORD   uint16
}

// Bits of the two 16-bit fields: the flags, and the depth (IRD or ORD).
const (
	enhancedHigh  = 0x8000 // A, C
	enhancedLow   = 0x4000 // B, D
	enhancedDepth = 0x3fff
)

// ParseEnhanced reads the data from b, which holds at least EnhancedSize bytes.
func ParseEnhanced(b []byte) Enhanced {
	ird, ord := binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
	e := Enhanced{IRD: ird & enhancedDepth, ORD: ord & enhancedDepth}
	if ird&enhancedHigh == 0 {
		return e
	}
	e.PeerToPeer = true
	if ird&enhancedLow != 0 {
		e.RTR |= RTRSend
	}
	if ord&enhancedHigh != 0 {
		e.RTR |= RTRWrite
	}
	if ord&enhancedLow != 0 {
		e.RTR |= RTRRead
	}
	return e
}

// Put writes e into the first EnhancedSize bytes of b.
func (e Enhanced) Put(b []byte) {
	ird, ord := e.IRD&enhancedDepth, e.ORD&enhancedDepth
	if e.PeerToPeer {
		ird |= enhancedHigh
		if e.RTR&RTRSend != 0 {
			ird |= enhancedLow
		}
		if e.RTR&RTRWrite != 0 {
			ord |= enhancedHigh
		}
		if e.RTR&RTRRead != 0 {
			ord |= enhancedLow
		}
	}
	binary.BigEndian.PutUint16(b, ird)
	binary.BigEndian.PutUint16(b[2:], ord)
}
