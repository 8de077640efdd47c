package rdma

import (
	"testing"
	"unsafe"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/rawpeer"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// A peer that keeps calling and reads no answers loses its connection as soon as it certainly has
// more calls under way than its grant permits, not after a deadline. So its cost is bounded. Row
// V1-21 of docs/conformance.md.
func TestPeerThatReadsNoAnswers(t *testing.T) {
	const credits = 20
	b := newBench(t, benchConfig{device: newIwarp(t), server: Config{Credits: credits}})
	p := rawpeer.Dial(t, b.addr)
	p.Initiate(rawpeer.LinuxRequest())
	p.WriteFPDU(rawpeer.Ready())
	await.Until(t, "the connection is open", func() bool { return len(b.server.connections()) == 1 })
	k := b.connection()
	most := int64(0)
	// Answers of 4 KB fill TCP's buffers, and further ones stay in this process.
	for xid := range uint32(20_000) {
		m := message{xid: xid, payload: rpctest.Message(xid, rpctest.GET, count(3900))}.bytes()
		if _, err := p.Conn.Write(p.Bytes(p.Send(m))); err != nil {
			break
		}
		most = max(most, k.calls.Load())
	}
	await.Until(t, "the connection ends", func() bool { return b.server.Stats().Connections.Load() == 0 })
	if n := b.server.Stats().Overruns(); n != 1 {
		t.Errorf("%d connections ended because their peer calls too much", n)
	}
	if bound := int64(2*credits + spareReceives + 1); most > bound {
		t.Errorf("%d calls were under way, %d at most", most, bound)
	}
}

// A peer whose calls all have faulty headers, and that reads no answers, loses its connection in
// the same way: each RDMA_ERROR takes a record like any answer. Row V1-21 of docs/conformance.md.
func TestPeerThatReadsNoErrors(t *testing.T) {
	const credits, atOnce = 20, 64
	const bound = 2*credits + spareReceives + 1
	b := newBench(t, benchConfig{device: newIwarp(t), server: Config{Credits: credits}})
	p := rawpeer.Dial(t, b.addr)
	p.Conn.SetReadBuffer(4 << 10)
	p.Initiate(rawpeer.LinuxRequest())
	p.WriteFPDU(rawpeer.Ready())
	await.Until(t, "the connection is open", func() bool { return len(b.server.connections()) == 1 })
	k := b.connection()
	faulty := message{proc: 5, payload: rpctest.Message(0, rpctest.NULL, nil)}.bytes()
	most := int64(0)
	// RDMA_ERRORs are short, so TCP's buffers take many before the first stays in this process.
	for sent := 0; sent < 1_000_000 && most <= bound; sent += atOnce {
		var calls []byte
		for range atOnce {
			calls = append(calls, p.Bytes(p.Send(faulty))...)
		}
		if _, err := p.Conn.Write(calls); err != nil {
			break
		}
		most = max(most, k.calls.Load())
	}
	if most > bound {
		t.Fatalf("%d calls are under way, %d at most", most, bound)
	}
	await.Until(t, "the connection ends", func() bool { return b.server.Stats().Connections.Load() == 0 })
	if n := b.server.Stats().Overruns(); n != 1 {
		t.Errorf("%d connections ended because their peer calls too much", n)
	}
}

// A call with a faulty header occupies its record and its message until its RDMA_ERROR has left.
// The connection is charged for them, as for other calls.
func TestErrorsThatWaitAreCharged(t *testing.T) {
	const calls = 100
	b := newBench(t, benchConfig{})
	p := b.peerWith(nil, 2*calls)
	release := serverEnd(p).Faults().DelayDone(0)
	faulty := message{proc: 5, payload: make([]byte, 900)}.bytes()
	for range calls {
		if err := p.Send(faulty); err != nil {
			t.Fatal(err)
		}
		wantError(t, p.Receive(), 0, 1, wire.ErrChunk)
	}
	if n := b.pool.Stats().Charged; n < calls*callCost {
		t.Errorf("%d bytes are charged for %d calls", n, calls)
	}
	release()
	await.Until(t, "the charges are gone", func() bool { return b.pool.Stats().Charged == 0 })
}

// Answers that the peer has received do not count against its grant, even if the device reports
// them as sent only later. Row V1-21 of docs/conformance.md.
func TestAnswersThatCompleteLate(t *testing.T) {
	b := newBench(t, benchConfig{server: Config{Credits: 4}})
	p := b.peerWith(nil, 400)
	release := serverEnd(p).Faults().DelayDone(0)
	for range 200 {
		b.alive(p)
	}
	if n := b.connection().calls.Load(); n != 200 {
		t.Fatalf("%d answers are not completed", n)
	}
	release()
	await.Until(t, "the answers are completed", func() bool { return b.connection().calls.Load() == 0 })
	b.alive(p)
	if n := b.server.Stats().Overruns(); n != 0 {
		t.Errorf("%d overruns", n)
	}
}

// A call that waits for data from the peer has no reply buffer yet: it costs its record and the
// message.
func TestCallsThatWaitCostLittle(t *testing.T) {
	b := newBench(t, benchConfig{server: Config{reads: 1}})
	p := b.peer()
	release := serverEnd(p).Faults().HoldReads()
	r := p.Expose(make([]byte, 100), rdmacm.RemoteRead)
	for xid := range uint32(2) {
		m, pos := putCall(xid, "name", 100)
		p.Send(message{xid: xid, reads: at(pos, cut(r, 100)...), payload: m}.bytes())
	}
	await.Until(t, "the connection is open", func() bool { return len(b.server.connections()) == 1 })
	q := &b.connection().responder.reads
	waiting := func() *call {
		q.mu.Lock()
		defer q.mu.Unlock()
		if len(q.claims) == 0 {
			return nil
		}
		return q.claims[0].waiting.First
	}
	await.Until(t, "a call waits for the Read of another", func() bool { return waiting() != nil && q.posted() == 1 })
	c := waiting()
	if c.reply.long != nil {
		t.Error("it has room for its reply already")
	}
	size := unsafe.Sizeof(*c) + uintptr(cap(c.reply.out.head)+16*cap(c.reply.out.local)+16*cap(c.reply.pieces)) +
		unsafe.Sizeof(rdmacm.Work{})*uintptr(cap(c.reply.out.work))
	if size > 4<<10 {
		t.Errorf("its record is %d bytes", size)
	}
	release()
	for range 2 {
		answered(t, p.Receive())
	}
}
