package client_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/test/testserver"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// anonymous is the anonymous stateid.
var anonymous wire.StateID4

// A session works over each transport in each minor version. Its end leaves no client and no
// session on the server.
func TestSession(t *testing.T) {
	for _, minor := range []uint32{1, 2} {
		for name, target := range targetsOf(t) {
			t.Run(name, func(t *testing.T) {
				f, server := newFake4(t)
				s := f.session(server.Targets()[target], client.SessionConfig{Minor: minor})
				n := s.NFS4()
				if i := s.Server(); i.MinorID != 7 || string(i.MajorID) != "fake" || string(i.Scope) != "test" {
					t.Errorf("%+v", i)
				}
				if s.Lease() != 90*time.Second || f.count(wire.OpReclaimComplete) != 1 {
					t.Errorf("a lease of %v, %d RECLAIM_COMPLETE", s.Lease(), f.count(wire.OpReclaimComplete))
				}
				file, err := n.Walk(testserver.Within(t), nil, "a/b")
				must(t, err)
				for _, size := range []int{0, 1, 4096, 100_000} {
					p := make([]byte, size)
					count, eof, err := n.Read(testserver.Within(t), file, anonymous, 50, p)
					if err != nil || count != size || eof || !bytes.Equal(p, testserver.Pattern(300_000)[50:50+size]) {
						t.Fatalf("READ of %d: %d bytes, %v, %v", size, count, eof, err)
					}
				}
				data := testserver.Pattern(70_001)
				w, err := n.Write(testserver.Within(t), file, anonymous, 1000, data, wire.FileSync4)
				if err != nil || w.Count != len(data) || !bytes.Equal(f.data[1000:1000+len(data)], data) {
					t.Fatalf("WRITE: %+v, %v", w, err)
				}
				_, err = n.Walk(testserver.Within(t), nil, "a/missing")
				if e, ok := errors.AsType[*client.OpError](err); !ok || *e != (client.OpError{Op: wire.OpLookup, Status: wire.NFS4ErrNoEnt}) {
					t.Errorf("LOOKUP of what is missing: %v", err)
				}
				must(t, s.Close())
				if len(f.sessions) != 0 || len(f.clients) != 0 {
					t.Errorf("%d sessions and %d clients are left", len(f.sessions), len(f.clients))
				}
				if _, err := n.Walk(testserver.Within(t), nil, "a"); !errors.Is(err, client.ErrSessionClosed) {
					t.Errorf("after the end: %v", err)
				}
			})
		}
	}
}

func targetsOf(t *testing.T) map[string]string {
	return map[string]string{"tcp": "tcp", "iwarp": "iwarp", "memory": "memory", "memory2": "memory2"}
}

