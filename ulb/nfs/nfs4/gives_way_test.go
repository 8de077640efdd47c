package nfs4_test

import (
	"slices"
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
	const goroutines = 72 // what an address may have alone: rpc.Config.LaneWorkers
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

// attempts is a minor version whose RENEW stores whether it ran in an attempt.
type attempts struct {
	plain
	tried []bool
}

func (a *attempts) Operations() []nfs4.Operation {
	return []nfs4.Operation{{Number: wire.OpRenew, Run: func(k *nfs4.Compound) nfs4.Status {
		var args wire.Renew4Args
		args.Decode(k.Args)
		a.tried = append(a.tried, k.Op.Try)
		return wire.NFS4OK
	}}}
}

// The goroutine that received a compound executes its first eight operations, although none of its
// operations blocks. The executor runs the others.
func TestAttemptEndsAfterEightOperations(t *testing.T) {
	a := &attempts{}
	p := nfs4test.New(t, nfs4test.Config{Minors: func(*state.Manager) [3]nfs4.Minor { return [3]nfs4.Minor{a, nil, nil} }}).Peer(0)
	var ops []nfs4test.Op
	for range 16 {
		ops = append(ops, nfs4test.Op{Number: wire.OpRenew, Args: &wire.Renew4Args{Clientid: 1}})
	}
	if r := p.Compound(ops...); r.Status != wire.NFS4OK || len(r.Ops) != len(ops) {
		t.Fatalf("%v %v", r.Status, statuses(r))
	}
	want := append(slices.Repeat([]bool{true}, 8), slices.Repeat([]bool{false}, 8)...)
	if !slices.Equal(a.tried, want) {
		t.Errorf("attempted: %v, want the first eight of 16", a.tried)
	}
}
