package rdma

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// wantPut checks the reply to a PUT of data.
func wantPut(t testing.TB, m rdmatest.Message, xid uint32, data []byte) {
	t.Helper()
	_, payload := answered(t, m)
	d := results(t, xid, payload)
	if n, sum := d.Uint32(), d.Uint32(); int(n) != len(data) || sum != crc32.ChecksumIEEE(data) || d.Finish() != nil {
		t.Fatalf("PUT of %d bytes arrived as %d, checksum %#x: %v", len(data), n, sum, d.Err())
	}
}

// Segments of any length, empty ones included, are joined in the order of the list (V1-39, P-3). A
// chunk may hold the item's padding, which is not data (V1-41, L-8). Without padding the chunk is
// as long as the item (V1-42). The numbers are rows of docs/conformance.md.
func TestReadChunkSegmentation(t *testing.T) {
	b := newBench(t, benchConfig{})
	p := b.peerWith(nil, 512)
	xid := uint32(100)
	for _, n := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 1023, 1024, 1025, 4095, 4096, 4097, 70_003} {
		for _, pad := range []bool{false, true} {
			data := pattern(n)
			region := data
			if pad {
				region = append(append([]byte{}, data...), 0xbb, 0xbb, 0xbb)[:padded(n)]
			}
			r := p.Expose(region, rdmacm.RemoteRead)
			for _, lengths := range [][]int{{len(region)}, {0, len(region), 0}, {1, len(region) - 1}, {len(region) - 1, 1}, odd(len(region))} {
				m, pos := putCall(xid, "five!", n)
				wantPut(t, b.call(p, message{xid: xid, reads: at(pos, cut(r, lengths...)...), payload: m}), xid, data)
				xid++
			}
		}
	}
	receivesKept(t, p, DefaultCredits)
}

// odd cuts n into up to 17 pieces.
func odd(n int) []int {
	var l []int
	for i := 7; n > 0 && len(l) < 16; i += 6 {
		l = append(l, min(i, n))
		n -= l[len(l)-1]
	}
	if n > 0 {
		l = append(l, n)
	}
	return l
}

// The server serves Long Calls of any size and segmentation, with the Payload whole or reduced by a
// further Read chunk (P-4), whose segments may be anywhere in the list. The Position-Zero chunk
// holds an item that is not eligible (P-10). A position in the reduced Payload of a Position-Zero
// chunk counts the bytes of the unreduced one. Rows P-4, P-5, P-10, V1-45 and V1-46 of
// docs/conformance.md.
func TestLongCalls(t *testing.T) {
	b := newBench(t, benchConfig{})
	p := b.peerWith(nil, 512)
	shuffle := rand.New(rand.NewPCG(1, 2))
	xid := uint32(1000)
	for _, n := range []int{0, 1, 3, 4, 5, 1024, 4097, 70_001, 1 << 20} {
		data := pattern(n)
		head, _ := putCall(xid, "x", n)
		whole := append(append([]byte{}, head...), data...)
		whole = append(whole, make([]byte, padded(n)-n)...)
		if len(whole) <= defaultMaxCall {
			zero := p.Expose(whole, rdmacm.RemoteRead)
			wantPut(t, b.call(p, message{xid: xid, proc: wire.ProcNoMsg, reads: at(0, cut(zero, odd(len(whole))...)...)}), xid, data)
		}
		xid++
		if n == 0 {
			continue
		}
		head, pos := putCall(xid, "x", n)
		zero := p.Expose(head, rdmacm.RemoteRead)
		r := p.Expose(data, rdmacm.RemoteRead)
		reads := append(at(pos, cut(r, odd(n)...)...), at(0, cut(zero, odd(len(head))...)...)...)
		wantPut(t, b.call(p, message{xid: xid, proc: wire.ProcNoMsg, reads: interleave(shuffle, reads)}), xid, data)
		xid++
	}
}

// interleave shuffles the chunks of a list into each other, and keeps the order inside each.
func interleave(r *rand.Rand, reads []wire.ReadSegment) []wire.ReadSegment {
	var out []wire.ReadSegment
	for len(reads) > 0 {
		want := reads[r.IntN(len(reads))].Position
		for i, s := range reads {
			if s.Position == want {
				out = append(out, s)
				reads = append(append([]wire.ReadSegment{}, reads[:i]...), reads[i+1:]...)
				break
			}
		}
	}
	return out
}

