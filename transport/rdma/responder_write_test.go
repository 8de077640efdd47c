package rdma

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// canary fills memory that a peer must not touch.
func canary(n int) []byte { return bytes.Repeat([]byte{0xee}, n) }

// Results of every size go to the Write chunk, one byte included (V1-50), without gaps (V1-51). The
// reply returns the whole chunk (V1-52). No padding is written, even if there is room (V1-54). The
// lengths add up to the count (V1-55). The count stays in the Payload, data and padding do not
// (V1-29, V1-34). A result of no bytes uses up a chunk. The numbers are rows of
// docs/conformance.md.
func TestWriteChunkGetsNoRoundup(t *testing.T) {
	b := newBench(t, benchConfig{})
	p := b.peerWith(nil, 128)
	for i, n := range []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 4095, 4096, 4097, 5001, 12288} {
		xid := uint32(i)
		memory := canary(n + 64)
		r := p.Expose(memory, rdmacm.RemoteWrite)
		segments := cut(r, n/3, 0, n-n/3, 60)
		h, payload := answered(t, b.call(p, message{xid: xid, writes: [][]wire.Segment{segments},
			payload: rpctest.Message(xid, rpctest.GET, count(n))}))
		d := results(t, xid, payload)
		if got := d.Uint32(); int(got) != n || d.Finish() != nil {
			t.Errorf("%d bytes: the Payload says %d and has %d bytes behind: %v", n, got, d.Len(), d.Finish())
		}
		if !bytes.Equal(memory[:n], pattern(n)) || !bytes.Equal(memory[n:], canary(64)) {
			t.Errorf("%d bytes: the memory holds something else", n)
		}
		if h.Proc != wire.ProcMsg || h.Writes.Len() != 1 {
			t.Fatalf("%v with %d Write chunks", h.Proc, h.Writes.Len())
		}
		want := append([]wire.Segment{}, segments...)
		want[3].Length = 0
		if got := segmentsOf(h.Writes.Next()); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%d bytes: the chunk came back as %v, want %v", n, got, want)
		}
	}
}

// The procedure PAIR has two results in unions, either of which may be void. Results go to Write
// chunks in order, further results stay inline (V1-56, V1-33). A void arm leaves its chunk to the
// next result (V1-57). Chunks beyond the results come back unused (V1-58, A-13). An empty chunk
// keeps its result inline and comes back empty (V1-60, V1-61). The word that says whether there is
// an item stays in the Payload (V1-31). Any list of the header may be absent (P-8). The numbers are
// rows of docs/conformance.md.
func TestWriteList(t *testing.T) {
	const n = 333
	for name, c := range map[string]struct {
		first, second bool
		chunks        string // e: empty, c: a chunk
		placed        [3]int // bytes in each chunk
	}{
		"two results, two chunks":                   {true, true, "cc", [3]int{n, n}},
		"two results, one chunk":                    {true, true, "c", [3]int{n}},
		"two results, three chunks":                 {true, true, "ccc", [3]int{n, n, 0}},
		"first arm void (V1-57)":                    {false, true, "cc", [3]int{n, 0}},
		"second arm void":                           {true, false, "cc", [3]int{n, 0}},
		"both void (V1-58)":                         {false, false, "cc", [3]int{0, 0}},
		"the first inline (V1-60)":                  {true, true, "ec", [3]int{0, n}},
		"the second inline (V1-60)":                 {true, true, "ce", [3]int{n, 0}},
		"both inline":                               {true, true, "ee", [3]int{0, 0}},
		"used, empty, unused: one result":           {true, false, "cec", [3]int{n, 0, 0}},
		"void takes no slot, not even an empty one": {false, true, "ec", [3]int{0, 0}},
		"no list: all inline":                       {true, true, "", [3]int{}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, benchConfig{})
			p := b.peer()
			memory := canary(3 * 1000)
			r := p.Expose(memory, rdmacm.RemoteWrite)
			m := message{xid: 5, payload: rpctest.Message(5, rpctest.PAIR, func(w *xdr.Writer) {
				w.Bool(c.first)
				w.Bool(c.second)
				w.Uint32(n)
			})}
			for i, kind := range c.chunks {
				chunk := []wire.Segment{}
				if kind == 'c' {
					chunk = []wire.Segment{segmentOf(r, 1000*i, 100), segmentOf(r, 1000*i+100, 800)}
				}
				m.writes = append(m.writes, chunk)
			}
			h, payload := answered(t, b.call(p, m))
			if h.Writes.Len() != len(m.writes) {
				t.Fatalf("%d chunks came back of %d", h.Writes.Len(), len(m.writes))
			}
			for i, l := 0, h.Writes; l.Len() > 0; i++ {
				chunk := l.Next()
				if chunk.Len() != len(m.writes[i]) || chunk.Bytes() != uint64(c.placed[i]) {
					t.Errorf("chunk %d came back with %d segments, %d bytes, want %d", i, chunk.Len(), chunk.Bytes(), c.placed[i])
				}
				for k := range chunk.Len() {
					if got, offered := chunk.At(k), m.writes[i][k]; got.Handle != offered.Handle || got.Offset != offered.Offset {
						t.Errorf("chunk %d came back with segment %v, want %v", i, got, offered)
					}
				}
				from := memory[1000*i:]
				if !bytes.Equal(from[:c.placed[i]], pattern(c.placed[i])) || !bytes.Equal(from[c.placed[i]:1000], canary(1000-c.placed[i])) {
					t.Errorf("chunk %d holds something else", i)
				}
			}
			// The Payload holds each discriminant, the count of each placed result, and the whole of
			// each inline one.
			d, chunk := results(t, 5, payload), 0
			for i, there := range []bool{c.first, c.second} {
				if d.Bool() != there {
					t.Errorf("the discriminant of result %d is wrong", i)
				}
				if !there {
					continue
				}
				placed := chunk < len(c.chunks) && c.chunks[chunk] == 'c'
				chunk++
				if placed && d.Uint32() != n || !placed && !bytes.Equal(d.Opaque(n), pattern(n)) {
					t.Errorf("result %d: the Payload holds something else", i)
				}
			}
			if d.Finish() != nil {
				t.Errorf("the Payload: %v", d.Err())
			}
		})
	}
}

