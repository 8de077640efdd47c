package records

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// A record keeps its kinds of state. An earlier version that does not know locks as a kind of their own reads it, and writes
// it anew with all eight bits of kinds that it has read. That record does not say any more whether the client held locks.
func TestEarlierVersionLeavesNoRecordThatDeniesLocks(t *testing.T) {
	held := func(put []byte) state.Held {
		c := content{all: make(map[key]state.Record)}
		must(t, c.apply(put))
		return c.list()[0].Held
	}
	for _, kinds := range []state.Held{
		0, state.HeldOpens, state.HeldOpens | state.HeldApart, state.HeldOpens | state.HeldDenials | state.HeldApart,
		state.HeldOpens | state.HeldLocks | state.HeldApart, state.HeldOpens | state.HeldDenials | state.HeldLocks | state.HeldApart,
	} {
		t.Run(fmt.Sprint(kinds), func(t *testing.T) {
			put := appendPut(nil, &state.Record{Owner: "client", Held: kinds})
			if got := held(put); got != kinds {
				t.Errorf("it is read as %b", got)
			}
			flags := put[len(put)-4:] // the flags come last
			before := binary.BigEndian.Uint32(flags)
			binary.BigEndian.PutUint32(flags, before&0xff|uint32(uint8(before>>8))<<8)
			if got := held(put); got != kinds&^state.HeldApart {
				t.Errorf("after the earlier version it is read as %b", got)
			}
			binary.BigEndian.PutUint32(flags, before&0xffff|1<<11)
			if got := held(put); got&state.HeldApart != 0 {
				t.Error("the flag in one of those bits counts")
			}
		})
	}
}
