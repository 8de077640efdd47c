package queue_test

import (
	"math/rand/v2"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/internal/queue"
)

type ranked struct {
	place   queue.Place[ranked]
	changed int
}

// Top returns the element with the largest count whose count changed longest ago.
func TestRanking(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 0))
		var r queue.Ranking[ranked]
		all := make([]ranked, 6)
		for i := range all {
			all[i].place.Of = &all[i]
		}
		for now := 1; now < 2000; now++ {
			e := &all[random.IntN(len(all))]
			n := random.IntN(3) - 1
			if e.place.Count+n >= 0 {
				r.Add(&e.place, n)
				e.changed = now
			}
			var want *ranked
			total := 0
			for i := range all {
				e := &all[i]
				total += e.place.Count
				if e.place.Count > 0 && (want == nil || e.place.Count > want.place.Count || e.place.Count == want.place.Count && e.changed < want.changed) {
					want = e
				}
			}
			var got *ranked
			if top := r.Top(); top != nil {
				got = top.Of
			}
			if got != want || r.Total != total {
				t.Fatalf("seed %d, step %d: %+v, want %+v; total %d, want %d", seed, now, got, want, r.Total, total)
			}
		}
	}
}
