package xdrtest

import "github.com/nfsrdmad/nfsrdmad/rpc/xdr"

// Stream returns the whole stream of w: the bytes in its buffer, with each payload and its padding
// inserted.
func Stream(w *xdr.Writer) []byte {
	var stream []byte
	at := 0
	for _, p := range w.Payloads() {
		stream = append(stream, w.Bytes()[at:p.Position]...)
		at = p.Position
		stream = append(stream, p.Data...)
		stream = append(stream, make([]byte, xdr.Pad(len(p.Data)))...)
	}
	return append(stream, w.Bytes()[at:]...)
}

// Reduce returns the reduced stream of w, and its payloads as excised items: the form in which a
// requester sends a call with every payload in a Read chunk (RFC 8166 §3.4.5). If pad is set, the
// chunks contain the padding. Empty payloads have no chunk.
func Reduce(w *xdr.Writer, pad bool) (stream []byte, excised []xdr.Excised) {
	before := 0 // payload bytes, with padding, before the current one
	for _, p := range w.Payloads() {
		padding := make([]byte, xdr.Pad(len(p.Data)))
		if len(p.Data) > 0 {
			e := xdr.Excised{Position: uint32(p.Position + before), Data: p.Data}
			if pad {
				e.Data = append(append([]byte(nil), p.Data...), padding...)
			}
			excised = append(excised, e)
		}
		before += len(p.Data) + len(padding)
	}
	return w.Bytes(), excised
}
