package identity

// ParseNumber reads an identity that was sent as digits (RFC 8881 §5.9, RFC 7530 §5.9). The
// number 1<<32-1 is not an identity, because file systems take it for "leave unchanged".
func ParseNumber(name []byte) (id uint32, ok bool) {
	if len(name) == 0 || len(name) > 10 || len(name) > 1 && name[0] == '0' {
		return 0, false
	}
	var n uint64
	for _, c := range name {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + uint64(c-'0')
	}
	return uint32(n), n < 1<<32-1
}
