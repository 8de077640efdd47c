package byterange

import "testing"

func TestRangeFromTheWire(t *testing.T) {
	const max = 1<<64 - 1
	for _, c := range []struct {
		offset, length uint64
		start, last    uint64
		ok             bool
	}{
		{0, 1, 0, 0, true},
		{0, 0, 0, 0, false},
		{max, 0, 0, 0, false},
		{0, max, 0, max, true},
		{max, max, max, max, true},
		{5, max, 5, max, true},
		{max, 1, 0, 0, false}, // the range ends beyond the last offset
		{max - 1, 1, max - 1, max - 1, true},
		{1, max - 1, 1, max - 1, true},
		{2, max - 1, 0, 0, false},
	} {
		r, ok := At(c.offset, c.length, false)
		if ok != c.ok || ok && (r.First != c.start || r.Last != c.last) {
			t.Errorf("%d, %d: %v %v", c.offset, c.length, r, ok)
		}
		if n := r.Length(); ok && n != min(c.length, max-r.First) && (r.Last != max || n != max) {
			t.Errorf("%d, %d: the length %d goes back", c.offset, c.length, n)
		}
	}
}
