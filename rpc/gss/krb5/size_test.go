package krb5

import (
	"runtime"
	"testing"
)

// A context takes a few kilobytes at most, because the server has tens of thousands of contexts.
func TestAContextTakesFewKilobytes(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector has memory of its own")
	}
	const n, limit, limitSealing = 1000, 2 << 10, 6 << 10
	for _, e := range allETypes {
		held := make([]*context, n)
		k := key{profile: e.profile()}.freshKey()
		start := heap()
		for i := range held {
			held[i] = newContext(k, 0, 0)
		}
		if per := (heap() - start) / n; per > limit {
			t.Errorf("a context of %v takes %d bytes, want %d at most", e, per, limit)
		}
		for _, c := range held {
			wrap(c, text(20), 1)
		}
		if per := (heap() - start) / n; per > limitSealing {
			t.Errorf("a context of %v that sealed takes %d bytes, want %d at most", e, per, limitSealing)
		}
		runtime.KeepAlive(held)
	}
}

// heap returns the memory in use, in bytes.
func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
