package rdma

import (
	"testing"

	"pgregory.net/rapid"
)

// The table of pending calls behaves like a map by XID, for any XIDs.
func TestPendingIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p pending
		want := make(map[uint32]*exchange)
		next := rapid.Uint32().Draw(t, "first")
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			next++
			xid := next - rapid.SampledFrom([]uint32{0, 1, 2, 5, pendingSlots, pendingSlots + 1, 2 * pendingSlots}).Draw(t, "ago")
			if got := p.of(xid); got != want[xid] {
				t.Fatalf("%#x is %v, not %v", xid, got, want[xid])
			}
			if want[xid] == nil {
				e := &exchange{xid: xid}
				p.insert(e)
				want[xid] = e
			} else {
				p.remove(xid)
				delete(want, xid)
			}
		}
		if p.n != len(want) {
			t.Fatalf("%d calls, not %d", p.n, len(want))
		}
		for e := range p.all {
			if want[e.xid] != e {
				t.Fatalf("%#x is there", e.xid)
			}
			p.remove(e.xid)
			delete(want, e.xid)
		}
		if len(want) > 0 || p.n != 0 {
			t.Fatalf("%d calls are left out, %d left behind", len(want), p.n)
		}
	})
}
