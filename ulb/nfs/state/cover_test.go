package state

import (
	"math/rand/v2"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/byterange"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// cover returns the strongest mode of each byte, without gaps, and no two neighbouring
// pieces have the same mode.
func TestCover(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	const bytes = 40
	for range 2000 {
		draw := func() byterange.Range {
			a, b := rnd.Uint64N(bytes), rnd.Uint64N(bytes)
			return byterange.Range{First: min(a, b), Last: max(a, b), Write: rnd.IntN(3) == 0}
		}
		r := draw()
		var within []byterange.Range
		for range rnd.IntN(6) {
			if w := draw(); w.Overlaps(&r) {
				if w.Last == bytes-1 && r.Last == bytes-1 {
					w.Last, r.Last = vfs.ToEnd, vfs.ToEnd
				}
				within = append(within, w)
			}
		}
		at := r.First
		var before *need
		for _, p := range cover(r, within) {
			if p.start != at || before != nil && before.mode == p.mode {
				t.Fatalf("%v of %v: %v behind %v", r, within, p, before)
			}
			for b := p.start; b <= min(p.last, bytes); b++ {
				mode := vfs.ClaimMode(0)
				for _, w := range within {
					if w.First <= b && b <= w.Last {
						mode = max(mode, modeOf(&w))
					}
				}
				if mode != p.mode {
					t.Fatalf("%v of %v: byte %d is %v, not %v", r, within, b, p.mode, mode)
				}
			}
			at, before = p.last+1, &p
		}
		if at != r.Last+1 {
			t.Fatalf("%v of %v ends before %d", r, within, at)
		}
	}
}

// cover passes over many overlapping ranges only once. If it passed over them once for each range,
// this test would not end.
func TestCoverOfManyRanges(t *testing.T) {
	const n = 1 << 18
	var within []byterange.Range
	for i := range uint64(n) {
		within = append(within, byterange.Range{First: i, Last: byterange.ToEnd})
	}
	if all := cover(byterange.Range{Last: byterange.ToEnd}, within); len(all) != 1 || all[0] != (need{0, vfs.ToEnd, vfs.ClaimRead}) {
		t.Errorf("%d pieces", len(all))
	}
}
