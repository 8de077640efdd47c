package rdma

import (
	"encoding/binary"
	"errors"
	"sync"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire/wiretest"
)

// seeds are messages of every kind, and messages that other implementations mishandled: positions
// and lengths that overflow, counts larger than the message, chunks without segments.
func seeds(f *testing.F) {
	for _, v := range wiretest.Headers {
		f.Add(wiretest.Hex(v))
	}
	put, pos := putCall(0x1a2b3c4d, "name", 5000)
	null := rpctest.Message(0x1a2b3c4d, rpctest.NULL, nil)
	for _, m := range []message{
		{payload: null},
		{payload: put, reads: at(pos, seg(1, 4096, 0), seg(2, 904, 0))},
		{payload: put, reads: at(1<<32-4, seg(1, 1<<32-1, 1<<64-1))},
		{payload: put, reads: append(at(pos, seg(1, 5000, 0)), at(pos+4, seg(1, 1<<32-1, 0))...)},
		{proc: wire.ProcNoMsg, reads: at(0, seg(1, 44, 0))},
		{proc: wire.ProcNoMsg, reads: append(at(64, seg(1, 44, 0)), at(0, seg(1, 44, 0))...), reply: []wire.Segment{seg(9, 1<<20, 0)}},
		{payload: rpctest.Message(0x1a2b3c4d, rpctest.GET, count(5001)), writes: [][]wire.Segment{{}, {seg(1, 5001, 0)}, {seg(2, 0, 0)}}},
		{payload: rpctest.Message(0x1a2b3c4d, rpctest.GET, count(5001)), reply: []wire.Segment{seg(1, 1, 0), seg(1, 6000, 0)}},
		{payload: rpctest.Message(0x1a2b3c4d, rpctest.WIDE, count(500)), reply: []wire.Segment{seg(1, 1<<32-1, 0), seg(1, 1<<32-1, 0)}},
		{payload: rpctest.Message(0x1a2b3c4d, rpctest.PAIR, func(w *xdr.Writer) {
			w.Bool(true)
			w.Bool(true)
			w.Uint32(77)
		}), writes: [][]wire.Segment{{seg(1, 76, 0)}}},
		{payload: success(0x1a2b3c4d, 300), writes: [][]wire.Segment{{seg(0x70, 300, 4096)}}, reply: []wire.Segment{seg(0x71, 0, 4096)}},
		{proc: wire.ProcNoMsg, writes: [][]wire.Segment{{seg(0x70, 300, 4096)}}, reply: []wire.Segment{seg(0x71, 28, 4096)}},
		{proc: wire.ProcError}, {proc: wire.ProcDone}, {proc: wire.ProcMsgP}, {version: 2},
	} {
		m.xid = 0x1a2b3c4d
		f.Add(m.bytes())
	}
	f.Add(words(0x1a2b3c4d, 1, 8, 4, 2))
	f.Add(words(0x1a2b3c4d, 1, 8, 4, 1, 1, 1))
	for _, b := range wiretest.Linux() {
		f.Add(b)
	}
}

// Every message to a responder has exactly one outcome: a reply, an RDMA_ERROR, or silence. The
// responder then promises another receive and keeps no memory (V1-81).
func FuzzCall(f *testing.F) {
	seeds(f)
	k, d, feed := newInstant(f)
	var mu sync.Mutex
	f.Fuzz(func(t *testing.T, b []byte) {
		mu.Lock()
		defer mu.Unlock()
		if leaves(b) {
			return
		}
		sends, provided := d.sends, d.provided
		quiet := k.stats.Discarded.Load() + k.stats.Dropped.Load()
		feed(b)
		if d.aborted != nil {
			t.Fatalf("the connection was ended: %v", d.aborted)
		}
		if n := d.provided - provided; n != 1 {
			t.Fatalf("%d receives are promised for a message", n)
		}
		quiet = k.stats.Discarded.Load() + k.stats.Dropped.Load() - quiet
		if n := d.sends - sends; n > 1 || int64(n)+quiet != 1 {
			t.Fatalf("%d answers, silent %d times", n, quiet)
		}
		if n := k.responder.share.InUse(); n != 0 {
			t.Fatalf("%d bytes are kept", n)
		}
		if d.sends == sends {
			return
		}
		if len(b) < wire.MinHeader {
			t.Fatal("a message that is too short was answered")
		}
		in, _ := wire.ParsePrefix(b)
		out, ok := wire.ParsePrefix(d.sent)
		if !ok || out.XID != in.XID || out.Credits == 0 || len(d.sent) > k.sendLimit {
			t.Fatalf("the answer is % x", d.sent)
		}
		if out.Proc == wire.ProcError {
			if _, ok := wire.ParseErrorBody(d.sent); !ok || out.Version != in.Version {
				t.Fatalf("the error is % x", d.sent)
			}
			return
		}
		var h wire.Header
		if err := h.Parse(d.sent); err != nil || h.Reads.Len() > 0 {
			t.Fatalf("the reply is % x: %v", d.sent, err)
		}
		var call wire.Header
		if call.Parse(b) != nil || h.Writes.Len() != call.Writes.Len() || h.Reply.Present != call.Reply.Present {
			t.Fatalf("not all that was offered came back: % x", d.sent)
		}
	})
}

