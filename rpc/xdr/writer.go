package xdr

import (
	"bytes"
	"encoding/binary"
)

// Payload is the content of an opaque item that a Writer refers to instead of copying it.
type Payload struct {
	// Position is the number of bytes in the Writer's buffer before the content.
	Position int
	// Data is the content without padding.
	Data []byte
	// Eligible is true if the item is eligible for direct data placement (RFC 8166 §3.4.2).
	Eligible bool
	// Ref is a reference to the memory of Data. The last user of the payload calls Ref.Release
	// once. Ref is nil if the memory need not be released.
	Ref Releaser
}

// Releaser is a reference to memory. Its user calls Release once, when it no longer needs the
// memory.
type Releaser interface {
	Release()
}

// A Writer encodes XDR items into a buffer of fixed capacity, which never grows. If an item does not
// fit, it sets Overflow and writes nothing more, so that a caller can encode a whole result and check
// Overflow once. It does not copy payloads, but lists them: the encoded stream consists of the bytes
// in the buffer, with each payload and its padding inserted at the payload's position.
type Writer struct {
	buf      []byte // the bytes written; the capacity is fixed
	overflow bool
	payloads []Payload
	// payloadBytes is the number of bytes of all payloads with padding.
	payloadBytes int
	inline       [2]Payload // memory for the first payloads, so that common replies need no allocation
}

// NewWriter returns a Writer that appends to buf up to its capacity.
func NewWriter(buf []byte) *Writer {
	w := new(Writer)
	w.Reset(buf)
	return w
}

// Reset makes w append to buf, up to cap(buf). It removes all payloads without releasing them.
func (w *Writer) Reset(buf []byte) {
	w.buf, w.overflow, w.payloadBytes = buf, false, 0
	w.inline = [2]Payload{}
	w.payloads = w.inline[:0]
}

// Rebase copies the bytes written so far into buf, and makes w continue there, up to cap(buf). If the
// bytes do not fit, it sets Overflow.
func (w *Writer) Rebase(buf []byte) {
	if cap(buf) < len(w.buf) {
		w.overflow = true
		return
	}
	w.buf = append(buf[:0], w.buf...)
}

// Bytes returns the bytes written to the buffer so far, without payloads. They alias the buffer.
func (w *Writer) Bytes() []byte { return w.buf }

// Len returns the number of bytes written to the buffer, without payloads.
func (w *Writer) Len() int { return len(w.buf) }

// Available returns how many bytes the buffer still has space for.
func (w *Writer) Available() int { return cap(w.buf) - len(w.buf) }

// StreamLen returns the length of the whole stream in bytes: the bytes in the buffer, the payloads
// and their padding.
func (w *Writer) StreamLen() int { return len(w.buf) + w.payloadBytes }

// Payloads returns the payloads so far, in ascending order of position.
func (w *Writer) Payloads() []Payload { return w.payloads }

// Overflow reports whether an item did not fit into the buffer, or could not be encoded.
func (w *Writer) Overflow() bool { return w.overflow }

// Fail sets Overflow. Code that would have to write a value that cannot be encoded calls it.
func (w *Writer) Fail() { w.overflow = true }

// Truncate removes all bytes of the buffer beyond the first n, and releases and removes the
// payloads whose position is beyond n. It clears Overflow.
func (w *Writer) Truncate(n int) {
	w.overflow = false
	w.buf = w.buf[:n]
	keep := len(w.payloads)
	for keep > 0 && w.payloads[keep-1].Position > n {
		keep--
		w.dropPayload(keep)
	}
	w.payloads = w.payloads[:keep]
}

func (w *Writer) dropPayload(i int) {
	p := &w.payloads[i]
	w.payloadBytes -= len(p.Data) + Pad(len(p.Data))
	if p.Ref != nil {
		p.Ref.Release()
	}
	*p = Payload{}
}

// Release releases and removes all payloads.
func (w *Writer) Release() {
	for i := range w.payloads {
		w.dropPayload(i)
	}
	w.payloads = w.inline[:0]
}

// TakePayloads removes the payloads from w and returns them to the caller, which has to release
// them. The slice is valid until w is used again.
func (w *Writer) TakePayloads() []Payload {
	p := w.payloads
	w.payloads, w.payloadBytes = nil, 0
	return p
}

// CopyPayloads replaces all payloads by copies, and releases them, except those whose Ref is own. The
// caller may then change the bytes of the payloads. own may be nil.
func (w *Writer) CopyPayloads(own Releaser) {
	for i := range w.payloads {
		p := &w.payloads[i]
		if own != nil && p.Ref == own {
			continue
		}
		p.Data = bytes.Clone(p.Data)
		if p.Ref != nil {
			p.Ref.Release()
			p.Ref = nil
		}
	}
}

