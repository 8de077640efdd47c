package relay_test

import (
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/client/relay"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/test/testserver"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A client's connection ends while a call that changes something is in progress at the server. The
// client repeats the call on a new connection, and the server executes it once.
func TestACallOutlivesItsClientsConnection(t *testing.T) {
	for _, how := range []string{"reset", "closed"} {
		t.Run(how, func(t *testing.T) {
			s := testserver.Start(t)
			toy := rpctest.NewProgram()
			s.RPC.Register(toy)
			ended := make(chan relay.Event, 4)
			at := startRelay(t, relay.Config{Target: s.Targets()["memory"], Event: func(e relay.Event) { ended <- e }})
			r := rawDial(t, at)
			r.grant()
			const lane = 3
			call := rpctest.Message(1, rpctest.HOLD, func(w *xdr.Writer) { w.Uint32(lane) })
			r.send(call)
			await.Receive(t, "the call arrives", toy.Arrived(lane))
			if how == "reset" {
				must(t, r.c.(*net.TCPConn).SetLinger(0))
			}
			r.c.Close()
			if how == "reset" {
				await.Receive(t, "the relay notes the end", ended)
			}
			again := rawDial(t, at)
			again.grant()
			again.send(call)
			again.send(null(2)) // its answer shows that the relay has read the copy
			if _, xid, err := again.reply(); err != nil || xid != 2 {
				t.Fatalf("reply %d: %v", xid, err)
			}
			toy.Release(lane)
			if _, xid, err := again.reply(); err != nil || xid != 1 {
				t.Errorf("reply %d: %v", xid, err)
			}
			if n := toy.Served[rpctest.HOLD].Load(); n != 1 {
				t.Errorf("executed %d times", n)
			}
		})
	}
}

// callsPerClient is the number of calls that each client of TestCallsOfManyClientsAreExecutedOnce makes.
const callsPerClient = 100

// Many clients remove files, with the same XIDs. Connections are lost on both sides of the relay, and the
// clients repeat their calls. Each REMOVE is executed once: a second execution would find no file. This
// holds for NFS versions 3 and 4.0, whose calls only a reply cache can recognize (RFC 1813 §4.5, RFC
// 7530 §3.1.1).
func TestCallsOfManyClientsAreExecutedOnce(t *testing.T) {
	for version, over := range map[uint32]string{3: "memory2", 4: "memory"} {
		t.Run(fmt.Sprint("version ", version), func(t *testing.T) {
			s := testserver.Start(t)
			s.ServeNFS4(t, 0, 0, 1, 2)
			direct := testserver.Dial(t, s.Targets()["tcp"])
			root, err := direct.MountRoot(testserver.Within(t), "/x", 0)
			must(t, err)
			at := startRelay(t, relay.Config{Target: s.Targets()[over]})
			stop := make(chan struct{})
			var losing, all sync.WaitGroup
			losing.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(50 * time.Millisecond):
						s.Lose()
					}
				}
			})
			for id := range 16 {
				all.Go(func() { removeAll(t, at, direct.NFS3(), root, version, id) })
			}
			all.Wait()
			close(stop)
			losing.Wait()
		})
	}
}

// removeAll makes callsPerClient files and removes them through the relay at at. Before each seventh
// answer it resets its connection, and repeats the call on a new one.
func removeAll(t *testing.T, at client.Target, direct client.NFS3, root client.Handle, version uint32, id int) {
	cred, err := rpc.AuthSysCred(1, fmt.Sprint("client-", id), 0, 0, nil)
	if err != nil {
		t.Error(err)
		return
	}
	r := rawDial(t, at)
	for i := range callsPerClient {
		name := []byte(fmt.Sprintf("v%d-%d-%d", version, id, i))
		if _, _, err := direct.Create(testserver.Within(t), root, string(name), nfs3wire.CreateHow3{}); err != nil {
			t.Error(err)
			return
		}
		call := removal(uint32(i+1), version, cred, root, name)
		lose := i%7 == 0
		for {
			r.send(call)
			if lose {
				lose = false
				_ = r.c.(*net.TCPConn).SetLinger(0) // without it, the test loses fewer connections
				r.c.Close()
				r = rawDial(t, at)
				continue
			}
			d, xid, err := r.reply()
			if err != nil { // the relay has ended the connection
				r = rawDial(t, at)
				continue
			}
			if status := d.Uint32(); status != 0 || xid != uint32(i+1) {
				t.Errorf("client %d, REMOVE %d: status %d to call %d", id, i, status, xid)
			}
			break
		}
	}
}

// removal returns the message of a REMOVE.
func removal(xid, version uint32, cred rpc.AuthBytes, root client.Handle, name []byte) []byte {
	h := rpc.CallHeader{XID: xid, Program: nfs3wire.Program, Version: version, Procedure: uint32(nfs3wire.ProcRemove), Cred: cred}
	if version == 3 {
		return rpctest.CallMessage(h, func(w *xdr.Writer) {
			w.Opaque(root)
			w.Opaque(name)
		})
	}
	h.Procedure = wire.ProcCompound
	return rpctest.CallMessage(h, func(w *xdr.Writer) {
		w.Uint32(0) // tag
		w.Uint32(0) // minor version
		w.Uint32(3)
		w.Uint32(uint32(wire.OpPutRootFH))
		w.Uint32(uint32(wire.OpLookup))
		w.Opaque([]byte("x"))
		w.Uint32(uint32(wire.OpRemove))
		w.Opaque(name)
	})
}
