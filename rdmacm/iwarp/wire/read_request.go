package wire

import "encoding/binary"

// ReadRequestSize is the length of the RDMAP header of an RDMA Read Request,
// in bytes.
const ReadRequestSize = 28

// Read is the RDMAP header of an RDMA Read Request (RFC 5040 §4.4). The sink is the memory
// of the requesting side.
type Read struct {
	SinkSTag     uint32
	SinkOffset   uint64
	Size         uint32
	SourceSTag   uint32
	SourceOffset uint64
}

// ParseRead reads a header from b, which holds at least ReadRequestSize bytes.
func ParseRead(b []byte) Read {
	_ = b[ReadRequestSize-1]
	return Read{
		SinkSTag:     binary.BigEndian.Uint32(b),
		SinkOffset:   binary.BigEndian.Uint64(b[4:]),
		Size:         binary.BigEndian.Uint32(b[12:]),
		SourceSTag:   binary.BigEndian.Uint32(b[16:]),
		SourceOffset: binary.BigEndian.Uint64(b[20:]),
	}
}

// Put writes r into the first ReadRequestSize bytes of b.
func (r Read) Put(b []byte) {
	_ = b[ReadRequestSize-1]
	binary.BigEndian.PutUint32(b, r.SinkSTag)
	binary.BigEndian.PutUint64(b[4:], r.SinkOffset)
	binary.BigEndian.PutUint32(b[12:], r.Size)
	binary.BigEndian.PutUint32(b[16:], r.SourceSTag)
	binary.BigEndian.PutUint64(b[20:], r.SourceOffset)
}
