package byterange

import (
	"testing"

	"pgregory.net/rapid"
)

// cells is the number of parts of a file that the test locks, each as a whole: single bytes
// at the lowest and the highest offsets, and one large part between them.
const cells = 12

// startOf and lastOf return the first and the last byte of a cell.
func startOf(cell int) uint64 {
	if cell > cells/2 {
		return ToEnd - uint64(cells-1-cell)
	}
	return uint64(cell)
}

func lastOf(cell int) uint64 {
	if cell == cells-1 {
		return ToEnd
	}
	return startOf(cell+1) - 1
}

// After any locks and unlocks, each byte has the mode of the last operation on it, and the
// set has as few ranges as possible.
func TestRangesModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rs Set
		var model [cells]int // 0: not locked, 1: read lock, 2: write lock
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			from := rapid.IntRange(0, cells-1).Draw(t, "from")
			to := rapid.IntRange(from, cells-1).Draw(t, "to")
			how := rapid.IntRange(0, 2).Draw(t, "how")
			for c := from; c <= to; c++ {
				model[c] = how
			}
			start, last := startOf(from), lastOf(to)
			if how == 0 {
				rs = rs.unlock(start, last)
			} else {
				rs = rs.lock(Range{start, last, how == 2})
			}
			check(t, rs, model)
		}
	})
}

func check(t *rapid.T, rs Set, model [cells]int) {
	for c, want := range model {
		at, end := startOf(c), lastOf(c)
		got := 0
		for _, r := range rs {
			if r.First <= at && end <= r.Last {
				got = 1
				if r.Write {
					got = 2
				}
			}
		}
		if got != want {
			t.Fatalf("cell %d is %d, not %d: %v", c, got, want, rs)
		}
	}
	for i := 1; i < len(rs); i++ {
		a, b := rs[i-1], rs[i]
		if a.Last >= b.First || a.Write == b.Write && a.Last+1 == b.First {
			t.Fatalf("%v and %v", a, b)
		}
	}
}