// The server has no more Reads outstanding than the peer allows, however many segments and calls
// there are. The device would fail a Read beyond that number. Row V1-12 of docs/conformance.md.
func TestReadDepthIsKept(t *testing.T) {
	for _, depth := range []int{1, 2, 7} {
		b := newBench(t, benchConfig{})
		p := rdmatest.DialPeer(t, b.provider, b.addr, rdmatest.PeerParam{ConnParam: rdmacm.ConnParam{
			Receives: 64, ReceiveSize: 4096, InboundReads: depth,
		}})
		data := pattern(8000)
		r := p.Expose(data, rdmacm.RemoteRead)
		const calls = 20
		for i := range uint32(calls) {
			m, pos := putCall(i, "name", len(data))
			if err := p.Send(message{xid: i, reads: at(pos, cut(r, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000)...), payload: m}.bytes()); err != nil {
				t.Fatal(err)
			}
		}
		for range calls {
			m := p.Receive()
			h, _ := answered(t, m)
			wantPut(t, m, h.XID, data)
		}
	}
}

// A peer that allows no Reads can make calls that need none.
func TestNoReadsAllowed(t *testing.T) {
	b := newBench(t, benchConfig{})
	p := rdmatest.DialPeer(t, b.provider, b.addr, rdmatest.PeerParam{ConnParam: rdmacm.ConnParam{
		Receives: 64, ReceiveSize: 4096,
	}})
	r := p.Expose(make([]byte, 8), rdmacm.RemoteRead)
	m, pos := putCall(1, "name", 8)
	wantError(t, b.call(p, message{xid: 1, reads: at(pos, cut(r, 8)...), payload: m}), 1, 1, wire.ErrChunk)
	b.alive(p)
}

// Segments beyond 1 MiB are read in pieces; only maxCall and the procedure bound the sum.
func TestLargeSegments(t *testing.T) {
	b := newBench(t, benchConfig{})
	p := b.peer()
	data := pattern(1 << 20)
	m, pos := putCall(1, "name", len(data))
	wantPut(t, b.call(p, message{xid: 1, reads: at(pos, cut(p.Expose(data, rdmacm.RemoteRead), len(data))...), payload: m}), 1, data)

	whole := append(append([]byte{}, m...), data...)
	wantPut(t, b.call(p, message{xid: 1, proc: wire.ProcNoMsg,
		reads: at(0, cut(p.Expose(whole, rdmacm.RemoteRead), len(whole))...)}), 1, data)
	for _, e := range p.Seen() {
		if e.Op == rdmacm.OpRead && e.Length > maxRead {
			t.Errorf("%v", e)
		}
	}
}

// The server sends no answer before the last Read is done, neither a reply nor an error, because
// the answer permits the peer to reuse its memory. Row V1-43 of docs/conformance.md.
func TestNoAnswerBeforeTheLastRead(t *testing.T) {
	b := newBench(t, benchConfig{})
	p := b.peer()
	release := serverEnd(p).Faults().HoldReads()
	data := pattern(3000)
	r := p.Expose(data, rdmacm.RemoteRead)
	m, pos := putCall(1, "name", len(data))
	p.Send(message{xid: 1, reads: at(pos, cut(r, 1000, 1000, 1000)...), payload: m}.bytes())
	// The error: the Position-Zero chunk holds another call's message.
	zero := p.Expose(rpctest.Message(3, rpctest.NULL, nil), rdmacm.RemoteRead)
	p.Send(message{xid: 2, proc: wire.ProcNoMsg, reads: at(0, cut(zero, 20, 20)...)}.bytes())
	// Calls that need no Read do not wait for a stalled peer.
	b.alive(p)
	if n := len(p.Messages()) - setUp(); n != 1 {
		t.Fatalf("%d answers while Reads are held", n)
	}
	release()
	for range 2 {
		if m := p.Receive(); m.Bytes[3] == 1 {
			wantPut(t, m, 1, data)
		} else {
			wantError(t, m, 2, 1, wire.ErrChunk)
		}
	}
	server := serverEnd(p).ID()
	reads, answers := 0, -setUp()
	for _, e := range b.provider.Log().Events() {
		switch {
		case rdmatest.Is(rdmatest.KindDone, server)(e):
		case e.Kind == rdmatest.KindCarried && e.Conn == server && e.Op == rdmacm.OpRead:
			reads++
		case rdmatest.IsPost(rdmacm.OpSend, server)(e):
			if answers++; answers == 2 && reads < 3 || answers == 3 && reads != 5 {
				t.Errorf("answer %d after %d Reads", answers, reads)
			}
		}
	}
	if answers != 3 || reads != 5 {
		t.Errorf("%d answers, %d Reads", answers, reads)
	}
}

