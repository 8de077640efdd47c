package rdma

import "github.com/nfsrdmad/nfsrdmad/rpc/xdr"

// padding is what follows opaque items to the next word.
var padding [4]byte

// appendStream lists what travels of w's stream, words, payloads and padding, as
// pieces behind dst. A payload whose entry in elsewhere is not negative travels
// elsewhere, and its padding nowhere (RFC 8166 §3.4.4).
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

// streamLen is the length of what appendStream lists.
func streamLen(w *xdr.Writer, elsewhere []int32) int {
	n := w.StreamLen()
	for i, p := range w.Payloads() {
		if elsewhere[i] >= 0 {
			n -= padded(len(p.Data))
		}
	}
	return n
}

// padded is n with the padding of an opaque.
func padded(n int) int { return n + xdr.Pad(n) }
