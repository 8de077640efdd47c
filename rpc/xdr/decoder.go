package xdr

import (
	"encoding/binary"
	"errors"
)

// Errors of a Decoder. They describe the fault in the bytes; the caller adds their source.
var (
	// ErrShort means that the stream ends inside an item.
	ErrShort = errors.New("xdr: stream ends inside an item")
	// ErrTooLong means that a counted item is longer than its limit.
	ErrTooLong = errors.New("xdr: counted item exceeds its limit")
	// ErrBadValue means that a boolean is neither 0 nor 1, that an enum has an undefined value, or
	// that a union has no arm for its discriminant.
	ErrBadValue = errors.New("xdr: value has no meaning")
	// ErrExcised means that an excised item does not fit the stream: there is no eligible item at its
	// position, or its length is not the item's, with or without padding (RFC 8166 §3.4.5, §6.1).
	ErrExcised = errors.New("xdr: excised item does not match the stream")
	// ErrNotPlaced means that an eligible item is in the stream although a Write chunk was offered
	// for it.
	ErrNotPlaced = errors.New("xdr: eligible item was not put into its place")
	// ErrTrailing means that bytes are left after the last item.
	ErrTrailing = errors.New("xdr: bytes left after the last item")
)

// NoLimit is the limit of a counted item whose definition sets no largest length: the largest
// possible count (RFC 4506 §4.10).
const NoLimit = 1<<32 - 1

// A Decoder reads one XDR stream from front to back. After its first error, every read returns zero
// values, so that a caller can read a whole structure and check Err once. Slices that it returns
// alias the stream or an excised item. The zero Decoder reads an empty stream.
type Decoder struct {
	buf     []byte
	off     int // next byte of buf
	end     int // the end of buf, or the offset of the next excised item in buf
	shift   int // the position in the unreduced stream is off + shift
	excised []Excised
	inOrder bool // see ResetPlaces
	err     error
}

// Excised is the content of an opaque item that a transport received outside of the stream.
type Excised struct {
	// Position is the offset of the item's first content byte in the unreduced stream: the stream
	// with all excised items and their padding inserted.
	Position uint32
	// Data is the content, perhaps followed by its 0 to 3 bytes of padding.
	Data []byte
}

// NewDecoder returns a Decoder at the start of stream.
func NewDecoder(stream []byte) *Decoder { return &Decoder{buf: stream, end: len(stream)} }