// If one Read of a call fails, the first or a later one, while others are under way or wait, the
// server answers nothing and the connection ends. The calls' memory is released once, after the
// last Read; bench.close checks that. Row V1-43 of docs/conformance.md.
func TestAFailedReadWaitsForTheOthers(t *testing.T) {
	const depth, segments = 3, 8
	for n := range segments {
		t.Run(fmt.Sprintf("Read %d", n), func(t *testing.T) {
			b := newBench(t, benchConfig{})
			other := b.peer()
			p := rdmatest.DialPeer(t, b.provider, b.addr, rdmatest.PeerParam{ConnParam: rdmacm.ConnParam{
				Receives: 64, ReceiveSize: 4096, InboundReads: depth,
			}})
			b.settled(p)
			_, before := serverEnd(p).Faults().Posted()
			serverEnd(p).Faults().FailWork(before+n, nil)
			data := pattern(1000 * segments)
			r := p.Expose(data, rdmacm.RemoteRead)
			for xid := range uint32(3) { // the second and the third wait for the first
				m, pos := putCall(xid, "name", len(data))
				var lengths []int
				for range segments {
					lengths = append(lengths, 1000)
				}
				p.Send(message{xid: xid, reads: at(pos, cut(r, lengths...)...), payload: m}.bytes())
			}
			if err := p.End(); err == nil {
				t.Error("the connection ended in order")
			}
			if n := len(p.Messages()) - setUp(); n != 0 {
				t.Errorf("%d answers, though a Read failed", n)
			}
			b.alive(other)
			await.Until(t, "all memory is given back", func() bool { return b.pool.Stats().InUse == 0 })
			if n := b.program.Served[rpctest.PUT].Load(); n != 0 {
				t.Errorf("%d calls were executed without their data", n)
			}
		})
	}
}

// The server admits a call and reserves its memory before the first Read; the memory of a call is
// one reservation.
func TestMemoryBeforeReads(t *testing.T) {
	b := newBench(t, benchConfig{})
	p := b.peer()
	data := pattern(5000)
	r := p.Expose(data, rdmacm.RemoteRead)
	m, pos := putCall(1, "name", len(data))
	wantPut(t, b.call(p, message{xid: 1, reads: at(pos, cut(r, 2000, 3000)...), payload: m}), 1, data)
	if s := b.pool.Stats(); s.Granted != 1 || s.Peak != 8192 {
		t.Errorf("%d reservations, %d bytes at most", s.Granted, s.Peak)
	}
}

// The reply size that a call claims costs no memory beyond the reply that the call's chunks can
// carry.
func TestRoomBoundsMemory(t *testing.T) {
	b := newBench(t, benchConfig{})
	p := b.peer()
	call := rpctest.Message(1, rpctest.ECHO, func(w *xdr.Writer) { w.Uint32(rpctest.MaxEcho) })
	answered(t, b.call(p, message{xid: 1, payload: call}))
	if s := b.pool.Stats(); s.Granted != 0 {
		t.Errorf("%d bytes were reserved", s.Peak)
	}
	r := p.Expose(make([]byte, 6000), rdmacm.RemoteWrite)
	answered(t, b.call(p, message{xid: 1, payload: call, reply: cut(r, 6000)}))
	if s := b.pool.Stats(); s.Peak != 8192 {
		t.Errorf("%d bytes were reserved", s.Peak)
	}
	// A Long Call is unknown before it is fetched: its chunks and maxReply bound its memory.
	zero := p.Expose(call, rdmacm.RemoteRead)
	answered(t, b.call(p, message{xid: 1, proc: wire.ProcNoMsg, reads: at(0, cut(zero, len(call))...), reply: []wire.Segment{seg(1, 1<<32-1, 0)}}))
	if s := b.pool.Stats(); s.Peak > 3<<20 {
		t.Errorf("%d bytes were reserved", s.Peak)
	}
}

