package rdma

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
)

// Both versions over the software RNIC, as a ratio of their rates: above 1, version 2 is faster. The versions take
// turns, and the ratio is the median of several turns. A second ratio is that of the processor time, because it
// depends less on what else the machine does. The replies of 12000 bytes are a little too long for a Send: for those
// version 1 needs a Reply chunk, and version 2 sends parts. Version 1 needs that chunk also for a short reply that
// might be as long. The long calls have 6000 bytes, none of which may be placed, as under the privacy service of
// RPCSEC_GSS: version 1 needs a Position-Zero chunk for them.
func BenchmarkVersions(b *testing.B) {
	benchVersions(b, func(b *testing.B) (rdmacm.Provider, netip.Addr) { return newIwarp(b), netip.Addr{} })
}

// benchVersions compares the versions over the device that open returns. The server has the address that open
// returns, or if that is the zero value, an address of the loopback interface.
func benchVersions(b *testing.B, open func(b *testing.B) (rdmacm.Provider, netip.Addr)) {
	long := pattern(6000)
	for _, c := range []struct {
		name     string
		exchange func() *rpc.Exchange
	}{
		{"NULL", null},
		{"12000", func() *rpc.Exchange { return getTo(12000) }},
		{"200of12000", func() *rpc.Exchange {
			x := getTo(200)
			x.MaxResults = 12004
			return x
		}},
		{"long calls", func() *rpc.Exchange { return putOf(long) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			device, address := open(b)
			var clients [2]*Client
			for i := range clients {
				bench := newBench(b, benchConfig{device: device, address: address, server: Config{Version2: i == 1}})
				clients[i] = bench.dial(DialConfig{Version2: i == 1, NoPlacement: true})
				if err := do(b, clients[i], exchangeFor(rpctest.NULL, nil), nil); err != nil {
					b.Fatal(err)
				}
			}
			const turns = 5
			var rates, works [turns]float64
			b.ReportAllocs()
			b.ResetTimer()
			for turn := range turns {
				var took, work [2]time.Duration
				for i, k := range clients {
					began, worked := time.Now(), processorTime(b)
					runCalls(b, k, 16, max(16, b.N/turns/2), c.exchange)
					took[i], work[i] = time.Since(began), processorTime(b)-worked
				}
				rates[turn] = float64(took[0]) / float64(took[1])
				works[turn] = float64(work[0]) / float64(max(1, work[1]))
			}
			b.StopTimer()
			slices.Sort(rates[:])
			slices.Sort(works[:])
			b.ReportMetric(rates[turns/2], "v2/v1")
			b.ReportMetric(works[turns/2], "v2/v1-by-processor")
		})
	}
}

// processorTime returns the processor time that this process has used.
func processorTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
