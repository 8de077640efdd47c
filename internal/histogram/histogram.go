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

// Since returns what was counted since an earlier Snapshot of the same Histograms.
func (s *Snapshot) Since(before *Snapshot) Snapshot {
	d := Snapshot{took: s.took - before.took}
	for i := range s.n {
		d.n[i] = s.n[i] - min(before.n[i], s.n[i])
	}
	return d
}

// Quantile returns a duration that the part q of all durations does not exceed, as if those of each bucket lay evenly between
// its bounds. It is 0 if there are none, and the last bound for a duration beyond all bounds.
func (s *Snapshot) Quantile(q float64) time.Duration {
	rank, from := q*float64(s.Count()), 0.0
	for i, n := range s.n[:bound] {
		if n > 0 && from+float64(n) >= rank {
			low, high := 0.0, float64(uint64(1)<<(least+i))
			if i > 0 {
				low = high / 2
			}
			return time.Duration(low + (high-low)*(rank-from)/float64(n))
		}
		from += float64(n)
	}
	if s.n[bound] == 0 {
		return 0
	}
	return 1 << most
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
