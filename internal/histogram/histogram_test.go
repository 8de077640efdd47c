package histogram

import (
	"testing"
	"time"
)

// Each bucket has the durations that are not longer than its bound, as a count of them one by one finds them.
func TestBuckets(t *testing.T) {
	durations := []time.Duration{-1, 0, 1, 4095, 4096, 4097, 8192, 8193, time.Millisecond, time.Second, 1<<34 - 1, 1 << 34, 1<<34 + 1, time.Hour, 1<<63 - 1}
	var h Histogram
	var sum time.Duration
	for _, d := range durations[:len(durations)-1] {
		h.Add(d)
		sum += max(d, 0)
	}
	var s Snapshot
	s.Add(&h)
	if s.Sum() != sum {
		t.Errorf("the sum is %v, want %v", s.Sum(), sum)
	}
	h.Add(durations[len(durations)-1])
	s = Snapshot{}
	s.Add(&h)
	if s.Count() != uint64(len(durations)) {
		t.Errorf("%d durations", s.Count())
	}
	buckets := s.Buckets()
	if len(buckets) != 23 {
		t.Errorf("%d bounds", len(buckets))
	}
	for bound, n := range buckets {
		want := uint64(0)
		for _, d := range durations {
			if d.Seconds() <= bound {
				want++
			}
		}
		if n != want {
			t.Errorf("up to %v s: %d durations, want %d", bound, n, want)
		}
	}
}

func TestAddDoesNotAllocate(t *testing.T) {
	var h Histogram
	if n := testing.AllocsPerRun(100, func() { h.Add(time.Second) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
