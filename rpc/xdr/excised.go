package xdr

// Excised is the content of an opaque item that a transport received outside of the stream.
type Excised struct {
	// Position is the offset of the item's first content byte in the unreduced stream: the stream
	// with all excised items and their padding inserted.
	Position uint32
	// Data is the content, perhaps followed by its 0 to 3 bytes of padding.
	Data []byte
}

// ResetPlaces is like Reset, for results that a peer returned in Write chunks (RFC 8166 §4.3.2).
// Their positions are not known in advance: places has one element for each eligible item, in
// order, and Position is ignored. Data is the content that the peer placed. If Data is nil, no
// chunk was offered, and the item is in the stream. If Data is empty but not nil, the peer did not
// use the chunk; a non-empty item in the stream is then an error, ErrNotPlaced (RFC 8166 §6.1).
// Elements without Data may be left over at the end.
func (d *Decoder) ResetPlaces(stream []byte, position int, places []Excised) {
	*d = Decoder{buf: stream, end: len(stream), shift: position, excised: places, inOrder: true}
}

// findEnd sets d.end to the offset of the next excised item, or to the end of the stream. No read
// may go beyond d.end. Therefore decoding fails if an item that is not eligible was excised.
func (d *Decoder) findEnd() {
	d.end = len(d.buf)
	if len(d.excised) > 0 && !d.inOrder {
		at := int64(d.excised[0].Position) - int64(d.shift)
		d.end = int(max(int64(d.off), min(at, int64(d.end))))
	}
}

// EligibleOpaque reads a variable-length opaque of at most limit bytes that is eligible for direct
// data placement. If the item's content was excised, it returns the excised content. The item's
// length is that of the count in the stream, not the length of the chunk (RFC 8166 §3.4.4, §3.4.5).
func (d *Decoder) EligibleOpaque(limit uint32) []byte {
	n := d.length(limit)
	if d.err == nil && len(d.excised) > 0 {
		switch e := &d.excised[0]; {
		case d.inOrder:
			return d.takeNext(n)
		case int64(e.Position) == int64(d.Position()):
			return d.takeExcised(n)
		}
	}
	return d.FixedOpaque(n)
}

// takeNext reads an item of n bytes after ResetPlaces: from the next element of the slice passed to
// ResetPlaces, or from the stream.
func (d *Decoder) takeNext(n int) []byte {
	switch data := d.excised[0].Data; {
	case data == nil:
		d.excised = d.excised[1:]
		return d.FixedOpaque(n)
	case n == 0 && len(data) > 0:
		// Some peers use up a chunk for an empty item, others do not. This peer does not: the chunk
		// has the content of a later item.
		return d.FixedOpaque(0)
	case n > 0 && len(data) == 0:
		d.err = ErrNotPlaced
		return nil
	}
	return d.takeExcised(n)
}

// leftOver reports whether an excised item was not read.
func (d *Decoder) leftOver() bool {
	for _, e := range d.excised {
		if !d.inOrder || len(e.Data) > 0 {
			return true
		}
	}
	return false
}

func (d *Decoder) takeExcised(n int) []byte {
	data := d.excised[0].Data
	if len(data) != n && len(data) != n+Pad(n) {
		d.err = ErrExcised
		return nil
	}
	d.shift += n + Pad(n)
	d.excised = d.excised[1:]
	d.findEnd()
	return data[:n:n]
}

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
	w.Payload(v.Data, true, v.Ref)
}
