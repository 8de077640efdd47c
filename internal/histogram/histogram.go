// Package histogram counts durations on the way of a call. To add one costs two atomic additions, without a lock and
// without an allocation. The bounds are powers of two, so that a duration's bucket is found in its number of bits.
package histogram

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// The bounds go from 2^least nanoseconds (4.096 us) to 2^most (17.2 s).
const (
	least = 12
	most  = 34
	bound = most - least + 1 // number of bounds
)

// A Histogram counts durations. The zero value is ready. All goroutines may use it.
type Histogram struct {
	n           [bound + 1]atomic.Uint64 // the last is that of the durations beyond all bounds
	nanoseconds atomic.Uint64
}

// Add counts a duration. A negative one counts as 0.
func (h *Histogram) Add(d time.Duration) {
	d = max(d, 0)
	k := bits.Len64(uint64(max(d, 1) - 1)) // 2^(k-1) < d <= 2^k
	h.n[min(max(k, least)-least, bound)].Add(1)
	h.nanoseconds.Add(uint64(d))
}

// A Snapshot has what one or more Histograms have counted. The zero value has nothing.
type Snapshot struct {
	n    [bound + 1]uint64
	took time.Duration
}

// Add adds what h has counted. A duration that is counted meanwhile may be missing in the sum of all durations.
func (s *Snapshot) Add(h *Histogram) {
	s.took += time.Duration(h.nanoseconds.Load())
	for i := range h.n {
		s.n[i] += h.n[i].Load()
	}
}

// Merge adds what another Snapshot has.
func (s *Snapshot) Merge(of *Snapshot) {
	s.took += of.took
	for i, n := range of.n {
		s.n[i] += n
	}
}

// Count is the number of durations.
func (s *Snapshot) Count() (n uint64) {
	for _, k := range s.n {
		n += k
	}
	return n
}

// Sum is the sum of all durations.
func (s *Snapshot) Sum() time.Duration { return s.took }

// Buckets returns, for each bound in seconds, the number of durations that are not longer.
func (s *Snapshot) Buckets() map[float64]uint64 {
	all := make(map[float64]uint64, bound)
	var n uint64
	for i := range bound {
		n += s.n[i]
		all[time.Duration(1<<(least+i)).Seconds()] = n
	}
	return all
}
