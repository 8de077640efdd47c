package xdr

import (
	"encoding/binary"
	"errors"
)

// Errors of a Decoder. They describe the fault in the bytes; the caller adds where the bytes came
// from.
var (
	// ErrShort: the stream ends inside an item.
	ErrShort = errors.New("xdr: stream ends inside an item")
	// ErrTooLong: a counted item is longer than its limit, from its definition or from the
	// caller.
	ErrTooLong = errors.New("xdr: counted item exceeds its limit")
	// ErrBadValue: a boolean that is neither 0 nor 1, or an enum or union
	// discriminant without an arm.
	ErrBadValue = errors.New("xdr: value has no meaning")
	// ErrExcised: an excised item does not fit into the stream around it. Either its position is
	// not that of an item that may be placed directly, or its length is neither the item's nor
	// the item's with its padding (RFC 8166 §3.4.5, §6.1).
	ErrExcised = errors.New("xdr: excised item does not match the stream")
	// ErrNotPlaced: an eligible item is in the stream although a place was offered for it.
	ErrNotPlaced = errors.New("xdr: eligible item was not put into its place")
	// ErrTrailing: bytes are left after the last item.
	ErrTrailing = errors.New("xdr: bytes left after the last item")
)

// NoLimit is the limit of a counted item that its definition does not bound:
// the largest count there is (RFC 4506 §4.10).
const NoLimit = 1<<32 - 1

// A Decoder is a cursor over one XDR stream. Its first error sticks: every later read returns
// zero values, so a caller reads a whole structure and checks Err once. The zero Decoder is an
// empty stream; Reset starts a new one without allocation.
//
// Slices that it returns alias the stream or an excised item; they live as
// long as those do.
type Decoder struct {
	buf     []byte
	off     int // next byte of buf
	end     int // the end of buf, or the place of the next excised item
	shift   int // bytes excised before off: unreduced position = off + shift
	excised []Excised
	inOrder bool // see ResetPlaces
	err     error
}

// NewDecoder returns a cursor at the start of stream.
func NewDecoder(stream []byte) *Decoder { return &Decoder{buf: stream, end: len(stream)} }

// Reset makes d a cursor at the start of stream, from which the items in
// excised, in ascending order of Position, were taken out. position is the
// unreduced position of stream[0].
func (d *Decoder) Reset(stream []byte, position int, excised []Excised) {
	*d = Decoder{buf: stream, shift: position, excised: excised}
	d.findEnd()
}

// Err is the first error met, or nil.
func (d *Decoder) Err() error { return d.err }

// Fail records err unless an earlier one is recorded already.
func (d *Decoder) Fail(err error) {
	if d.err == nil {
		d.err = err
	}
}

// Position is the cursor's place in the unreduced stream, in bytes.
func (d *Decoder) Position() int { return d.off + d.shift }

// Len returns how many bytes of the contiguous stream are left.
func (d *Decoder) Len() int { return len(d.buf) - d.off }

// Rest returns the unread part of the contiguous stream.
func (d *Decoder) Rest() []byte { return d.buf[d.off:] }

// Finish returns Err, or ErrTrailing if bytes or excised items are left over.
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

// Skip skips n bytes of the contiguous stream; n is not rounded up.
func (d *Decoder) Skip(n int) { d.take(n) }

// Jump moves the position over an item of n bytes and its padding that travels outside of the
// contiguous stream. Reading continues after it.
func (d *Decoder) Jump(n int) { d.shift += n + Pad(n) }

// Rebase continues in stream, a copy of the contiguous stream that d reads. Earlier results still
// alias the old one.
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

// failShort records why the stream cannot be read further: it ends, or an item that had to be in
// it was excised.
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

// Bool reads a boolean; a value other than 0 and 1 is ErrBadValue (RFC 4506 §4.4).
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

// FixedOpaqueTo reads len(p) bytes into p, and their padding. After an error p
// is zero.
func (d *Decoder) FixedOpaqueTo(p []byte) {
	b := d.FixedOpaque(len(p))
	if b == nil {
		clear(p)
		return
	}
	copy(p, b)
}

// Count reads the element count of a variable-length array (RFC 4506 §4.13). The array has at
// most limit elements of at least size bytes each. Count checks that the stream is long enough
// for them, so that the caller may allocate memory by the result.
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

// Opaque reads a variable-length opaque or string of at most limit bytes and its padding (RFC
// 4506 §4.10, §4.11). The item must be in the stream: see EligibleOpaque.
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
