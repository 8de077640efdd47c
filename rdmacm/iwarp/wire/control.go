package wire

// Versions that this implementation speaks.
const (
	DDPVersion   = 1
	RDMAPVersion = 1
)

// Bits of the two control bytes that every DDP header starts with (RFC 5041
// §4.1, RFC 5040 §4.1).
const (
	tagged      = 0x80
	last        = 0x40
	ddpVersion  = 0x03
	rdmaVersion = 0xc0
	opcodeBits  = 0x0f

	rdmaVersionShift = 6
)

// Control holds the fields of the two control bytes. It does not keep the reserved bits.
type Control struct {
	Tagged, Last bool
	DDP, RDMAP   uint8 // versions
	Op           Opcode
}

// ControlSize is the length of a Control, in bytes.
const ControlSize = 2

// ParseControl reads the control bytes at the start of b, which holds at least
// ControlSize bytes.
func ParseControl(b []byte) Control {
	_ = b[1]
	return Control{
		Tagged: b[0]&tagged != 0,
		Last:   b[0]&last != 0,
		DDP:    b[0] & ddpVersion,
		RDMAP:  b[1] >> rdmaVersionShift,
		Op:     Opcode(b[1] & opcodeBits),
	}
}

// Put writes c into the first ControlSize bytes of b.
func (c Control) Put(b []byte) {
	b[0] = c.DDP & ddpVersion
	if c.Tagged {
		b[0] |= tagged
	}
	if c.Last {
		b[0] |= last
	}
	b[1] = c.RDMAP<<rdmaVersionShift | uint8(c.Op)&opcodeBits
}

func putControl(b []byte, op Opcode, isTagged, isLast bool) {
	Control{Tagged: isTagged, Last: isLast, DDP: DDPVersion, RDMAP: RDMAPVersion, Op: op}.Put(b)
}
