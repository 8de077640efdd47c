package xdr

// Eligible is an opaque item that the upper-layer binding makes eligible for direct data placement
// (RFC 8166 §3.4.2). After decoding, Data aliases the stream or the excised item, and Ref is nil.
// Encoding does not copy Data: the Writer refers to it, and takes over the reference Ref, which may
// be nil (see Writer.Payload).
type Eligible struct {
	Data []byte
	Ref  Releaser
}

// Decode reads an item of at most limit bytes.
func (v *Eligible) Decode(d *Decoder, limit uint32) {
	*v = Eligible{Data: d.EligibleOpaque(limit)}
}

// Encode appends the item to w, which takes over the reference Ref. If the item has more than limit
// bytes, Encode sets Overflow and releases the reference.
func (v *Eligible) Encode(w *Writer, limit uint32) {
	if uint64(len(v.Data)) > uint64(limit) {
		w.Fail()
	}
	w.put(Payload{Data: v.Data, Eligible: true, Ref: v.Ref})
}
