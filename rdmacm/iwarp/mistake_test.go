package iwarp

import (
	"errors"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/census"
	"github.com/nfsrdmad/nfsrdmad/internal/doorway"
	"github.com/nfsrdmad/nfsrdmad/internal/seats"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/rawpeer"
)

// If a peer does not speak MPA, the event names what it speaks. Its connection stays open for a while,
// so that it does not come back at once, but only until its seat is needed.
func TestPeerAtTheWrongPort(t *testing.T) {
	events := make(chan rdmacm.Event, 10)
	c := census.New(census.Config{Seats: 1})
	defer c.Close()
	l := listen(t, provider(t, Config{SetupTimeout: time.Hour, Seats: seats.Of(c), Event: func(e rdmacm.Event) { events <- e }}))
	const rpcNull = "80000028 00000001 00000000 00000002 000186a3 00000003 00000000 00000000 00000000 00000000 00000000"
	raw := rawpeer.Dial(t, l.Addr())
	raw.WriteHex(rpcNull)
	raw.ReadEnd()
	e := wait(t, events)
	if m, is := errors.AsType[*doorway.Mistake](e.Err); !is || m.Speaks != doorway.RPC || e.Kind != rdmacm.EventSetupFailed {
		t.Errorf("event %v: %v", e.Kind, e.Err)
	}
	raw = rawpeer.Dial(t, l.Addr())
	raw.WriteHex(rpcNull)
	next := rawpeer.Dial(t, l.Addr())
	raw.ReadEnd()
	if e := wait(t, events); e.Kind != rdmacm.EventSetupFailed || !errors.Is(e.Err, census.Evicted) {
		t.Errorf("event %v: %v", e.Kind, e.Err)
	}
	next.CloseWrite()
	wait(t, events)
}
