package iwarp

import (
	"runtime"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/internal/census"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/test/footprint"
)

// idle connects n pairs of connections. Each pair has carried a message both ways, and has
// promised 128 receives of 4096 bytes at either end. idle returns the memory of one connection in
// bytes: heap and stacks, including the runtime's memory for its socket.
func idle(tb testing.TB, n int) float64 {
	tb.Helper()
	used := func() uint64 {
		runtime.GC()
		runtime.GC() // the second collection frees the contents of pools
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	type end struct {
		c rdmacm.Conn
		h *tester
	}
	var ends []end
	p := provider(tb, Config{})
	before := used()
	for range n {
		ha, hb := &tester{closed: make(chan error, 1)}, &tester{closed: make(chan error, 1)}
		got := make(chan struct{}, 1)
		take := func(r *rdmacm.Recv) { r.Release(); got <- struct{}{} }
		ha.on(take)
		hb.on(take)
		a, b := pairOf(tb, p, ha, hb)
		post(a, send([]byte("there")))
		wait(tb, got)
		post(b, send([]byte("back")))
		wait(tb, got)
		ends = append(ends, end{a, ha}, end{b, hb})
	}
	after := used()
	for _, e := range ends {
		e.c.Disconnect()
	}
	for _, e := range ends {
		wait(tb, e.h.closed)
	}
	return float64(after-before) / float64(2*n)
}

// An idle connection keeps no ring, no batch and no receive buffer: it costs only itself and one
// goroutine.
func TestIdleConnectionIsSmall(t *testing.T) {
	if raceEnabled {
		t.Skip("what a connection keeps is looked at beside its goroutine")
	}
	p := provider(t, Config{})
	ha, hb := newTester(), newTester()
	before := runtime.NumGoroutine()
	a, b := pairOf(t, p, ha, hb)
	payload := make([]byte, 4000)
	for range 3 {
		there, back := post(a, send(payload)), post(b, send(payload))
		wait(t, hb.received)
		wait(t, ha.received)
		good(t, there)
		good(t, back)
	}
	for name, c := range map[string]rdmacm.Conn{"initiator": a, "responder": b} {
		await.Until(t, name+" keeps no more than 4 KiB", func() bool {
			n := footprint.Of(c, (*Provider)(nil), (*tester)(nil), (*census.Seat)(nil))
			t.Logf("%s: %d bytes", name, n)
			return n <= 4<<10
		})
	}
	await.Until(t, "each has one goroutine", func() bool { return runtime.NumGoroutine() <= before+2 })
	a.Disconnect()
	wait(t, ha.closed)
	wait(t, hb.closed)
}

// BenchmarkIdle reports the memory of idle connections.
func BenchmarkIdle(b *testing.B) {
	for b.Loop() {
		b.ReportMetric(idle(b, 500), "B/conn")
	}
}

// In steady state no operation of any kind allocates.
func TestOperationsDoNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools forget")
	}
	ha, hb := newTester(), newTester()
	gotA, gotB := make(chan struct{}, 10), make(chan struct{}, 10)
	ha.on(func(r *rdmacm.Recv) { r.Release(); gotA <- struct{}{} })
	hb.on(func(r *rdmacm.Recv) { r.Release(); gotB <- struct{}{} })
	a, b := pair(t, Config{}, ha, hb)
	memory, local := make([]byte, 100_000), make([]byte, 100_000)
	r, err := b.Register(memory, rdmacm.RemoteRead|rdmacm.RemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	there := &rdmacm.Chain{
		Work: []rdmacm.Work{read(r.STag(), r.Offset(), local), write(r.STag(), r.Offset(), local), send(local[:100], local[200:300])},
		Done: func(_ *rdmacm.Chain, err error, _ int) { done <- err },
	}
	short := [][]byte{local[:100], local[200:300]}
	back := &rdmacm.Chain{Work: []rdmacm.Work{send(local[:4000])}, Done: func(*rdmacm.Chain, error, int) {}}
	n := testing.AllocsPerRun(200, func() {
		b.Provide(1, 4096)
		a.Provide(1, 4096)
		a.Post(there)
		<-gotB
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		b.Post(back)
		<-gotA
		b.Provide(1, 4096)
		if !a.SendShort(short, 0) {
			t.Fatal("a short Send is not taken")
		}
		<-gotB
	})
	// The runtime allocates now and then, for goroutines and pools.
	if n > 1 {
		t.Errorf("%v allocations for a Read, a Write and three Sends", n)
	}
	a.Disconnect()
	wait(t, ha.closed)
	wait(t, hb.closed)
}
