package client

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// A histogram counts times by powers of two, each cut into histogramParts: what
// it says is never less than what was measured, and at most 1/histogramParts
// more. Add may be called from many goroutines.
type histogram struct {
	counts [histogramSize]atomic.Uint64
	max    atomic.Int64
}

const (
	histogramBits  = 6
	histogramParts = 1 << histogramBits
	// histogramTop is the longest time that is told apart: 2^42 ns, an hour.
	histogramTop  = 42
	histogramSize = (histogramTop - histogramBits + 1) << histogramBits
)

// bucket is where a time of ns is counted.
func bucket(ns int64) int {
	v := uint64(max(ns, 0))
	if v < histogramParts {
		return int(v)
	}
	e := bits.Len64(v) - histogramBits - 1
	return min(e<<histogramBits+int(v>>e), histogramSize-1)
}

// bucketTop is the longest time that is counted in bucket i.
func bucketTop(i int) int64 {
	if i < histogramParts {
		return int64(i)
	}
	e := i>>histogramBits - 1
	return (int64(i-e<<histogramBits)+1)<<e - 1
}

func (h *histogram) add(ns int64) {
	h.counts[bucket(ns)].Add(1)
	for {
		m := h.max.Load()
		if ns <= m || h.max.CompareAndSwap(m, ns) {
			return
		}
	}
}

// join adds what o counted.
func (h *histogram) join(o *histogram) {
	for i := range o.counts {
		if n := o.counts[i].Load(); n > 0 {
			h.counts[i].Add(n)
		}
	}
	if m := o.max.Load(); m > h.max.Load() {
		h.max.Store(m)
	}
}

// quantile is the time that a share q of all does not exceed.
func (h *histogram) quantile(q float64) time.Duration {
	var total uint64
	for i := range h.counts {
		total += h.counts[i].Load()
	}
	if total == 0 {
		return 0
	}
	rank := max(uint64(q*float64(total)+0.999999), 1)
	for i := range h.counts {
		n := h.counts[i].Load()
		if n >= rank {
			return time.Duration(min(bucketTop(i), h.max.Load()))
		}
		rank -= n
	}
	return time.Duration(h.max.Load())
}
