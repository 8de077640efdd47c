package gss

import (
	"math/rand/v2"
	"testing"
)

// The window gives the same results as a model that stores all numbers.
func TestWindowAgainstModel(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		var w window
		seen, high := make(map[uint32]bool), uint32(0)
		for range 20_000 {
			n := high - min(high, uint32(r.IntN(windowSize+20)))
			switch r.IntN(10) {
			case 0:
				n = high + uint32(r.IntN(3*windowSize))
			case 1, 2, 3, 4:
				n = high + uint32(r.IntN(5))
			}
			want := fresh
			switch {
			case n <= high && high-n >= windowSize:
				want = below
			case seen[n]:
				want = repeated
			}
			if got := w.see(n); got != want {
				t.Fatalf("seed %d: number %d after %d: %d, want %d", seed, n, high, got, want)
			}
			if want == fresh {
				seen[n] = true
				high = max(high, n)
			}
		}
	}
}
