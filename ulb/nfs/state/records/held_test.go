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

// A record keeps the kinds of state that a host may reclaim in spite of a revocation. An earlier version, which drops all
// flags above those of kinds, leaves a revocation of all.
func TestEarlierVersionLeavesARevocationOfAll(t *testing.T) {
	for kept := range state.HeldApart {
		put := appendPut(nil, &state.Record{Owner: "host", Held: state.HeldOpens | state.HeldLocks | state.HeldApart, Revoked: true, Kept: kept})
		read := func() state.Record {
			c := content{all: make(map[key]state.Record)}
			must(t, c.apply(put))
			return c.list()[0]
		}
		if r := read(); r.Kept != kept || !r.Revoked || r.Held != state.HeldOpens|state.HeldLocks|state.HeldApart {
			t.Errorf("%b is read as %+v", kept, r)
		}
		flags := put[len(put)-4:]
		binary.BigEndian.PutUint32(flags, binary.BigEndian.Uint32(flags)&0xffff)
		if r := read(); r.Kept != 0 || !r.Revoked {
			t.Errorf("after the earlier version, %b is read as %+v", kept, r)
		}
	}
}
