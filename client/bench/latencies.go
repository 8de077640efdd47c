package bench

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// longest is the longest time that latencies can record.
const longest = time.Hour

// digits is the number of significant decimal digits of a recorded time. So a reported time is at
// most 1/100 more than the measured one, and never less.
const digits = 2

// latencies records the durations of operations. Many goroutines may call add, because several
// may take the replies of one connection.
type latencies struct {
	mu    sync.Mutex
	times *hdrhistogram.Histogram
	max   time.Duration
}

func newLatencies() *latencies {
	return &latencies{times: hdrhistogram.New(1, int64(longest), digits)}
}

func (l *latencies) add(d time.Duration) {
	l.mu.Lock()
	_ = l.times.RecordValue(int64(min(max(d, 0), longest))) // the duration is within the histogram's range, so this cannot fail
	l.max = max(l.max, d)
	l.mu.Unlock()
}

// merge adds the durations that its argument has recorded.
func (l *latencies) merge(from *latencies) {
	from.mu.Lock()
	defer from.mu.Unlock()
	l.times.Merge(from.times)
	l.max = max(l.max, from.max)
}

// percentile returns the time that p percent of all operations did not exceed.
func (l *latencies) percentile(p float64) time.Duration {
	return min(time.Duration(l.times.ValueAtPercentile(p)), l.max)
}

func (l *latencies) summary() Latency {
	return Latency{
		P50: l.percentile(50), P90: l.percentile(90), P99: l.percentile(99), P999: l.percentile(99.9),
		Max: l.max,
	}
}