// Requests wait for slots. Each slot has one request at a time, and its requests have consecutive
// numbers (fake4 checks that). The server may reduce and raise the number of slots.
func TestSessionSlots(t *testing.T) {
	f, server := newFake4(t)
	s := f.session(server.Targets()["tcp"], client.SessionConfig{})
	flood := func() {
		var all sync.WaitGroup
		for i := range 300 {
			all.Go(func() {
				p := make([]byte, 100)
				if _, _, err := s.NFS4().Read(testserver.Within(t), nil, anonymous, uint64(i), p); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	defer open() // so that the server does not wait for its calls if the test fails
	f.set(func() { f.stall = gate })
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := s.NFS4().Write(testserver.Within(t), nil, anonymous, 0, []byte("x"), wire.FileSync4); err != nil {
				t.Error(err)
			}
		})
	}
	for range 8 {
		await.Receive(t, "a slot's WRITE", f.stalled)
	}
	select {
	case <-f.stalled:
		t.Error("more than 8 requests under way")
	default:
	}
	f.set(func() { f.stall = nil })
	open()
	all.Wait()
	_, held := f.only()
	if f.writes != 20 || held.highest != 7 {
		t.Errorf("%d WRITEs, highest slot %d", f.writes, held.highest)
	}

	f.set(func() { f.target = 1 })
	_, _, err := s.NFS4().Read(testserver.Within(t), nil, anonymous, 0, make([]byte, 1))
	must(t, err)
	f.set(func() { held.highest = 0 })
	flood()
	if held.highest > 1 {
		t.Errorf("slot %d was used when the server wanted 1 at most", held.highest)
	}
	f.set(func() { f.target = 7 })
	flood()
	f.set(func() { f.delays = 3 })
	flood()
}

// If a reply is lost with its connection, the client sends the request again on the same slot. So
// a WRITE is executed once.
func TestSessionLostReply(t *testing.T) {
	for _, name := range []string{"tcp", "memory", "memory2"} {
		t.Run(name, func(t *testing.T) {
			f, server := newFake4(t)
			s := f.session(server.Targets()[name], client.SessionConfig{})
			for i := range 3 {
				f.set(func() { f.lose = true })
				w, err := s.NFS4().Write(testserver.Within(t), nil, anonymous, 0, []byte("once"), wire.FileSync4)
				if err != nil || w.Count != 4 || f.writes != i+1 {
					t.Fatalf("%+v, %v; %d were executed", w, err, f.writes)
				}
			}
			if n := f.count(wire.OpBindConnToSession); n != 3 {
				t.Errorf("%d connections were bound", n)
			}
		})
	}
}

// A session closes each connection that it replaces, also if the server still has it.
func TestReplacedConnectionsAreClosed(t *testing.T) {
	f, server := newFront4(t)
	s := f.session(server.Targets()["memory"], client.SessionConfig{})
	for range 3 {
		f.react(nth(wire.OpPutRootFH, reaction{status: wire.NFS4ErrConnNotBoundToSession}, 1))
		_, err := s.NFS4().Getattr(testserver.Within(t), nil, wire.Bits(wire.Fattr4Size))
		must(t, err)
		await.Until(t, "the session has one connection", func() bool { return server.RDMA.Stats().Connections.Load() == 1 })
	}
	if n := f.count(wire.OpBindConnToSession); n != 3 {
		t.Errorf("%d connections were bound, want 3", n)
	}
}

// If the server has forgotten a session, the client makes a new one. If the server has forgotten
// the client too, the client gets a new client ID, and sends RECLAIM_COMPLETE before everything
// else.
func TestSessionForgotten(t *testing.T) {
	f, server := newFake4(t)
	restarted := make(chan struct{}, 1)
	s := f.session(server.Targets()["tcp"], client.SessionConfig{
		Callbacks: client.Callbacks{Restarted: func() { restarted <- struct{}{} }},
	})
	read := func() {
		t.Helper()
		_, _, err := s.NFS4().Read(testserver.Within(t), nil, anonymous, 0, make([]byte, 10))
		must(t, err)
	}
	id := s.ClientID()
	f.forget(false)
	read()
	if s.ClientID() != id || f.count(wire.OpReclaimComplete) != 1 {
		t.Error("a forgotten session made a new client")
	}
	f.set(func() { f.order = nil })
	f.forget(true)
	read()
	await.Receive(t, "the restart is told", restarted)
	if s.ClientID() == id {
		t.Error("the client ID is the same")
	}
	f.mu.Lock()
	order := f.order[:5]
	f.mu.Unlock()
	want := []wire.OpNum{wire.OpExchangeID, wire.OpCreateSession, wire.OpSequence, wire.OpReclaimComplete, wire.OpSequence}
	for i := range want {
		if order[i] != want[i] {
			t.Fatalf("%v, not %v", order, want)
		}
	}
}

// If the reply to a request with Compound.Cache is lost together with the session, the client
// does not send the request again. The request ends with ErrDoubtful.
func TestSessionDoubtful(t *testing.T) {
	f, server := newFake4(t)
	s := f.session(server.Targets()["tcp"], client.SessionConfig{})
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	defer open()
	f.set(func() { f.stall, f.lose = gate, true })
	ended := make(chan error, 1)
	go func() {
		_, err := s.NFS4().Write(testserver.Within(t), nil, anonymous, 0, []byte("?"), wire.FileSync4)
		ended <- err
	}()
	await.Receive(t, "the WRITE", f.stalled)
	f.forget(false)
	f.set(func() { f.stall = nil })
	open()
	if err := await.Receive(t, "the WRITE ends", ended); !errors.Is(err, client.ErrDoubtful) {
		t.Errorf("%v", err)
	}
	if f.writes != 1 {
		t.Errorf("%d WRITEs", f.writes)
	}
	_, _, err := s.NFS4().Read(testserver.Within(t), nil, anonymous, 0, make([]byte, 10))
	must(t, err)
}

// After a request was given up, its slot is used again only when the server has finished with the
// request.
func TestSessionCancel(t *testing.T) {
	f, server := newFake4(t)
	f.slots, f.target = 1, 0
	s := f.session(server.Targets()["tcp"], client.SessionConfig{})
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	defer open()
	f.set(func() { f.stall = gate })
	gaveUp := errors.New("gave up")
	ctx, cancel := context.WithCancelCause(testserver.Within(t))
	ended, waiting := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := s.NFS4().Write(ctx, nil, anonymous, 0, []byte("1"), wire.FileSync4)
		ended <- err
	}()
	await.Receive(t, "the WRITE", f.stalled)
	go func() {
		_, err := s.NFS4().Write(ctx, nil, anonymous, 0, []byte("2"), wire.FileSync4)
		waiting <- err
	}()
	cancel(gaveUp)
	for _, c := range []chan error{ended, waiting} {
		if err := await.Receive(t, "a request ends", c); err != gaveUp {
			t.Errorf("%v", err)
		}
	}
	f.set(func() { f.stall = nil })
	open()
	for range 3 {
		_, _, err := s.NFS4().Read(testserver.Within(t), nil, anonymous, 0, make([]byte, 10))
		must(t, err)
	}
}

