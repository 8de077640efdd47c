package rdma

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// If any work of a reply fails, at any moment, the connection ends and leaves nothing behind; other
// connections live. Row V1-93 of docs/conformance.md.
func TestFailingWork(t *testing.T) {
	faults := map[string]func(f *rdmatest.Faults, chain, work int){
		"refused post": func(f *rdmatest.Faults, chain, _ int) { f.FailPost(chain, nil) },
		"failed work":  func(f *rdmatest.Faults, _, work int) { f.FailWork(work, nil) },
		"lost before":  func(f *rdmatest.Faults, _, work int) { f.LoseAt(work, rdmatest.Before) },
		"lost after":   func(f *rdmatest.Faults, _, work int) { f.LoseAt(work, rdmatest.After) },
	}
	for name, fault := range faults {
		for n := range 6 {
			t.Run(fmt.Sprintf("%s %d", name, n), func(t *testing.T) {
				b := newBench(t, benchConfig{})
				other, p := b.peer(), b.peer()
				chains, works := serverEnd(p).Faults().Posted()
				fault(serverEnd(p).Faults(), chains+n, works+n)
				data := pattern(300)
				r := p.Expose(data, rdmacm.RemoteRead)
				w := p.Expose(make([]byte, 3000), rdmacm.RemoteWrite)
				put, pos := putCall(1, "name", 300)
				p.Send(message{xid: 1, reads: at(pos, cut(r, 100, 200)...), payload: put}.bytes())
				p.Send(message{xid: 2, writes: [][]wire.Segment{cut(w, 1000, 2000)}, payload: rpctest.Message(2, rpctest.GET, count(3000))}.bytes())
				p.Send(message{xid: 3, version: 2}.bytes())
				p.Send(message{xid: 4, payload: rpctest.Message(4, rpctest.NULL, nil)}.bytes())
				p.End()
				b.alive(other)
			})
		}
	}
}

// A peer that never answers an RDMA Read, or stops reading replies, loses its connection after
// the deadline, and no other call waits for it.
func TestStalledPeers(t *testing.T) {
	for name, stall := range map[string]func(p peer){
		"Reads":   func(p peer) { serverEnd(p).Faults().HoldReads() },
		"replies": func(p peer) { serverEnd(p).Faults().DelayDone(0) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, benchConfig{provider: rdmatest.Config{Stall: 20 * time.Second}})
				other, p := b.peer(), b.peer()
				stall(p)
				r := p.Expose(make([]byte, 100), rdmacm.RemoteRead)
				begin := time.Now()
				m, pos := putCall(1, "name", 100)
				p.Send(message{xid: 1, reads: at(pos, cut(r, 100)...), payload: m}.bytes())
				time.Sleep(19 * time.Second)
				b.alive(other)
				if n := b.server.Stats().Connections.Load(); n != 2 {
					t.Fatalf("%d connections before the deadline", n)
				}
				p.End()
				if waited := time.Since(begin); waited < 20*time.Second || waited > 26*time.Second {
					t.Errorf("ended after %v", waited)
				}
				b.alive(other)
				synctest.Wait() // the server's end of the connection learns of it too
				if n := b.server.Stats().Timeouts(); n != 1 {
					t.Errorf("%d timeouts", n)
				}
				// A connection that is idle, or busy for longer than the deadline, lives.
				for range 30 {
					time.Sleep(3 * time.Second)
					b.alive(other)
				}
				time.Sleep(time.Hour)
				b.alive(other)
				b.server.Close()
			})
		})
	}
}

// Shutdown answers the calls in progress, accepts no new ones, and ends each connection after its
// last call.
func TestShutdownDrains(t *testing.T) {
	b := newBench(t, benchConfig{})
	idle, p := b.peer(), b.peer()
	p.Send(message{xid: 1, payload: rpctest.Message(1, rpctest.STALL, count(1))}.bytes())
	ended(t, b.program.Arrived(1))
	down := make(chan error)
	go func() { down <- b.server.Shutdown(t.Context()) }()
	if err := idle.End(); err != nil {
		t.Errorf("an idle connection ended with %v", err)
	}
	await.Until(t, "the connection drains", func() bool {
		all := b.server.connections()
		return len(all) == 1 && all[0].calls.Load()&drainBit != 0
	})
	late := message{xid: 2, payload: rpctest.Message(2, rpctest.NULL, nil)}.bytes()
	p.Send(late)
	server, seen := serverEnd(p).ID(), false
	if _, err := b.provider.Log().Wait(t.Context(), func(e rdmatest.Event) bool {
		seen = seen || rdmatest.Is(rdmatest.KindReceived, server)(e) && bytes.Equal(e.Bytes, late)
		return seen && rdmatest.Is(rdmatest.KindServed, server)(e)
	}); err != nil {
		t.Fatal(err)
	}
	b.program.Release(1)
	h, _ := answered(t, p.Receive())
	if h.XID != 1 {
		t.Errorf("answer to %d", h.XID)
	}
	if err := p.End(); err != nil {
		t.Errorf("the connection ended with %v", err)
	}
	if err := ended(t, down); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if n := len(p.Messages()); n != 1 {
		t.Errorf("%d answers", n)
	}
}

// Shutdown gives up when its context ends, and aborts the connections.
func TestShutdownGivesUp(t *testing.T) {
	b := newBench(t, benchConfig{})
	p := b.peer()
	p.Send(message{xid: 1, payload: rpctest.Message(1, rpctest.STALL, count(1))}.bytes())
	ended(t, b.program.Arrived(1))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.server.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown: %v", err)
	}
	p.End()
	b.program.Release(1)
}

// NewServer refuses a configuration without its parts, or with sizes that RFC 8166 or its own
// limits exclude.
func TestConfigIsChecked(t *testing.T) {
	b := newBench(t, benchConfig{})
	for _, c := range []Config{{}, {RPC: b.rpc}, {Pool: b.pool}, {RPC: b.rpc, Pool: b.pool, InlineSend: 1000},
		{RPC: b.rpc, Pool: b.pool, InlineReceive: 262144 + 1024}, {RPC: b.rpc, Pool: b.pool, Credits: -1},
		{RPC: b.rpc, Pool: b.pool, maxCall: -1}, {RPC: b.rpc, Pool: b.pool, maxReply: 2 << 30}} {
		if _, err := NewServer(c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}
