package xdr

// Excised is the content of an opaque item that travelled outside of the stream.
type Excised struct {
	// Position is the item's first content byte, counted from the start of
	// the stream as if nothing had been taken out: earlier excised items and
	// their padding are counted.
	Position uint32
	// Data is the content, perhaps followed by its 0 to 3 bytes of padding.
	Data []byte
}

// ResetPlaces is Reset for results that a peer placed (RFC 8166 §4.3.2), whose positions are
// known only from their definition. Each of places was offered to one eligible item, in order.
// Its Position is ignored; its Data is the content that the peer placed there. If Data is nil,
// the item is expected in the stream. If Data is empty but not nil, the place came back unused;
// then a non-empty item in the stream is ErrNotPlaced (RFC 8166 §6.1). Places without Data may be
// left over.
func (d *Decoder) ResetPlaces(stream []byte, position int, places []Excised) {
	*d = Decoder{buf: stream, end: len(stream), shift: position, excised: places, inOrder: true}
}

// findEnd sets the end up to which the stream can be read before the next excised item. No read
// crosses the place of an excised item; so an item that may not be placed directly cannot be
// hidden in a chunk.
func (d *Decoder) findEnd() {
	d.end = len(d.buf)
	if len(d.excised) > 0 && !d.inOrder {
		at := int64(d.excised[0].Position) - int64(d.shift)
		d.end = int(max(int64(d.off), min(at, int64(d.end))))
	}
}

// EligibleOpaque reads a variable-length opaque of at most limit bytes that the upper-layer
// binding lets a transport place directly. If the item's content was excised, it returns that.
// The count word gives the item's length, never the chunk (RFC 8166 §3.4.4, §3.4.5).
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

// takeNext reads an item of n bytes from the next place, or from the stream if it may be there.
func (d *Decoder) takeNext(n int) []byte {
	switch data := d.excised[0].Data; {
	case data == nil:
		d.excised = d.excised[1:]
		return d.FixedOpaque(n)
	case n == 0 && len(data) > 0:
		// Peers differ in whether an empty item uses up its place. Here it did not: the place
		// holds a later item.
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