// A session may have several connections. If some are lost, all requests are still executed.
func TestSessionTrunking(t *testing.T) {
	f, server := newFake4(t)
	s := f.session(server.Targets()["memory"], client.SessionConfig{Connections: 3})
	_, held := f.only()
	if len(held.conns) != 3 || f.count(wire.OpBindConnToSession) != 2 {
		t.Fatalf("%d connections", len(held.conns))
	}
	var all sync.WaitGroup
	for i := range 60 {
		all.Go(func() {
			if i == 30 {
				server.Lose()
			}
			if _, err := s.NFS4().Write(testserver.Within(t), nil, anonymous, 0, []byte("x"), wire.FileSync4); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if f.writes != 60 {
		t.Errorf("%d WRITEs were executed, not 60", f.writes)
	}
}

// An idle session whose connection ends connects again, on its own, and binds the new connection for callbacks. So the
// server can call it as long as it has state. Over RPC-over-RDMA version 2 that is row V2-43 of docs/conformance.md.
func TestIdleSessionConnectsAgain(t *testing.T) {
	for _, name := range []string{"memory", "memory2"} {
		t.Run(name, func(t *testing.T) {
			f, server := newFake4(t)
			f.lease = 1
			f.session(server.Targets()[name], client.SessionConfig{Callbacks: client.Callbacks{Status: func(uint32) {}}})
			for range 2 {
				for len(f.heard) > 0 {
					<-f.heard
				}
				server.Lose()
				for await.Receive(t, "a connection is bound", f.heard) != wire.OpBindConnToSession {
				}
			}
			await.Until(t, "the session has one connection", func() bool { return server.RDMA.Stats().Connections.Load() == 1 })
		})
	}
}

// An idle session renews its lease by a SEQUENCE without other operations. It binds a connection
// for callbacks if the server lacks one.
func TestSessionIdle(t *testing.T) {
	f, server := newFake4(t)
	f.lease = 3
	told := make(chan uint32, 8)
	f.session(server.Targets()["tcp"], client.SessionConfig{Callbacks: client.Callbacks{Status: func(flags uint32) { told <- flags }}})
	f.set(func() { f.flags = wire.Seq4StatusCBPathDown })
	for len(f.heard) > 0 {
		<-f.heard
	}
	if op := await.Receive(t, "the lease is renewed", f.heard); op != wire.OpSequence {
		t.Errorf("%v", op)
	}
	if flags := await.Receive(t, "the flags are told", told); flags != wire.Seq4StatusCBPathDown {
		t.Errorf("flags %#x", flags)
	}
	if op := await.Receive(t, "a connection is bound", f.heard); op != wire.OpBindConnToSession {
		t.Errorf("%v", op)
	}
}
