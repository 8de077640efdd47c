package krb5

// nfold returns the n-fold of its argument in: n bytes that depend equally on all bits of the
// argument (RFC 3961 §5.1). It concatenates copies of the argument, each rotated right by 13 bits
// more than the copy before, until their length is the least common multiple of len(in) and n. Then
// it adds all parts of n bytes in ones' complement.
func nfold(in []byte, n int) []byte {
	total := len(in) * n / gcd(len(in), n)
	out := make([]byte, n)
	carry := 0
	for i := total - 1; i >= 0; i-- {
		sum := carry + int(out[i%n]) + int(rotatedByte(in, i))
		out[i%n], carry = byte(sum), sum>>8
	}
	for i := n - 1; carry > 0; i = (i + n - 1) % n {
		sum := carry + int(out[i])
		out[i], carry = byte(sum), sum>>8
	}
	return out
}

// rotatedByte returns the byte at index i of the concatenation of rotated copies that nfold
// describes.
func rotatedByte(in []byte, i int) byte {
	bits := 8 * len(in)
	turn := 13 * (i / len(in)) % bits
	var b byte
	for bit := range 8 {
		at := (8*(i%len(in)) + bit - turn + bits) % bits
		b = b<<1 | in[at/8]>>(7-at%8)&1
	}
	return b
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
