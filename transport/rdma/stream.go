package rdma

import "github.com/nfsrdmad/nfsrdmad/rpc/xdr"

// padding holds the pad bytes of opaque items.
var padding [4]byte

// appendStream appends to dst the pieces of w's stream that travel inline: words, payloads
// and padding. A payload whose entry in elsewhere is not negative travels elsewhere; its
// padding does not travel at all (RFC 8166 §3.4.4).
func appendStream(dst [][]byte, w *xdr.Writer, elsewhere []int32) [][]byte {
	add := func(b []byte) {
		if len(b) > 0 {
			dst = append(dst, b)
		}
	}
	words, at := w.Bytes(), 0
	for i, p := range w.Payloads() {
		if elsewhere[i] >= 0 {
			continue
		}
		add(words[at:p.Position])
		at = p.Position
		add(p.Data)
		add(padding[:xdr.Pad(len(p.Data))])
	}
	add(words[at:])
	return dst
}

// streamLen returns the length of the pieces that appendStream lists.
func streamLen(w *xdr.Writer, elsewhere []int32) int {
	n := w.StreamLen()
	for i, p := range w.Payloads() {
		if elsewhere[i] >= 0 {
			n -= padded(len(p.Data))
		}
	}
	return n
}

// padded returns n plus the padding of an opaque of n bytes.
func padded(n int) int { return n + xdr.Pad(n) }
