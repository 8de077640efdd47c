package version2

import (
	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// wantReply receives an RDMA2_REPLY_INLINE with this XID and without chunks, and returns its RPC message.
func (p peer) wantReply(xid uint32) []byte {
	p.T.Helper()
	got := p.receive()
	var h wire.Reply2
	if r := h.Parse(got); r.Refused() || h.Type != wire.TypeReplyInline || h.XID != xid || h.Version != wire.Version2 || h.Writes.Len() != 0 {
		p.T.Fatalf("got %x, want an RDMA2_REPLY_INLINE for XID %#x", got, xid)
	}
	if r := h.JudgeMessage(got[h.Size:]); r.Refused() {
		p.T.Fatalf("%s: %x (V2-58)", r.Why, got)
	}
	return got[h.Size:]
}

// limit is the limit that the scripted peer gives: more than it will ever receive.
const limit = 1000

// message returns a message with a header of this type, whose body follows.
func message(xid uint32, ht wire.HeaderType, body ...[]byte) []byte {
	b := make([]byte, wire.PrefixSize)
	wire.Prefix2{XID: xid, Version: wire.Version2, Limit: limit, Type: ht}.Put(b)
	for _, part := range body {
		b = append(b, part...)
	}
	return b
}

// words returns 32-bit words as bytes.
func words(all ...uint32) []byte {
	var b []byte
	for _, w := range all {
		b = append(b, byte(w>>24), byte(w>>16), byte(w>>8), byte(w))
	}
	return b
}

// call returns an RDMA2_CALL_INLINE with these lists and an RPC message.
func call(xid uint32, l wire.Lists, rpcMessage []byte) []byte {
	b := make([]byte, l.Size2(wire.TypeCallInline))
	l.Put2(b, wire.Prefix2{XID: xid, Version: wire.Version2, Limit: limit, Type: wire.TypeCallInline}, 0)
	return append(b, rpcMessage...)
}
