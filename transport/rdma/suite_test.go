package rdma

import (
	"fmt"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
)

// The rules for calls over any transport hold for this one, in memory and over the software RNIC,
// with the smallest messages and with the usual ones.
func TestSuite(t *testing.T) {
	for _, device := range []struct {
		name string
		make func(testing.TB) rdmacm.Provider
	}{
		{"memory", func(testing.TB) rdmacm.Provider { return nil }},
		{"short Sends", func(testing.TB) rdmacm.Provider {
			return rdmatest.NewConfig(rdmatest.Config{ShortSends: true})
		}},
		{"iwarp", newIwarp},
		{"verbs", newVerbs},
	} {
		for _, inline := range []int{1024, 4096} {
			for _, version2 := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s T=%d version2=%v", device.name, inline, version2), func(t *testing.T) {
					b := newBench(t, benchConfig{device: device.make(t), server: Config{InlineSend: inline, InlineReceive: inline, Version2: version2}})
					rpctest.Suite(t, b.rpc, b.program, func(t *testing.T) rpc.Caller {
						return b.dial(DialConfig{InlineSend: inline, InlineReceive: inline, Version2: version2})
					})
				})
			}
		}
	}
}

// A Client withstands the races of rpctest.Races while its connections are cut, with and without
// Reconnect.
func TestRaces(t *testing.T) {
	for name, device := range map[string]func(testing.TB) rdmacm.Provider{
		"memory": func(testing.TB) rdmacm.Provider { return rdmatest.NewConfig(rdmatest.Config{Quiet: true}) },
		"iwarp":  newIwarp,
	} {
		for i := range 4 {
			reconnect, version2 := i%2 == 1, i >= 2
			t.Run(fmt.Sprintf("%s reconnect=%v version2=%v", name, reconnect, version2), func(t *testing.T) {
				b := newBench(t, benchConfig{device: device(t), server: Config{RemoteInvalidation: true, Version2: version2}})
				rpctest.Races(t, func(t *testing.T) (rpc.Caller, func()) {
					c := b.dial(DialConfig{Reconnect: reconnect, redial: time.Millisecond, RemoteInvalidation: true, Version2: version2})
					return c, func() {
						for _, k := range b.server.connections() {
							k.device.Abort(nil)
						}
					}
				})
			})
		}
	}
}
