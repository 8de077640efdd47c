package xdr

import (
	"errors"
	"testing"
)

// reduced reads a structure of two eligible items between numbers: struct { uint a; opaque x<8>;
// uint b; opaque y<8>; uint c; }.
func reduced(d *Decoder) (x, y []byte, numbers [3]uint32) {
	numbers[0] = d.Uint32()
	x = d.EligibleOpaque(8)
	numbers[1] = d.Uint32()
	y = d.EligibleOpaque(8)
	numbers[2] = d.Uint32()
	return x, y, numbers
}

// The complete stream, from which the cases below excise items, is
//
//	0 a=1 | 4 count=5 | 8 "first" 000000 | 16 b=2 | 20 count=4 | 24 "next" | 28 c=3
const (
	words     = "00000001 00000005 00000002 00000004 00000003"
	wordsAndX = "00000001 00000005 6669727374000000 00000002 00000004 00000003"
	wordsAndY = "00000001 00000005 00000002 00000004 6e657874 00000003"
)

// errAny means any error. It is for cases in which the Decoder reads the wrong items.
var errAny = errors.New("some error")

func TestExcisedItems(t *testing.T) {
	x, xPadded, y := []byte("first"), []byte("first\x00\x00\x00"), []byte("next")
	for _, c := range []struct {
		name    string
		stream  string
		excised []Excised
		err     error
	}{
		{"V1-29: the count stays, the content goes", words, []Excised{{8, x}, {24, y}}, nil},
		{"V1-34: the padding goes as well", wordsAndY, []Excised{{8, x}}, nil},
		{"V1-36: positions count what was taken out before", wordsAndX, []Excised{{24, y}}, nil},
		{"V1-41: padding may come with the item", words, []Excised{{8, xPadded}, {24, y}}, nil},
		{"V1-34: the padding stayed", "00000001 00000005 000000 00000002 00000004 00000003", []Excised{{8, x}, {24, y}}, errAny},
		{"V1-36: the position is the reduced one", words, []Excised{{8, x}, {16, y}}, ErrExcised},
		{"V1-36: without the first item's padding", words, []Excised{{8, x}, {21, y}}, ErrExcised},
		{"V1-37: not a multiple of four", words, []Excised{{9, x}, {24, y}}, ErrExcised},
		{"V1-41: one byte of padding", words, []Excised{{8, xPadded[:6]}, {24, y}}, ErrExcised},
		{"V1-41: more than padding", words, []Excised{{8, append(xPadded, 0, 0, 0, 0)}, {24, y}}, ErrExcised},
		{"V1-42: shorter than the count", words, []Excised{{8, x[:4]}, {24, y}}, ErrExcised},
		{"V1-42: nothing at all", words, []Excised{{8, nil}, {24, y}}, ErrExcised},
		{"V1-94: over a number", words, []Excised{{0, xPadded}, {24, y}}, ErrExcised},
		{"V1-94: over the count", words, []Excised{{4, x}, {24, y}}, ErrExcised},
		{"V1-94: within an inline item", wordsAndX, []Excised{{12, x}}, ErrExcised},
		{"over an item that is inline", wordsAndX, []Excised{{8, x}, {24, y}}, errAny},
		{"beyond the last item", wordsAndX, []Excised{{24, y}, {32, y}}, ErrExcised},
		{"far beyond the stream", wordsAndX, []Excised{{24, y}, {1 << 31, y}}, ErrExcised},
		{"the largest position", words, []Excised{{8, x}, {1<<32 - 1, y}}, ErrShort},
		{"one item twice", words, []Excised{{8, x}, {8, x}, {24, y}}, ErrExcised},
		{"out of order", words, []Excised{{24, y}, {8, x}}, errAny},
	} {
		t.Run(c.name, func(t *testing.T) {
			var d Decoder
			d.Reset(octets(t, c.stream), 0, c.excised)
			gotX, gotY, numbers := reduced(&d)
			if err := d.Finish(); !errors.Is(err, c.err) && (err == nil || c.err != errAny) {
				t.Fatalf("%v, want %v", err, c.err)
			}
			if c.err != nil {
				return
			}
			if string(gotX) != "first" || string(gotY) != "next" || numbers != [3]uint32{1, 2, 3} {
				t.Errorf("%q %q %v", gotX, gotY, numbers)
			}
			if cap(gotX) != len(gotX) || cap(gotY) != len(gotY) {
				t.Error("an item can grow into its padding")
			}
			if d.Position() != 32 {
				t.Errorf("position %d at the end", d.Position())
			}
		})
	}
}

// Positions of excised items count from the start of the RPC message, although the Decoder starts
// after the message's header (RFC 8166 §3.4.5, V1-36 in docs/conformance-rpcrdma-v1.md).
func TestExcisedAfterHeader(t *testing.T) {
	var d Decoder
	d.Reset(octets(t, "00000005"), 100, []Excised{{104, []byte("first")}})
	if got := d.EligibleOpaque(8); string(got) != "first" || d.Finish() != nil || d.Position() != 112 {
		t.Errorf("%q, %v, position %d", got, d.Finish(), d.Position())
	}
	d.Reset(octets(t, "00000005"), 100, []Excised{{4, []byte("first")}})
	if d.EligibleOpaque(8); d.Finish() != ErrExcised {
		t.Errorf("a position in the header: %v", d.Finish())
	}
}

