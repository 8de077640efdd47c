package rdma

import (
	"fmt"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
)

// Both versions over the software RNIC: a short call, and a reply that is a little too long for a Send. For that
// one, version 1 needs a Reply chunk, and version 2 sends parts.
func BenchmarkVersions(b *testing.B) {
	for name, exchange := range map[string]func() *rpc.Exchange{
		"NULL": null, "GET 12000": func() *rpc.Exchange { return getTo(12000) },
	} {
		for _, version2 := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s version2=%v", name, version2), func(b *testing.B) {
				bench := newBench(b, benchConfig{device: newIwarp(b), server: Config{Version2: version2}})
				c := bench.dial(DialConfig{Version2: version2})
				if err := do(b, c, exchangeFor(rpctest.NULL, nil), nil); err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				b.ResetTimer()
				depth(b, c, 16, exchange)
				b.StopTimer()
			})
		}
	}
}
