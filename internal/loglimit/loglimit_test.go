package loglimit

import (
	"testing"
	"time"
)

const every = 10 * time.Second

// There is at most one line about a key in a period. The next line reports how many were left out
// before it.
func TestOneLineInAPeriod(t *testing.T) {
	l := Limit[int]{Every: every}
	now := time.Unix(1000, 0)
	for i, step := range []struct {
		key     int
		after   time.Duration
		leftOut int
		due     bool
	}{
		{1, 0, 0, true},
		{1, time.Second, 0, false},
		{2, 0, 0, true},
		{1, 8 * time.Second, 0, false},
		{1, time.Second, 2, true},
		{1, 20 * time.Second, 0, true},
	} {
		now = now.Add(step.after)
		if leftOut, due := l.Due(step.key, now); leftOut != step.leftOut || due != step.due {
			t.Errorf("step %d: %d, %v", i, leftOut, due)
		}
	}
}