// An item that is not eligible is not read from a chunk, even if its position and length are right
// (RFC 8166 §6.1, V1-28 and V1-94 in docs/conformance-rpcrdma-v1.md).
func TestExcisedItemNotEligible(t *testing.T) {
	var d Decoder
	for name, read := range map[string]func() []byte{
		"counted": func() []byte { return d.Opaque(8) },
		"fixed":   func() []byte { d.Uint32(); return d.FixedOpaque(5) },
		"skipped": func() []byte { d.Uint32(); d.Skip(8); return nil },
	} {
		d.Reset(octets(t, "00000005 0000000000000000"), 0, []Excised{{4, []byte("first")}})
		if got := read(); got != nil || d.Err() != ErrExcised {
			t.Errorf("%s: %q, %v", name, got, d.Err())
		}
	}
}

// The limit of EligibleOpaque also applies to excised items.
func TestExcisedItemTooLong(t *testing.T) {
	var d Decoder
	d.Reset(octets(t, "00000009"), 0, []Excised{{4, []byte("nine long")}})
	if got := d.EligibleOpaque(8); got != nil || d.Err() != ErrTooLong {
		t.Errorf("%q, %v", got, d.Err())
	}
}

// An empty item may have an empty chunk, or none. It does not use the chunk of the next item.
func TestExcisedEmptyItem(t *testing.T) {
	for _, c := range []struct {
		name    string
		stream  string
		excised []Excised
		y       string
		err     error
	}{
		{"no chunk", "00000000 00000004 6e657874", nil, "next", nil},
		{"an empty chunk", "00000000 00000004 6e657874", []Excised{{4, nil}}, "next", nil},
		{"a chunk of the next item", "00000000 00000004", []Excised{{8, []byte("next")}}, "next", nil},
		{"an empty chunk, and the next item's", "00000000 00000004", []Excised{{4, []byte{}}, {8, []byte("next")}}, "next", nil},
		{"two empty items, one empty chunk", "00000000 00000000", []Excised{{8, nil}}, "", nil},
		{"a chunk with a byte", "00000000 00000004 6e657874", []Excised{{4, []byte("x")}}, "", ErrExcised},
		{"a chunk with a word", "00000000 00000004 6e657874", []Excised{{4, []byte("next")}}, "", ErrExcised},
		{"an empty chunk for an item of four bytes", "00000000 00000004", []Excised{{4, nil}, {8, nil}}, "", ErrExcised},
	} {
		t.Run(c.name, func(t *testing.T) {
			var d Decoder
			d.Reset(octets(t, c.stream), 0, c.excised)
			x, y := d.EligibleOpaque(8), d.EligibleOpaque(8)
			if err := d.Finish(); err != c.err {
				t.Fatalf("%v, want %v", err, c.err)
			}
			if c.err == nil && (len(x) != 0 || string(y) != c.y || d.Position() != 8+len(c.y)) {
				t.Errorf("%q, %q, position %d", x, y, d.Position())
			}
		})
	}
}

// Of an array of opaque items, only the contents may be excised; the counts stay in the stream (RFC
// 8166 §3.4.4, V1-30 in docs/conformance-rpcrdma-v1.md). So Count checks the number of items
// against the stream alone.
func TestCountWithExcisedElements(t *testing.T) {
	contents := []Excised{{8, []byte("aaaa")}, {16, []byte("bbbb")}}
	for _, c := range []struct {
		name    string
		stream  string
		excised []Excised
		n       int // the result of Count
		err     error
	}{
		{"contents excised", "00000002 00000004 00000004", contents, 2, nil},
		{"one content excised", "00000002 00000004 00000004 62626262", contents[:1], 2, nil},
		{"more elements than counts", "00000003 00000004 00000004", contents, 0, ErrShort},
		{"as many elements as the excised bytes would make", "00000004 00000004 00000004", contents, 0, ErrShort},
		{"the elements' counts excised as well", "00000002", []Excised{
			{4, []byte("\x00\x00\x00\x04aaaa")}, {12, []byte("\x00\x00\x00\x04bbbb")}}, 0, ErrShort},
		{"one element's count excised", "00000002 00000004 00000004", []Excised{{8, []byte("aaaa")}, {12, []byte("bbbb")}}, 2, ErrExcised},
		{"the array's count excised", "00000004 00000004", []Excised{{0, []byte("\x00\x00\x00\x02")}, {8, []byte("aaaa")}}, 0, ErrExcised},
	} {
		t.Run(c.name, func(t *testing.T) {
			var d Decoder
			d.Reset(octets(t, c.stream), 0, c.excised)
			n := d.Count(9, 4)
			got := ""
			for range n {
				got += string(d.EligibleOpaque(4))
			}
			if n != c.n || d.Finish() != c.err {
				t.Fatalf("%d elements, %v, want %d, %v", n, d.Finish(), c.n, c.err)
			}
			if c.err == nil && (got != "aaaabbbb" || d.Position() != 20) {
				t.Errorf("%q, position %d", got, d.Position())
			}
		})
	}
}
