package rdma

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/test/await"
)

// Calls that are held because other connections have the memory go on when those connections
// release it, even if nothing happens on the calls' own connection.
func TestHeldCallsGoOnWhenOthersGiveBack(t *testing.T) {
	const ceiling = 4 << 20
	b := newBench(t, benchConfig{
		pool: mem.Config{Ceiling: ceiling, Share: ceiling}, server: Config{Credits: 60}, provider: rdmatest.Config{Quiet: true},
	})
	p := b.peer()
	for xid := range uint32(2) {
		p.Send(message{xid: xid, payload: rpctest.Message(xid, rpctest.STALL, count(1))}.bytes())
	}
	var k *connection
	await.Until(t, "two", func() bool {
		for _, k = range b.server.connections() {
			return k.calls.Load()&^drainBit == 2
		}
		return false
	})
	others := b.pool.OpenShare(clientaddr.Of(k.responder.peer), nil)
	var kept mem.Ledger
	kept.Open(others)
	kept.Add(ceiling)
	p.Send(message{xid: 9, payload: rpctest.Message(9, rpctest.NULL, nil)}.bytes())
	await.Until(t, "held", func() bool { return k.responder.held.count.Load() == 1 })
	kept.Add(-ceiling)
	others.Close()
	await.Until(t, "the held call goes on", func() bool { return k.responder.held.count.Load() == 0 })
	b.program.Release(1)
}

// A message that arrives while its connection ends is not held, because its call would not begin, and its
// receive would not be released. No timer waits for a call of a connection that has ended.
func TestNothingIsHeldAfterTheEnd(t *testing.T) {
	b := newBench(t, benchConfig{})
	p := b.peer()
	b.alive(p)
	var k *connection
	for _, k = range b.server.connections() {
	}
	s := k.responder
	s.held.mu.Lock()
	s.lookLaterLocked()
	s.held.mu.Unlock()
	p.Conn().Disconnect()
	await.Until(t, "the connection has ended", func() bool { return len(b.server.connections()) == 0 })
	s.held.mu.Lock()
	if look := s.held.look; look != nil && look.Stop() {
		t.Error("the timer of held calls runs after the end")
	}
	s.held.look = nil
	if s.lookLaterLocked(); s.held.look != nil {
		t.Error("a timer was started after the end")
	}
	s.held.going = true // should a message be held, no goroutine may start its call
	s.held.mu.Unlock()
	if s.hold(&inbound{recv: &rdmacm.Recv{Bytes: make([]byte, 100)}}) || s.held.count.Load() != 0 {
		t.Error("a message is held after the end")
	}
}