// Reset moves d to the start of stream. excised are the items that are not in stream, in ascending
// order of Position. position is the position of stream[0] in the unreduced stream, which is stream
// with these items inserted.
func (d *Decoder) Reset(stream []byte, position int, excised []Excised) {
	*d = Decoder{buf: stream, shift: position, excised: excised}
	d.findEnd()
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

// Err returns the first error, or nil.
func (d *Decoder) Err() error { return d.err }

// Fail sets the error, unless d already has an error.
func (d *Decoder) Fail(err error) {
	if d.err == nil {
		d.err = err
	}
}

// Position returns the current position in the unreduced stream, in bytes.
func (d *Decoder) Position() int { return d.off + d.shift }

// Len returns the number of unread bytes of the stream passed to Reset, without excised items.
func (d *Decoder) Len() int { return len(d.buf) - d.off }

// Rest returns the unread bytes of the stream passed to Reset, without excised items.
func (d *Decoder) Rest() []byte { return d.buf[d.off:] }

// Finish returns Err or, if excised items or bytes are left over, ErrExcised or ErrTrailing.
func (d *Decoder) Finish() error {
	switch {
	case d.err != nil:
		return d.err
	case d.leftOver():
		return ErrExcised
	case d.off != len(d.buf):
		return ErrTrailing
	}
	return nil
}

// Skip skips n bytes of the stream passed to Reset. It does not skip padding.
func (d *Decoder) Skip(n int) { d.take(n) }

// Jump adds n and the padding of an item of n bytes to Position, because such an item is not in the
// stream passed to Reset. The next read starts at the same byte of that stream as before.
func (d *Decoder) Jump(n int) { d.shift += n + Pad(n) }

// Rebase makes d continue at the same offset in stream, which must be a copy of the stream that d
// reads. Slices that d returned before still alias the old stream.
func (d *Decoder) Rebase(stream []byte) { d.buf = stream }

func (d *Decoder) take(n int) []byte {
	if d.err != nil {
		return nil
	}
	if n < 0 || n > d.end-d.off {
		d.failShort()
		return nil
	}
	b := d.buf[d.off : d.off+n : d.off+n]
	d.off += n
	return b
}

// failShort sets the error for a read beyond d.end: ErrExcised if an item that is not eligible was
// excised, else ErrShort.
func (d *Decoder) failShort() {
	if len(d.excised) > 0 && !d.inOrder && int64(d.excised[0].Position) <= int64(d.shift)+int64(len(d.buf)) {
		d.Fail(ErrExcised)
	} else {
		d.Fail(ErrShort)
	}
}

// Uint32 reads an unsigned int (RFC 4506 §4.2).
func (d *Decoder) Uint32() uint32 {
	if d.err == nil && d.end-d.off >= 4 {
		v := binary.BigEndian.Uint32(d.buf[d.off:])
		d.off += 4
		return v
	}
	d.failShort()
	return 0
}

// Int32 reads an int or an enum (RFC 4506 §4.1, §4.3).
func (d *Decoder) Int32() int32 { return int32(d.Uint32()) }

// Uint64 reads an unsigned hyper (RFC 4506 §4.5).
func (d *Decoder) Uint64() uint64 {
	if d.err == nil && d.end-d.off >= 8 {
		v := binary.BigEndian.Uint64(d.buf[d.off:])
		d.off += 8
		return v
	}
	d.failShort()
	return 0
}

// Int64 reads a hyper (RFC 4506 §4.5).
func (d *Decoder) Int64() int64 { return int64(d.Uint64()) }

// Bool reads a boolean (RFC 4506 §4.4). The error for a value other than 0 and 1 is ErrBadValue.
func (d *Decoder) Bool() bool {
	switch d.Uint32() {
	case 0:
		return false
	case 1:
		return true
	}
	d.Fail(ErrBadValue)
	return false
}

// FixedOpaque reads n bytes and their padding (RFC 4506 §4.9).
func (d *Decoder) FixedOpaque(n int) []byte {
	if n < 0 {
		d.Fail(ErrTooLong)
		return nil
	}
	b := d.take(n)
	d.take(Pad(n))
	if d.err != nil {
		return nil
	}
	return b
}

// FixedOpaqueTo reads len(p) bytes into p, and skips their padding. After an error, p is all zeros.
func (d *Decoder) FixedOpaqueTo(p []byte) {
	b := d.FixedOpaque(len(p))
	if b == nil {
		clear(p)
		return
	}
	copy(p, b)
}

// Count reads the element count of a variable-length array (RFC 4506 §4.13), at most limit. size is
// the smallest size of an element in bytes: Count fails if the rest of the stream is too short for so
// many elements, so that the caller may allocate memory for them.
func (d *Decoder) Count(limit uint32, size int) int {
	n := d.Uint32()
	if d.err != nil {
		return 0
	}
	if n > limit {
		d.err = ErrTooLong
		return 0
	}
	if int64(n)*int64(size) > int64(d.Len()) {
		d.err = ErrShort
		return 0
	}
	return int(n)
}

// Opaque reads a variable-length opaque or string of at most limit bytes and its padding (RFC 4506
// §4.10, §4.11). For an item that may be excised, use EligibleOpaque.
func (d *Decoder) Opaque(limit uint32) []byte {
	return d.FixedOpaque(d.length(limit))
}

// length reads the count word of an opaque.
func (d *Decoder) length(limit uint32) int {
	n := d.Uint32()
	if n > limit {
		d.Fail(ErrTooLong)
		return 0
	}
	return int(n)
}

// Pad returns the number of padding bytes, 0 to 3, from an opaque of n bytes to the next multiple
// of four (RFC 4506 §3).
func Pad(n int) int { return -n & 3 }

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

// takeNext reads an item of n bytes after ResetPlaces: from its next element, or from the stream.
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
