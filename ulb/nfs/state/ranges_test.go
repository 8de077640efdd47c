package state

import (
	"math/rand/v2"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"pgregory.net/rapid"
)

// cells is the number of parts of a file that the tests lock as a whole: single bytes at the
// lowest and the highest offsets, and one large part between them.
const cells = 12

const lastOffset = 1<<64 - 1

// startOf and lastOf return the first and the last byte of a cell.
func startOf(cell int) uint64 {
	if cell > cells/2 {
		return lastOffset - uint64(cells-1-cell)
	}
	return uint64(cell)
}

func lastOf(cell int) uint64 {
	if cell == cells-1 {
		return lastOffset
	}
	return startOf(cell+1) - 1
}

// Each byte has the mode of the latest lock or unlock, and the ranges are as few as
// possible.
func TestRangesModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rs ranges
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
				rs = rs.lock(byteRange{start, last, how == 2})
			}
			check(t, rs, model)
		}
	})
}

func check(t *rapid.T, rs ranges, model [cells]int) {
	for c, want := range model {
		at, end := startOf(c), lastOf(c)
		got := 0
		for _, r := range rs {
			if r.start <= at && end <= r.last {
				got = 1
				if r.write {
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
		if a.last >= b.start || a.write == b.write && a.last+1 == b.start {
			t.Fatalf("%v and %v", a, b)
		}
	}
}

func TestWholeRange(t *testing.T) {
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
		r, ok := wholeRange(c.offset, c.length, false)
		if ok != c.ok || ok && (r.start != c.start || r.last != c.last) {
			t.Errorf("%d, %d: %v %v", c.offset, c.length, r, ok)
		}
	}
}

// cover returns the strongest mode of each byte, without gaps, and no two neighbouring
// pieces have the same mode.
func TestCover(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	const bytes = 40
	for range 2000 {
		draw := func() byteRange {
			a, b := rnd.Uint64N(bytes), rnd.Uint64N(bytes)
			return byteRange{min(a, b), max(a, b), rnd.IntN(3) == 0}
		}
		r := draw()
		var within []byteRange
		for range rnd.IntN(6) {
			if w := draw(); w.overlaps(&r) {
				if w.last == bytes-1 && r.last == bytes-1 {
					w.last, r.last = vfs.ToEnd, vfs.ToEnd
				}
				within = append(within, w)
			}
		}
		at := r.start
		var before *need
		for _, p := range cover(r, within) {
			if p.start != at || before != nil && before.mode == p.mode {
				t.Fatalf("%v of %v: %v behind %v", r, within, p, before)
			}
			for b := p.start; b <= min(p.last, bytes); b++ {
				mode := vfs.ClaimMode(0)
				for _, w := range within {
					if w.start <= b && b <= w.last {
						mode = max(mode, w.mode())
					}
				}
				if mode != p.mode {
					t.Fatalf("%v of %v: byte %d is %v, not %v", r, within, b, p.mode, mode)
				}
			}
			at, before = p.last+1, &p
		}
		if at != r.last+1 {
			t.Fatalf("%v of %v ends before %d", r, within, at)
		}
	}
}

// cover passes once over many overlapping ranges. With one pass for each range this test
// would not end.
func TestCoverOfManyRanges(t *testing.T) {
	const n = 1 << 18
	var within []byteRange
	for i := range uint64(n) {
		within = append(within, byteRange{start: i, last: vfs.ToEnd})
	}
	if all := cover(byteRange{last: vfs.ToEnd}, within); len(all) != 1 || all[0] != (need{0, vfs.ToEnd, vfs.ClaimRead}) {
		t.Errorf("%d pieces", len(all))
	}
}
