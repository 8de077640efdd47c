package xdr

import (
	"errors"
	"testing"
)

// After ResetPlaces, each eligible item takes the next element of places (RFC 8166 §4.3.2, §6.1,
// V1-96 and V1-97 in docs/conformance-rpcrdma-v1.md).
func TestPlaces(t *testing.T) {
	item := func(b []byte) Excised { return Excised{Data: b} }
	unused := []byte{}
	for _, c := range []struct {
		name   string
		places []Excised
		stream []byte
		want   []string // the contents of three eligible items
		err    error
	}{
		{"placed, asked for inline, placed", []Excised{item([]byte("abcde")), item(nil), item([]byte("z"))},
			[]byte{0, 0, 0, 5, 0, 0, 0, 2, 'i', 'n', 0, 0, 0, 0, 0, 1}, []string{"abcde", "in", "z"}, nil},
		{"with padding", []Excised{item([]byte("abcde\x00\x00\x00"))},
			[]byte{0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0}, []string{"abcde", "", ""}, nil},
		{"more items than places", []Excised{item([]byte("ab"))},
			[]byte{0, 0, 0, 2, 0, 0, 0, 1, 'x', 0, 0, 0, 0, 0, 0, 0}, []string{"ab", "x", ""}, nil},
		{"an empty item that used up its place", []Excised{item(unused), item([]byte("y"))},
			[]byte{0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0}, []string{"", "y", ""}, nil},
		{"an empty item that did not", []Excised{item([]byte("y")), item(unused)},
			[]byte{0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0}, []string{"", "y", ""}, nil},
		{"in the stream though a place was free", []Excised{item(unused)},
			[]byte{0, 0, 0, 1, 'x', 0, 0, 0}, nil, ErrNotPlaced},
		{"another length", []Excised{item([]byte("abc"))},
			[]byte{0, 0, 0, 5}, nil, ErrExcised},
		{"not asked for", []Excised{item(nil), item(nil), item(nil), item([]byte("abc"))},
			[]byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, []string{"", "", ""}, ErrExcised},
	} {
		t.Run(c.name, func(t *testing.T) {
			var d Decoder
			d.ResetPlaces(c.stream, 0, c.places)
			for i := range 3 {
				got := string(d.EligibleOpaque(100))
				if c.want != nil && got != c.want[i] {
					t.Errorf("item %d is %q, want %q", i, got, c.want[i])
				}
			}
			if err := d.Finish(); !errors.Is(err, c.err) {
				t.Errorf("%v, want %v", err, c.err)
			}
		})
	}
}
