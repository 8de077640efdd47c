package nfs4wire

import "github.com/nfsrdmad/nfsrdmad/rpc/xdr"

// bitmapWords is the number of words that a Bitmap4 stores. They suffice for all attributes
// and operations of today's standards.
const bitmapWords = 3

// A Bitmap4 is the XDR type bitmap4: a set of small numbers, such as attribute numbers (RFC
// 8881 §3.3.7). It stores the numbers up to 95. Beyond reports whether there were higher
// ones.
type Bitmap4 struct {
	words  [bitmapWords]uint32
	beyond bool
}

// Bits returns the set of these numbers, each at most 95.
func Bits(numbers ...uint32) (b Bitmap4) {
	for _, n := range numbers {
		b.Set(n)
	}
	return b
}

// Has reports whether n is in the set.
func (v *Bitmap4) Has(n uint32) bool {
	return n < 32*bitmapWords && v.words[n/32]&(1<<(n%32)) != 0
}

// Set adds n, at most 95, to the set.
func (v *Bitmap4) Set(n uint32) { v.words[n/32] |= 1 << (n % 32) }

// Clear removes n from the set.
func (v *Bitmap4) Clear(n uint32) {
	if n < 32*bitmapWords {
		v.words[n/32] &^= 1 << (n % 32)
	}
}

// Beyond reports whether Decode dropped numbers beyond 95.
func (v *Bitmap4) Beyond() bool { return v.beyond }

// Word returns word i of the set: the numbers from 32*i to 32*i+31.
func (v *Bitmap4) Word(i int) uint32 { return v.words[i] }

// IsEmpty reports whether the set has no numbers and Beyond is false.
func (v *Bitmap4) IsEmpty() bool { return *v == Bitmap4{} }

// And returns the intersection of the sets.
func (v *Bitmap4) And(o *Bitmap4) (b Bitmap4) {
	for i := range b.words {
		b.words[i] = v.words[i] & o.words[i]
	}
	b.beyond = v.beyond && o.beyond
	return b
}

// Or returns the union of the sets.
func (v *Bitmap4) Or(o *Bitmap4) (b Bitmap4) {
	for i := range b.words {
		b.words[i] = v.words[i] | o.words[i]
	}
	b.beyond = v.beyond || o.beyond
	return b
}

// Without returns the numbers of v that are not in o.
func (v *Bitmap4) Without(o *Bitmap4) (b Bitmap4) {
	for i := range b.words {
		b.words[i] = v.words[i] &^ o.words[i]
	}
	b.beyond = v.beyond
	return b
}

// Decode reads a bitmap of any length.
func (v *Bitmap4) Decode(d *xdr.Decoder) {
	*v = Bitmap4{}
	n := d.Count(1<<28, 4)
	for i := range n {
		if i >= bitmapWords {
			v.beyond = v.beyond || d.Uint32() != 0
			continue
		}
		v.words[i] = d.Uint32()
	}
}

// Encode writes the bitmap with as few words as possible.
func (v *Bitmap4) Encode(w *xdr.Writer) {
	n := bitmapWords
	for n > 0 && v.words[n-1] == 0 {
		n--
	}
	w.Uint32(uint32(n))
	for _, word := range v.words[:n] {
		w.Uint32(word)
	}
}