// A Write chunk comes back unused if its procedure fails. Row V1-58 of docs/conformance.md.
func TestUnusedWriteChunk(t *testing.T) {
	b := newBench(t, benchConfig{})
	p := b.peer()
	r := p.Expose(canary(100), rdmacm.RemoteWrite)
	m := message{xid: 5, writes: [][]wire.Segment{cut(r, 60, 40)}, payload: rpctest.Message(5, rpctest.GET, count(rpctest.MaxData+1))}
	h, payload := answered(t, b.call(p, m))
	if !bytes.Equal(payload, words(5, 1, 0, 0, 0, 4)) {
		t.Errorf("% x", payload)
	}
	wantUnused(t, &h, m)
}

// The server never writes a result past the end of its Write chunk; it refuses the call. Row A-6 of
// docs/conformance.md.
func TestWriteChunkTooSmall(t *testing.T) {
	b := newBench(t, benchConfig{})
	p := b.peer()
	memory := canary(200)
	r := p.Expose(memory, rdmacm.RemoteWrite)
	m := message{xid: 5, writes: [][]wire.Segment{cut(r, 50, 49)}, payload: rpctest.Message(5, rpctest.GET, count(100))}
	wantError(t, b.call(p, m), 5, 1, wire.ErrChunk)
	if !bytes.Equal(memory, canary(200)) {
		t.Error("something was written")
	}
	b.alive(p)
}

