package statuspage

import (
	"context"
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/histogram"
)

// The page shows the last history, from samples that are taken each period.
const (
	period  = 5 * time.Second
	history = 10 * time.Minute
	samples = int(history / period)
)

// A Group is a group of operations of NFS whose durations are shown together.
type Group int

// Reading is READ and READ_PLUS, Writing is WRITE and COMMIT, and Other all other operations.
const (
	Reading Group = iota
	Writing
	Other
	groups
)

// Totals count since the start: calls that ended, bytes of files that clients have read and written, and how long operations took.
type Totals struct {
	Calls, Read, Written uint64
	Took                 [groups]histogram.Snapshot
}

// A point is what happened between two samples: each second, and the durations. A duration is 0 if there was no operation.
type point struct {
	at                   time.Time
	calls, read, written float64
	median, p99          [groups]time.Duration
}

// A sampler has the points of the history.
type sampler struct {
	mu     sync.Mutex
	at     time.Time // of before
	before Totals
	points []point // the oldest first
}

// run takes a sample each period, until ctx ends.
func (s *sampler) run(ctx context.Context, totals func() *Totals) {
	s.add(time.Now(), totals())
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			s.add(now, totals())
		}
	}
}

func (s *sampler) add(now time.Time, t *Totals) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, passed := s.before, now.Sub(s.at).Seconds()
	first := s.at.IsZero()
	s.at, s.before = now, *t
	if first || passed <= 0 {
		return
	}
	rate := func(now, before uint64) float64 { return float64(now-min(before, now)) / passed }
	p := point{at: now, calls: rate(t.Calls, was.Calls), read: rate(t.Read, was.Read), written: rate(t.Written, was.Written)}
	for g := range t.Took {
		took := t.Took[g].Since(&was.Took[g])
		p.median[g], p.p99[g] = took.Quantile(0.5), took.Quantile(0.99)
	}
	if len(s.points) == samples {
		s.points = append(s.points[:0], s.points[1:]...)
	}
	s.points = append(s.points, p)
}

// shown returns the points of the history.
func (s *sampler) shown(now time.Time) (all []point) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.points {
		if now.Sub(p.at) < history {
			all = append(all, p)
		}
	}
	return all
}
