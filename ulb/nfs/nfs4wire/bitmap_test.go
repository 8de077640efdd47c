package nfs4wire

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// DrawExternal draws a set of numbers that a Bitmap4 can store.
func (v *Bitmap4) DrawExternal(t *rapid.T) {
	*v = Bits(rapid.SliceOfN(rapid.Uint32Range(0, 32*bitmapWords-1), 0, 8).Draw(t, "numbers")...)
}

// ExternalLeaves returns the number of words up to the last one that is not 0, and these words.
func (v *Bitmap4) ExternalLeaves() []any {
	n := bitmapWords
	for n > 0 && v.Word(n-1) == 0 {
		n--
	}
	leaves := []any{int64(n)}
	for i := range n {
		leaves = append(leaves, int64(v.Word(i)))
	}
	return leaves
}

// Number n is bit n mod 32 of word n/32. Trailing words that are 0 need not be sent, but may be
// (RFC 8881 §3.3.7).
func TestBitmapWireFormat(t *testing.T) {
	for _, c := range []struct {
		name    string
		numbers []uint32
		longer  []uint32 // longer encodings of the same set, if there are any
		words   []uint32
	}{
		{name: "nothing", words: []uint32{}, longer: []uint32{0, 0, 0, 0, 0}},
		{name: "0", numbers: []uint32{0}, words: []uint32{1}, longer: []uint32{1, 0}},
		{name: "31 and 32", numbers: []uint32{31, 32}, words: []uint32{1 << 31, 1}, longer: []uint32{1 << 31, 1, 0, 0}},
		{name: "only the third word", numbers: []uint32{64, 95}, words: []uint32{0, 0, 1<<31 | 1}, longer: []uint32{0, 0, 1<<31 | 1, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := Bits(c.numbers...)
			w := xdr.NewWriter(make([]byte, 0, 64))
			want.Encode(w)
			if !bytes.Equal(w.Bytes(), bitmapStream(c.words)) {
				t.Errorf("encoded %x", w.Bytes())
			}
			for _, words := range [][]uint32{c.words, c.longer} {
				var got Bitmap4
				d := xdr.NewDecoder(bitmapStream(words))
				got.Decode(d)
				if err := d.Finish(); err != nil || got != want || got.Beyond() {
					t.Errorf("%x decoded to %+v, %v", words, got, err)
				}
			}
		})
	}
}

func bitmapStream(words []uint32) []byte {
	w := xdr.NewWriter(make([]byte, 0, 64))
	w.Uint32(uint32(len(words)))
	for _, word := range words {
		w.Uint32(word)
	}
	return w.Bytes()
}

// If a bitmap has numbers that are too high to store, Beyond reports it, and they are not
// encoded.
func TestBitmapBeyond(t *testing.T) {
	v := Bits(5)
	d := xdr.NewDecoder(bitmapStream([]uint32{2, 0, 0, 0, 8}))
	v.Decode(d)
	if err := d.Finish(); err != nil || !v.Beyond() || v.Has(5) || !v.Has(1) || v.Has(131) {
		t.Errorf("%+v, %v", v, err)
	}
	if v.IsEmpty() {
		t.Error("a set with a number beyond is empty")
	}
	only := Bitmap4{}
	only.Decode(xdr.NewDecoder(bitmapStream([]uint32{0, 0, 0, 1})))
	if only.IsEmpty() || !only.Beyond() {
		t.Errorf("%+v", only)
	}
	w := xdr.NewWriter(make([]byte, 0, 64))
	v.Encode(w)
	if !bytes.Equal(w.Bytes(), bitmapStream([]uint32{2})) {
		t.Errorf("sent on as %x", w.Bytes())
	}
}

// If the count is higher than the number of words in the stream, Decode fails.
func TestBitmapCount(t *testing.T) {
	for _, stream := range [][]byte{
		{}, {0, 0, 0, 1}, {0, 0, 0, 2, 0, 0, 0, 1}, {0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1},
	} {
		var v Bitmap4
		d := xdr.NewDecoder(stream)
		v.Decode(d)
		if d.Finish() == nil {
			t.Errorf("%x is accepted", stream)
		}
	}
}

// And, Or and Without are the operations on sets of these names.
func TestBitmapOperations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.Uint32Range(0, 32*bitmapWords-1)
		var a, b Bitmap4
		a.DrawExternal(t)
		b.DrawExternal(t)
		n := number.Draw(t, "n")
		and, or, without := a.And(&b), a.Or(&b), a.Without(&b)
		if and.Has(n) != (a.Has(n) && b.Has(n)) || or.Has(n) != (a.Has(n) || b.Has(n)) || without.Has(n) != (a.Has(n) && !b.Has(n)) {
			t.Errorf("%d: %+v and %+v", n, a, b)
		}
		if a.IsEmpty() != (a == Bitmap4{}) {
			t.Errorf("%+v is empty: %v", a, a.IsEmpty())
		}
		c := a
		if c.Set(n); !c.Has(n) {
			t.Errorf("%d is not set", n)
		}
		c.Clear(n)
		if a.Clear(n); c != a {
			t.Errorf("%d is not cleared: %+v, %+v", n, a, c)
		}
		if c.Has(n + 32*bitmapWords) {
			t.Errorf("%d is in a set that does not reach it", n+32*bitmapWords)
		}
		c.Clear(n + 32*bitmapWords) // has no effect
		if c != a {
			t.Error("clearing a number beyond changed the set")
		}
	})
}

// The results of And, Or and Without report Beyond correctly.
func TestBitmapBeyondInOperations(t *testing.T) {
	var far, near Bitmap4
	far.Decode(xdr.NewDecoder(bitmapStream([]uint32{1, 0, 0, 1})))
	near.Set(0)
	and, both, or, without := far.And(&near), far.And(&far), far.Or(&near), far.Without(&near)
	if and.Beyond() || !both.Beyond() || !or.Beyond() || !without.Beyond() {
		t.Errorf("and %v, and itself %v, or %v, without %v", and.Beyond(), both.Beyond(), or.Beyond(), without.Beyond())
	}
}
