package relay_test

import (
	"net"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/client/relay"
	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/test/testserver"
	"github.com/nfsrdmad/nfsrdmad/transport/tcp"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// narrow is a server of NFS version 3 that takes WRITEs of at most 64 KiB.
type narrow struct{ written chan int }

const narrowMost = 64 << 10

func (n *narrow) Number() uint32                                 { return nfs3wire.Program }
func (n *narrow) Versions() (low, high uint32)                   { return nfs3wire.Version, nfs3wire.Version }
func (n *narrow) Binding(uint32) *rpc.Binding                    { return &nfs.Binding3 }
func (n *narrow) Judge(*rpc.Arrived, *rpc.Judgement) rpc.Outcome { return rpc.Done }
func (n *narrow) Serve(c *rpc.Call, w *xdr.Writer) rpc.Outcome {
	switch nfs3wire.Procedure(c.Header.Procedure) {
	case nfs3wire.ProcFsinfo:
		res := nfs3wire.Fsinfo3Res{Status: nfs3wire.NFS3OK}
		res.ResOK.WriteMax = narrowMost
		res.Encode(w)
	case nfs3wire.ProcWrite:
		var args nfs3wire.Write3Args
		args.Decode(&c.Args)
		n.written <- int(args.Count)
		res := nfs3wire.Write3Res{Status: nfs3wire.NFS3OK}
		res.ResOK.Count = args.Count
		res.Encode(w)
	}
	return rpc.Done
}

// serveTCP serves a program alone, over TCP.
func serveTCP(t *testing.T, p rpc.Program) client.Target {
	pool, err := mem.NewPool(mem.Config{Ceiling: mem.MinCeiling})
	must(t, err)
	server := rpc.NewServer(rpc.Config{})
	server.Register(p)
	carrier := tcp.NewServer(tcp.Config{RPC: server, Pool: pool})
	l, err := net.Listen("tcp", testserver.Loopback.String())
	must(t, err)
	go carrier.Serve(l)
	t.Cleanup(func() {
		carrier.Close()
		server.Close()
		pool.Close()
	})
	return client.Target{Transport: client.TCP, Host: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port}
}

// The relay passes no call on that is longer than the server takes, as it says in FSINFO. It ends the
// client's connection instead, whether the client has asked the server or not.
func TestRelayKeepsToTheServersSizes(t *testing.T) {
	for _, asks := range []bool{true, false} {
		server := &narrow{make(chan int, 8)}
		target := serveTCP(t, server)
		events := make(chan relay.Event, 8)
		at := startRelay(t, relay.Config{Target: target, Event: func(e relay.Event) { events <- e }})
		if asks {
			_, err := testserver.Dial(t, at).NFS3().Fsinfo(testserver.Within(t), client.Handle("root"))
			must(t, err)
		}
		r := rawDial(t, at)
		for i, size := range []int{1000, narrowMost, narrowMost + 4} {
			r.send(rpctest.CallMessage(rpc.CallHeader{XID: uint32(i), Program: nfs3wire.Program, Version: 3, Procedure: uint32(nfs3wire.ProcWrite), Cred: client.Self()}, func(w *xdr.Writer) {
				(&nfs3wire.Write3Args{
					FileHandle: nfs3wire.FileHandle3{Data: []byte("file")}, Count: uint32(size), Data: xdr.Eligible{Data: make([]byte, size)},
				}).Encode(w)
			}))
			_, xid, err := r.reply()
			if size > narrowMost {
				if err == nil {
					t.Errorf("a WRITE of %d bytes was answered", size)
				}
				break
			}
			if err != nil || xid != uint32(i) {
				t.Fatalf("a WRITE of %d bytes: reply %d, %v", size, xid, err)
			}
			if n := await.Receive(t, "the server gets the WRITE", server.written); n != size {
				t.Errorf("%d bytes of %d reached the server", n, size)
			}
		}
		if e := await.Receive(t, "the client's connection ends", events); e.Err == nil {
			t.Error("the relay does not say why it has ended the client's connection")
		}
		// A call of another program is no way around it.
		other := rawDial(t, at)
		other.send(rpctest.CallMessage(rpc.CallHeader{XID: 9, Program: 400000, Version: 1, Procedure: 1}, func(w *xdr.Writer) { w.Payload(make([]byte, 100_000), false, nil) }))
		if _, _, err := other.reply(); err == nil {
			t.Error("a long call of another program was answered")
		}
		if len(server.written) > 0 {
			t.Error("the server got a WRITE that is too long")
		}
	}
}
