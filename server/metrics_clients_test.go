package server

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// Whatever clients do, and whichever of them are forgotten: no value decreases while it is shown, all values together are
// what all clients have used, and there are no more values than the bound says.
func TestValuesOfClientsNeverDecrease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		var top topClients
		clients := make(map[netip.Addr]rpc.Use)
		var forgotten, all rpc.Use
		before := make(map[string]*clientUse)
		gone := uint64(0) // calls in values that are not shown any more
		for range 2000 {
			for range random.IntN(200) {
				a := netip.AddrFrom4([4]byte{10, 0, 0, byte(random.ExpFloat64() * 40)})
				use, more := clients[a], rpc.Use{Calls: uint64(random.IntN(10)), Read: uint64(random.IntN(1 << 20)), Took: time.Millisecond}
				add(&use, more)
				add(&all, more)
				use.Connections = random.IntN(4)
				clients[a] = use
			}
			if random.IntN(10) == 0 {
				for a, use := range clients {
					add(&forgotten, use)
					delete(clients, a)
					break
				}
			}
			time.Sleep(time.Minute)
			shown := top.update(func() (map[netip.Addr]rpc.Use, rpc.Use) { return clients, forgotten })
			if len(shown) > shownClients+1 {
				t.Fatalf("%d values", len(shown))
			}
			calls, connections := uint64(0), 0
			for _, use := range clients {
				connections -= use.Connections
			}
			for name, use := range shown {
				calls += use.Calls
				connections += use.Connections
				if was := before[name]; was != nil && (use.Calls < was.Calls && use.Calls > 0 || use.Read < was.Read && use.Read > 0) {
					t.Fatalf("%s decreased: %+v, %+v", name, *was, *use)
				}
			}
			if connections != 0 {
				t.Fatalf("the values have %d connections too many", connections)
			}
			for name, was := range before {
				if is := shown[name]; is == nil || is.Calls < was.Calls {
					gone += was.Calls
				}
			}
			if calls+gone != all.Calls {
				t.Fatalf("%d calls are shown and %d were, but there were %d", calls, gone, all.Calls)
			}
			before = shown
		}
	})
}

// The clients that use most have values, and one that uses little more than another does not take its place.
func TestClientsThatUseMostAreShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var top topClients
		use := func(perMinute map[int]uint64) {
			clients := make(map[netip.Addr]rpc.Use)
			for range 60 {
				for i, n := range perMinute {
					a := netip.MustParseAddr(fmt.Sprintf("192.0.2.%d", i))
					u := top.before[a]
					u.Calls += n
					clients[a] = u
				}
				time.Sleep(time.Minute)
				top.update(func() (map[netip.Addr]rpc.Use, rpc.Use) { return clients, rpc.Use{} })
			}
		}
		calls := make(map[int]uint64)
		for i := range shownClients + 8 {
			calls[i] = uint64(100 + i)
		}
		use(calls)
		shown := func(i int) bool { return top.named[netip.MustParseAddr(fmt.Sprintf("192.0.2.%d", i))] != nil }
		if shown(7) || !shown(8) || !shown(shownClients+7) {
			t.Errorf("these are shown: %v", top.named)
		}
		calls[0] = 180 // less than twice as much as any that is shown
		use(calls)
		if shown(0) {
			t.Error("a client that uses little more has taken a place")
		}
		calls[0] = 1000
		use(calls)
		if !shown(0) || shown(8) {
			t.Errorf("these are shown: %v", top.named)
		}
	})
}
