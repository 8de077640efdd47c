package bench

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A still caller stores the call that was started, so that a test can answer it by hand.
type still struct{ x atomic.Pointer[rpc.Exchange] }

func (s *still) Start(x *rpc.Exchange)       { s.x.Store(x) }
func (s *still) Cancel(*rpc.Exchange, error) {}

// A bench allocates nothing between a reply and the next call, in any workload, because such
// costs would be measured with the server's.
func TestSlotAllocatesNothing(t *testing.T) {
	for name, results := range map[string]func(w *xdr.Writer, s *slot3){
		"null": func(*xdr.Writer, *slot3) {},
		"getattr": func(w *xdr.Writer, _ *slot3) {
			(&nfs3wire.Getattr3Res{ResOK: nfs3wire.Getattr3ResOK{ObjAttributes: nfs3wire.Fattr3{Type: nfs3wire.NF3Reg}}}).Encode(w)
		},
		"read": func(w *xdr.Writer, s *slot3) {
			(&nfs3wire.Read3Res{ResOK: nfs3wire.Read3ResOK{Count: uint32(len(s.buf))}}).Encode(w)
			w.Truncate(w.Len() - 4)
			w.Opaque(s.buf)
		},
		"write": func(w *xdr.Writer, s *slot3) {
			(&nfs3wire.Write3Res{ResOK: nfs3wire.Write3ResOK{Count: uint32(len(s.buf)), Committed: nfs3wire.Unstable}}).Encode(w)
		},
		"syncwrite": func(w *xdr.Writer, s *slot3) {
			(&nfs3wire.Write3Res{ResOK: nfs3wire.Write3ResOK{Count: uint32(len(s.buf)), Committed: nfs3wire.FileSync}}).Encode(w)
		},
		"create": func(w *xdr.Writer, _ *slot3) { w.Uint32(0) },
		"readdirplus": func(w *xdr.Writer, _ *slot3) {
			(&nfs3wire.ReaddirPlus3Res{ResOK: nfs3wire.ReaddirPlus3ResOK{Reply: nfs3wire.DirListPlus3{EOF: true}}}).Encode(w)
		},
	} {
		t.Run(name, func(t *testing.T) {
			caller := new(still)
			b := &bench{kind: workloads[name].kind, unlimited: true, start: time.Now()}
			b.cfg = Config{Size: 512, FileSize: 1 << 20}
			c := newConn(0)
			c.file.handle = make(client.Handle, 32)
			s := newSlot3(b, workloads[name], caller, c, 0)
			b.running.Add(1)
			s.begin(0)
			call := xdr.NewWriter(make([]byte, 0, 4096))
			answer := xdr.NewWriter(make([]byte, 0, 4096))
			callBuf, answerBuf := call.Bytes(), answer.Bytes()
			round := func() {
				call.Reset(callBuf)
				caller.x.Load().Args(call)
				answer.Reset(answerBuf)
				results(answer, s)
				caller.x.Load().Results.Reset(answer.Bytes(), 0, nil)
				caller.x.Load().Done(caller.x.Load())
			}
			if n := testing.AllocsPerRun(200, round); n != 0 {
				t.Errorf("%v allocations an operation", n)
			}
			if b.err != nil || call.Overflow() || c.operations.Load() < 100 {
				t.Errorf("after %d operations: %v, overflow %v", c.operations.Load(), b.err, call.Overflow())
			}
		})
	}
}

// If the server makes a WRITE of the workload syncwrite less stable than FILE_SYNC, the
// measurement ends with an error.
func TestSyncWriteThatIsNotStable(t *testing.T) {
	for committed, ok := range map[nfs3wire.StableHow]bool{nfs3wire.Unstable: false, nfs3wire.DataSync: false, nfs3wire.FileSync: true} {
		work := workloads["syncwrite"]
		b := &bench{kind: work.kind, unlimited: true, start: time.Now(), cfg: Config{Size: 512, FileSize: 4096}}
		s := newSlot3(b, work, new(still), newConn(0), 0)
		w := xdr.NewWriter(make([]byte, 0, 256))
		(&nfs3wire.Write3Res{ResOK: nfs3wire.Write3ResOK{Count: 512, Committed: committed}}).Encode(w)
		var d xdr.Decoder
		d.Reset(w.Bytes(), 0, nil)
		if _, err := gotWrite(s, &d); (err == nil) != ok {
			t.Errorf("%v: %v", committed, err)
		}
		s4 := newSlot4(b, workloads4["syncwrite"], new(client.Session), newConn(0), 0)
		s4.writeRes.ResOK.Count, s4.writeRes.ResOK.Committed = 512, nfs4wire.StableHow4(committed)
		if _, err := gotWrite4(s4); (err == nil) != ok {
			t.Errorf("NFSv4, %v: %v", committed, err)
		}
	}
}

// If the server asks to try again, the bench makes the same call again after a pause, and counts the
// operation once.
func TestSlotTriesAgain(t *testing.T) { synctest.Test(t, slotTriesAgain) }

func slotTriesAgain(t *testing.T) {
	caller := new(still)
	work := workloads["getattr"]
	b := &bench{kind: work.kind, unlimited: true, start: time.Now()}
	c := newConn(0)
	s := newSlot3(b, work, caller, c, 0)
	b.running.Add(1)
	s.begin(0)
	for _, status := range []uint32{uint32(nfs3wire.NFS3ErrJukebox), uint32(nfs3wire.NFS3ErrJukebox), 0} {
		x := caller.x.Swap(nil)
		w := xdr.NewWriter(make([]byte, 0, 16))
		w.Uint32(status)
		x.Results.Reset(w.Bytes(), 0, nil)
		x.Done(x)
		if status != 0 && caller.x.Load() != nil {
			t.Fatal("the call was made again at once")
		}
		time.Sleep(pauseMost)
		synctest.Wait()
		if caller.x.Load() == nil {
			t.Fatal("no further call")
		}
	}
	if c.delayed.Load() != 2 || c.operations.Load() != 1 || b.err != nil {
		t.Errorf("%d delayed, %d operations: %v", c.delayed.Load(), c.operations.Load(), b.err)
	}
	// Any other error ends the measurement.
	w := xdr.NewWriter(make([]byte, 0, 16))
	w.Uint32(uint32(nfs3wire.NFS3ErrStale))
	x := caller.x.Swap(nil)
	x.Results.Reset(w.Bytes(), 0, nil)
	x.Done(x)
	b.running.Wait()
	if e, ok := b.err.(*client.StatusError); !ok || e.Status != nfs3wire.NFS3ErrStale || caller.x.Load() != nil {
		t.Errorf("ended with %v", b.err)
	}
}