// The reply to a Long Call without a chunk for the reply may fill a whole Send, with its words and
// with a payload that goes inline. Row V1-56 of docs/conformance.md.
func TestLongCallIsAnsweredInline(t *testing.T) {
	const inline = 16 << 10
	b := newBench(t, benchConfig{server: Config{InlineSend: inline, InlineReceive: inline}})
	b.program.Judging = func(a *rpc.Arrived, j *rpc.Judgement) rpc.Outcome {
		j.Known = a.Header.Procedure == rpctest.NULL
		return rpc.Done
	}
	p := b.peerWith(private(false, inline, inline), 64)
	const n = 8000
	for i, m := range [][]byte{
		rpctest.Message(0, rpctest.GET, count(n)),
		rpctest.Message(1, rpctest.ECHO, func(w *xdr.Writer) { w.Opaque(pattern(n)) }),
		rpctest.Message(2, rpctest.NULL, nil), // from here on the program knows the peer
		rpctest.Message(3, rpctest.ECHO, func(w *xdr.Writer) { w.Opaque(pattern(n)) }),
	} {
		xid := uint32(i)
		zero := p.Expose(m, rdmacm.RemoteRead)
		h, payload := answered(t, b.call(p, message{xid: xid, proc: wire.ProcNoMsg, reads: at(0, cut(zero, len(m))...)}))
		d := results(t, xid, payload)
		if h.Proc != wire.ProcMsg {
			t.Errorf("call %d is answered by %v", i, h.Proc)
		}
		if i != 2 && !bytes.Equal(d.Opaque(n), pattern(n)) {
			t.Errorf("call %d brought something else", i)
		}
		// The reply's payload has memory of the call, behind the page of the call itself.
		if s := b.pool.Stats(); i == 0 && s.Peak < int64(pages(len(m))+n) {
			t.Errorf("%d bytes were reserved", s.Peak)
		}
	}
}

// A call that waits for memory is served when memory is free; small calls of the connection go on
// meanwhile.
func TestCallsWaitForMemory(t *testing.T) {
	b := newBench(t, benchConfig{})
	p := b.peer()
	hog := b.pool.NewShare()
	defer hog.Close()
	var held []interface{ Release() }
	for {
		block, ok := hog.TryGet(1 << 20)
		if !ok {
			break
		}
		held = append(held, block)
	}
	other := b.pool.NewShare()
	defer other.Close()
	for {
		block, ok := other.TryGet(1 << 20)
		if !ok {
			break
		}
		held = append(held, block)
	}
	data := pattern(100_000)
	r := p.Expose(data, rdmacm.RemoteRead)
	m, pos := putCall(1, "name", len(data))
	p.Send(message{xid: 1, reads: at(pos, cut(r, len(data))...), payload: m}.bytes())
	b.alive(p)
	if s := b.pool.Stats(); s.Waiting != 1 {
		t.Errorf("%d requests wait", s.Waiting)
	}
	for _, h := range held {
		h.Release()
	}
	wantPut(t, p.Receive(), 1, data)
}

// A call that needs more memory than a connection can ever get is refused at once.
func TestCallsBeyondTheShare(t *testing.T) {
	cfg := benchConfig{}
	cfg.pool.Ceiling, cfg.pool.Share = 4<<20, 64<<10
	b := newBench(t, cfg)
	p := b.peer()
	r := p.Expose(make([]byte, 100_000), rdmacm.RemoteRead)
	m, pos := putCall(1, "name", 100_000)
	wantError(t, b.call(p, message{xid: 1, reads: at(pos, cut(r, 100_000)...), payload: m}), 1, 1, wire.ErrChunk)
	b.alive(p)
	receivesKept(t, p, DefaultCredits)
}

// A peer that disappears while its calls wait for memory, or for Reads, leaves no memory in use;
// bench.close checks that.
func TestPeerGoneWhileCallsWait(t *testing.T) {
	b := newBench(t, benchConfig{})
	p := b.peer()
	serverEnd(p).Faults().HoldReads()
	r := p.Expose(make([]byte, 1<<20), rdmacm.RemoteRead)
	for i := range uint32(60) { // more than half of the ceiling
		m, pos := putCall(i, "name", 1<<20)
		p.Send(message{xid: i, reads: at(pos, cut(r, 1<<20)...), payload: m}.bytes())
	}
	b.alive(p)
	p.Conn().Abort(nil)
	p.End()
	ctx, cancel := context.WithTimeout(t.Context(), rdmatest.Guard)
	defer cancel()
	if _, err := b.provider.Log().Wait(ctx, rdmatest.Is(rdmatest.KindClosed, serverEnd(p).ID())); err != nil {
		t.Fatal(err)
	}
	b.alive(b.peer())
}