// leaves reports whether the message is a call that would not end by itself, or only later.
func leaves(b []byte) bool {
	var h wire.Header
	if len(b) < wire.MinHeader || h.Parse(b) != nil || len(b)-h.Size < 24 {
		return false
	}
	switch binary.BigEndian.Uint32(b[h.Size+20:]) {
	case rpctest.STALL, rpctest.HOLD, rpctest.LATER:
		return true
	}
	return false
}

// exposing is an instant device that can register memory.
type exposing struct{ instant }

type exposed struct{ stag uint32 }

func (r *exposed) STag() uint32      { return r.stag }
func (r *exposed) Offset() uint64    { return 4096 }
func (r *exposed) Deregister() error { return nil }

func (d *exposing) Register([]byte, rdmacm.Access) (rdmacm.Region, error) {
	d.reads++
	return &exposed{stag: uint32(0x6f + d.reads)}, nil
}

// Every message to a requester ends one call at most, or leaves it pending. After a message that is
// no answer, the requester promises a receive again.
func FuzzReply(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		d := &exposing{}
		own := wire.PrivateData{RemoteInvalidation: true, SendSize: 1024, ReceiveSize: 1024}
		k := newConnection(own, new(Stats), nil)
		k.dialed = true
		d.private = k.param(0, 0).PrivateData
		k.agree(d)
		c := &caller{takeOver: func(*exchange, error) { t.Error("lost") }}
		newRequester(k, c, 4).maxSegment = 1 << 30
		k.start()
		ended := 0
		x := getTo(300, make([]byte, 300))
		x.MaxResults = 2000
		x.Done = func(x *rpc.Exchange) {
			ended++
			if x.Err == nil {
				x.Results.EligibleOpaque(rpctest.MaxData)
				x.Results.Finish()
			}
		}
		c.mu.Lock()
		next := k.requester.enqueueLocked(newExchange(x, 0x1a2b3c4d, 1))
		c.mu.Unlock()
		k.requester.pump(next)
		provided, released := d.provided, 0
		k.Received(&rdmacm.Recv{Bytes: b, Free: func(*rdmacm.Recv) { released++ }})
		if released != 1 {
			t.Fatalf("the message was released %d times", released)
		}
		if d.provided-provided+ended != 1 {
			t.Fatalf("%d receives are promised, %d calls ended", d.provided-provided, ended)
		}
		if d.sends != 1 {
			t.Fatal("something was sent back")
		}
		c.Cancel(x, errors.New("enough"))
		if ended != 1 {
			t.Fatalf("the call ended %d times", ended)
		}
	})
}

// A call that claims more data or a larger reply than the server allows costs no memory before the
// server has judged it.
func TestClaimsCostNothing(t *testing.T) {
	k, d, feed := newInstant(t)
	put, pos := putCall(1, "name", 5000)
	feed(message{xid: 1, reads: at(pos, seg(1, 1<<32-1, 0)), payload: put}.bytes())
	feed(message{xid: 1, proc: wire.ProcNoMsg, reads: at(0, seg(1, 1<<32-1, 0))}.bytes())
	feed(message{xid: 1, proc: wire.ProcNoMsg, reads: at(0, seg(1, 40, 0)), reply: []wire.Segment{seg(1, 1<<32-1, 0)}}.bytes())
	if d.sends != 3 || k.stats.ErrChunk.Load() != 3 {
		t.Errorf("%d answers, %d errors", d.sends, k.stats.ErrChunk.Load())
	}
	if n := k.responder.share.InUse(); n != 0 {
		t.Errorf("%d bytes are kept", n)
	}
	_ = mem.PageSize
}
