package iwarp

import (
	"errors"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// IW-96, IW-97, IW-98, IW-102: a peer may access the registered memory from its first to its last
// byte, and nothing outside.
func TestReachOfARegion(t *testing.T) {
	const base, length = 4096, 100
	s := new(regions)
	r := &region{owner: s, base: base, length: length, access: rdmacm.RemoteRead}
	for what, c := range map[string]struct {
		offset uint64
		n      int
		want   wire.Cause
	}{
		"all":                        {base, length, none},
		"the last byte":              {base + length - 1, 1, none},
		"nothing, at the end":        {base + length, 0, none},
		"one byte below the base":    {base - 1, 1, wire.RDMAPBounds},
		"from below the base on":     {base - 1, length, wire.RDMAPBounds},
		"offset 0":                   {0, 1, wire.RDMAPBounds},
		"one byte beyond the end":    {base, length + 1, wire.RDMAPBounds},
		"the byte behind the end":    {base + length, 1, wire.RDMAPBounds},
		"nothing, behind the end":    {base + length + 1, 0, wire.RDMAPBounds},
		"an offset that wraps":       {1<<64 - 1, 2, wire.RDMAPWrap},
		"up to the end of all bytes": {1<<64 - 1, 1, wire.RDMAPBounds},
	} {
		if got := s.reach(r, c.offset, c.n, rdmacm.RemoteRead, &readCauses); got != c.want {
			t.Errorf("%s: %v, want %v", what, got, c.want)
		}
	}
}

// A connection that has ended registers no memory, whether it had registered any before or not.
func TestNothingIsExposedBehindTheEnd(t *testing.T) {
	for _, before := range []int{0, 1} {
		ha, hb := newTester(), newTester()
		a, b := pair(t, Config{}, ha, hb)
		for range before {
			if _, err := a.Register(make([]byte, 10), rdmacm.RemoteRead); err != nil {
				t.Fatal(err)
			}
		}
		a.Disconnect()
		wait(t, ha.closed)
		if r, err := a.Register(make([]byte, 10), rdmacm.RemoteRead); !errors.Is(err, rdmacm.ErrClosed) {
			t.Errorf("behind the end, %d regions before: %v, %v", before, r, err)
		}
		b.Disconnect()
		wait(t, hb.closed)
	}
}
