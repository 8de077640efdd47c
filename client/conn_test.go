package client_test

import (
	"errors"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/providers"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/test/testserver"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// Without Reconnect, calls on a lost connection end with rpc.ErrCallLost. So do later calls.
func TestLostConnection(t *testing.T) {
	s := testserver.Start(t)
	toy := rpctest.NewProgram()
	s.RPC.Register(toy)
	c := testserver.Dial(t, s.Targets()["memory"])
	must(t, c.Null(testserver.Within(t), nfs3wire.Program, 3))
	const lane = 9
	ended := make(chan error, 1)
	go func() {
		ended <- c.Call(testserver.Within(t), &rpc.Exchange{
			Program: rpctest.Number, Version: 1, Procedure: rpctest.STALL,
			Args: func(w *xdr.Writer) { w.Uint32(lane) }, MaxArgs: 4, MaxResults: 4,
		}, nil)
	}()
	await.Receive(t, "the call arrives", toy.Arrived(lane))
	s.Lose()
	if err := await.Receive(t, "the call ends", ended); !errors.Is(err, rpc.ErrCallLost) {
		t.Errorf("the call ended with %v", err)
	}
	toy.Release(lane)
	if err := c.Null(testserver.Within(t), nfs3wire.Program, 3); !errors.Is(err, rpc.ErrCallLost) {
		t.Errorf("a later call ended with %v", err)
	}
	if !c.Lost() {
		t.Error("the connection does not count as lost")
	}
}

// The software RNIC asks for CRCs, unless the target's provider has CRCs off. The server leaves
// the choice to the peer (IW-306, IW-307).
func TestTargetCRC(t *testing.T) {
	s := testserver.Start(t)
	off, err := providers.Open(providers.IWARP, providers.Config{CRC: "off"})
	if err != nil {
		t.Fatal(err)
	}
	for _, provider := range []rdmacm.Provider{nil, off} {
		target := s.Targets()["iwarp"]
		target.Provider = provider
		if i, ok := testserver.Dial(t, target).Info(); !ok || i.Carrier.MPA == nil || i.Carrier.MPA.CRC != (provider == nil) {
			t.Errorf("asked by default: %v; carried by %+v", provider == nil, i.Carrier)
		}
	}
}
