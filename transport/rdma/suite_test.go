package rdma

import (
	"fmt"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
)

// What must hold of calls over any transport holds of ours, in memory and over the
// software RNIC, with the smallest messages and with the usual ones.
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
	} {
		for _, inline := range []int{1024, 4096} {
			t.Run(fmt.Sprintf("%s T=%d", device.name, inline), func(t *testing.T) {
				b := newBench(t, benchConfig{device: device.make(t), server: Config{InlineSend: inline, InlineReceive: inline}})
				rpctest.Suite(t, b.rpc, b.program, func(t *testing.T) rpc.Caller {
					return b.dial(DialConfig{InlineSend: inline, InlineReceive: inline})
				})
			})
		}
	}
}
