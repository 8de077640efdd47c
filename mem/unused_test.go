package mem

import (
	"fmt"
	"testing"
	"testing/synctest"
)

// A crowd that has waited once, of many sites or of one, leaves a bounded number of elements for reuse, and no large
// map or slice.
func TestACrowdThatHasWaitedLeavesLittle(t *testing.T) {
	for _, size := range []int{mib, PageSize} {
		for _, sites := range []int{2 * mostUnused, 1} {
			t.Run(fmt.Sprintf("%d bytes, %d sites", size, sites), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { leavesLittle(t, size, sites) }) // no tick serves others
			})
		}
	}
}

func leavesLittle(t *testing.T, size, sites int) {
	p := configured(t, Config{Ceiling: 64 * mib})
	g := p.NewGroup()
	place := &g.waiting
	held := fill(t, p, mib)
	if size == PageSize {
		place = &g.small
		for b, ok := p.NewShare().TryGet(PageSize); ok; b, ok = p.NewShare().TryGet(PageSize) {
			held = append(held, b)
		}
	}
	var waiting []*wish
	for i := range 2 * mostUnused {
		waiting = append(waiting, ask(p.OpenShare(manyOf(i, sites), nil), g, "waits", size, nil))
	}
	if len(place.rows) != sites {
		t.Fatalf("%d sites wait, want %d", len(place.rows), sites)
	}
	audited(t, p)
	release(held)
	drain(t, p, waiting)
	if len(place.rows) > 0 || sites > mostUnused && place.rows != nil {
		t.Error("the map of rows is kept")
	}
	if q, c, r := len(p.unusedQueues), len(p.unusedClientQueues), len(p.unusedRows); max(q, c, r) > mostUnused || min(q, c, r) == 0 {
		t.Errorf("kept for reuse: %d queues, %d queues of clients, %d rows", q, c, r)
	}
	for _, r := range p.unusedRows {
		if cap(r.clients) > mostUnusedClients {
			t.Errorf("an unused row has room for %d clients", cap(r.clients))
		}
	}
}
