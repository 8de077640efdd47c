package rpc_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// What takes long to protect is not protected on the goroutine that received the call.
func TestLargeResultsAreWrappedOnTheExecutor(t *testing.T) {
	for _, c := range []struct {
		bytes    uint32
		detached bool
	}{{1000, false}, {64 << 10, false}, {64<<10 + 1, true}, {200_000, true}} {
		s, _, conn := newServer(t, rpc.Config{})
		s.Protect(rpctest.FlavorSeal, rpctest.NewSeal())
		h := rpc.CallHeader{XID: 1, Program: rpctest.Number, Version: 1, Procedure: rpctest.GET}
		args := u32(c.bytes)
		key := newKey(t, s, conn)
		h.Cred = rpctest.SealCred(h, rpctest.SealWrap, key)
		call := rpctest.NewCall(conn, rpctest.CallMessage(h, rpctest.SealArgs(args, key))).Run(s)
		if call.End != rpctest.Sent || call.Detached != c.detached {
			t.Errorf("GET of %d bytes: end %v, detached %v", c.bytes, call.End, call.Detached)
		}
	}
}

// newKey makes a context.
func newKey(t *testing.T, s *rpc.Server, conn *rpc.Conn) uint32 {
	t.Helper()
	h := rpc.CallHeader{XID: 2, Program: rpctest.Number, Version: 1, Procedure: rpctest.ECHO}
	h.Cred = rpctest.SealCred(h, rpctest.SealNew, 0)
	d, err := rpctest.NewCall(conn, rpctest.CallMessage(h, func(*xdr.Writer) {})).Run(s).Results()
	if err != nil {
		t.Fatal(err)
	}
	return d.Uint32()
}
