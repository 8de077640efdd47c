package xdr

// Eligible is an opaque item that the upper-layer binding lets a transport place directly (RFC
// 8166 §3.4.2). After decoding, Data aliases the stream or the excised item, and Ref is nil. For
// encoding, Data stays where it is and Ref, which may be nil, owns it: see Writer.Payload.
type Eligible struct {
	Data []byte
	Ref  Releaser
}

// Decode reads an item of at most limit bytes.
func (v *Eligible) Decode(d *Decoder, limit uint32) {
	*v = Eligible{Data: d.EligibleOpaque(limit)}
}

// Encode appends the item; w owns its reference from then on. If the item has more than limit
// bytes, w fails and the item is released.
func (v *Eligible) Encode(w *Writer, limit uint32) {
	if uint64(len(v.Data)) > uint64(limit) {
		w.Fail()
	}
	w.put(Payload{Data: v.Data, Eligible: true, Ref: v.Ref})
}
