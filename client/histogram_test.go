package client

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// What a histogram says of a time is never less than it, and at most 1/64 more;
// every time has a bucket, and longer ones have no earlier bucket.
func TestHistogramPrecision(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ns := rapid.Int64Range(0, 1<<histogramTop-1).Draw(t, "ns")
		i := bucket(ns)
		top := bucketTop(i)
		if top < ns || float64(top-ns) > float64(ns)/histogramParts {
			t.Fatalf("%d ns is in bucket %d, which goes to %d", ns, i, top)
		}
		if i > 0 && bucketTop(i-1) >= ns {
			t.Fatalf("%d ns is in bucket %d, but %d goes to %d", ns, i, i-1, bucketTop(i-1))
		}
	})
	for _, ns := range []int64{-1, 0, 1<<histogramTop - 1, 1 << histogramTop, 1<<63 - 1} {
		if i := bucket(ns); i < 0 || i >= histogramSize {
			t.Errorf("%d ns is in bucket %d of %d", ns, i, histogramSize)
		}
	}
}

func TestHistogramQuantiles(t *testing.T) {
	var h, part histogram
	if q := h.quantile(0.5); q != 0 {
		t.Errorf("median of nothing is %v", q)
	}
	for i := range int64(1000) {
		part.add((i + 1) * 1000)
	}
	h.join(&part)
	for _, q := range []struct {
		q    float64
		want time.Duration
	}{{0.5, 500e3}, {0.9, 900e3}, {0.99, 990e3}, {0.999, 999e3}, {1, 1000e3}} {
		got := h.quantile(q.q)
		if got < q.want || got > q.want+q.want/histogramParts {
			t.Errorf("quantile %v of 1..1000 µs is %v", q.q, got)
		}
	}
	if h.max.Load() != 1_000_000 || h.quantile(1) != time.Millisecond {
		t.Errorf("largest is %v, %v", h.max.Load(), h.quantile(1))
	}
}

func TestHistogramAllocatesNothing(t *testing.T) {
	var h histogram
	if n := testing.AllocsPerRun(100, func() { h.add(12345) }); n != 0 {
		t.Errorf("%v allocations a time", n)
	}
}
