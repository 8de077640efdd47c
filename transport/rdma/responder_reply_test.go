package rdma

import (
	"bytes"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// echo makes an ECHO of n bytes as a Long Call, so that the call's size does not matter.
func (b *bench) echo(p peer, xid uint32, n int, m message) (wire.Header, []byte) {
	b.t.Helper()
	call := rpctest.Message(xid, rpctest.ECHO, func(w *xdr.Writer) { w.Opaque(pattern(n)) })
	zero := p.Expose(call, rdmacm.RemoteRead)
	m.xid, m.proc, m.reads = xid, wire.ProcNoMsg, at(0, cut(zero, len(call))...)
	return answered(b.t, b.call(p, m))
}

// A reply goes inline up to the threshold, header and returned chunks included (V1-24, A-7). A
// longer one goes in the Reply chunk (V1-65), or is refused if it does not fit there. No
// Send is longer than the threshold. The reply returns the Reply chunk, unused if the reply went
// inline (V1-66, P-9). The content of the Reply chunk is padded (V1-45). The numbers are rows of
// docs/conformance.md.
func TestReplyThreshold(t *testing.T) {
	for _, threshold := range []int{1024, 4096} {
		b := newBench(t, benchConfig{server: Config{InlineSend: threshold}})
		p := b.peerWith(private(false, 4096, 4096), 512)
		memory := make([]byte, 8192)
		r := p.Expose(memory, rdmacm.RemoteWrite)
		xid := uint32(1)
		for _, extra := range []struct {
			reply, writes int // segments
		}{{0, 0}, {1, 0}, {3, 0}, {0, 2}, {2, 5}} {
			m := message{}
			for range extra.reply {
				m.reply = append(m.reply, segmentOf(r, 2000*len(m.reply), 2000))
			}
			for range extra.writes {
				m.writes = append(m.writes, cut(r, 1))
			}
			// RFC 8166 §4.3: 28 bytes, and the chunks that the reply returns.
			header := 28 + len(m.writes)*(8+16)
			if m.reply != nil {
				header += 4 + 16*len(m.reply)
			}
			fits := threshold - header - 24 - 4 // of an item
			for n := fits - 9; n <= fits+9; n++ {
				xid++
				inline := padded(n) <= fits
				if !inline && m.reply == nil || !inline && 28+padded(n) > 2000*extra.reply {
					call := rpctest.Message(xid, rpctest.ECHO, func(w *xdr.Writer) { w.Opaque(pattern(n)) })
					zero := p.Expose(call, rdmacm.RemoteRead)
					refused := m
					refused.xid, refused.proc, refused.reads = xid, wire.ProcNoMsg, at(0, cut(zero, len(call))...)
					wantError(t, b.call(p, refused), xid, 1, wire.ErrChunk)
					continue
				}
				h, payload := b.echo(p, xid, n, m)
				if (h.Proc == wire.ProcMsg) != inline {
					t.Fatalf("T=%d, header %d: %d bytes are answered by %v", threshold, header, n, h.Proc)
				}
				if inline {
					wantUnused(t, &h, m)
				} else {
					if h.Reply.Bytes() != uint64(28+padded(n)) {
						t.Fatalf("Reply chunk of %d bytes", h.Reply.Bytes())
					}
					payload = gatherChunk(memory, r, h.Reply.WriteChunk)
				}
				d := results(t, xid, payload)
				if !bytes.Equal(d.Opaque(rpctest.MaxEcho), pattern(n)) || d.Finish() != nil {
					t.Fatalf("ECHO of %d bytes differs", n)
				}
			}
		}
		for _, m := range p.Messages() {
			if len(m.Bytes) > threshold {
				t.Errorf("a Send of %d bytes at T=%d", len(m.Bytes), threshold)
			}
		}
	}
}

// gatherChunk returns the content of a chunk of r.
func gatherChunk(memory []byte, r rdmacm.Region, c wire.WriteChunk) []byte {
	var b []byte
	for i := range c.Len() {
		s := c.At(i)
		from := s.Offset - r.Offset()
		b = append(b, memory[from:from+uint64(s.Length)]...)
	}
	return b
}

// The Reply chunk is filled segment after segment: with the reduced Payload if Write chunks took
// results, and with the results beyond the Write chunks. Rows A-14 and V1-65 of
// docs/conformance.md.
func TestReplyChunkWithWriteChunks(t *testing.T) {
	b := newBench(t, benchConfig{})
	p := b.peer()
	const n = 2001
	memory, sink := canary(9000), canary(4000)
	r, w := p.Expose(memory, rdmacm.RemoteWrite), p.Expose(sink, rdmacm.RemoteWrite)
	m := message{xid: 5, writes: [][]wire.Segment{cut(w, 1000, 1500)}, reply: cut(r, 1, 0, 700, 8000),
		payload: rpctest.Message(5, rpctest.PAIR, func(w *xdr.Writer) {
			w.Bool(true)
			w.Bool(true)
			w.Uint32(n)
		})}
	h, payload := answered(t, b.call(p, m))
	if h.Proc != wire.ProcNoMsg || len(payload) > 0 {
		t.Fatalf("%v with %d bytes behind", h.Proc, len(payload))
	}
	if c := h.Writes.Next(); c.Bytes() != n || !bytes.Equal(sink[:n], pattern(n)) || sink[n] != 0xee {
		t.Errorf("the Write chunk holds %d bytes", c.Bytes())
	}
	size := 24 + 4 + 4 + 4 + 4 + padded(n)
	if h.Reply.Bytes() != uint64(size) || memory[size] != 0xee {
		t.Errorf("the Reply chunk holds %d bytes, want %d", h.Reply.Bytes(), size)
	}
	d := results(t, 5, memory[:size])
	first := d.Bool()
	if d.Uint32() != n || !first || !d.Bool() || !bytes.Equal(d.Opaque(n), pattern(n)) || d.Finish() != nil {
		t.Errorf("the Reply chunk holds something else: %v", d.Err())
	}
	// A Reply chunk of exactly that length suffices. With a byte less the server writes nothing,
	// to no chunk.
	m.reply = cut(r, 100, size-100)
	if h, _ := answered(t, b.call(p, m)); h.Proc != wire.ProcNoMsg || h.Reply.Bytes() != uint64(size) {
		t.Errorf("%v with %d bytes in the Reply chunk", h.Proc, h.Reply.Bytes())
	}
	m.reply = cut(r, 100, size-101)
	copy(memory, canary(len(memory)))
	copy(sink, canary(len(sink)))
	wantError(t, b.call(p, m), 5, 1, wire.ErrChunk)
	if !bytes.Equal(memory, canary(len(memory))) || !bytes.Equal(sink, canary(len(sink))) {
		t.Error("something was written")
	}
}

// The server does not execute a call that may not be executed twice if its largest reply could
// not be carried back: RFC 8166 §4.5.3 ends such a call for good, and its caller would not learn
// that it was executed.
func TestNoRoomForTheLargestReply(t *testing.T) {
	b := newBench(t, benchConfig{})
	p := b.peer()
	r := p.Expose(make([]byte, 70_000), rdmacm.RemoteWrite)
	wantError(t, b.call(p, message{xid: 5, reply: cut(r, 60_000), payload: rpctest.Message(5, rpctest.WIDE, count(8))}), 5, 1, wire.ErrChunk)
	if n := b.program.Served[rpctest.WIDE].Load(); n != 0 {
		t.Errorf("executed %d times", n)
	}
	_, payload := answered(t, b.call(p, message{xid: 6, reply: cut(r, 70_000), payload: rpctest.Message(6, rpctest.WIDE, count(8))}))
	results(t, 6, payload)
}

// A retransmission on a new connection is answered from the cache, with the new call's chunks,
// because the old ones belong to a connection that is gone.
func TestReplayWithFreshChunks(t *testing.T) {
	b := newBench(t, benchConfig{})
	fetch := func(n int) []byte { return rpctest.Message(9, rpctest.FETCH, count(n)) }
	p := b.peer()
	one := make([]byte, 5000)
	h, payload := answered(t, b.call(p, message{xid: 9, writes: [][]wire.Segment{cut(p.Expose(one, rdmacm.RemoteWrite), 5000)}, payload: fetch(5000)}))
	if h.Writes.Next().Bytes() != 5000 || len(payload) != 32 {
		t.Fatalf("%d bytes inline", len(payload))
	}
	p.Conn().Disconnect()
	await.Until(t, "the connection is gone", func() bool { return b.server.Stats().Connections.Load() == 0 })
	q := b.peer()
	two := make([]byte, 9000)
	again, payload := answered(t, b.call(q, message{xid: 9, reply: cut(q.Expose(two, rdmacm.RemoteWrite), 100, 8900), payload: fetch(5000)}))
	if again.Proc != wire.ProcNoMsg || len(payload) != 0 {
		t.Fatalf("%v", again.Proc)
	}
	d := results(t, 9, two[:again.Reply.Bytes()])
	if !bytes.Equal(d.Opaque(rpctest.MaxData), pattern(5000)) || d.Uint32() != 5000 || d.Finish() != nil {
		t.Error("the replay differs")
	}
	if n := b.program.Served[rpctest.FETCH].Load(); n != 1 {
		t.Errorf("executed %d times", n)
	}
}

// STag 0 is a handle like others: a call can offer it, and the server writes to it. In a Send,
// providers take 0 for no STag to invalidate, so the reply invalidates nothing.
func TestSTagZeroIsNotInvalidated(t *testing.T) {
	for name, device := range map[string]rdmacm.Provider{"memory": nil, "iWARP": newIwarp(t)} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, benchConfig{device: device, server: Config{RemoteInvalidation: true}})
			p := b.peerWith(private(true, 4096, 4096), 64)
			m := b.call(p, message{xid: 7, writes: [][]wire.Segment{{seg(0, 0, 0)}}, payload: rpctest.Message(7, rpctest.GET, count(0))})
			if _, payload := answered(t, m); m.Invalidated != 0 {
				t.Errorf("STag %#x is invalidated", m.Invalidated)
			} else {
				results(t, 7, payload)
			}
			b.alive(p)
		})
	}
}
