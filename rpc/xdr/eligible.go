package xdr

// Eligible is an opaque item that the upper-layer binding lets a transport
// place directly (RFC 8166 §3.4.2). Decoded, Data aliases the stream or the
// excised item and Ref is nil. To be encoded, Data stays where it is and
// belongs to Ref, which may be nil: see Writer.Payload.
type Eligible struct {
	Data []byte
	Ref  Releaser
}

// Decode reads an item of at most limit bytes.
func (v *Eligible) Decode(d *Decoder, limit uint32) {
	*v = Eligible{Data: d.EligibleOpaque(limit)}
}

// Encode appends the item, whose reference goes over to w. An item of more
// than limit bytes fails w, and is released.
func (v *Eligible) Encode(w *Writer, limit uint32) {
	if uint64(len(v.Data)) > uint64(limit) {
		w.Fail()
	}
	w.put(Payload{Data: v.Data, Eligible: true, Ref: v.Ref})
}
