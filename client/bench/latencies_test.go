package bench

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A reported latency is never less than the real one, and at most 1/100 more.
func TestLatenciesPrecision(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(longest)).Draw(t, "ns"))
		l := newLatencies()
		l.add(d)
		l.add(longest) // so that the largest value does not limit the median
		if got := l.percentile(50); got < d || got > d+d/100 {
			t.Fatalf("%v is said to be %v", d, got)
		}
	})
}

// A time beyond the range counts as the longest, and Max is exact.
func TestLatenciesRange(t *testing.T) {
	l := newLatencies()
	if s := l.summary(); s != (Latency{}) {
		t.Errorf("nothing measured is %+v", s)
	}
	l.add(-1)
	l.add(10 * longest)
	if s := l.summary(); s.P50 != 0 || s.P999 < longest || s.Max != 10*longest {
		t.Errorf("%+v", s)
	}
}

func TestLatenciesPercentiles(t *testing.T) {
	all, part := newLatencies(), newLatencies()
	for i := range 1000 {
		part.add(time.Duration(i+1) * time.Microsecond)
	}
	all.merge(part)
	s := all.summary()
	for _, p := range []struct{ got, want time.Duration }{
		{s.P50, 500 * time.Microsecond}, {s.P90, 900 * time.Microsecond}, {s.P99, 990 * time.Microsecond}, {s.P999, 999 * time.Microsecond},
	} {
		if p.got < p.want || p.got > p.want+p.want/100 {
			t.Errorf("%v instead of %v", p.got, p.want)
		}
	}
	if s.Max != time.Millisecond || all.percentile(100) != time.Millisecond {
		t.Errorf("the longest is %v, and 100 percent do not exceed %v", s.Max, all.percentile(100))
	}
}

func TestLatenciesAllocateNothing(t *testing.T) {
	l := newLatencies()
	if n := testing.AllocsPerRun(100, func() { l.add(12345) }); n != 0 {
		t.Errorf("%v allocations a time", n)
	}
}
