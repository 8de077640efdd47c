package nfs4_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// If a compound must not be executed twice, and its results could be larger than its caller can
// receive, only the operations whose results fit are executed. This holds also if the results
// are protected.
func TestRoomUnderAProtection(t *testing.T) {
	p := plainSite(t)
	seal := rpctest.NewSeal()
	p.RPC.Protect(rpctest.FlavorSeal, seal)
	p.Room = rpc.Room{Inline: 4096}
	message := func(service, key uint32, args func(w *xdr.Writer)) []byte {
		h := rpc.CallHeader{XID: 9, Program: wire.Program, Version: wire.Version, Procedure: wire.ProcCompound}
		h.Cred = rpctest.SealCred(h, service, key)
		return rpctest.CallMessage(h, args)
	}
	made := p.End(p.Begin(message(rpctest.SealNew, 0, nil)))
	d, err := made.Results()
	if err != nil {
		t.Fatal(err)
	}
	key := d.Uint32()
	for service, name := range map[uint32]string{rpctest.SealNone: "none", rpctest.SealWrap: "wrap"} {
		args := func(w *xdr.Writer) {
			w.Opaque([]byte(name))
			w.Uint32(0)
			w.Uint32(3)
			for _, op := range []nfs4test.Op{op(wire.OpPutRootFH), readdir(0, 8192), remove("none")} {
				w.Uint32(uint32(op.Number))
				if op.Args != nil {
					op.Args.Encode(w)
				}
			}
		}
		if service == rpctest.SealWrap {
			args = rpctest.SealArgs(args, key)
		}
		if c := p.End(p.Begin(message(service, key, args))); c.End != rpctest.Sent {
			t.Errorf("%s: end %v, refusal %v", name, c.End, c.Why)
		}
	}
}