// If a protection wraps arguments and results, as the integrity and privacy services of RPCSEC_GSS
// do, no data is placed: Write chunks come back unused with the results in the stream, and a call
// with a Read chunk is refused before the server reads anything (V1-104, V1-106). The call that
// makes a context is not placed either (V1-102). The numbers are rows of docs/conformance.md.
func TestNoPlacementUnderProtection(t *testing.T) {
	b := newBench(t, benchConfig{})
	b.rpc.Protect(rpctest.FlavorSeal, rpctest.NewSeal())
	p := b.peer()
	memory := canary(100)
	r := p.Expose(memory, rdmacm.RemoteRead|rdmacm.RemoteWrite)
	build := func(xid, procedure, service, key uint32, args func(w *xdr.Writer)) message {
		h := rpc.CallHeader{XID: xid, Program: rpctest.Number, Version: 1, Procedure: procedure}
		h.Cred = rpctest.SealCred(h, service, key)
		return message{xid: xid, payload: rpctest.CallMessage(h, args)}
	}
	served := func(m message) *xdr.Decoder {
		t.Helper()
		m.writes = [][]wire.Segment{cut(r, 100)}
		h, payload := answered(t, b.call(p, m))
		wantUnused(t, &h, m)
		d := xdr.NewDecoder(payload)
		d.FixedOpaque(rpc.ReplyHeader + 4) // Each reply of a Seal has a verifier of 4 bytes.
		return d
	}
	refused := func(m message) {
		t.Helper()
		m.reads = at(len(m.payload), cut(r, 100)...)
		wantError(t, b.call(p, m), m.xid, 1, wire.ErrChunk)
		b.wantFault(faultIneligible, answerChunk, m.xid)
	}

	none := func(*xdr.Writer) {}
	refused(build(1, rpctest.NULL, rpctest.SealNew, 0, none))
	d := served(build(2, rpctest.NULL, rpctest.SealNew, 0, none))
	key := d.Uint32()
	if d.Finish() != nil {
		t.Fatalf("the context: %v", d.Err())
	}
	d, ok := rpctest.Unseal(served(build(3, rpctest.GET, rpctest.SealWrap, key, rpctest.SealArgs(count(100), key))), key, 4, 100)
	if !ok || !bytes.Equal(d.Opaque(100), pattern(100)) || d.Finish() != nil {
		t.Error("the result is not in the stream")
	}
	refused(build(4, rpctest.PUT, rpctest.SealWrap, key, func(w *xdr.Writer) {
		w.String("name")
		w.Uint32(100)
	}))
	if !bytes.Equal(memory, canary(100)) {
		t.Error("the server wrote to the Write chunk")
	}
	if n := b.server.Stats().BytesRead.Load(); n != 0 {
		t.Errorf("the server read %d bytes", n)
	}
}

// Writes come before the Send, in one chain (RFC 8166 §2.3.2: a peer that sees the Send may trust
// the earlier Writes), also if the device places them in another order.
func TestWritesPrecedeTheSend(t *testing.T) {
	b := newBench(t, benchConfig{})
	p := b.peer()
	serverEnd(p).Faults().ReorderWrites()
	memory := make([]byte, 9000)
	r := p.Expose(memory, rdmacm.RemoteWrite)
	m := message{xid: 5, writes: [][]wire.Segment{cut(r, 1000, 3000, 5000)}, payload: rpctest.Message(5, rpctest.GET, count(8001))}
	answered(t, b.call(p, m))
	if !bytes.Equal(memory[:8001], pattern(8001)) {
		t.Error("the memory holds something else")
	}
	server := serverEnd(p).ID()
	posts := b.provider.Log().Find(func(e rdmatest.Event) bool { return e.Kind == rdmatest.KindPost && e.Conn == server })
	for i, e := range posts {
		if e.Chain != 0 || e.Work != i || (e.Op == rdmacm.OpSend) != (i == len(posts)-1) {
			t.Errorf("post %d: %v", i, e)
		}
	}
	if len(posts) != 4 {
		t.Errorf("%d work requests", len(posts))
	}
}

// A device that can gather only few pieces gets more work requests, and copies of Sends.
func TestFewPieces(t *testing.T) {
	b := newBench(t, benchConfig{provider: rdmatest.Config{MaxLocal: 1}})
	p := b.peer()
	memory := make([]byte, 80_000)
	r := p.Expose(memory, rdmacm.RemoteWrite)
	// Inline: words and two payloads.
	pair := func(n int) []byte {
		return rpctest.Message(5, rpctest.PAIR, func(w *xdr.Writer) {
			w.Bool(true)
			w.Bool(true)
			w.Uint32(uint32(n))
		})
	}
	_, payload := answered(t, b.call(p, message{xid: 5, payload: pair(101)}))
	check := func(payload []byte, n int) {
		d := results(t, 5, payload)
		for range 2 {
			if !d.Bool() || !bytes.Equal(d.Opaque(rpctest.MaxData), pattern(n)) {
				t.Errorf("PAIR of %d bytes differs", n)
			}
		}
	}
	check(payload, 101)
	h, _ := answered(t, b.call(p, message{xid: 5, payload: pair(30_003), reply: cut(r, 100, 30_000, 40_000)}))
	check(memory[:h.Reply.Bytes()], 30_003)
}