// Reserve appends n bytes to the buffer and returns them, for the caller to fill in. It returns nil
// if they do not fit. n must be a multiple of four.
func (w *Writer) Reserve(n int) []byte {
	if w.overflow || n > cap(w.buf)-len(w.buf) {
		w.overflow = true
		return nil
	}
	at := len(w.buf)
	w.buf = w.buf[:at+n]
	return w.buf[at : at+n : at+n]
}

// Uint32 appends an unsigned int.
func (w *Writer) Uint32(v uint32) {
	if b := w.Reserve(4); b != nil {
		binary.BigEndian.PutUint32(b, v)
	}
}

// Int32 appends an int or an enum.
func (w *Writer) Int32(v int32) { w.Uint32(uint32(v)) }

// Uint64 appends an unsigned hyper.
func (w *Writer) Uint64(v uint64) {
	if b := w.Reserve(8); b != nil {
		binary.BigEndian.PutUint64(b, v)
	}
}

// Int64 appends a hyper.
func (w *Writer) Int64(v int64) { w.Uint64(uint64(v)) }

// Bool appends a boolean.
func (w *Writer) Bool(v bool) {
	if v {
		w.Uint32(1)
	} else {
		w.Uint32(0)
	}
}

// FixedOpaque appends p and zero padding.
func (w *Writer) FixedOpaque(p []byte) {
	if b := w.Reserve(len(p) + Pad(len(p))); b != nil {
		clear(b[copy(b, p):])
	}
}

// Opaque appends the length of p, p and zero padding.
func (w *Writer) Opaque(p []byte) {
	w.Uint32(uint32(len(p)))
	w.FixedOpaque(p)
}

// BoundedOpaque appends the length of p, p and zero padding. If p is longer than limit, it sets
// Overflow, because no decoder would accept the item.
func (w *Writer) BoundedOpaque(p []byte, limit uint32) {
	if w.Count(len(p), limit); !w.overflow {
		w.FixedOpaque(p)
	}
}

// Count appends the element count of an array. If n exceeds limit, it sets Overflow.
func (w *Writer) Count(n int, limit uint32) {
	if uint64(n) > uint64(limit) {
		w.Fail()
		return
	}
	w.Uint32(uint32(n))
}

// String appends the length of s, s and zero padding.
func (w *Writer) String(s string) {
	w.Uint32(uint32(len(s)))
	if b := w.Reserve(len(s) + Pad(len(s))); b != nil {
		clear(b[copy(b, s):])
	}
}

// Payload appends a variable-length opaque with the content p: it writes the length of p to the
// buffer, and adds p to the payloads. w takes over the reference ref, which may be nil.
func (w *Writer) Payload(p []byte, eligible bool, ref Releaser) {
	w.Uint32(uint32(len(p)))
	if w.overflow {
		if ref != nil {
			ref.Release()
		}
		return
	}
	if w.payloads == nil {
		w.payloads = w.inline[:0]
	}
	w.payloads = append(w.payloads, Payload{Position: len(w.buf), Data: p, Eligible: eligible, Ref: ref})
	w.payloadBytes += len(p) + Pad(len(p))
}

// FoldPadding makes the length of each payload a multiple of four, without changing the stream: it
// moves the last one to three bytes of other payloads into the buffer, to the place where the payload
// ends, together with the zeros of the padding: four bytes in all. After that, the buffer and the
// payloads together contain the whole stream. If the buffer has no room for these bytes, FoldPadding
// sets Overflow and moves nothing.
func (w *Writer) FoldPadding() {
	odd := 0
	for i := range w.payloads {
		if len(w.payloads[i].Data)&3 != 0 {
			odd++
		}
	}
	if odd == 0 || w.Reserve(4*odd) == nil {
		return
	}
	// Work from the end, so that each byte moves only once.
	to := len(w.buf)
	from := to - 4*odd
	for i := len(w.payloads) - 1; odd > 0; i-- {
		p := &w.payloads[i]
		copy(w.buf[p.Position+4*odd:to], w.buf[p.Position:from])
		to, from = p.Position+4*odd, p.Position
		if len(p.Data)&3 == 0 {
			p.Position = to
			continue
		}
		odd--
		to -= 4
		p.Position = to
		w.fold(p)
	}
}

// fold moves the last one to three bytes of p, whose length is not a multiple of four, and their
// padding to the four bytes of the buffer after p's position.
func (w *Writer) fold(p *Payload) {
	word := w.buf[p.Position : p.Position+4]
	whole := len(p.Data) &^ 3
	clear(word[copy(word, p.Data[whole:]):])
	p.Data = p.Data[:whole]
	w.payloadBytes -= 4
}

// PatchUint32 overwrites four bytes of the buffer, which must have been written before, with v. The
// parameter at is the offset of the first of them.
func (w *Writer) PatchUint32(at int, v uint32) {
	if at+4 <= len(w.buf) {
		binary.BigEndian.PutUint32(w.buf[at:], v)
	}
}
