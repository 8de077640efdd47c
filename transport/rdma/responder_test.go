package rdma

import (
	"bytes"
	"hash/crc32"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// A NULL is answered inline. The header of the reply has the XID of the call (V1-70), and the RPC
// message, which begins with its XID, follows the header directly (V1-26). A reply has no Read list
// (V1-47); answered checks this for all tests of this package. The numbers are rows of
// docs/conformance.md.
func TestNullInline(t *testing.T) {
	b := newBench(t, benchConfig{})
	h, payload := answered(t, b.call(b.peer(), message{xid: 7, payload: rpctest.Message(7, rpctest.NULL, nil)}))
	if h.Proc != wire.ProcMsg || h.XID != 7 || !bytes.Equal(payload, words(7, 1, 0, 0, 0, 0)) {
		t.Errorf("%v with XID %#x and % x", h.Proc, h.XID, payload)
	}
}

func TestPutByReadChunk(t *testing.T) {
	b := newBench(t, benchConfig{})
	p := b.peer()
	data := pattern(5001)
	r := p.Expose(data, rdmacm.RemoteRead)
	m, pos := putCall(7, "name", len(data))
	got := b.call(p, message{xid: 7, reads: at(pos, cut(r, 4096, 905)...), payload: m})
	_, payload := answered(t, got)
	d := results(t, 7, payload)
	if n, sum := d.Uint32(), d.Uint32(); n != 5001 || sum != crc32.ChecksumIEEE(data) || d.Finish() != nil {
		t.Fatalf("PUT got %d bytes, checksum %#x: %v", n, sum, d.Err())
	}
}

// The data of a GET fills the segments of its Write chunk without gaps, the reply returns all
// segments, and their lengths add up to the count. Rows V1-51, V1-52 and V1-55 of
// docs/conformance.md.
func TestGetByWriteChunk(t *testing.T) {
	b := newBench(t, benchConfig{})
	p := b.peer()
	sink := bytes.Repeat([]byte{0xee}, 12288)
	r := p.Expose(sink, rdmacm.RemoteWrite)
	segments := cut(r, 4096, 4096, 4096)
	got := b.call(p, message{xid: 8, writes: [][]wire.Segment{segments}, payload: rpctest.Message(8, rpctest.GET, count(5001))})
	h, payload := answered(t, got)
	d := results(t, 8, payload)
	if n := d.Uint32(); n != 5001 || d.Finish() != nil {
		t.Fatalf("GET returned a count of %d: %v", n, d.Err())
	}
	if !bytes.Equal(sink[:5001], pattern(5001)) || sink[5001] != 0xee {
		t.Fatal("the Write chunk holds something else")
	}
	c := h.Writes.Next()
	for i, want := range []uint32{4096, 905, 0} {
		s := segments[i]
		s.Length = want
		if c.At(i) != s {
			t.Errorf("segment %d came back as %+v, want %+v", i, c.At(i), s)
		}
	}
}

// A reply that does not fit a Send goes in the Reply chunk, and the Send returns that chunk. Rows
// V1-65 and V1-66 of docs/conformance.md.
func TestLongReply(t *testing.T) {
	b := newBench(t, benchConfig{})
	p := b.peer()
	sink := make([]byte, 66000)
	r := p.Expose(sink, rdmacm.RemoteWrite)
	got := b.call(p, message{xid: 9, reply: cut(r, 16384, 49616), payload: rpctest.Message(9, rpctest.WIDE, count(4976))})
	h, payload := answered(t, got)
	if h.Proc != wire.ProcNoMsg || len(payload) != 0 || h.Reply.Bytes() != 5004 {
		t.Fatalf("%v with %d bytes behind, Reply chunk of %d", h.Proc, len(payload), h.Reply.Bytes())
	}
	d := results(t, 9, sink[:5004])
	if !bytes.Equal(d.Opaque(5000), pattern(4976)) || d.Finish() != nil {
		t.Fatal("the Reply chunk holds something else")
	}
}

func TestLongCall(t *testing.T) {
	b := newBench(t, benchConfig{})
	p := b.peer()
	data := pattern(70001)
	m, pos := putCall(10, "a long name", len(data))
	zero := p.Expose(m, rdmacm.RemoteRead)
	r := p.Expose(data, rdmacm.RemoteRead)
	reads := append(at(pos, cut(r, 1, 60000, 10000)...), at(0, cut(zero, 13, len(m)-13)...)...)
	got := b.call(p, message{xid: 10, proc: wire.ProcNoMsg, reads: reads})
	_, payload := answered(t, got)
	d := results(t, 10, payload)
	if n, sum := d.Uint32(), d.Uint32(); n != 70001 || sum != crc32.ChecksumIEEE(data) {
		t.Fatalf("PUT got %d bytes, checksum %#x: %v", n, sum, d.Err())
	}
}
