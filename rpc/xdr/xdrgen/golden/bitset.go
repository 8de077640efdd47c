package golden

import "github.com/nfsrdmad/nfsrdmad/rpc/xdr"

// Bitset is the Go type, written by hand, of the XDR type bitset in external.x. It has 64 bits, and
// encodes the low word first.
type Bitset uint64

// Decode reads an array of words. It ignores all words after the second.
func (v *Bitset) Decode(d *xdr.Decoder) {
	*v = 0
	for i := range d.Count(xdr.NoLimit, 4) {
		if word := d.Uint32(); i < 2 {
			*v |= Bitset(word) << (32 * i)
		}
	}
}

// Encode writes two words.
func (v *Bitset) Encode(w *xdr.Writer) {
	w.Uint32(2)
	w.Uint32(uint32(*v))
	w.Uint32(uint32(*v >> 32))
}
