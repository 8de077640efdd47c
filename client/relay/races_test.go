package relay_test

import (
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/client/relay"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/test/testserver"
)

// Calls through a relay withstand the races of rpctest: over RDMA while connections between relay
// and server are cut, and over TCP while the client's own connections are cut.
func TestRaces(t *testing.T) {
	s := testserver.Start(t)
	s.RPC.Register(rpctest.NewProgram())
	for _, name := range []string{"memory", "memory2", "tcp"} {
		t.Run(name, func(t *testing.T) {
			at := startRelay(t, relay.Config{Target: s.Targets()[name]})
			rpctest.Races(t, func(t *testing.T) (rpc.Caller, func()) {
				c := testserver.Dial(t, at)
				if strings.HasPrefix(name, "memory") {
					return c.Caller(), s.Lose
				}
				return c.Caller(), c.Close
			})
		})
	}
}
