package rdma

import (
	"bytes"
	"encoding/hex"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// A call that the receiving goroutine answered itself leaves nothing in its record for the next
// call: a call in a Position-Zero chunk, all zeros, is judged like any other, and denied for its
// version of RPC.
func TestRecordOfACallInPlace(t *testing.T) {
	k, d, _ := newInstant(t)
	d.short = true
	for _, m := range []message{
		{xid: 1, payload: rpctest.Message(1, rpctest.NULL, nil)},
		{proc: wire.ProcNoMsg, reads: at(0, seg(1, 40, 0))},
	} {
		k.Received(&rdmacm.Recv{Bytes: m.bytes(), Free: func(*rdmacm.Recv) {}})
	}
	denied, _ := hex.DecodeString("00000000" + "00000001" + "00000001" + "00000000" + "00000002" + "00000002")
	if d.reads != 1 || !bytes.HasSuffix(d.sent, denied) || len(d.sent) != wire.MinHeader+len(denied) {
		t.Errorf("%d Reads; the answer is %x", d.reads, d.sent)
	}
}

// Calls that the receiving goroutine answers itself are counted like others.
func TestCallsInPlaceAreCounted(t *testing.T) {
	k, d, _ := newInstant(t)
	d.short = true
	m := message{xid: 1, payload: rpctest.Message(1, rpctest.NULL, nil)}.bytes()
	const n = 5
	for range n {
		k.Received(&rdmacm.Recv{Bytes: m, Free: func(*rdmacm.Recv) {}})
		if d.sends == 0 || k.calls.Load() != 0 {
			t.Fatalf("%d answers, %d calls under way", d.sends, k.calls.Load())
		}
	}
	s := k.stats
	if s.Calls.Load() != n || s.Replies.Load() != n || d.sends != n || d.provided != n || k.calls.Load() != 0 {
		t.Errorf("%d calls, %d replies, %d Sends, %d receives promised, %d under way",
			s.Calls.Load(), s.Replies.Load(), d.sends, d.provided, k.calls.Load())
	}
	in, out := int64(n*len(m)), int64(n*len(d.sent))
	if s.BytesInlineIn.Load() != in || s.BytesInlineOut.Load() != out || int64(k.moved.Load()) != in+out {
		t.Errorf("%d bytes in, %d out, %d moved", s.BytesInlineIn.Load(), s.BytesInlineOut.Load(), k.moved.Load())
	}
}
