package gss

// mechanismOf returns the object identifier of the mechanism that made an initial token (RFC 2743
// §3.1), as the content octets of its DER encoding. ok is false if the header of the token is
// malformed.
func mechanismOf(token []byte) (oid []byte, ok bool) {
	const application0, objectIdentifier = 0x60, 0x06
	if len(token) < 2 || token[0] != application0 {
		return nil, false
	}
	n, rest, ok := derLength(token[1:])
	if !ok || n != len(rest) || n < 2 || rest[0] != objectIdentifier {
		return nil, false
	}
	n, rest, ok = derLength(rest[1:])
	if !ok || n == 0 || n > len(rest) {
		return nil, false
	}
	return rest[:n], true
}

// derLength reads a length in DER. A length below 128 takes one octet. A larger one is 0x80 plus
// the number of octets that follow, and then these octets, without leading zeros.
func derLength(b []byte) (n int, rest []byte, ok bool) {
	if len(b) == 0 {
		return 0, nil, false
	}
	first, b := b[0], b[1:]
	if first < 0x80 {
		return int(first), b, true
	}
	octets := int(first & 0x7f)
	if octets == 0 || octets > 3 || octets > len(b) || b[0] == 0 {
		return 0, nil, false
	}
	for _, v := range b[:octets] {
		n = n<<8 | int(v)
	}
	return n, b[octets:], n >= 0x80
}
