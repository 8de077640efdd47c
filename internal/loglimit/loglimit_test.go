package loglimit

import (
	"testing"
	"time"
)

const every, most = 10 * time.Second, 128

// There is at most one line about a key in a period. The next line reports how many were left out
// before it. If there are very many keys, some cause no line, but a later line counts them.
func TestOneLineInAPeriod(t *testing.T) {
	l := Limit[int]{Every: every, Most: most}
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
	l = Limit[int]{Every: every, Most: most}
	lines := 0
	for i := range 5000 {
		if _, due := l.Due(i, now); due {
			lines++
		}
	}
	if lines != most || len(l.lines) != most {
		t.Errorf("%d lines about 5,000 keys, %d remembered", lines, len(l.lines))
	}
	if leftOut, due := l.Due(1, now.Add(every)); leftOut != 5000-most || !due {
		t.Errorf("later: %d, %v", leftOut, due)
	}
	if l.Due(5000, now.Add(every)); len(l.lines) != 2 {
		t.Errorf("%d keys are remembered after their time", len(l.lines))
	}
}

// Each event either causes a line or is counted in a later one (leftOut). Memory does not grow with
// the number of keys.
func TestLinesStandForAllThatWereLeftOut(t *testing.T) {
	l := Limit[int]{Every: every, Most: most}
	now := time.Now()
	lines, stoodFor, asked := 0, 0, 0
	ask := func(key int) bool {
		asked++
		leftOut, due := l.Due(key, now)
		if due {
			lines++
			stoodFor += 1 + leftOut
		}
		return due
	}
	if !ask(1) {
		t.Error("the first makes no line")
	}
	for range 99 {
		if ask(1) {
			t.Error("one at once after another makes a line")
		}
	}
	if !ask(2) {
		t.Error("the first of another key makes no line")
	}
	now = now.Add(every)
	if leftOut, due := l.Due(1, now); !due || leftOut != 99 {
		t.Errorf("after a while: %v, for %d others", due, leftOut)
	}
	asked, stoodFor = asked+1, stoodFor+100
	now = now.Add(every)
	lines = 0
	for i := range 5000 {
		ask(100 + i)
	}
	if lines > most || len(l.lines) > most {
		t.Errorf("5000 keys made %d lines, and %d are remembered", lines, len(l.lines))
	}
	now = now.Add(every)
	if !ask(100_000) {
		t.Error("a new key makes no line after a while")
	}
	if stoodFor != asked {
		t.Errorf("lines stand for %d of %d", stoodFor, asked)
	}
}
