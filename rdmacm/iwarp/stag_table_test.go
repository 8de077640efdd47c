package iwarp

import "testing"

// IW-107: steering tags are never 0, spread over their range, and do not repeat.
func TestSTagsAreRandom(t *testing.T) {
	table := stagTable{m: make(map[uint32]*region)}
	// The source of randomness begins with zeros.
	table.random.left = len(table.random.buf)
	seen := map[uint32]bool{}
	var bits [32]int
	const n = 20_000
	for range n {
		r := new(region)
		table.insert(r)
		if r.stag == 0 || seen[r.stag] || table.lookup(r.stag) != r {
			t.Fatalf("STag %#x", r.stag)
		}
		seen[r.stag] = true
		for b := range bits {
			bits[b] += int(r.stag >> b & 1)
		}
	}
	for b, ones := range bits {
		// The bound is eleven standard deviations.
		if ones < n/2-800 || ones > n/2+800 {
			t.Errorf("bit %d is set in %d of %d", b, ones, n)
		}
	}
}
