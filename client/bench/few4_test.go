package bench_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/client/bench"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/test/testserver"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// few4 is a server of NFS version 4 that has sessions of a few slots, and no files. If busy is true, it
// asks the client to wait at each SEQUENCE that is alone.
type few4 struct {
	slots uint32
	busy  bool
	alone atomic.Int64 // number of these SEQUENCEs
}

func (f *few4) Number() uint32                                 { return wire.Program }
func (f *few4) Versions() (low, hi uint32)                     { return wire.Version, wire.Version }
func (f *few4) Binding(uint32) *rpc.Binding                    { return &nfs.Binding4 }
func (f *few4) Judge(*rpc.Arrived, *rpc.Judgement) rpc.Outcome { return rpc.Done }

func (f *few4) Serve(c *rpc.Call, w *xdr.Writer) rpc.Outcome {
	if c.Header.Procedure == wire.ProcNull {
		return rpc.Done
	}
	d := &c.Args
	d.Opaque(wire.NFS4OpaqueLimit)
	d.Uint32() // minor version
	n := d.Uint32()
	head := w.Len()
	w.Uint32(0)
	w.Opaque(nil)
	w.Uint32(0)
	status, done := wire.NFS4OK, uint32(0)
	for ; done < n && status == wire.NFS4OK; done++ {
		op := wire.OpNum(d.Uint32())
		w.Uint32(uint32(op))
		at := w.Len()
		w.Uint32(0)
		status = f.run(op, n == 1, d, w)
		w.PatchUint32(at, uint32(status))
	}
	w.PatchUint32(head, uint32(status))
	w.PatchUint32(head+8, done)
	return rpc.Done
}

// run executes an operation. alone says that its COMPOUND has no other.
func (f *few4) run(op wire.OpNum, alone bool, d *xdr.Decoder, w *xdr.Writer) wire.NFSStat4 {
	switch op {
	case wire.OpExchangeID:
		(&wire.ExchangeID4ResOK{Clientid: 1, Sequenceid: 1, ServerOwner: wire.ServerOwner4{MajorID: []byte("few")}}).Encode(w)
	case wire.OpCreateSession:
		var args wire.CreateSession4Args
		args.Decode(d)
		res := wire.CreateSession4ResOK{
			Sessionid: wire.SessionID4{1}, Sequence: args.Sequence, Flags: args.Flags,
			ForeChanAttrs: args.ForeChanAttrs, BackChanAttrs: args.BackChanAttrs,
		}
		res.ForeChanAttrs.Maxrequests = f.slots
		res.Encode(w)
	case wire.OpBindConnToSession:
		var args wire.BindConnToSession4Args
		args.Decode(d)
		(&wire.BindConnToSession4ResOK{Sessid: args.Sessid, Dir: wire.Cdfs4Both}).Encode(w)
	case wire.OpSequence:
		var args wire.Sequence4Args
		args.Decode(d)
		if alone {
			f.alone.Add(1)
		}
		if alone && f.busy {
			return wire.NFS4ErrDelay
		}
		(&wire.Sequence4ResOK{
			Sessionid: args.Sessionid, Sequenceid: args.Sequenceid, Slotid: args.Slotid,
			HighestSlotid: f.slots - 1, TargetHighestSlotid: f.slots - 1,
		}).Encode(w)
	case wire.OpReclaimComplete:
		d.Bool()
	case wire.OpDestroySession, wire.OpDestroyClientID:
	default:
		return wire.NFS4ErrNotSupp
	}
	return wire.NFS4OK
}

// The result has the number of requests that the server allows at a time: the slots of the session, or
// the credits of all connections over RDMA.
func TestRequestsInProgressAreWhatTheServerAllows(t *testing.T) {
	s := testserver.Start(t)
	s.RPC.Register(&few4{slots: 2})
	few, err := rdma.NewServer(rdma.Config{RPC: s.RPC, Pool: s.Pool, Credits: 3})
	must(t, err)
	target := s.Targets()["memory"]
	l, err := target.Provider.Listen(testserver.Loopback)
	must(t, err)
	served := make(chan error, 1)
	go func() { served <- few.Serve(l) }()
	t.Cleanup(func() {
		few.Close()
		<-served
	})
	target.Port = int(l.Addr().Port())
	for _, c := range []struct {
		version string
		target  client.Target
		want    int
	}{
		{"4.2", s.Targets()["tcp"], 2},
		{"4.1", target, 2},
		{"3", target, 2 * 3},
		{"3", s.Targets()["tcp"], 2 * 16},
	} {
		t.Run(fmt.Sprint(c.version, c.target.Transport), func(t *testing.T) {
			m, err := bench.Run(testserver.Within(t), bench.Config{
				Target: c.target, NFS: c.version, Export: "/x", Workload: "null", Depth: 16, Connections: 2, Ops: 200,
			})
			must(t, err)
			if m.InProgress != c.want || m.Operations != 200 {
				t.Errorf("%d requests in progress, want %d; %d operations", m.InProgress, c.want, m.Operations)
			}
		})
	}
}

// A measurement ends although the server asks to wait at each SEQUENCE, and does not flood the server.
func TestMeasurementOfABusyServerEnds(t *testing.T) {
	s := testserver.Start(t)
	server := &few4{slots: 1, busy: true}
	s.RPC.Register(server)
	ended := make(chan error, 1)
	begin := time.Now()
	go func() {
		_, err := bench.Run(t.Context(), bench.Config{
			Target: s.Targets()["tcp"], NFS: "4.2", Export: "/x", Workload: "null", Depth: 1,
			Duration: time.Second, Timeout: time.Second,
		})
		ended <- err
	}()
	err := await.Receive(t, "the measurement ends", ended)
	if err == nil || !strings.Contains(err.Error(), "calls unanswered") {
		t.Errorf("ended with %v", err)
	}
	// The session repeats a request after 20 ms at the earliest. The request of its end comes, too.
	if n, most := server.alone.Load(), int64(time.Since(begin)/(20*time.Millisecond))+2; n < 2 || n > most {
		t.Errorf("%d requests, want 2 to %d", n, most)
	}
}
