package nfs4_test

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// lazy is a minor version in which the RENEW of client 1 waits until the test sends to goOn.
type lazy struct {
	plain
	begun, goOn chan struct{}
	last        atomic.Int64 // number of RENEWs of client 2 that have ended
	seen        chan int64   // the value of last when the RENEW of client 3 was executed
}

func (l *lazy) Operations() []nfs4.Operation {
	return []nfs4.Operation{{Number: wire.OpRenew, Run: func(k *nfs4.Compound) nfs4.Status {
		var args wire.Renew4Args
		args.Decode(k.Args)
		if k.Op.Try {
			return k.Block("lane")
		}
		switch args.Clientid {
		case 1:
			l.begun <- struct{}{}
			<-l.goOn
		case 2:
			l.last.Add(1)
		case 3:
			l.seen <- l.last.Load()
		}
		return wire.NFS4OK
	}}}
}

// If long compounds occupy all goroutines, they let a later call run between two of their
// operations.
func TestLongCompoundsGiveWay(t *testing.T) {
	const goroutines = 64 // rpc.Config.LaneWorkers
	l := &lazy{begun: make(chan struct{}, goroutines), goOn: make(chan struct{}), seen: make(chan int64, 1)}
	site := nfs4test.New(t, nfs4test.Config{Minors: func(*state.Manager) [3]nfs4.Minor { return [3]nfs4.Minor{l, nil, nil} }})
	site.Program.GiveWay()
	renew := func(client uint64) nfs4test.Op {
		return nfs4test.Op{Number: wire.OpRenew, Args: &wire.Renew4Args{Clientid: client}}
	}
	var ends []func()
	begin := func(ops ...nfs4test.Op) {
		p := site.Peer(0)
		c := p.Begin(p.Message("", ops...))
		ends = append(ends, func() {
			if r := p.Parse(p.End(c)); r.Status != wire.NFS4OK || len(r.Ops) != len(ops) {
				t.Errorf("%v after %d operations of %d", r.Status, len(r.Ops), len(ops))
			}
		})
	}
	for range goroutines {
		begin(renew(1), renew(2), renew(2))
	}
	for range goroutines {
		await.Receive(t, "a compound occupies a goroutine", l.begun)
	}
	begin(renew(3))
	// One of the long compounds continues. Before its next operation, the waiting call runs.
	l.goOn <- struct{}{}
	if n := await.Receive(t, "the call that came later is executed", l.seen); n != 0 {
		t.Errorf("%d operations of a call that came earlier went first", n)
	}
	close(l.goOn)
	for _, end := range ends {
		end()
	}
}

// yielding is a minor version whose RENEW starts a goroutine for client 1. For client 2 it stores
// whether that goroutine has run.
type yielding struct {
	plain
	ran, seen atomic.Bool
}

func (y *yielding) Operations() []nfs4.Operation {
	return []nfs4.Operation{{Number: wire.OpRenew, Run: func(k *nfs4.Compound) nfs4.Status {
		var args wire.Renew4Args
		args.Decode(k.Args)
		if args.Clientid == 1 {
			go y.ran.Store(true)
		} else {
			y.seen.Store(y.ran.Load())
		}
		return wire.NFS4OK
	}}}
}

// A compound of many operations lets other goroutines use its processor before it ends, although
// none of its operations blocks.
func TestCompoundOfManyOperationsYields(t *testing.T) {
	y := &yielding{}
	p := nfs4test.New(t, nfs4test.Config{Minors: func(*state.Manager) [3]nfs4.Minor { return [3]nfs4.Minor{y, nil, nil} }}).Peer(0)
	ops := []nfs4test.Op{{Number: wire.OpRenew, Args: &wire.Renew4Args{Clientid: 1}}}
	for range 15 {
		ops = append(ops, nfs4test.Op{Number: wire.OpRenew, Args: &wire.Renew4Args{Clientid: 2}})
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	if r := p.Compound(ops...); r.Status != wire.NFS4OK {
		t.Fatalf("%v %v", r.Status, statuses(r))
	}
	if !y.seen.Load() {
		t.Error("the last of 16 operations has run before a goroutine that the first one started")
	}
}
