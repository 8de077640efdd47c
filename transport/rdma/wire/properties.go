package wire

import (
	"bytes"
	"encoding/binary"
)

// PropertyID names a transport property: rdma_which of §5.1.
type PropertyID uint32

// The transport properties (§5.2).
const (
	PropSendSize    PropertyID = 1
	PropReceiveSize PropertyID = 2
	PropSegmentSize PropertyID = 3
	PropSegments    PropertyID = 4
	PropReverse     PropertyID = 5
	PropHostAuth    PropertyID = 6
)

// Reverse is the support of a client for calls of the server (§5.2.5).
type Reverse uint32

// Levels of support. Each includes those before it.
const (
	// ReverseNone: the server sends no calls.
	ReverseNone Reverse = 0
	// ReverseSimple: a call and its reply are one message each, without chunks for data items.
	ReverseSimple Reverse = 1
	// ReverseContinued: they may have several parts.
	ReverseContinued Reverse = 2
	// ReverseGeneral: all that calls of the client may do.
	ReverseGeneral Reverse = 3
)

// Properties are the transport properties of one peer (§5.2). They describe the peer that sends them.
type Properties struct {
	// SendSize is the length of the longest message that the peer sends, in bytes.
	SendSize uint32
	// ReceiveSize is the length of the shortest receive that the peer posts, in bytes.
	ReceiveSize uint32
	// SegmentSize is the length of the longest segment that the peer sends or accepts, in bytes. If it is
	// 0, the peer takes no chunks.
	SegmentSize uint32
	// Segments is the greatest number of segments in the header of a call. If it is 0, the peer takes no
	// chunks.
	Segments uint32
	Reverse  Reverse
	// HostAuth is a token of host authentication, or nil if the peer sent none. Parse copies it, because the
	// properties of a peer come in several messages, and outlive them.
	HostAuth []byte
}

// DefaultProperties returns the properties of a peer that has announced none (§5.2).
func DefaultProperties() Properties {
	return Properties{SendSize: DefaultInline2, ReceiveSize: DefaultInline2, SegmentSize: 1 << 20, Segments: 16}
}

// minMessageSize is the least SendSize and ReceiveSize that a peer may announce, in bytes. With less, it
// could not take the first message of a client.
const minMessageSize = MaxFirstMessage

// number returns the property with the ID id. It returns nil for PropHostAuth and for unknown properties.
func (p *Properties) number(id PropertyID) *uint32 {
	switch id {
	case PropSendSize:
		return &p.SendSize
	case PropReceiveSize:
		return &p.ReceiveSize
	case PropSegmentSize:
		return &p.SegmentSize
	case PropSegments:
		return &p.Segments
	case PropReverse:
		return (*uint32)(&p.Reverse)
	}
	return nil
}

// Parse reads the properties of message, an RDMA2_CONNPROP_MIDDLE or RDMA2_CONNPROP_FINAL with its prefix,
// and sets those fields of p that the message has (§5.1, §6.3.3). If a property occurs twice, the last value
// counts. Unknown properties are skipped. If the message is refused, p stays as it was.
func (p *Properties) Parse(message []byte) Refusal {
	if len(message) < PrefixSize+4 {
		return Refusal{ErrorBody2{Code: Err2BadXDR}, whyTruncated}
	}
	staged, token := *p, false
	b := message[PrefixSize+4:]
	for count := binary.BigEndian.Uint32(message[PrefixSize:]); count > 0; count-- {
		if len(b) < 8 {
			return Refusal{ErrorBody2{Code: Err2BadXDR}, "there are fewer properties than their count says"}
		}
		id, length := PropertyID(binary.BigEndian.Uint32(b)), uint64(binary.BigEndian.Uint32(b[4:]))
		b = b[8:]
		padded := (length + 3) &^ 3
		if padded > uint64(len(b)) || !staged.set(id, b[:length]) {
			return Refusal{ErrorBody2{Code: Err2BadPropval}, "the value of a property cannot be parsed"}
		}
		b = b[padded:]
		token = token || id == PropHostAuth
	}
	if token {
		staged.HostAuth = bytes.Clone(staged.HostAuth)
	}
	*p = staged
	return Refusal{}
}

// set sets one property to the value that data encodes; without data, to its default (§5.1). ok is false if
// data does not encode a value of the property, or if no message would fit into the size that it gives.
func (p *Properties) set(id PropertyID, data []byte) (ok bool) {
	number := p.number(id)
	switch {
	case id == PropHostAuth && len(data) == 0:
		p.HostAuth = nil
	case id == PropHostAuth:
		p.HostAuth, ok = opaque(data)
		return ok
	case number == nil: // an unknown property
	case len(data) == 0:
		d := DefaultProperties()
		*number = *d.number(id)
	case len(data) != 4:
		return false
	default:
		*number = binary.BigEndian.Uint32(data)
	}
	if p.Reverse > ReverseGeneral {
		p.Reverse = ReverseNone // a level that a later document may define
	}
	return p.SendSize >= minMessageSize && p.ReceiveSize >= minMessageSize
}

// opaque returns the bytes of an opaque<> that must fill data.
func opaque(data []byte) (b []byte, ok bool) {
	if len(data) < 4 {
		return nil, false
	}
	length := uint64(binary.BigEndian.Uint32(data))
	data = data[4:]
	if (length+3)&^3 != uint64(len(data)) {
		return nil, false
	}
	return data[:length:length], true
}

// Size returns the length, in bytes, of a message that has the properties named by which.
func (p *Properties) Size(which ...PropertyID) int {
	n := PrefixSize + 4
	for _, id := range which {
		if id == PropHostAuth {
			n += 8 + 4 + (len(p.HostAuth)+3)&^3
		} else {
			n += 8 + 4
		}
	}
	return n
}

// Put writes a message of type q.Type with the properties named by which, in this order, to the first Size(which...)
// bytes of b. It panics if one of them is unknown.
func (p *Properties) Put(b []byte, q Prefix2, which ...PropertyID) {
	q.Put(b)
	binary.BigEndian.PutUint32(b[PrefixSize:], uint32(len(which)))
	at := PrefixSize + 4
	for _, id := range which {
		binary.BigEndian.PutUint32(b[at:], uint32(id))
		if number := p.number(id); number != nil {
			binary.BigEndian.PutUint32(b[at+4:], 4)
			binary.BigEndian.PutUint32(b[at+8:], *number)
			at += 12
			continue
		}
		if id != PropHostAuth {
			panic("rdma: an unknown property is announced")
		}
		padded := (len(p.HostAuth) + 3) &^ 3
		binary.BigEndian.PutUint32(b[at+4:], uint32(4+padded))
		binary.BigEndian.PutUint32(b[at+8:], uint32(len(p.HostAuth)))
		at += 12
		clear(b[at : at+padded])
		at += copy(b[at:], p.HostAuth)
		at += padded - len(p.HostAuth)
	}
}
