package collector

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/await"
)

func TestPercent(t *testing.T) {
	for _, c := range []struct {
		is   int
		heap uint64
		want int
	}{{100, 0, 100}, {100, largeHeap, 100}, {100, largeHeap + 1, 30}, {30, smallHeap, 30}, {30, smallHeap - 1, 100}} {
		if p := percent(c.is, c.heap); p != c.want {
			t.Errorf("%d bytes, at %d %%: %d %%, want %d", c.heap, c.is, p, c.want)
		}
	}
}

// A heap that grows is collected more often, and less often when it is small again.
func TestTune(t *testing.T) {
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(smallPercent)
	defer debug.SetGCPercent(before)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		Tune(ctx)
	}()
	large := make([]byte, 2*largeHeap)
	becomes(t, largePercent)
	runtime.KeepAlive(large)
	large = nil
	becomes(t, smallPercent)
	stop()
	<-ended
}

// GOGC is the user's.
func TestTuneLeavesGOGC(t *testing.T) {
	t.Setenv("GOGC", "77")
	Tune(context.Background()) // it returns
}

// becomes waits until the setting is want.
func becomes(t *testing.T, want int) {
	t.Helper()
	s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	await.Until(t, "the setting", func() bool {
		runtime.GC()
		metrics.Read(s)
		return int(s[0].Value.Uint64()) == want
	})
}
