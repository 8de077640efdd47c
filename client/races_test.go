package client_test

import (
	"strings"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/test/testserver"
)

// A Conn's Caller withstands the races of rpctest over each transport. Over the memory transport
// the test cuts the connection below the Conn, so the Conn replaces it. Over other transports it
// calls Conn.Close.
func TestRaces(t *testing.T) {
	s := testserver.Start(t)
	s.RPC.Register(rpctest.NewProgram())
	for name, target := range s.Targets() {
		t.Run(name, func(t *testing.T) {
			target.Reconnect = strings.HasPrefix(name, "memory")
			rpctest.Races(t, func(t *testing.T) (rpc.Caller, func()) {
				c := testserver.Dial(t, target)
				if strings.HasPrefix(name, "memory") {
					return c.Caller(), s.Lose
				}
				return c.Caller(), c.Close
			})
		})
	}
}
