package histogram

import (
	"testing"
	"time"
)

// A quantile lies in the bucket of the duration that it stands for, and counts only what came since the earlier Snapshot.
func TestQuantileSinceAnEarlierSnapshot(t *testing.T) {
	var h Histogram
	for range 1000 {
		h.Add(time.Second)
	}
	var before, now Snapshot
	before.Add(&h)
	if d := before.Since(&before); d.Count() != 0 || d.Quantile(0.5) != 0 {
		t.Errorf("of nothing: %v", d.Quantile(0.5))
	}
	for range 98 {
		h.Add(100 * time.Microsecond)
	}
	for range 2 {
		h.Add(10 * time.Millisecond)
	}
	now.Add(&h)
	d := now.Since(&before)
	if d.Count() != 100 || d.Sum() != 98*100*time.Microsecond+20*time.Millisecond {
		t.Errorf("%d durations, %v in all", d.Count(), d.Sum())
	}
	if q := d.Quantile(0.5); q < 65536 || q > 131072 {
		t.Errorf("the median is %v", q)
	}
	if q := d.Quantile(0.99); q < 1<<23 || q > 1<<24 {
		t.Errorf("the 99th percentile is %v", q)
	}
	h.Add(time.Hour)
	now.Add(&h)
	if q := now.Quantile(1); q != 1<<most {
		t.Errorf("beyond all bounds: %v", q)
	}
}
