package soak

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// latencies are the durations of honest clients' actions: a random sample of them, and the
// longest.
type latencies struct {
	mu      sync.Mutex
	sample  []time.Duration
	count   int
	longest time.Duration
	next    uint64
}

// sampled is the largest number of durations in the sample.
const sampled = 1 << 16

func (l *latencies) add(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	l.longest = max(l.longest, d)
	if len(l.sample) < sampled {
		l.sample = append(l.sample, d)
		return
	}
	// Each duration has the same chance to be in the sample, as in Vitter's algorithm R. The
	// random numbers are a linear congruential sequence.
	l.next = l.next*6364136223846793005 + 1442695040888963407
	if i := int(l.next>>33) % l.count; i < sampled {
		l.sample[i] = d
	}
}

func (l *latencies) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count == 0 {
		return "nothing"
	}
	all := slices.Sorted(slices.Values(l.sample))
	at := func(part float64) time.Duration {
		return all[int(part*float64(len(all)-1))].Round(10 * time.Microsecond)
	}
	return fmt.Sprintf("%d answered: p50 %v, p99 %v, p99.9 %v, longest %v", l.count, at(.5), at(.99), at(.999), l.longest.Round(time.Millisecond))
}
