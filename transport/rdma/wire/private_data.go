package wire

import "encoding/binary"

// Inline thresholds, in bytes (RFC 8166 §3.3.3, RFC 8797 §4).
const (
	// DefaultInline is the threshold unless both sides have agreed on another one.
	DefaultInline = 1024
	// MaxInline is the largest size that private data can state.
	MaxInline = 262144
)

// PrivateDataSize is the length of the CM private data, in bytes.
const PrivateDataSize = 8

const (
	privateMagic   = 0xf6ab0e18
	privateVersion = 1
	privateR       = 0x01
)

// PrivateData is the data that both ends send each other when they connect (RFC 8797 §4).
type PrivateData struct {
	// RemoteInvalidation is true if the sender of this data supports remote invalidation.
	// As a Requester it lets the peer invalidate any STag that it exposes on the
	// connection; as a Responder it may invalidate the peer's STags.
	RemoteInvalidation bool
	// SendSize is the largest Send that the sender of this data will issue, and ReceiveSize
	// the largest message that it accepts, in bytes.
	SendSize, ReceiveSize int
}

// defaultPrivateData applies to a peer that sent no valid private data.
var defaultPrivateData = PrivateData{SendSize: DefaultInline, ReceiveSize: DefaultInline}

// ParsePrivateData searches b for private data at any offset (RFC 8797 §5.2). If it finds
// none, found is false and it returns the defaults.
func ParsePrivateData(b []byte) (p PrivateData, found bool) {
	for ; len(b) >= PrivateDataSize; b = b[1:] {
		if binary.BigEndian.Uint32(b) == privateMagic && b[4] == privateVersion {
			return PrivateData{
				RemoteInvalidation: b[5]&privateR != 0,
				SendSize:           (int(b[6]) + 1) * 1024,
				ReceiveSize:        (int(b[7]) + 1) * 1024,
			}, true
		}
	}
	return defaultPrivateData, false
}

// Put writes p to the first PrivateDataSize bytes of b. It rounds sizes down, so that no
// peer overruns a buffer.
func (p PrivateData) Put(b []byte) {
	binary.BigEndian.PutUint32(b, privateMagic)
	b[4], b[5] = privateVersion, 0
	if p.RemoteInvalidation {
		b[5] = privateR
	}
	b[6], b[7] = inlineOctet(p.SendSize), inlineOctet(p.ReceiveSize)
}

// inlineOctet encodes a size given in bytes as RFC 8797 does: in KiB, less 1.
func inlineOctet(size int) byte {
	return byte(min(max(size, DefaultInline), MaxInline)/1024 - 1)
}
