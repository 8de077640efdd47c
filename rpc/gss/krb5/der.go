package krb5

import (
	"encoding/binary"
	"math/bits"
	"time"
)

// Identifier octets of DER (X.690 §8.1.2).
const (
	tagInteger  = 0x02
	tagOctets   = 0x04
	tagOID      = 0x06
	tagTime     = 0x18
	tagGeneral  = 0x1b
	tagSequence = 0x30
	// tagFraming is [APPLICATION 0], the first octet of a context-establishment token.
	tagFraming = 0x60
)

func application(n byte) byte { return 0x60 | n }
func explicit(n byte) byte    { return 0xa0 | n }

// der returns the DER encoding of a value with the given tag. The value's content is the
// concatenation of parts.
func der(tag byte, parts ...[]byte) []byte {
	n := length(parts)
	out := append(make([]byte, 0, n+6), tag)
	if n < 0x80 {
		out = append(out, byte(n))
	} else {
		octets := (bits.Len(uint(n)) + 7) / 8
		out = append(out, 0x80|byte(octets))
		for i := octets - 1; i >= 0; i-- {
			out = append(out, byte(n>>(8*i)))
		}
	}
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

// derContent returns the content of b. ok is false if b is not exactly one value with this tag.
func derContent(b []byte, tag byte) (content []byte, ok bool) {
	if len(b) < 2 || b[0] != tag {
		return nil, false
	}
	n, rest := int(b[1]), b[2:]
	if n >= 0x80 {
		octets := n & 0x7f
		if octets == 0 || octets > 4 || octets > len(rest) {
			return nil, false
		}
		n = 0
		for _, v := range rest[:octets] {
			n = n<<8 | int(v)
		}
		rest = rest[octets:]
	}
	return rest, n == len(rest)
}

func derInteger(v uint32) []byte {
	content := binary.BigEndian.AppendUint32([]byte{0}, v)
	for len(content) > 1 && content[0] == 0 && content[1] < 0x80 {
		content = content[1:]
	}
	return der(tagInteger, content)
}

// derTime encodes a KerberosTime (RFC 4120 §5.2.3).
func derTime(t time.Time) []byte {
	return der(tagTime, []byte(t.UTC().Format("20060102150405Z")))
}
